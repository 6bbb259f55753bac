{{/* A Job that hands back, as a hook of helm's; of {root, name, hook, first}. `first`: what it does before, an option
     that takes our Deployment, and so whose objects it gives back. It has our account, so the same rights and the same
     admission policies as what it undoes. A mesh's sidecar would keep it from ever ending, so that it joins none whatever
     the values say: Istio goes by the label before the annotation. */}}
{{- define "rebalancer.handBackJob" -}}
{{- $labels := merge (dict "sidecar.istio.io/inject" "false") (.root.Values.podLabels | default dict) -}}
{{- $annotations := dict "sidecar.istio.io/inject" "false" "linkerd.io/inject" "disabled" -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace | quote }}
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
        {{- toYaml $labels | nindent 8 }}
      annotations:
        {{- toYaml (merge $annotations (.root.Values.podAnnotations | default dict)) | nindent 8 }}
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
