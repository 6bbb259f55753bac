{{/* The Roles of our account as YAML: a list of {name, namespace, rules}, under the key `roles`. */}}
{{- define "rebalancer.roles" -}}
{{- $full := include "rebalancer.fullname" . -}}
{{- $managed := include "rebalancer.managedRules" . | trim -}}
{{- $hands := include "rebalancer.handsBack" . -}}
roles:
{{- if not (include "rebalancer.observes" .) }}
  # Which replica acts.
  - name: {{ $full }}-lease
    namespace: {{ .Release.Namespace | quote }}
    rules:
      - apiGroups: [coordination.k8s.io]
        resources: [leases]
        verbs: [create]
      - apiGroups: [coordination.k8s.io]
        resources: [leases]
        resourceNames: [{{ $full }}]
        verbs: [get, patch]
{{- end }}
{{- if .Values.clusterAutoscaler }}
  # What Cluster Autoscaler says of its node groups: one ConfigMap, and no other.
  - name: {{ $full }}.{{ .Release.Namespace }}.node-groups
    namespace: kube-system
    rules:
      - apiGroups: [""]
        resources: [configmaps]
        resourceNames: [cluster-autoscaler-status]
        verbs: [list, watch]
{{- end }}
{{- if and .Values.namespaces $managed }}
{{- range .Values.namespaces | uniq }}
  - name: {{ $full }}.{{ $.Release.Namespace }}
    namespace: {{ . | quote }}
    rules:
      {{- $managed | nindent 6 }}
{{- end }}
{{- if and (or .Values.actuation.karpenter .Values.drain.enabled) (not (has "default" .Values.namespaces)) }}
  # Events about NodePools and nodes, which have no namespace, live in this one.
  - name: {{ $full }}.{{ .Release.Namespace }}
    namespace: default
    rules:
      {{- include "rebalancer.eventRules" . | nindent 6 }}
{{- end }}
{{- end }}
{{- $door := include "rebalancer.doorRules" . | trim -}}
{{- if and .Values.namespaces $door }}
{{- range include "rebalancer.overrideNamespaces" . | fromJsonArray }}
  - name: {{ $full }}.{{ $.Release.Namespace }}.door
    namespace: {{ . | quote }}
    rules:
      {{- $door | nindent 6 }}
{{- end }}
{{- end }}
{{- if $hands }}
  # Before it hands back it stops the service: else that would write again.
  - name: {{ $full }}-hand-back
    namespace: {{ .Release.Namespace | quote }}
    rules:
      - apiGroups: [apps]
        resources: [deployments/scale]
        resourceNames: [{{ $full }}]
        verbs: [get, update]
{{- end }}
{{- end -}}
