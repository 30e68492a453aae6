{{/* The name of everything this release makes: address-controller for a release of that name. */}}
{{- define "address-controller.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 48 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 48 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "address-controller.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "address-controller.labels" -}}
{{ include "address-controller.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: address-controller
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
{{- end -}}

{{- define "address-controller.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The port of metricsBindAddress; empty when metrics are off. */}}
{{- define "address-controller.metricsPort" -}}
{{- regexFind ":[0-9]+$" .Values.controller.metricsBindAddress | trimPrefix ":" -}}
{{- end -}}

{{/* The port to which traces go: the endpoint's, or else that of its scheme; empty without one. */}}
{{- define "address-controller.tracesPort" -}}
{{- with .Values.tracing.endpoint -}}
{{- regexFind "^https?://[^/]*" . | regexFind ":[0-9]+$" | trimPrefix ":" | default (hasPrefix "https:" . | ternary "443" "80") -}}
{{- end -}}
{{- end -}}

{{/* How a monitor is to scrape: nothing where everybody may; the token is Prometheus' own where none is named. */}}
{{- define "address-controller.scrape" -}}
{{- with .Values.metrics }}
{{- if .secure }}
scheme: https
{{- if .tokenSecret.name }}
authorization:
  credentials:
    name: {{ .tokenSecret.name | quote }}
    key: {{ .tokenSecret.key | quote }}
{{- end }}
tlsConfig:
  {{- if .certSecret }}
  serverName: {{ include "address-controller.fullname" $ }}-metrics.{{ $.Release.Namespace }}.svc
  ca:
    secret:
      name: {{ .certSecret | quote }}
      key: ca.crt
  {{- else }}
  insecureSkipVerify: true
  {{- end }}
{{- end }}
{{- end }}
{{- end -}}
