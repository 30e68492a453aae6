# The kinds alone, for whoever applies them without the chart.
{ runCommand, workspace }:
runCommand "address-controller-crds-${workspace.version}" { } ''
  mkdir $out
  for crd in ${workspace.sources.crds}/*.yaml; do
    echo ---
    cat "$crd"
  done > $out/crds.yaml
''
