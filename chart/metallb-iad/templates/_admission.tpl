{{/* "true" where the admission policies are to be made: as the values say, or, for auto, where the API server serves them. */}}
{{- define "metallb-iad.admission" -}}
{{- if eq (toString .Values.admission.enabled) "auto" -}}
{{- if .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy" -}}true{{- end -}}
{{- else if .Values.admission.enabled -}}true{{- end -}}
{{- end -}}

{{/* The user name of a service account. */}}
{{- define "metallb-iad.account" -}}
system:serviceaccount:{{ .namespace }}:{{ .name }}
{{- end -}}

{{/* The users that no policy is about, as JSON: the driver's own, and those of the values. */}}
{{- define "metallb-iad.allowedUsers" -}}
{{- $users := list (include "metallb-iad.account" (dict "namespace" .Release.Namespace "name" (include "metallb-iad.fullname" .))) -}}
{{- range .Values.admission.allowedServiceAccounts -}}
{{- $users = append $users (include "metallb-iad.account" .) -}}
{{- end -}}
{{- concat $users .Values.admission.allowedUsers | uniq | toJson -}}
{{- end -}}

{{/* The groups that no policy is about, as JSON: the service accounts of MetalLB's namespace, and those of the values. */}}
{{- define "metallb-iad.allowedGroups" -}}
{{- concat (list (printf "system:serviceaccounts:%s" .Values.metallbNamespace)) .Values.admission.allowedGroups | uniq | toJson -}}
{{- end -}}

{{/* The users of the core controllers, as JSON: the one of the values, and those that the cluster knows by their bindings. */}}
{{- define "metallb-iad.coreUsers" -}}
{{- $users := list (include "metallb-iad.account" .Values.admission.core) -}}
{{- range (lookup "rbac.authorization.k8s.io/v1" "ClusterRoleBinding" "" "").items -}}
{{- if eq (dig "metadata" "labels" "app.kubernetes.io/name" "" .) "address-controller" -}}
{{- range .subjects -}}
{{- if eq .kind "ServiceAccount" -}}
{{- $users = append $users (include "metallb-iad.account" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- uniq $users | toJson -}}
{{- end -}}

{{/* The conditions that leave out whom no policy is about. */}}
{{- define "metallb-iad.exempt" -}}
- name: not-an-allowed-user
  expression: >-
    !(request.userInfo.username in {{ include "metallb-iad.allowedUsers" . }})
- name: not-of-an-allowed-group
  expression: >-
    !has(request.userInfo.groups) || !request.userInfo.groups.exists(group, group in
    {{ include "metallb-iad.allowedGroups" . }})
{{- end -}}

{{/* The way that is open to everybody, for the end of each refusal. */}}
{{- define "metallb-iad.way" -}}
to have an address, make an IPAddressClaim and name it on the Service by the annotation local.sdn.cozystack.io/ip-address-claim
{{- end -}}
