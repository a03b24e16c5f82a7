package machine

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// RecordPath identifies the replica of a machine and the certificates that were issued for it.
const RecordPath = component.KubernetesDir + "/replica.json"

// Record is written after every file that it lists. It proves that a certificate and a key on
// the machine belong together: if a write was interrupted between the two, the record does not
// match the pair, which is then issued again. It also contains the replica's etcd URLs and its
// registration, so that the process that stops its etcd member can take it out of rotation
// first (see Outage). It contains no secrets.
type Record struct {
	ClusterID   string            `json:"cluster_id"`
	ClusterName string            `json:"cluster_name"`
	Name        string            `json:"name"`
	Port        int               `json:"port"`
	Etcd        []string          `json:"etcd"`              // client URLs, sorted
	Endpoint    json.RawMessage   `json:"endpoint"`          // Spec.Registration
	Leaves      json.RawMessage   `json:"leaves,omitempty"`  // Replica.Leaves
	Runtime     string            `json:"runtime,omitempty"` // Replica.Runtime; "" is systemd
	Issued      map[string]string `json:"issued"`            // path → SHA-256, of certificates, keys and kubeconfigs
	// Generations are those of the bundle that the files are derived from. Records of earlier
	// versions of the provider have none: nothing had been rotated then.
	Generations map[pki.Part]int `json:"generations"`
	// Inherited has the digests of the files with which components of kubeadm were taken over, by path. They matter
	// while such a component runs.
	Inherited map[string]string `json:"inherited,omitempty"`
	// Configured is used by an import. Records of earlier versions of the provider have none,
	// which is not drift.
	Configured *Configured `json:"configured,omitempty"`
}

// Configured is the configuration as written. The machine shows only the result: flags include
// defaults, the certificate includes names that every certificate has, and nothing shows when
// certificates are renewed. Null is a setting that is not set.
type Configured struct {
	ExtraArgs    map[string]map[string]string `json:"extra_args"`
	ExtraSANs    []string                     `json:"extra_sans"`
	PodCIDRs     []string                     `json:"pod_cidrs"`
	EarlyRenewal time.Duration                `json:"early_renewal"`
	Settings     json.RawMessage              `json:"settings,omitempty"` // Spec.Settings
	// ManageKubelet is that of static pods. The machine alone does not say it: a kubelet that has followed, or that was
	// installed, keeps its drop-in.
	ManageKubelet *bool `json:"manage_kubelet,omitempty"`
}

func configuredOf(s component.Replica) *Configured {
	names := slices.Clone(s.ExtraSANs)
	slices.Sort(names)
	c := Configured{
		ExtraArgs: s.ExtraArgs, ExtraSANs: names, PodCIDRs: s.PodCIDRs, EarlyRenewal: s.EarlyRenewal, Settings: s.Settings,
	}
	if s.Runtime == component.StaticPod {
		c.ManageKubelet = &s.ManageKubelet
	}
	return &c
}

// IsComplete reports whether r contains what an import of s needs. If it does not, that is
// not drift, but an update adds it.
func (r Record) IsComplete(s component.Replica) bool {
	return r.Configured != nil && r.Configured.text() == configuredOf(s).text()
}

// text returns c for comparison, without indentation.
func (c Configured) text() string {
	text, _ := json.Marshal(c) // cannot fail: its raw parts are valid JSON
	return string(text)
}

// Matches reports whether r matches s, except for digests and generations.
func (r Record) Matches(s component.Replica) bool {
	want := NewRecord(s, nil)
	return r.Port == want.Port && slices.Equal(r.Etcd, want.Etcd) && Compact(r.Endpoint) == Compact(want.Endpoint) &&
		Compact(r.Leaves) == Compact(want.Leaves)
}

// Compact returns JSON without indentation.
func Compact(text json.RawMessage) string {
	if len(text) == 0 {
		return "null" // the encoding of an unset value
	}
	var b bytes.Buffer
	if json.Compact(&b, text) != nil {
		return string(text)
	}
	return b.String()
}

// File returns the file that stores the record.
func (r Record) File() host.File {
	// This cannot fail: its raw parts are valid JSON.
	text, _ := json.MarshalIndent(r, "", "  ")
	return host.File{
		Path: RecordPath, Content: append(text, '\n'), Mode: component.SecretMode, Owner: "root", Group: "root",
	}
}

// Digest returns the SHA-256 digest of a file's content, as host.FileState.SHA256.
func Digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// NewRecord returns the record of the replica for files with the given digests.
func NewRecord(s component.Replica, digests map[string]string) Record {
	r := Record{
		ClusterID: s.Bundle.ClusterID, ClusterName: s.Bundle.ClusterName, Name: s.Name, Runtime: s.Runtime,
		Port: s.APIPort(), Etcd: slices.Sorted(slices.Values(s.EtcdURLs)), Endpoint: s.Registration,
		Leaves: s.Leaves, Issued: map[string]string{}, Generations: s.Bundle.Generations(),
		Configured: configuredOf(s),
	}
	for _, c := range component.Certificates(s) {
		r.Issued[c.Path] = digests[c.Path]
		r.Issued[component.KeyPath(c.Path)] = digests[component.KeyPath(c.Path)]
	}
	for _, k := range component.Kubeconfigs(s) {
		r.Issued[k.Path] = digests[k.Path]
	}
	return r
}

// CreatingPath identifies the replica whose Create has begun on a machine. It is the first file
// that a Create writes, and is removed once the record, the last file, exists. A machine
// therefore never has parts of a replica without an owner.
const CreatingPath = component.KubernetesDir + "/replica.creating.json"

// creating contains only the identity; the issued certificates are not known yet.
type creating struct {
	ClusterID   string `json:"cluster_id"`
	ClusterName string `json:"cluster_name"`
	Name        string `json:"name"`
	Runtime     string `json:"runtime,omitempty"`
}

// CreatingFile exists from the first step of a Create.
func CreatingFile(s component.Replica) host.File {
	// strings always encode
	text, _ := json.MarshalIndent(creating{s.Bundle.ClusterID, s.Bundle.ClusterName, s.Name, s.Runtime}, "", "  ")
	return host.File{
		Path: CreatingPath, Content: append(text, '\n'), Mode: component.SecretMode, Owner: "root", Group: "root",
	}
}

// Identity returns the record of the replica on the machine or, if there is none yet, of the
// replica whose Create was interrupted there; zero if there is neither.
func (f Observed) Identity() (rec Record, begun bool) {
	if f.Record.ClusterID != "" {
		return f.Record, false
	}
	return f.creating, f.creating.ClusterID != ""
}

// IsFor reports whether r is a record of s.
func (r Record) IsFor(s component.Replica) bool {
	return r.ClusterID == s.Bundle.ClusterID && r.Name == s.Name
}

// Describe returns the name of the replica of a record.
func Describe(r Record) string {
	if r.ClusterID == "" {
		return ""
	}
	return fmt.Sprintf("replica %q of cluster %q", r.Name, r.ClusterName)
}
