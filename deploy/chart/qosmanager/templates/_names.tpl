{{- define "qosmanager.labels" -}}
app.kubernetes.io/name: qosmanager
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "qosmanager.selector" -}}
app.kubernetes.io/name: qosmanager
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "qosmanager.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* Root without root's powers: oom_score_adj of other users' processes needs CAP_DAC_OVERRIDE, nothing else needs anything. */}}
{{- define "qosmanager.security" -}}
runAsUser: 0
runAsGroup: 0
readOnlyRootFilesystem: true
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
  add:
  - DAC_OVERRIDE
{{- end }}

{{- define "qosmanager.places" -}}
- --state-dir=/run/qosmanager
- --cgroup-root=/host/cgroup
{{- end }}

{{- define "qosmanager.mounts" -}}
- {name: cgroup, mountPath: /host/cgroup, mountPropagation: HostToContainer}
- {name: state, mountPath: /run/qosmanager}
{{- end }}

{{- define "qosmanager.volumes" -}}
- name: cgroup
  hostPath: {path: {{ .Values.cgroupRoot }}, type: Directory}
- name: state
  hostPath: {path: {{ .Values.stateDir }}, type: DirectoryOrCreate}
{{- end }}

{{- define "qosmanager.pod" -}}
hostPID: true
priorityClassName: {{ .Values.priorityClassName }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  seccompProfile: {type: RuntimeDefault}
  {{- with .Values.seLinuxType }}
  seLinuxOptions: {type: {{ . }}}
  {{- end }}
{{- end }}
