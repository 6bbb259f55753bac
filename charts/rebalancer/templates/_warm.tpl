{{/* The pools of the policy that keep GPUs warm, under the key `pools`; none where the policy is a ConfigMap of yours. */}}
{{- define "rebalancer.warmPools" -}}
{{- $policy := .Values.policy -}}
{{- if kindIs "string" $policy }}{{ $policy = fromYaml $policy }}{{ end -}}
{{- $pools := list -}}
{{- range $policy.pools }}
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
{{- dict "pools" (.Values.policyConfigMap | empty | ternary $pools list) | toYaml -}}
{{- end -}}
