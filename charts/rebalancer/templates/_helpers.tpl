{{- define "rebalancer.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Name of what we are in our namespace: the release's, with our own behind it unless it is in it. */}}
{{- define "rebalancer.fullname" -}}
{{- $name := include "rebalancer.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Name of our Service, which may have no dots, as a release may. */}}
{{- define "rebalancer.serviceName" -}}
{{- include "rebalancer.fullname" . | replace "." "-" -}}
{{- end -}}

{{/* Name of what has no namespace: two installations of one name in two namespaces do not meet. */}}
{{- define "rebalancer.clusterwide" -}}
{{- printf "%s.%s" (include "rebalancer.fullname" .) .Release.Namespace -}}
{{- end -}}

{{/* Our user name, as the API server knows it. */}}
{{- define "rebalancer.user" -}}
{{- printf "system:serviceaccount:%s:%s" .Release.Namespace (include "rebalancer.fullname" .) -}}
{{- end -}}

{{- define "rebalancer.selector" -}}
app.kubernetes.io/name: {{ include "rebalancer.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "rebalancer.labels" -}}
{{ include "rebalancer.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* What the command line, the console and the runbooks find the service by, whatever nameOverride calls it. */}}
{{- define "rebalancer.found" -}}
rebalancer.io/component: service
{{- end -}}

{{- define "rebalancer.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (default $.Chart.AppVersion .tag) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* "true" when the service account may write anything to workloads, nodes or NodePools. */}}
{{- define "rebalancer.actuates" -}}
{{- with .Values.actuation -}}
{{- if or .keda .hpa .scale .karpenter $.Values.drain.enabled }}true{{ end -}}
{{- end -}}
{{- end -}}

{{/* "true" when it may make a workload smaller. */}}
{{- define "rebalancer.shrinks" -}}
{{- with .Values.actuation -}}
{{- if or .keda .hpa .scale }}true{{ end -}}
{{- end -}}
{{- end -}}

{{/* "true" when it may mark pods: a workload that gets smaller reads a mark, and so does the policy on deletions. */}}
{{- define "rebalancer.marks" -}}
{{- if and .Values.actuation.deletionCost (or (include "rebalancer.shrinks" .) .Values.drain.enabled) }}true{{ end -}}
{{- end -}}

{{/* "true" when it writes to what carries the number of its term. */}}
{{- define "rebalancer.stamps" -}}
{{- if or .Values.actuation.keda .Values.actuation.hpa .Values.actuation.karpenter }}true{{ end -}}
{{- end -}}

{{/* "true" when a policy bounds what it scales to. */}}
{{- define "rebalancer.boundsScales" -}}
{{- with .Values.admissionPolicies -}}
{{- if and .enabled $.Values.actuation.scale (or .leastReplicas .mostReplicas) }}true{{ end -}}
{{- end -}}
{{- end -}}

{{/* "true" when the pre-delete hook is there. */}}
{{- define "rebalancer.handsBack" -}}
{{- if and .Values.handBack.enabled (include "rebalancer.actuates" .) }}true{{ end -}}
{{- end -}}

{{/* How many: where it writes a second one stands by. One pod alone writes a journal that outlives it. */}}
{{- define "rebalancer.replicas" -}}
{{- if and .Values.journal.persistence.enabled (gt (int .Values.replicas) 1) -}}
{{- fail "journal.persistence is one volume, which one pod writes: set replicas to 1, or journal.persistence.enabled to false (every decision is in Kafka, too)" -}}
{{- end -}}
{{- if .Values.replicas }}{{ int .Values.replicas -}}
{{- else if and (eq .Values.writeMode "act") (not .Values.journal.persistence.enabled) }}2
{{- else }}1
{{- end -}}
{{- end -}}

{{/* MiB of the journal's volume: both files at their largest, and beside them the file that is being rotated. */}}
{{- define "rebalancer.journalMiB" -}}
{{- add .Values.journal.maxMiB .Values.journal.ledgerMaxMiB 64 -}}
{{- end -}}

{{/* Size of the journal's volume; a number as JSON, for toString writes 2147483648 as 2.147483648e+09. */}}
{{- define "rebalancer.journalSize" -}}
{{- with .Values.journal.persistence.size }}{{ kindIs "string" . | ternary . (toJson .) }}{{ end -}}
{{- end -}}

{{/* "true" when the volume that we ask for holds the journal. */}}
{{- define "rebalancer.journalFits" -}}
{{- $bytes := dict "" 1 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 -}}
{{- $size := include "rebalancer.journalSize" . -}}
{{- $given := mulf (regexFind "^[0-9.]+" $size) (get $bytes (regexFind "[A-Za-z]*$" $size) | default 0.001) -}}
{{- if ge $given (mulf (include "rebalancer.journalMiB" .) 1048576) }}true{{ end -}}
{{- end -}}

{{/* "true" when it only observes, without Kafka; whatever else would make it write is refused here. */}}
{{- define "rebalancer.observes" -}}
{{- if not .Values.kafka.enabled -}}
{{- if eq .Values.writeMode "act" -}}
{{- fail "kafka.enabled is false and writeMode is act: what was written is kept in Kafka over a crash. Without it the service observes: set writeMode: shadow, or kafka.enabled: true" -}}
{{- end -}}
{{- if include "rebalancer.actuates" . -}}
{{- fail "kafka.enabled is false and an actuation or drain is on: an account that observes has no right to write. Turn it off, or set kafka.enabled: true" -}}
{{- end -}}
{{- if not .Values.prometheus.url -}}
{{- fail "kafka.enabled is false and prometheus.url is empty: every reading comes from one of the two. Set prometheus.url" -}}
{{- end -}}
{{- if .Values.kafka.overrideKeysSecret -}}
{{- fail "kafka.enabled is false and kafka.overrideKeysSecret names a Secret: signed overrides are records in Kafka. Leave it empty, or set kafka.enabled: true" -}}
{{- end -}}
{{- if .Values.notices.queueUrl -}}
{{- fail "kafka.enabled is false and notices.queueUrl is set: the queue's messages go into Kafka. Leave it empty, or set kafka.enabled: true" -}}
{{- end -}}
true
{{- end -}}
{{- end -}}

{{/* "true" when people reach it with tokens. Reviewing them is a right to create, which an account that observes has not. */}}
{{- define "rebalancer.answers" -}}
{{- if and .Values.api.enabled (not (include "rebalancer.observes" .)) }}true{{ end -}}
{{- end -}}

{{/* "true" when there are accounts for people to log in with. */}}
{{- define "rebalancer.logsIn" -}}
{{- if and .Values.login.enabled (not (include "rebalancer.observes" .)) }}true{{ end -}}
{{- end -}}

{{/* What a person types first, with where it is installed unless it is where the commands look by themselves. */}}
{{- define "rebalancer.firstLook" -}}
{{- $full := include "rebalancer.fullname" . -}}
{{- if ne .Release.Namespace "rebalancer" }}
    export REBALANCER_SERVICE_NAMESPACE={{ .Release.Namespace }}
{{- end }}
{{- if include "rebalancer.logsIn" . }}
    rebalancer login{{ if ne $full "rebalancer" }} --release {{ $full }}{{ end }}
{{- end }}
    rebalancer status
{{- end -}}

{{- define "rebalancer.policyConfigMap" -}}
{{- default (printf "%s-policy" (include "rebalancer.fullname" .)) .Values.policyConfigMap -}}
{{- end -}}

{{/* The policy that the chart brings, whether it was given as a map or as a file's text, as YAML; {} where it is a ConfigMap
     of yours. */}}
{{- define "rebalancer.policy" -}}
{{- $policy := .Values.policy -}}
{{- if kindIs "string" $policy }}{{ $policy = fromYaml $policy }}{{ end -}}
{{- .Values.policyConfigMap | empty | ternary $policy dict | toYaml -}}
{{- end -}}

{{/* The kinds of the policy's targets that targetKinds does not name, as a YAML list of RESOURCE.GROUP. A resource is called
     as its kind, in the plural; where a kind that is not known here has another name, one of its group is enough. */}}
{{- define "rebalancer.kindsMissing" -}}
{{- $groups := dict
  "StatefulSet" "apps"
  "ReplicaSet" "apps"
  "LeaderWorkerSet" "leaderworkerset.x-k8s.io"
  "Rollout" "argoproj.io"
  "DynamoGraphDeploymentScalingAdapter" "nvidia.com"
  "StormService" "orchestration.aibrix.ai"
-}}
{{- $missing := list -}}
{{- range (include "rebalancer.policy" . | fromYaml).models }}
{{- range .targets }}
{{- $kind := default "Deployment" .kind -}}
{{- $group := default (get $groups $kind) (splitList "/" (default "" .apiVersion) | first) -}}
{{- $resource := printf "%ss.%s" (lower $kind) $group -}}
{{- $named := hasKey $groups $kind | ternary (has $resource $.Values.targetKinds) (contains $group (join " " $.Values.targetKinds)) -}}
{{- if not (or $named (eq $kind "Deployment")) }}
{{- $missing = append $missing $resource -}}
{{- end }}
{{- end }}
{{- end }}
{{- uniq $missing | toYaml -}}
{{- end -}}

{{- define "rebalancer.podSecurity" -}}
runAsNonRoot: true
{{- if not .Values.openshift }}
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
{{- end }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "rebalancer.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* A token that lives an hour and dies with the pod, where clients look for it. */}}
{{- define "rebalancer.tokenVolume" -}}
- name: token
  projected:
    defaultMode: 0440
    sources:
      - serviceAccountToken:
          path: token
          expirationSeconds: 3600
      - configMap:
          name: kube-root-ca.crt
          items:
            - {key: ca.crt, path: ca.crt}
      - downwardAPI:
          items:
            - path: namespace
              fieldRef:
                fieldPath: metadata.namespace
{{- end -}}

{{- define "rebalancer.tokenMount" -}}
- name: token
  mountPath: /var/run/secrets/kubernetes.io/serviceaccount
  readOnly: true
{{- end -}}

{{/* Where pods of ours may be put. */}}
{{- define "rebalancer.placement" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
