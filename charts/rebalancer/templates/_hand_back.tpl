{{/* A Job that hands back, as a hook of helm's; of {root, name, hook, first}. `first`: what it does before, an option
     that takes our Deployment, and so whose objects it gives back. It has our account, so the same rights and the same
     admission policies as what it undoes. */}}
{{- define "rebalancer.handBackJob" -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "rebalancer.labels" .root | nindent 4 }}
    app.kubernetes.io/component: hand-back
  annotations:
    helm.sh/hook: {{ .hook }}
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
spec:
  # What failed is tried again: an object that somebody else writes meanwhile, an API server that was away.
  backoffLimit: 3
  activeDeadlineSeconds: {{ .root.Values.handBack.timeoutSeconds }}
  template:
    metadata:
      labels:
        {{- include "rebalancer.labels" .root | nindent 8 }}
        app.kubernetes.io/component: hand-back
        {{- with .root.Values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with .root.Values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      restartPolicy: Never
      serviceAccountName: {{ include "rebalancer.fullname" .root }}
      automountServiceAccountToken: false
      enableServiceLinks: false
      {{- with include "rebalancer.placement" .root | trim }}
      {{- . | nindent 6 }}
      {{- end }}
      securityContext:
        {{- include "rebalancer.podSecurity" .root | nindent 8 }}
      containers:
        - name: hand-back
          image: {{ include "rebalancer.image" .root }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          args:
            - hand-back
            - {{ .first }}={{ .root.Release.Namespace }}/{{ include "rebalancer.fullname" .root }}
            {{- if .root.Values.handBack.unnamed }}
            - --unnamed
            {{- end }}
            {{- range .root.Values.namespaces }}
            - --namespace={{ . }}
            {{- end }}
          resources:
            requests: {cpu: 100m, memory: 256Mi}
            limits: {cpu: "1", memory: 1Gi}
          securityContext:
            {{- include "rebalancer.containerSecurity" .root | nindent 12 }}
          volumeMounts:
            {{- include "rebalancer.tokenMount" .root | nindent 12 }}
      volumes:
        {{- include "rebalancer.tokenVolume" .root | nindent 8 }}
{{- end -}}
