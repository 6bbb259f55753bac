{{/* A name as a label may hold it: of a longer one its beginning, and what tells it from others that begin so. */}}
{{- define "rebalancer.short" -}}
{{- if le (len .) 63 }}{{ . }}
{{- else }}{{ printf "%s-%s" (trunc 54 . | trimAll "-.") (sha256sum . | trunc 8) }}
{{- end -}}
{{- end -}}

{{/* The pools of the policy that keep GPUs warm, under the key `pools`; none where it is a ConfigMap of yours. */}}
{{- define "rebalancer.warmPools" -}}
{{- $pools := list -}}
{{- range (include "rebalancer.policy" . | fromYaml).pools }}
{{- if .warmGpus }}
{{- if .deviceClass -}}
{{- fail (printf "pool %s has warmGpus and a deviceClass: placeholders ask for GPUs by resource, not by claim. Leave one of the two out" .name) -}}
{{- end -}}
{{- if mod (int .warmGpus) (int $.Values.warm.gpusPerPod) -}}
{{- fail (printf "warmGpus of pool %s is %d, no multiple of warm.gpusPerPod, %d" .name (int .warmGpus) (int $.Values.warm.gpusPerPod)) -}}
{{- end -}}
{{- $pools = append $pools . }}
{{- end }}
{{- end }}
{{- dict "pools" $pools | toYaml -}}
{{- end -}}
