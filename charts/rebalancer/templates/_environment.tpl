{{/* A dict of settings as a container's variables; what is empty is left to the service. */}}
{{- define "rebalancer.settings" -}}
{{- range $name, $value := . }}
{{- if kindIs "invalid" $value -}}
{{- fail (printf "the value of REBALANCER_%s is missing, as if the values were those of an older version: upgrade with --reset-then-reuse-values or with --values, not with --reuse-values" $name) -}}
{{- end -}}
{{- /* As JSON, for toString writes 1048576 as 1.048576e+06. */ -}}
{{- $text := kindIs "string" $value | ternary $value (toJson $value) }}
{{- if $text }}
- name: REBALANCER_{{ $name }}
  value: {{ $text | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* How Kafka is reached, put into a dict of settings: (list $ $set). */}}
{{- define "rebalancer.kafkaSettings" -}}
{{- $set := index . 1 -}}
{{- with (index . 0).Values.kafka -}}
{{- $_ := set $set "KAFKA_BOOTSTRAP" .bootstrap -}}
{{- $_ := set $set "KAFKA_SECURITY_PROTOCOL" .securityProtocol -}}
{{- $_ := set $set "TOPIC_PREFIX" .topicPrefix -}}
{{- if hasPrefix "SASL" .securityProtocol -}}
{{- $_ := set $set "KAFKA_SASL_MECHANISM" .saslMechanism -}}
{{- $_ := set $set "KAFKA_USERNAME" .username -}}
{{- $_ := set $set "KAFKA_TOKEN_URL" .tokenUrl -}}
{{- $_ := set $set "KAFKA_TOKEN_SCOPE" .tokenScope -}}
{{- $_ := set $set "KAFKA_AWS_REGION" .awsRegion -}}
{{- if or .tokenAudience .tokenSecret.name -}}
{{- $_ := set $set "KAFKA_TOKEN_FILE" "/etc/rebalancer-kafka/token/token" -}}
{{- end -}}
{{- end -}}
{{- if .certificateSecret.name -}}
{{- $_ := set $set "KAFKA_CERT_FILE" "/etc/rebalancer-kafka/certificate/tls.crt" -}}
{{- $_ := set $set "KAFKA_KEY_FILE" "/etc/rebalancer-kafka/certificate/tls.key" -}}
{{- end -}}
{{- if .passwordSecret.name -}}
{{- $_ := set $set "KAFKA_PASSWORD_FILE" "/etc/rebalancer-kafka/password/password" -}}
{{- end -}}
{{- if or .caConfigMap.name (default dict .caSecret).name -}}
{{- $_ := set $set "KAFKA_CA_FILE" "/etc/rebalancer-kafka/ca/ca.crt" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "rebalancer.environment" -}}
{{- $answers := include "rebalancer.answers" . | eq "true" -}}
{{- $set := dict
  "DEV" .Values.dev
  "OWN_NAMESPACE" .Release.Namespace
  "ACCOUNT_NAME" (include "rebalancer.fullname" .)
  "CLUSTER_NAME" .Values.clusterName
  "WRITE_MODE" .Values.writeMode
  "HAND_BACK_UNNAMED" .Values.handBack.unnamed
  "WRITE_DELETION_COST" .Values.actuation.deletionCost
  "DRAIN_NODES" .Values.drain.enabled
  "POLICY_PATH" "/etc/rebalancer/policy.yaml"
  "ALLOW_EMPTY_POLICY" .Values.allowEmptyPolicy
  "JOURNAL_DIR" "/var/lib/rebalancer/journal"
  "JOURNAL_MAX_MIB" .Values.journal.maxMiB
  "LEDGER_MAX_MIB" .Values.journal.ledgerMaxMiB
  "PREDICT_DAYS" .Values.journal.predictDays
  "API_HOST" (ternary "::" "127.0.0.1" $answers)
  "API_AUTH" (ternary "kubernetes" "none" $answers)
  "API_HOSTS" (join "," .Values.api.hosts)
  "API_PORT" .Values.api.port
  "PROBE_HOST" "::"
  "PROBE_PORT" .Values.probePort
  "LOG_LEVEL" .Values.log.level
  "LOG_FORMAT" .Values.log.format
-}}
{{- if include "rebalancer.observes" . -}}
{{- $_ := set $set "KAFKA_ENABLED" false -}}
{{- $_ := set $set "BACKFILL_HOURS" .Values.prometheus.backfillHours -}}
{{- else -}}
{{- $_ := set $set "LEASE_NAME" (include "rebalancer.fullname" .) -}}
{{- include "rebalancer.kafkaSettings" (list . $set) -}}
{{- $_ := set $set "AGGREGATED" .Values.aggregate.enabled -}}
{{- $_ := set $set "NOTICES_QUEUE_URL" .Values.notices.queueUrl -}}
{{- $_ := set $set "NOTICES_QUEUE_REGION" .Values.notices.region -}}
{{- if .Values.kafka.overrideKeysSecret -}}
{{- $_ := set $set "OVERRIDE_KEYS_DIR" "/etc/rebalancer-kafka/keys" -}}
{{- end -}}
{{- end -}}
{{- with .Values.prometheus -}}
{{- if .url -}}
{{- $_ := set $set "PROMETHEUS_URL" .url -}}
{{- $_ := set $set "PROMETHEUS_INTERVAL_SECONDS" .intervalSeconds -}}
{{- if .tokenSecret.name -}}
{{- $_ := set $set "PROMETHEUS_TOKEN_FILE" "/etc/rebalancer-prometheus/token/token" -}}
{{- end -}}
{{- $_ := set $set "PROMETHEUS_SIGV4_REGION" .sigv4Region -}}
{{- $matchers := list -}}
{{- range $label, $value := .matchers -}}
{{- $matchers = append $matchers (printf "%s=%s" $label $value) -}}
{{- end -}}
{{- $_ := set $set "PROMETHEUS_MATCHERS" (join "," $matchers) -}}
{{- if .caConfigMap.name -}}
{{- $_ := set $set "PROMETHEUS_CA_FILE" "/etc/rebalancer-prometheus/ca/ca.crt" -}}
{{- end -}}
{{- if .passwordSecret.name -}}
{{- $_ := set $set "PROMETHEUS_USERNAME" .username -}}
{{- $_ := set $set "PROMETHEUS_PASSWORD_FILE" "/etc/rebalancer-prometheus/password/password" -}}
{{- end -}}
{{- if .certificateSecret -}}
{{- $_ := set $set "PROMETHEUS_CERTIFICATE_FILE" "/etc/rebalancer-prometheus/certificate/tls.crt" -}}
{{- $_ := set $set "PROMETHEUS_KEY_FILE" "/etc/rebalancer-prometheus/certificate/tls.key" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- include "rebalancer.settings" $set -}}
{{- end -}}
