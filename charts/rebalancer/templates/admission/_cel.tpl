{{/*
Pieces of CEL shared by the policies on our account. `object` of a built-in kind is wrapped in dyn(): to the type
checker it is a struct, whose fields cannot be walked; at run time all objects are maps.
*/}}

{{/* Only our account is held to the rules that follow. */}}
{{- define "rebalancer.onlyUs" -}}
matchConditions:
  - name: our-account
    expression: request.userInfo.username == '{{ include "rebalancer.user" . }}'
{{- end -}}

{{/*
Where namespaces are named, another installation may have its own overrides elsewhere: its account speaks for people
there, and what concerns everybody stands in its namespace. A WriteStop has no namespace, and is held to its maker
everywhere.
*/}}
{{- define "rebalancer.whereOverridesLive" -}}
{{- if .Values.namespaces -}}
namespaceSelector:
  matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: In
      values: {{ include "rebalancer.overrideNamespaces" . }}
{{- end -}}
{{- end -}}

{{/* Whether two maps, variables NOW and OLD, differ at most in these keys. Arguments: now, old, keys (CEL list). */}}
{{- define "rebalancer.sameBut" -}}
variables.{{ .now }}.all(key, key in {{ .keys }} || (key in variables.{{ .old }} && variables.{{ .now }}[key] == variables.{{ .old }}[key])) && variables.{{ .old }}.all(key, key in {{ .keys }} || key in variables.{{ .now }})
{{- end -}}

{{- define "rebalancer.variables" -}}
variables:
  - name: meta
    expression: dyn(object.metadata)
  - name: oldMeta
    expression: dyn(oldObject.metadata)
  - name: annotations
    expression: "'annotations' in variables.meta ? variables.meta.annotations : {}"
  - name: oldAnnotations
    expression: "'annotations' in variables.oldMeta ? variables.oldMeta.annotations : {}"
  - name: spec
    expression: "'spec' in dyn(object) ? dyn(object).spec : {}"
  - name: oldSpec
    expression: "'spec' in dyn(oldObject) ? dyn(oldObject).spec : {}"
{{- end -}}

{{/*
No leader of an earlier term writes what one of a later term wrote. Only who gives an object back takes the epoch away.
What is no number counts as none, whoever put it there, and is not ours to put: it locks no leader out. That no number is
ahead of the Lease's stands in terms.yaml.
*/}}
{{- define "rebalancer.epochRule" -}}
- expression: >-
    !('rebalancer.io/epoch' in variables.annotations)
    || variables.annotations['rebalancer.io/epoch'].matches('^[0-9]{1,15}$')
  message: the term of a leader of the rebalancer is a number
- expression: >-
    !('rebalancer.io/epoch' in variables.oldAnnotations)
    || !variables.oldAnnotations['rebalancer.io/epoch'].matches('^[0-9]{1,15}$')
    || ('rebalancer.io/epoch' in variables.annotations
    ? int(variables.annotations['rebalancer.io/epoch']) >= int(variables.oldAnnotations['rebalancer.io/epoch'])
    : !('rebalancer.io/originals' in variables.annotations))
  message: another replica of the rebalancer leads since; this one may write no more
{{- end -}}

{{/* Of the metadata, annotations alone, and of those only `keys` (CEL list). */}}
{{- define "rebalancer.metadataRules" -}}
- expression: >-
    ['labels', 'finalizers', 'ownerReferences'].all(key,
    (key in variables.meta) == (key in variables.oldMeta)
    && (!(key in variables.meta) || variables.meta[key] == variables.oldMeta[key]))
  message: the rebalancer writes neither labels nor finalizers nor owner references
- expression: >-
    {{ include "rebalancer.sameBut" (dict "now" "annotations" "old" "oldAnnotations" "keys" .keys) }}
  message: {{ printf "of the annotations the rebalancer writes only %s" .said | quote }}
{{- end -}}
