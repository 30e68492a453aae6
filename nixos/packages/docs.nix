# What there is to read, as it stands in the tree.
{ runCommand, workspace }:
runCommand "address-controller-docs-${workspace.version}" { } ''
  mkdir -p $out/share/doc
  cp -r ${workspace.sources.docs} $out/share/doc/address-controller
''
