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
{{- if or (and $kafka.tokenUrl (hasPrefix "SASL" $kafka.securityProtocol)) (include "rebalancer.onMskIam" .) -}}
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

{{/* "true" where Kafka knows us by AWS's IAM. */}}
{{- define "rebalancer.onMskIam" -}}
{{- with .Values.kafka -}}
{{- if and .enabled (hasPrefix "SASL" .securityProtocol) (eq .saslMechanism "AWS_MSK_IAM") }}true{{ end -}}
{{- end -}}
{{- end -}}

{{/* "true" where the service wants an identity of AWS. */}}
{{- define "rebalancer.onAws" -}}
{{- if or (include "rebalancer.onMskIam" .) .Values.notices.queueUrl (and .Values.prometheus.url .Values.prometheus.sigv4Region) }}true{{ end -}}
{{- end -}}

{{/* The way out to EKS Pod Identity, which gives a pod its account's role and no other, where no annotation (IRSA) does. */}}
{{- define "rebalancer.podIdentity" -}}
{{- if not (hasKey .Values.serviceAccountAnnotations "eks.amazonaws.com/role-arn") -}}
- to:
    - ipBlock: {cidr: 169.254.170.23/32}
    - ipBlock: {cidr: "fd00:ec2::23/128"}
  ports:
    - {port: 80, protocol: TCP}
{{- end -}}
{{- end -}}

{{/* The ports of addresses that values name, as a YAML list of {value, port, rule, open}: `rule` of networkPolicy is
     there for them, and `open` are the ports that it lets out, with those that are open to anywhere for the API server. */}}
{{- define "rebalancer.waysOut" -}}
{{- $ways := list -}}
{{- if .Values.kafka.enabled -}}
{{- range compact (splitList "," .Values.kafka.bootstrap) -}}
{{- $ways = append $ways (dict "value" "kafka.bootstrap" "port" (regexFind "[0-9]+$" .) "rule" "kafka") -}}
{{- end -}}
{{- with .Values.kafka.tokenUrl -}}
{{- $ways = append $ways (dict "value" "kafka.tokenUrl" "port" (include "rebalancer.portOf" .) "rule" "kafkaLogin") -}}
{{- end -}}
{{- end -}}
{{- with .Values.prometheus.url -}}
{{- $ways = append $ways (dict "value" "prometheus.url" "port" (include "rebalancer.portOf" .) "rule" "prometheus") -}}
{{- end -}}
{{- $policy := .Values.networkPolicy -}}
{{- $anywhere := empty $policy.apiServer.cidrs | ternary $policy.apiServer.ports list -}}
{{- range uniq $ways }}
- value: {{ .value }}
  port: {{ .port }}
  rule: {{ .rule }}
  open: {{ concat $anywhere (get $policy .rule).ports | toJson }}
{{- end }}
{{- end -}}

{{- define "rebalancer.portOf" -}}
{{- $url := urlParse . -}}
{{- regexFind ":[0-9]+$" $url.host | trimPrefix ":" | default (eq $url.scheme "http" | ternary "80" "443") -}}
{{- end -}}
