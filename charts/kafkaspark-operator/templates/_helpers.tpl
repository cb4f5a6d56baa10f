{{/* As in `helm create`; at most 50 characters, because objects add suffixes. */}}
{{- define "kafkaspark.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "kafkaspark.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- $name := include "kafkaspark.name" . }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "kafkaspark.selectorLabels" -}}
app.kubernetes.io/name: {{ include "kafkaspark.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Pods of the operator. None stays none: an administrator stops the operator so. */}}
{{- define "kafkaspark.replicas" -}}
{{- $replicas := int .Values.replicas }}
{{- if and .Values.ha (eq $replicas 1) }}2{{ else }}{{ $replicas }}{{ end }}
{{- end }}

{{/* Name of cluster-wide objects, which releases of the same name in two namespaces must not share. */}}
{{- define "kafkaspark.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "kafkaspark.fullname" .) }}
{{- end }}

{{/* The admission policy that confines the drivers of this release. Their Roles name it. */}}
{{- define "kafkaspark.driverPolicy" -}}
{{- printf "%s-drivers" (include "kafkaspark.clusterName" .) }}
{{- end }}

{{- define "kafkaspark.labels" -}}
{{ include "kafkaspark.selectorLabels" . }}
{{ include "kafkaspark.otherLabels" . }}
{{- end }}

{{/* Labels that other pods of the chart have, too. */}}
{{- define "kafkaspark.otherLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "kafkaspark.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "kafkaspark.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name is needed with serviceAccount.create: false" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* JSON: the watched namespaces, by default the release's own; empty with watchNamespaceSelector. */}}
{{- define "kafkaspark.namespaces" -}}
{{- if .Values.watchNamespaceSelector -}}
{{- if .Values.watchNamespaces }}{{ fail "set watchNamespaces or watchNamespaceSelector, not both" }}{{ end -}}
[]
{{- else -}}
{{ default (list .Release.Namespace) .Values.watchNamespaces | toJson }}
{{- end }}
{{- end }}

{{/* A job has at most 45 characters. */}}
{{- define "kafkaspark.canaryName" -}}
{{- printf "%s-canary" (include "kafkaspark.fullname" . | trunc 38 | trimSuffix "-") }}
{{- end }}

{{/* A namespace that the operator watches. */}}
{{- define "kafkaspark.canaryNamespace" -}}
{{- $watched := include "kafkaspark.namespaces" . | fromJsonArray }}
{{- $namespace := default (default .Release.Namespace (first $watched)) .Values.canary.namespace }}
{{- if and $watched (not (has $namespace $watched)) }}
{{- fail (printf "canary.namespace %s is not watched: name one of %s, or add it to watchNamespaces" $namespace (join ", " $watched)) }}
{{- end }}
{{- $namespace }}
{{- end }}

{{/* As a label selector of the API: key=value,… */}}
{{- define "kafkaspark.namespaceSelector" -}}
{{- $parts := list }}
{{- range $key, $value := .Values.watchNamespaceSelector }}{{ $parts = append $parts (printf "%s=%s" $key $value) }}{{ end }}
{{- join "," $parts }}
{{- end }}

{{/* A name in a registry that is not the user's could become somebody else's image. */}}
{{- define "kafkaspark.image" -}}
{{- if not .Values.image.repository }}
{{- $way := "set image.repository, and job.image.repository for jobs without spec.image; there is no default, because this project publishes no images" }}
{{- $push := "Either push the two images to your registry (docs/quick-start.md), and add --set image.repository=REGISTRY/kafkaspark/operator --set job.image.repository=REGISTRY/kafkaspark/sparkapp" }}
{{- $load := "Or load them onto every node, and add the same values with the names that they have there, and --set image.pullPolicy=Never" }}
{{- fail (printf "%s.\n%s.\n%s." $way $push $load) }}
{{- end }}
{{- with .Values.image.registry }}{{ . }}/{{ end -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end }}
{{- end }}

{{/* Empty where jobs must name their image. */}}
{{- define "kafkaspark.jobImage" -}}
{{- with .Values.job.image -}}
{{- if and .registry .repository }}{{ .registry }}/{{ end -}}
{{- if and .repository .digest -}}
{{ .repository }}@{{ .digest }}
{{- else if .repository -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end }}
{{- end }}
{{- end }}

{{/* JSON: names of the Secrets with which the images of all jobs are pulled. */}}
{{- define "kafkaspark.jobPullSecrets" -}}
{{- $names := list }}
{{- range .Values.job.imagePullSecrets }}{{ $names = append $names .name }}{{ end }}
{{- toJson $names }}
{{- end }}

{{/* The operator's rights in a namespace. It may grant no more than it has, so they include the driver's rights. */}}
{{- define "kafkaspark.rules" -}}
# patch only for the finalizer of jobs that wait for their transactions; delete for ttlSecondsAfterFinished.
- apiGroups: [streaming.kafkaspark.io]
  resources: [kafkasparkjobs]
  verbs: [get, list, watch, patch, delete]
- apiGroups: [streaming.kafkaspark.io]
  resources: [kafkasparkjobs/status]
  verbs: [patch]
# Snapshots, which the operator fills: it copies a checkpoint into a ConfigMap that the snapshot owns. create and delete
# for spec.snapshots of jobs.
- apiGroups: [streaming.kafkaspark.io]
  resources: [kafkasparksnapshots]
  verbs: [get, list, watch, create, delete]
- apiGroups: [streaming.kafkaspark.io]
  resources: [kafkasparksnapshots/status]
  verbs: [patch]
# Owner references that block deletion need it where the admission plugin OwnerReferencesPermissionEnforcement is on.
- apiGroups: [streaming.kafkaspark.io]
  resources: [kafkasparkjobs/finalizers]
  verbs: [update]
# Drivers; patch activates a standby driver, and numbers the failures of executors.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete, patch]
# State, earlier checkpoints, report, attempts, revisions and modules; patch repairs them, and is granted to drivers for their own three.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, delete, patch]
# What an attempt's driver and executors authenticate to each other with. The operator never reads it.
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
# Each driver's and its executors' identity.
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [get, create, patch]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles]
  verbs: [get, list, watch, create, patch]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [rolebindings]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
# Only to grant it to drivers, for their executors.
- apiGroups: [""]
  resources: [pods]
  verbs: [deletecollection]
# Only to grant them to drivers. No request of the API has these verbs: the admission policy for drivers asks for them.
- apiGroups: [streaming.kafkaspark.io]
  resources: [kafkasparkjobs]
  verbs: [drive]
- apiGroups: [""]
  resources: [secrets, configmaps, persistentvolumeclaims, serviceaccounts]
  verbs: [use]
- apiGroups: [streaming.kafkaspark.io]
  resources: [executorimages, executoraudiences, executormetadata, driverpolicies]
  verbs: [use]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
# The room that the autoscaler has for more executors.
- apiGroups: [""]
  resources: [resourcequotas]
  verbs: [list]
{{- end }}

{{/* To any address: DNS may be a cache of the node at a link-local address. */}}
{{- define "kafkaspark.dnsEgress" -}}
- ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
{{- end }}

{{- define "kafkaspark.apiServerEgress" -}}
- ports:
    {{- range .Values.networkPolicy.apiServer.ports }}
    - {port: {{ . }}, protocol: TCP}
    {{- end }}
  {{- with .Values.networkPolicy.apiServer.to }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{/* JSON: what jobs' NetworkPolicies admit in addition to the job's own pods; empty for no policies. */}}
{{- define "kafkaspark.networkRules" -}}
{{- if .Values.networkPolicy.enabled -}}
{{- $dns := include "kafkaspark.dnsEgress" . | fromYamlArray }}
{{- $apiServer := include "kafkaspark.apiServerEgress" . | fromYamlArray }}
{{- $metrics := dict "ports" (list (dict "port" "metrics" "protocol" "TCP")) }}
{{- with .Values.networkPolicy.jobs.from }}{{ $metrics = set $metrics "from" . }}{{ end }}
{{- $egress := concat $dns .Values.networkPolicy.jobs.egress }}
{{- dict "driver" (dict "ingress" (list $metrics) "egress" (concat $apiServer $egress)) "executor" (dict "egress" $egress) | toJson }}
{{- end }}
{{- end }}

{{/* What confines drivers stays as long as they do: an uninstalled release leaves them running. */}}
{{- define "kafkaspark.keep" -}}
{{- if .Values.crds.keep }}
annotations: {helm.sh/resource-policy: keep}
{{- end }}
{{- end }}
