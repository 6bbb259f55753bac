{{/* Roles of people, as YAML under `roles`: overrides where we manage, and how a command reaches the service. */}}
{{- define "rebalancer.peopleRoles" -}}
{{- $full := include "rebalancer.fullname" . -}}
roles:
{{- if include "rebalancer.logsIn" . }}
{{- if .Values.namespaces }}
{{- range include "rebalancer.overrideNamespaces" . | fromJsonArray }}
  - name: {{ $full }}.{{ $.Release.Namespace }}.operator
    namespace: {{ . | quote }}
    rules:
      {{- include "rebalancer.operatorRules" $ | nindent 6 }}
    subjects:
      {{- include "rebalancer.holders" (list $ "operator") | nindent 6 }}
{{- end }}
{{- end }}
{{- range $account := list "viewer" "operator" }}
{{- $people := include "rebalancer.people" (list $ $account) | trim }}
{{- if $people }}
  - name: {{ $full }}-login-{{ $account }}
    namespace: {{ $.Release.Namespace | quote }}
    rules:
      - apiGroups: [""]
        resources: [serviceaccounts/token]
        # Who decides also reads: `rebalancer login` asks for the viewer's.
        resourceNames: [{{ $full }}-viewer{{ if eq $account "operator" }}, {{ $full }}-operator{{ end }}]
        verbs: [create]
      # Without --server a command looks for a pod of the service and opens a way to its port.
      - apiGroups: [""]
        resources: [pods]
        verbs: [get, list]
      - apiGroups: [""]
        resources: [pods/portforward]
        verbs: [create, get]
    subjects:
      {{- $people | nindent 6 }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Subjects: the people whom `login` names for an account, given as (list $ account). */}}
{{- define "rebalancer.people" -}}
{{- $who := get (index . 0).Values.login (printf "%ss" (index . 1)) -}}
{{- range $who.users }}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: {{ . | quote }}}
{{- end }}
{{- range $who.groups }}
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: {{ . | quote }}}
{{- end }}
{{- end -}}

{{/* Subjects: an account, and its people, who decide by kubectl and our command in their own names. */}}
{{- define "rebalancer.holders" -}}
{{- $ := index . 0 -}}
- kind: ServiceAccount
  name: {{ include "rebalancer.fullname" $ }}-{{ index . 1 }}
  namespace: {{ $.Release.Namespace | quote }}
{{- include "rebalancer.people" . }}
{{- end -}}

{{- define "rebalancer.operatorRules" -}}
- apiGroups: [rebalancer.io]
  resources: [overrides]
  verbs: [create, delete]
{{- end -}}
