{{- define "manilla.labels" -}}
app.kubernetes.io/name: manilla
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "manilla.selector" -}}
app.kubernetes.io/name: manilla
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "manilla.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ required "Set image.tag or image.digest to your image of Manilla." .Values.image.tag }}
{{- end -}}
{{- end }}

{{- define "manilla.cluster" -}}
{{ .Release.Name }}-database
{{- end }}

{{/* A command that prints a database URL. The password stays in its file until Manilla reads it. */}}
{{- define "manilla.urlCommand" -}}
sh -c 'printf "postgresql://%s:%s@{{ .host }}/manilla?sslmode=verify-full&sslrootcert=/run/secrets/database-ca/ca.crt" "$(cat {{ .folder }}/username)" "$(cat {{ .folder }}/password)"'
{{- end }}

{{- define "manilla.environment" -}}
{{- $cluster := include "manilla.cluster" . -}}
- {name: MANILLA_MODE, value: production}
- {name: MANILLA_BASE_URL, value: {{ required "Set baseUrl to the public URL." .Values.baseUrl | quote }}}
- {name: MANILLA_TRUSTED_PROXIES, value: {{ required "Set trustedProxies to the ingress controller's addresses." .Values.trustedProxies | quote }}}
- {name: MANILLA_MASTER_KEY_FILE, value: /run/secrets/master-key/key}
{{- if .Values.secrets.smtp }}
- {name: MANILLA_SMTP_URL_FILE, value: /run/secrets/smtp/url}
{{- end }}
{{- if .Values.database.cluster.enabled }}
- name: MANILLA_DATABASE_URL_COMMAND
  value: {{ include "manilla.urlCommand" (dict "host" (printf "%s-rw" $cluster) "folder" "/run/secrets/database") | quote }}
{{- if .Values.database.readFromStandbys }}
- name: MANILLA_DATABASE_READ_URL_COMMAND
  value: {{ include "manilla.urlCommand" (dict "host" (printf "%s-ro" $cluster) "folder" "/run/secrets/database") | quote }}
{{- end }}
{{- else }}
- {name: MANILLA_DATABASE_URL_FILE, value: /run/secrets/database/url}
{{- if .Values.database.readFromStandbys }}
- {name: MANILLA_DATABASE_READ_URL_FILE, value: /run/secrets/database/read-url}
{{- end }}
{{- end }}
{{- range $name, $value := .Values.environment }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}

{{- define "manilla.mounts" -}}
- {name: master-key, mountPath: /run/secrets/master-key, readOnly: true}
- {name: database, mountPath: /run/secrets/database, readOnly: true}
{{- if .Values.database.cluster.enabled }}
- {name: database-ca, mountPath: /run/secrets/database-ca, readOnly: true}
{{- end }}
{{- if .Values.secrets.smtp }}
- {name: smtp, mountPath: /run/secrets/smtp, readOnly: true}
{{- end }}
- {name: metrics, mountPath: /run/manilla}
- {name: tmp, mountPath: /tmp}
{{- end }}

{{/* Manilla rejects secrets that other users can read, so only the group of the pod can read them. */}}
{{- define "manilla.volumes" -}}
- name: master-key
  secret: {secretName: {{ .Values.secrets.masterKey }}, defaultMode: 0440}
{{- if .Values.database.cluster.enabled }}
- name: database
  secret: {secretName: {{ .Values.database.applicationSecret }}, defaultMode: 0440}
- name: database-ca
  # The secret also has the CA's private key, which no pod of Manilla may see.
  secret:
    secretName: {{ include "manilla.cluster" . }}-ca
    defaultMode: 0440
    items: [{key: ca.crt, path: ca.crt}]
{{- else }}
- name: database
  secret:
    secretName: {{ .Values.database.external.secret }}
    defaultMode: 0440
    items:
      - {key: url, path: url}
      {{- if .Values.database.readFromStandbys }}
      - {key: read-url, path: read-url}
      {{- end }}
{{- end }}
{{- if .Values.secrets.smtp }}
- name: smtp
  secret: {secretName: {{ .Values.secrets.smtp }}, defaultMode: 0440}
{{- end }}
- {name: metrics, emptyDir: {sizeLimit: 64Mi}}
- {name: tmp, emptyDir: {sizeLimit: 256Mi}}
{{- end }}

{{- define "manilla.podSecurity" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "manilla.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Pods of one component run on different nodes, if there are enough nodes. */}}
{{- define "manilla.spread" -}}
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels: {{- include "manilla.selector" . | nindent 6 }}
{{- end }}
