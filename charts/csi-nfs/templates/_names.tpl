{{/* What several templates must agree on. */}}
{{- define "csi-nfs.name" -}}
{{- if contains "csi-nfs" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-csi-nfs" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "csi-nfs.selector" -}}
app.kubernetes.io/name: csi-nfs
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "csi-nfs.labels" -}}
{{ include "csi-nfs.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "csi-nfs.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Not empty where snapshots are served. */}}
{{- define "csi-nfs.snapshots" -}}
{{- $wanted := toString .Values.snapshots.enabled }}
{{- if or (eq $wanted "true") (and (eq $wanted "auto") (.Capabilities.APIVersions.Has "snapshot.storage.k8s.io/v1")) }}yes{{ end }}
{{- end }}

{{/* Not empty where the controller's sidecars get the secrets that classes name: this chart's, or those that another driver had. */}}
{{- define "csi-nfs.getsSecrets" -}}
{{- $wanted := toString .Values.rbac.secrets }}
{{- if eq $wanted "true" }}yes{{ end }}
{{- if eq $wanted "auto" }}
{{- if .Values.migration.enabled }}yes{{ end }}
{{- range list .Values.storageClass .Values.snapshots.class }}
{{- if .secrets }}yes{{ end }}
{{- range $key, $_ := .parameters }}
{{- if regexMatch "^csi\\.storage\\.k8s\\.io/.*secret-name$" $key }}yes{{ end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Not empty where the driver mounts nothing over NFS: every share is a folder of the machine. */}}
{{- define "csi-nfs.localOnly" -}}
{{- if and .Values.localShares (not .Values.shares) }}yes{{ end }}
{{- end }}

{{/* The mode of volumes' folders. Nodes give it to those of kubernetes-csi's driver. */}}
{{- define "csi-nfs.modeFlag" -}}
{{- with .Values.mountPermissions }}
- {{ printf "--mount-permissions=%s" . | quote }}
{{- end }}
{{- end }}

{{/* Flags that controller and node must have in common. */}}
{{- define "csi-nfs.flags" -}}
- --driver-name={{ .Values.driverName }}
- --log-format={{ .Values.log.format }}
- --log-level={{ .Values.log.level }}
{{- range .Values.shares }}
- {{ printf "--share=%s" . | quote }}
{{- end }}
{{- range .Values.localShares }}
- {{ printf "--local-share=%s=%s" .export .path | quote }}
{{- end }}
{{- range .Values.allowServers }}
- {{ printf "--allow-server=%s" . | quote }}
{{- end }}
{{- range .Values.allowMountOptions }}
- {{ printf "--allow-mount-option=%s" . | quote }}
{{- end }}
{{- range .Values.denyMountOptions }}
- {{ printf "--deny-mount-option=%s" . | quote }}
{{- end }}
{{- if .Values.migration.enabled }}
- --migrate-from=csi-driver-nfs
{{- end }}
{{- with .Values.timeouts.mount }}
- --mount-timeout={{ . }}
{{- end }}
{{- with .Values.timeouts.unmount }}
- --unmount-timeout={{ . }}
{{- end }}
{{- with .Values.timeouts.stats }}
- --stats-timeout={{ . }}
{{- end }}
{{- with .Values.timeouts.drain }}
- --drain-timeout={{ . }}
{{- end }}
{{- end }}

{{/* A controller takes these with migration only: folders that it never deletes. */}}
{{- define "csi-nfs.inlineFlags" -}}
{{- range .Values.inline.shares }}
- {{ printf "--inline-share=%s" . | quote }}
{{- end }}
{{- range .Values.inline.mountOptions }}
- {{ printf "--inline-mount-option=%s" . | quote }}
{{- end }}
{{- end }}

{{- define "csi-nfs.localMounts" -}}
{{- range $index, $share := .Values.localShares }}
- {name: share-{{ $index }}, mountPath: {{ $share.path | quote }}}
{{- end }}
{{- end }}

{{- define "csi-nfs.localVolumes" -}}
{{- range $index, $share := .Values.localShares }}
- {name: share-{{ $index }}, hostPath: {path: {{ $share.path | quote }}, type: Directory}}
{{- end }}
{{- end }}

{{/* Probes of the driver's container, without a port where no metrics are wanted. The argument is the port, or 0. */}}
{{- define "csi-nfs.probes" -}}
{{- range $probe, $path := dict "livenessProbe" "/healthz" "readinessProbe" "/readyz" }}
{{ $probe }}:
  {{- if $ }}
  httpGet: {path: {{ $path }}, port: metrics}
  {{- else }}
  exec: {command: [/csi-nfs, get, "unix:///csi/http.sock", {{ $path }}]}
  {{- end }}
  periodSeconds: 10
  # A look at the health takes at most fifteen seconds, when a disk does not answer.
  timeoutSeconds: 20
  failureThreshold: {{ ternary 5 1 (eq $probe "livenessProbe") }}
{{- end }}
{{- end }}

{{- define "csi-nfs.sidecar" -}}
imagePullPolicy: {{ .Values.image.pullPolicy }}
env:
  - {name: NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
volumeMounts:
  - {name: socket, mountPath: /csi}
# The group of the driver's socket is 0.
securityContext:
  runAsNonRoot: true
  runAsUser: 65534
  runAsGroup: 0
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* Where a pod of the controller already is. */}}
{{- define "csi-nfs.besideController" -}}
topologyKey: kubernetes.io/hostname
labelSelector:
  matchLabels:
    {{- include "csi-nfs.selector" . | nindent 4 }}
    app.kubernetes.io/component: controller
{{- end }}

{{/* The parameters of a class that name its secrets, by what each is for. */}}
{{- define "csi-nfs.secrets" -}}
{{- range $use, $secret := . }}
csi.storage.k8s.io/{{ kebabcase $use }}-secret-name: {{ $secret.name | quote }}
csi.storage.k8s.io/{{ kebabcase $use }}-secret-namespace: {{ $secret.namespace | quote }}
{{- end }}
{{- end }}
