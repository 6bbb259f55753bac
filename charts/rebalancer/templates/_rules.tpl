{{/* What is read: everywhere, for the GPUs of a node are shared by all who are on it. */}}
{{- define "rebalancer.readingRules" -}}
- apiGroups: [""]
  resources: [nodes, pods]
  verbs: [list, watch]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [list, watch]
{{- $definitions := list }}
{{- range .Values.targetKinds }}
{{- $kind := splitn "." 2 . }}
{{- if ne $kind._1 "apps" }}{{ $definitions = append $definitions . }}{{ end }}
- apiGroups: [{{ $kind._1 }}]
  resources: [{{ $kind._0 }}]
  verbs: [list, watch]
{{- end }}
{{- with $definitions }}
# Where such a kind keeps its replicas is read from its definition.
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  resourceNames: {{ toJson . }}
  verbs: [get]
{{- end }}
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [list, watch]
# Also where an actuation is off: who owns a field is read before anything is decided about it.
- apiGroups: [keda.sh]
  resources: [scaledobjects]
  verbs: [list, watch]
- apiGroups: [autoscaling.aibrix.ai]
  resources: [podautoscalers]
  verbs: [list, watch]
- apiGroups: [karpenter.sh]
  resources: [nodepools, nodeclaims]
  verbs: [list, watch]
# What lets pods in, and when batch work ends: so that nothing is asked for that can only stay Pending.
- apiGroups: [""]
  resources: [resourcequotas, limitranges]
  verbs: [list, watch]
- apiGroups: [scheduling.k8s.io]
  resources: [priorityclasses]
  verbs: [list, watch]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [list, watch]
- apiGroups: [kueue.x-k8s.io]
  resources: [localqueues, clusterqueues, cohorts, resourceflavors]
  verbs: [list, watch]
{{- if .Values.dra }}
- apiGroups: [resource.k8s.io]
  resources: [deviceclasses, resourceslices, resourceclaims, resourceclaimtemplates]
  verbs: [list, watch]
{{- end }}
- apiGroups: [rebalancer.io]
  resources: [overrides, writestops]
  verbs: [list, watch]
{{- if not (include "rebalancer.observes" .) }}
- apiGroups: [rebalancer.io]
  resources: [overrides/status]
  verbs: [patch]
{{- end }}
{{- end -}}

{{/* What is written where no namespace is. */}}
{{- define "rebalancer.clusterRules" -}}
{{- if .Values.actuation.karpenter }}
- apiGroups: [karpenter.sh]
  resources: [nodepools]
  verbs: [get, patch]
{{- end }}
{{- if .Values.drain.enabled }}
# Cordons, on the nodes that drain.nodeLabels names.
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, patch]
{{- end }}
{{- if include "rebalancer.answers" . }}
# Who asks over HTTP, and may they.
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- if .Values.api.writes }}
- apiGroups: [rebalancer.io]
  resources: [writestops]
  verbs: [create, delete]
{{- end }}
{{- end }}
{{- end -}}

{{/* What is written in the namespaces that are managed. */}}
{{- define "rebalancer.managedRules" -}}
{{- if .Values.actuation.keda }}
- apiGroups: [keda.sh]
  resources: [scaledobjects]
  verbs: [get, patch]
{{- end }}
{{- if .Values.actuation.hpa }}
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [get, patch]
{{- end }}
{{- if .Values.actuation.scale }}
- apiGroups: [apps]
  resources: [deployments/scale]
  verbs: [get, update]
{{- range .Values.targetKinds }}
{{- $kind := splitn "." 2 . }}
- apiGroups: [{{ $kind._1 }}]
  resources: [{{ $kind._0 }}/scale]
  verbs: [get, update]
{{- end }}
{{- end }}
{{- if include "rebalancer.marks" . }}
- apiGroups: [""]
  resources: [pods]
  verbs: [patch]
{{- end }}
{{- if .Values.drain.enabled }}
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
- apiGroups: [""]
  resources: [pods]
  verbs: [delete]
{{- end }}
{{- if include "rebalancer.actuates" . }}
{{ include "rebalancer.eventRules" . }}
{{- end }}
{{- end -}}

{{/* What the service makes for people, where their overrides live: the managed namespaces and our own. */}}
{{- define "rebalancer.doorRules" -}}
{{- if and (include "rebalancer.answers" .) .Values.api.writes }}
- apiGroups: [rebalancer.io]
  resources: [overrides]
  verbs: [get, create, delete]
{{- else if .Values.kafka.overrideKeysSecret }}
# A signed record makes one; it ends by itself, or by kubectl.
- apiGroups: [rebalancer.io]
  resources: [overrides]
  verbs: [get, create]
{{- end }}
{{- end -}}

{{/* Where overrides live when namespaces are named: there, and in our own what is about nodes and pools. */}}
{{- define "rebalancer.overrideNamespaces" -}}
{{- append .Values.namespaces .Release.Namespace | uniq | toJson -}}
{{- end -}}

{{- define "rebalancer.eventRules" -}}
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- end -}}
