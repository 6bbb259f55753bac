{{/* "true" when a tier of its own reads the topic of metrics. */}}
{{- define "rebalancer.aggregates" -}}
{{- if .Values.aggregate.enabled -}}
{{- if include "rebalancer.observes" . -}}
{{- fail "aggregate.enabled is true and kafka.enabled is false: the tier reads and writes Kafka. Set kafka.enabled: true, or aggregate.enabled: false" -}}
{{- end -}}
true
{{- end -}}
{{- end -}}

{{- define "rebalancer.aggregateName" -}}
{{- printf "%s-aggregate" (include "rebalancer.serviceName" .) -}}
{{- end -}}

{{/* A name of their own: what selects the service's pods must not select these. */}}
{{- define "rebalancer.aggregateSelector" -}}
app.kubernetes.io/name: {{ include "rebalancer.name" . }}-aggregate
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "rebalancer.aggregateMetadata" -}}
name: {{ include "rebalancer.aggregateName" . }}
namespace: {{ .Release.Namespace | quote }}
labels:
  {{- include "rebalancer.aggregateSelector" . | nindent 2 }}
  app.kubernetes.io/component: aggregate
  app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .Release.Service }}
  helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "rebalancer.aggregateEnvironment" -}}
{{- $set := dict
  "DEV" .Values.dev
  "PROBE_HOST" "::"
  "PROBE_PORT" .Values.probePort
  "LOG_LEVEL" .Values.log.level
  "LOG_FORMAT" .Values.log.format
-}}
{{- include "rebalancer.kafkaSettings" (list . $set) -}}
{{- include "rebalancer.settings" $set -}}
{{- end -}}

{{/* Of the files that the service reads those that prove who we are to Kafka. */}}
{{- define "rebalancer.aggregateFiles" -}}
{{- range include "rebalancer.files" . | fromYamlArray }}
{{- if has .name (list "kafka-password" "kafka-ca" "kafka-certificate" "kafka-token") }}
- {{ toYaml . | nindent 2 | trim }}
{{- end }}
{{- end }}
{{- end -}}
