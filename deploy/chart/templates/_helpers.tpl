{{- /* name is the name of everything: that of the release. */ -}}
{{- define "name" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- /* selector are the labels that never change. */ -}}
{{- define "selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ include "name" . | toYaml }}
{{- end }}

{{- define "labels" -}}
{{ include "selector" . }}
app.kubernetes.io/component: scheduler
{{- end }}

{{- define "schedulerName" -}}
{{- if .Values.schedulerName -}}
{{ .Values.schedulerName }}
{{- else if eq .Values.mode "replacement" -}}
default-scheduler
{{- else -}}
{{ trimPrefix "run" .Values.command }}
{{- end -}}
{{- end }}

{{- /* schedulerNames is a JSON list of all profiles. */ -}}
{{- define "schedulerNames" -}}
{{- $names := list (include "schedulerName" .) -}}
{{- if .Values.config -}}
{{- $names = list -}}
{{- range .Values.config.profiles -}}
{{- $names = append $names (.schedulerName | default "default-scheduler") -}}
{{- end -}}
{{- end -}}
{{ toJson ($names | default (list "default-scheduler")) }}
{{- end }}

{{- /* lease is the name of the leader election's lease. */ -}}
{{- define "lease" -}}
{{- $own := ternary "kube-scheduler" "gnnsched" (eq .Values.mode "replacement") -}}
{{- if .Values.config -}}
{{ dig "leaderElection" "resourceName" "gnnsched" .Values.config }}
{{- else -}}
{{ $own }}
{{- end -}}
{{- end }}

{{- /* mark is the name of the lease that keeps the state of a canary, as scheduler/plugin/userconfig makes it. */ -}}
{{- define "mark" -}}
{{- $name := printf "gnnsched-%s" . -}}
{{- if and (le (len $name) 253) (regexMatch "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$" $name) -}}
{{ $name }}
{{- else -}}
{{ printf "gnnsched-%s" (sha256sum .) }}
{{- end -}}
{{- end }}

{{- define "security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
{{- with .Values.userID }}
runAsUser: {{ int64 . }}
runAsGroup: {{ int64 . }}
{{- end }}
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- /* placement are the fields of a pod that say where it runs and as whom. */ -}}
{{- define "placement" -}}
enableServiceLinks: false
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | toYaml }}
{{- end }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  {{- with .Values.userID }}
  fsGroup: {{ int64 . }} # reads and writes a PersistentVolume
  {{- end }}
  seccompProfile:
    type: RuntimeDefault
{{- end }}
