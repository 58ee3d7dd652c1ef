{{/* What several templates must agree on. */}}
{{- define "csi-nfs.name" -}}
{{- if contains "csi-nfs" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-csi-nfs" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "csi-nfs.selector" -}}
app.kubernetes.io/name: csi-nfs
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "csi-nfs.labels" -}}
{{ include "csi-nfs.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- with .Values.customLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The name of a service account: (list $ "controller"). */}}
{{- define "csi-nfs.account" -}}
{{- $root := index . 0 }}
{{- index $root.Values.serviceAccount (index . 1) | default (printf "%s-%s" (include "csi-nfs.name" $root) (index . 1)) }}
{{- end }}

{{/* image and imagePullPolicy of a container: (list $ IMAGE REGISTRY), with the registry of those that have none and are given none. */}}
{{- define "csi-nfs.image" -}}
{{- $root := index . 0 }}
{{- $image := index . 1 }}
{{- $registry := $root.Values.image.registry | default ($root.Values.global | default dict).imageRegistry | default (index . 2) }}
{{- if or (not $registry) (regexMatch "^([^/]*[.:][^/]*|localhost)/" $image.repository) }}{{ $registry = "" }}{{ else }}{{ $registry = printf "%s/" (trimSuffix "/" $registry) }}{{ end }}
{{- $version := printf ":%s" ($image.tag | default $root.Chart.AppVersion) }}
{{- with $image.digest }}{{ $version = printf "@%s" . }}{{ end -}}
image: {{ printf "%s%s%s" $registry (trimPrefix "/" $image.repository) $version | quote }}
imagePullPolicy: {{ $image.pullPolicy | default $root.Values.image.pullPolicy }}
{{- end }}

{{/* The update strategy of a workload; what belongs to rolling updates stays with these. */}}
{{- define "csi-nfs.strategy" -}}
type: {{ .type }}
{{- if and .rollingUpdate (eq .type "RollingUpdate") }}
rollingUpdate: {{ toJson .rollingUpdate }}
{{- end }}
{{- end }}

{{/* The StorageClasses as a list, each complete. */}}
{{- define "csi-nfs.storageClasses" -}}
{{- $given := .Values.storageClasses }}
{{- with .Values.storageClass }}
{{- if and .create (or (and $.Values.server $.Values.share) (and .parameters.server .parameters.share)) }}{{ $given = prepend $given . }}{{ end }}
{{- end }}
{{- $defaults := dict "reclaimPolicy" "Delete" "allowVolumeExpansion" true "volumeBindingMode" "Immediate" }}
{{- $all := list }}
{{- range $given }}
{{- $class := include "csi-nfs.over" (list $defaults .) | fromJson }}
{{- $base := dict "server" $.Values.server "share" $.Values.share }}
{{- $all = append $all (include "csi-nfs.class" (list $class $base "storageclass.kubernetes.io/is-default-class") | fromJson) }}
{{- end }}
{{- toJson $all }}
{{- end }}

{{/* The VolumeSnapshotClasses likewise. */}}
{{- define "csi-nfs.snapshotClasses" -}}
{{- $given := .Values.snapshots.classes }}
{{- with .Values.snapshots.class }}{{ if .create }}{{ $given = prepend $given . }}{{ end }}{{ end }}
{{- $all := list }}
{{- range $given }}
{{- $class := include "csi-nfs.over" (list (dict "deletionPolicy" "Delete") .) | fromJson }}
{{- $all = append $all (include "csi-nfs.class" (list $class dict "snapshot.storage.kubernetes.io/is-default-class") | fromJson) }}
{{- end }}
{{- toJson $all }}
{{- end }}

{{/* (list CLASS PARAMETERS ANNOTATION): a class whose parameters are complete, secrets among them, with the annotation of a default. */}}
{{- define "csi-nfs.class" -}}
{{- $class := index . 0 }}
{{- $parameters := include "csi-nfs.over" (list (index . 1) ($class.parameters | default dict)) | fromJson }}
{{- range $use, $secret := $class.secrets }}
{{- $_ := set $parameters (printf "csi.storage.k8s.io/%s-secret-name" (kebabcase $use)) $secret.name }}
{{- $_ := set $parameters (printf "csi.storage.k8s.io/%s-secret-namespace" (kebabcase $use)) $secret.namespace }}
{{- end }}
{{- $annotations := dict (index . 2) (toString ($class.default | default false)) }}
{{- $annotations = include "csi-nfs.over" (list $annotations ($class.annotations | default dict)) | fromJson }}
{{- include "csi-nfs.over" (list $class (dict "parameters" $parameters "annotations" $annotations)) }}
{{- end }}

{{/* The first dictionary with what the second has instead, as JSON. (Sprig's merge takes a false for nothing.) */}}
{{- define "csi-nfs.over" -}}
{{- $all := dict }}
{{- range . }}{{ range $key, $value := . }}{{ $_ := set $all $key $value }}{{ end }}{{ end }}
{{- toJson $all }}
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
{{- range concat (include "csi-nfs.storageClasses" . | fromJsonArray) (include "csi-nfs.snapshotClasses" . | fromJsonArray) }}
{{- range $key, $_ := .parameters }}
{{- if regexMatch "^csi\\.storage\\.k8s\\.io/.*secret-name$" $key }}yes{{ end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The version of VolumeAttributesClass that the cluster knows, if any. */}}
{{- define "csi-nfs.attributesVersion" -}}
{{- if .Capabilities.APIVersions.Has "storage.k8s.io/v1/VolumeAttributesClass" -}}storage.k8s.io/v1
{{- else if .Capabilities.APIVersions.Has "storage.k8s.io/v1beta1/VolumeAttributesClass" -}}storage.k8s.io/v1beta1
{{- end }}
{{- end }}

{{/* Not empty where the driver mounts nothing over NFS: every share, also of a class, is a folder of the machine. */}}
{{- define "csi-nfs.localOnly" -}}
{{- $local := list }}
{{- range .Values.localShares }}{{ $local = append $local .export }}{{ end }}
{{- $mounted := concat .Values.shares }}
{{- range include "csi-nfs.storageClasses" . | fromJsonArray }}
{{- $export := printf "%s:%s" .parameters.server .parameters.share }}
{{- if not (has $export $local) }}{{ $mounted = append $mounted $export }}{{ end }}
{{- end }}
{{- if and $local (not $mounted) }}yes{{ end }}
{{- end }}

{{/* Seconds until a pod is killed: the time for its calls, and some for its end. */}}
{{- define "csi-nfs.grace" -}}
{{- $drain := .Values.timeouts.drain | default "30s" }}
{{- $number := regexFind "^[0-9]+" $drain | int }}
{{- if hasSuffix "m" $drain }}{{ $number = mul $number 60 }}{{ end }}
{{- add $number 10 }}
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
{{- with .Values.timeouts.drain }}
- --drain-timeout={{ . }}
{{- end }}
{{- range .Values.inline.shares }}
- {{ printf "--inline-share=%s" . | quote }}
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

{{/* A container of the controller's pod: (list $ NAME ARGUMENT...). */}}
{{- define "csi-nfs.sidecar" -}}
{{- $root := index . 0 }}
{{- $name := index . 1 }}
{{- with index $root.Values.sidecars $name }}
- name: csi-{{ $name }}
  {{- include "csi-nfs.image" (list $root .image "registry.k8s.io") | nindent 2 }}
  args:
    - --csi-address=/csi/csi.sock
    {{- if gt (int $root.Values.controller.replicas) 1 }}
    - --leader-election
    - --leader-election-namespace=$(NAMESPACE)
    {{- end }}
    - --timeout=60s
    {{- concat (slice $ 2) .extraArgs | toYaml | nindent 4 }}
  resources:
    {{- toYaml .resources | nindent 4 }}
  env:
    - {name: NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
  volumeMounts:
    - {name: socket, mountPath: /csi}
    - {name: token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
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
{{- end }}

{{/* Where a pod of the controller already is. */}}
{{- define "csi-nfs.besideController" -}}
topologyKey: kubernetes.io/hostname
labelSelector:
  matchLabels:
    {{- include "csi-nfs.selector" . | nindent 4 }}
    app.kubernetes.io/component: controller
{{- end }}
