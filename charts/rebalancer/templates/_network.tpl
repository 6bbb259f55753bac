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
