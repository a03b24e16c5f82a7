package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/runtime"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Imported is a replica as derived from its machine alone: a Spec without the bundle.
type Imported struct {
	ClusterID     string
	ClusterName   string
	Name          string
	Version       string
	Registration  json.RawMessage // as Replica.Registration
	Port          int
	EtcdURLs      []string
	ServiceCIDRs  []string
	PodCIDRs      []string
	ClusterDomain string
	ExtraSANs     []string
	NoAdminConf   bool
	LivenessProbe bool
	// ListenAll is that of component.Replica: the API server listens on all addresses, and no endpoint requires it.
	ListenAll bool
	// VerifyKubelets and ManageKubelet are those of component.Replica.
	VerifyKubelets, ManageKubelet bool
	// MetricsAddress is that of component.Replica.
	MetricsAddress string
	// TextfileDirectory is that of component.Replica.
	TextfileDirectory string
	ExtraArgs         map[string]map[string]string // empty: none configured; a component without any: null
	EarlyRenewal      time.Duration
	Audit             component.Audit // a default is 0 or ""
	// Authentication is read from the API server's file; the order in its JWT may differ.
	Authentication component.Authentication
	Limits         map[string]component.Limits  // of every component
	Environment    map[string]map[string]string // of components that have variables
	// ConfigFiles are the files of the user. The content of a write-only one is not read.
	ConfigFiles map[string]component.ConfigFile
	// SupplementaryGroups are those of the API server's unit, sorted; nil for none.
	SupplementaryGroups []string
	// Konnectivity is that of the proxy server's unit; nil for none.
	Konnectivity *component.Konnectivity
	// Settings is as in Replica.Settings. The caller checks which of them still apply: see
	// SameAudit and SameAuthentication.
	Settings json.RawMessage
	// Runtime and ImageRepository are those of component.Replica; "" is the default.
	Runtime, ImageRepository string
	// ExtraVolumes is that of component.Replica; nil for none.
	ExtraVolumes map[string]map[string]component.Volume
	// Patches is that of component.Replica; nil for none.
	Patches map[string]string
	// Added describes what the next restart of each component of kubeadm brings.
	Added []string
}

// RegisteredAt is what a registration says of its endpoint.
type RegisteredAt struct {
	Address       string
	Address6      string        // "" means none
	Additional    []string      // as component.Replica.AdditionalHosts
	DetectionTime time.Duration // as in component.Replica
	AllAddresses  bool          // as in component.Replica
}

// EndpointReader reads registrations, which belong to the endpoints.
type EndpointReader struct {
	// At returns what a registration says.
	At func(json.RawMessage) (RegisteredAt, error)
	// Foreign returns a registration with an endpoint that somebody else looks after, of a cluster whose replica is on
	// the given machine.
	Foreign func(endpoint HostPort, clusterID, replica, machine string, port int) json.RawMessage
}

// HostPort is an address with a port.
type HostPort struct {
	Host string
	Port int
}

// Import derives the replica from its machine. It changes nothing.
func (r *Replicas) Import(
	ctx context.Context, h *host.Host, endpoints EndpointReader,
) (Imported, error) {
	facts, err := h.Observe(ctx, machine.ImportQuery())
	if err != nil {
		return Imported{}, fmt.Errorf("read the replica on %s: %w", h.Address(), err)
	}
	out, err := imported(h, facts, endpoints)
	if err == nil {
		out.ConfigFiles, err = machine.ReadConfigFiles(ctx, h, facts)
	}
	return out, err
}

// Recorded is the replica of a machine according to its record; without a record, only Foreign and ClusterID are set.
type Recorded struct {
	ClusterID    string
	Name         string
	Port         int
	Registration json.RawMessage // the registration it was created with
	Leaves       json.RawMessage // the registration that it leaves, see component.Replica
	Etcd         []string        // client URLs
	Foreign      bool            // there is no record, and machine.ForeignAPIServer
}

// Recorded reads the record of a machine.
func (r *Replicas) Recorded(ctx context.Context, h *host.Host) (Recorded, error) {
	facts, err := h.Observe(ctx, host.Query{Contents: []string{machine.RecordPath}})
	if err != nil {
		return Recorded{}, fmt.Errorf("read the replica on %s: %w", h.Address(), err)
	}
	observed, err := machine.ReadRecord(facts.Files[machine.RecordPath].Content)
	if err == nil && observed.ClusterID == "" {
		if facts, err = h.Observe(ctx, machine.ForeignQuery()); err != nil {
			return Recorded{}, fmt.Errorf("look for an API server on %s: %w", h.Address(), err)
		}
		return foreign(facts), nil
	}
	return recordedIn(observed), err
}

// recordedIn returns what others than the replica itself need of its record.
func recordedIn(r machine.Record) Recorded {
	return Recorded{
		ClusterID: r.ClusterID, Name: r.Name, Port: r.Port, Registration: r.Endpoint, Leaves: r.Leaves, Etcd: r.Etcd,
	}
}

// foreign returns what is known of an API server without a record: the cluster that an import would give it.
func foreign(facts host.Facts) Recorded {
	if !machine.Interpret(facts).HasForeignAPIServer() {
		return Recorded{}
	}
	out := Recorded{Foreign: true}
	if ca := pki.CertificatesIn(facts.Files[component.CACert].Content); len(ca) > 0 {
		out.ClusterID = pki.ClusterIDOf([]byte(ca[0]))
	}
	return out
}

// imported interprets the facts that Import queried.
func imported(
	h *host.Host, facts host.Facts, endpoints EndpointReader,
) (Imported, error) {
	known, err := machine.ReadRecord(facts.Files[machine.RecordPath].Content)
	switch {
	case err != nil:
		return Imported{}, notImported(h, err.Error(), "apply from the configuration, which writes it anew")
	case known.ClusterID == "" && machine.Interpret(facts).IsInherited():
		return importInherited(h, facts, endpoints)
	case known.ClusterID == "":
		return Imported{}, notAReplica(h, facts)
	}
	by := runtime.Named(known.Runtime)
	definitions := map[string]runtime.Definition{}
	for _, name := range release.Components() {
		if definitions[name], err = by.Parse(facts.Files[by.Path(name)].Content); err != nil {
			return Imported{}, notImported(h, by.Path(name)+": "+err.Error(),
				"apply from the configuration, which writes it anew")
		}
	}
	program := definitions[release.APIServer].Program
	version := path.Base(path.Dir(program))
	if err := release.ValidateVersion(version); err != nil ||
		program != component.Artifact(version, release.APIServer).Path() {
		return Imported{}, notImported(h, fmt.Sprintf("%s starts %s, which the provider has not installed",
			by.Path(release.APIServer), program), "undo the change of that unit")
	}
	if at := definitions[release.APIServer].Flags["advertise-address"]; at != h.Address() {
		return Imported{}, notImported(h, fmt.Sprintf("its API server is reached at %q", at),
			"import it by that address, which is the machine's in the cluster")
	}
	endpoint, err := endpoints.At(known.Endpoint)
	if err != nil {
		return Imported{}, notImported(h, machine.RecordPath+" does not say where the replica is registered: "+err.Error(),
			"apply from the configuration, which writes it anew")
	}
	return deriveImport(h, known, version, endpoint, definitions, facts.Files), nil
}

// notAReplica describes what is on a machine without a record.
func notAReplica(h *host.Host, facts host.Facts) error {
	for _, name := range release.Components() {
		by := runtime.Named(component.Systemd)
		if _, ok := facts.Files[by.Path(name)]; ok {
			return notImported(h, by.Path(name)+" is there, and no "+machine.RecordPath+
				" says of which cluster: it was not made by this provider",
				"make a replica from the configuration on a machine of its own, and take this one away")
		}
	}
	if slices.Contains(facts.Dirs[machine.ManifestDir], release.APIServer+".yaml") {
		return notImported(h, "the API server there is a static pod, and the manifest is not one of kubeadm's",
			"make replicas from the configuration on machines of their own; the PKI can be imported (kube_pki_bundle)")
	}
	return notImported(h, "nothing of a replica is on the machine", "give the address of a machine with one")
}

func notImported(h *host.Host, cause, next string) error {
	return &problem.Problem{
		Summary: "Control-plane replica not imported", Host: h.Address(), Cause: cause, Unchanged: problem.Nothing,
		Next: next + ".",
		Err:  errors.New(cause),
	}
}
