{{/* Every address but link-local ones. */}}
{{- define "rebalancer.anywhere" -}}
- ipBlock: {cidr: 0.0.0.0/0, except: [169.254.0.0/16]}
- ipBlock: {cidr: "::/0", except: ["fe80::/10", "fd00:ec2::/32"]}
{{- end -}}

{{- define "rebalancer.tcp" -}}
{{- range . }}
- {port: {{ . }}, protocol: TCP}
{{- end }}
{{- end -}}

{{/* The way out to whoever gives what Kafka lets us in by: the token's address, or AWS's STS. */}}
{{- define "rebalancer.kafkaLogin" -}}
{{- $kafka := .Values.kafka -}}
{{- $asks := or $kafka.tokenUrl (eq $kafka.saslMechanism "AWS_MSK_IAM") -}}
{{- if and $asks (hasPrefix "SASL" $kafka.securityProtocol) -}}
{{- with .Values.networkPolicy.kafkaLogin -}}
- to:
    {{- if .to }}
    {{- toYaml .to | nindent 4 }}
    {{- else }}
    {{- include "rebalancer.anywhere" $ | nindent 4 }}
    {{- end }}
  ports:
    {{- include "rebalancer.tcp" .ports | nindent 4 }}
{{- end -}}
{{- end -}}
{{- end -}}
