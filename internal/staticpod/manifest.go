package staticpod

// What is the same in every manifest.
const (
	namespace        = "kube-system"
	criticalPriority = 2000001000
	criticalClass    = "system-node-critical"
	pullPolicy       = "IfNotPresent"
)

// The types below are the part of the Kubernetes API that a manifest uses, and no more: a manifest with anything else
// was not written by the provider.

type manifest struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Spec       spec     `json:"spec"`
}

type metadata struct {
	Annotations map[string]string `json:"annotations,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
}

type spec struct {
	Containers        []container     `json:"containers"`
	HostNetwork       bool            `json:"hostNetwork"`
	Priority          int             `json:"priority"`
	PriorityClassName string          `json:"priorityClassName"`
	SecurityContext   securityContext `json:"securityContext"`
	Grace             *int            `json:"terminationGracePeriodSeconds,omitempty"`
	Volumes           []volume        `json:"volumes,omitempty"`
}

type container struct {
	Command         []string         `json:"command"`
	Env             []variable       `json:"env,omitempty"`
	Image           string           `json:"image"`
	ImagePullPolicy string           `json:"imagePullPolicy"`
	LivenessProbe   *probe           `json:"livenessProbe,omitempty"`
	Name            string           `json:"name"`
	ReadinessProbe  *probe           `json:"readinessProbe,omitempty"`
	Resources       *resources       `json:"resources,omitempty"`
	SecurityContext *securityContext `json:"securityContext,omitempty"`
	StartupProbe    *probe           `json:"startupProbe,omitempty"`
	VolumeMounts    []volumeMount    `json:"volumeMounts,omitempty"`
}

type variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type resources struct {
	Limits   map[string]string `json:"limits,omitempty"`
	Requests map[string]string `json:"requests,omitempty"`
}

type securityContext struct {
	RunAsGroup     *int64          `json:"runAsGroup,omitempty"`
	RunAsUser      *int64          `json:"runAsUser,omitempty"`
	SeccompProfile *seccompProfile `json:"seccompProfile,omitempty"`
}

type seccompProfile struct {
	Type string `json:"type"`
}

type volumeMount struct {
	MountPath string `json:"mountPath"`
	Name      string `json:"name"`
	ReadOnly  bool   `json:"readOnly,omitempty"`
}

type volume struct {
	HostPath *hostPath `json:"hostPath"`
	Name     string    `json:"name"`
}

type hostPath struct {
	Path string `json:"path"`
	Type string `json:"type,omitempty"`
}

type probe struct {
	Failures     int      `json:"failureThreshold,omitempty"`
	HTTPGet      *httpGet `json:"httpGet"`
	InitialDelay int      `json:"initialDelaySeconds,omitempty"`
	Period       int      `json:"periodSeconds,omitempty"`
	Timeout      int      `json:"timeoutSeconds,omitempty"`
}

type httpGet struct {
	Host   string `json:"host,omitempty"`
	Path   string `json:"path"`
	Port   int    `json:"port"`
	Scheme string `json:"scheme,omitempty"`
}
