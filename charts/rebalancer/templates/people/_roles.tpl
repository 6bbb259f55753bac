{{/* Roles of people, as YAML under `roles`: overrides where we manage, and who may ask for an account's tokens. */}}
{{- define "rebalancer.peopleRoles" -}}
{{- $full := include "rebalancer.fullname" . -}}
roles:
{{- if include "rebalancer.logsIn" . }}
{{- if .Values.namespaces }}
{{- range include "rebalancer.overrideNamespaces" . | fromJsonArray }}
  - name: {{ $full }}.{{ $.Release.Namespace }}.operator
    namespace: {{ . }}
    rules:
      {{- include "rebalancer.operatorRules" $ | nindent 6 }}
    subjects:
      - kind: ServiceAccount
        name: {{ $full }}-operator
        namespace: {{ $.Release.Namespace }}
{{- end }}
{{- end }}
{{- range $account, $who := dict "viewer" .Values.login.viewers "operator" .Values.login.operators }}
{{- if or $who.users $who.groups }}
  - name: {{ $full }}-login-{{ $account }}
    namespace: {{ $.Release.Namespace }}
    rules:
      - apiGroups: [""]
        resources: [serviceaccounts/token]
        resourceNames: [{{ $full }}-{{ $account }}]
        verbs: [create]
    subjects:
      {{- range $who.users }}
      - {apiGroup: rbac.authorization.k8s.io, kind: User, name: {{ . | quote }}}
      {{- end }}
      {{- range $who.groups }}
      - {apiGroup: rbac.authorization.k8s.io, kind: Group, name: {{ . | quote }}}
      {{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "rebalancer.operatorRules" -}}
- apiGroups: [rebalancer.io]
  resources: [overrides]
  verbs: [create, delete]
{{- end -}}
