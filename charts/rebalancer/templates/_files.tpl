{{/* Secrets and CAs that the service reads, as a YAML list of {name, mountPath, source}. Folders, so that changes arrive. */}}
{{- define "rebalancer.files" -}}
{{- if not (include "rebalancer.observes" .) }}
{{- with .Values.kafka }}
{{- with .passwordSecret }}{{ if .name }}
- name: kafka-password
  mountPath: /etc/rebalancer-kafka/password
  source:
    secret: {secretName: {{ .name | quote }}, defaultMode: 0440, items: [{key: {{ .key | quote }}, path: password}]}
{{- end }}{{ end }}
{{- with .caConfigMap }}{{ if .name }}
- name: kafka-ca
  mountPath: /etc/rebalancer-kafka/ca
  source:
    configMap: {name: {{ .name | quote }}, items: [{key: {{ .key | quote }}, path: ca.crt}]}
{{- end }}{{ end }}
{{- with .caSecret }}{{ if .name }}
{{- if $.Values.kafka.caConfigMap.name -}}
{{- fail "kafka.caConfigMap and kafka.caSecret both name the brokers' CA: leave one of the two empty" -}}
{{- end }}
- name: kafka-ca
  mountPath: /etc/rebalancer-kafka/ca
  source:
    secret: {secretName: {{ .name | quote }}, defaultMode: 0440, items: [{key: {{ .key | quote }}, path: ca.crt}]}
{{- end }}{{ end }}
{{- with .certificateSecret }}{{ if .name }}
- name: kafka-certificate
  mountPath: /etc/rebalancer-kafka/certificate
  source:
    secret:
      secretName: {{ .name | quote }}
      defaultMode: 0440
      items: [{key: {{ .certificate | quote }}, path: tls.crt}, {key: {{ .privateKey | quote }}, path: tls.key}]
{{- end }}{{ end }}
{{- if and (hasPrefix "SASL" .securityProtocol) .tokenAudience }}
- name: kafka-token
  mountPath: /etc/rebalancer-kafka/token
  source:
    projected:
      defaultMode: 0440
      sources: [{serviceAccountToken: {path: token, audience: {{ .tokenAudience | quote }}, expirationSeconds: 3600}}]
{{- else if and (hasPrefix "SASL" .securityProtocol) .tokenSecret.name }}
- name: kafka-token
  mountPath: /etc/rebalancer-kafka/token
  source:
    secret: {secretName: {{ .tokenSecret.name | quote }}, defaultMode: 0440, items: [{key: {{ .tokenSecret.key | quote }}, path: token}]}
{{- end }}
{{- if .overrideKeysSecret }}
- name: override-keys
  mountPath: /etc/rebalancer-kafka/keys
  source:
    secret: {secretName: {{ .overrideKeysSecret | quote }}, defaultMode: 0440}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.prometheus }}
{{- if and .url .tokenSecret.name }}
- name: prometheus-token
  mountPath: /etc/rebalancer-prometheus/token
  source:
    secret: {secretName: {{ .tokenSecret.name | quote }}, defaultMode: 0440, items: [{key: {{ .tokenSecret.key | quote }}, path: token}]}
{{- end }}
{{- if and .url .caConfigMap.name }}
- name: prometheus-ca
  mountPath: /etc/rebalancer-prometheus/ca
  source:
    configMap: {name: {{ .caConfigMap.name | quote }}, items: [{key: {{ .caConfigMap.key | quote }}, path: ca.crt}]}
{{- end }}
{{- if and .url .passwordSecret.name }}
- name: prometheus-password
  mountPath: /etc/rebalancer-prometheus/password
  source:
    secret: {secretName: {{ .passwordSecret.name | quote }}, defaultMode: 0440, items: [{key: {{ .passwordSecret.key | quote }}, path: password}]}
{{- end }}
{{- if and .url .certificateSecret }}
- name: prometheus-certificate
  mountPath: /etc/rebalancer-prometheus/certificate
  source:
    secret: {secretName: {{ .certificateSecret | quote }}, defaultMode: 0440}
{{- end }}
{{- end }}
{{- end -}}
