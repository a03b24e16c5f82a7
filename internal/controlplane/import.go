package controlplane

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
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
	ExtraArgs     map[string]map[string]string // empty: none configured; a component without any: null
	EarlyRenewal  time.Duration
	Audit         component.Audit // a default is 0 or ""
	// Authentication is read from the API server's file; the order in its JWT may differ.
	Authentication component.Authentication
	Limits         map[string]systemd.Limits // of every component
	// SupplementaryGroups are those of the API server's unit, sorted; nil for none.
	SupplementaryGroups []string
	// Settings is as in Replica.Settings. The caller checks which of them still apply: see
	// SameAudit and SameAuthentication.
	Settings json.RawMessage
}

// Import derives the replica from its machine. It changes nothing. endpointOf returns the
// address that a registration names.
func (r *Replicas) Import(ctx context.Context, h *host.Host, endpointOf func(json.RawMessage) (string, error)) (Imported, error) {
	facts, err := h.Observe(ctx, machine.ImportQuery())
	if err != nil {
		return Imported{}, fmt.Errorf("read the replica on %s: %w", h.Address(), err)
	}
	return imported(h, facts, endpointOf)
}

// Recorded is the replica of a machine according to its record; zero if there is none.
type Recorded struct {
	ClusterID    string
	Name         string
	Port         int
	Registration json.RawMessage // the registration it was created with
}

// Recorded reads the record of a machine.
func (r *Replicas) Recorded(ctx context.Context, h *host.Host) (Recorded, error) {
	facts, err := h.Observe(ctx, host.Query{Contents: []string{machine.RecordPath}})
	if err != nil {
		return Recorded{}, fmt.Errorf("read the replica on %s: %w", h.Address(), err)
	}
	observed, err := machine.ReadRecord(facts.Files[machine.RecordPath].Content)
	return Recorded{ClusterID: observed.ClusterID, Name: observed.Name, Port: observed.Port, Registration: observed.Endpoint}, err
}

// imported interprets the facts that Import queried.
func imported(h *host.Host, facts host.Facts, endpointOf func(json.RawMessage) (string, error)) (Imported, error) {
	known, err := machine.ReadRecord(facts.Files[machine.RecordPath].Content)
	switch {
	case err != nil:
		return Imported{}, notImported(h, err.Error(), "apply from the configuration, which writes it anew")
	case known.ClusterID == "":
		return Imported{}, notAReplica(h, facts)
	}
	flags := map[string]map[string]string{}
	programs := map[string]string{}
	for _, name := range release.Components() {
		definition := facts.Files[unit.Path(name)].Content
		if programs[name], flags[name], err = unit.Parse(definition); err != nil {
			return Imported{}, notImported(h, unit.Path(name)+": "+err.Error(), "apply from the configuration, which writes it anew")
		}
	}
	version := path.Base(path.Dir(programs[release.APIServer]))
	if err := release.ValidateVersion(version); err != nil || programs[release.APIServer] != component.Artifact(version, release.APIServer).Path() {
		return Imported{}, notImported(h, fmt.Sprintf("%s starts %s, which the provider has not installed", unit.Path(release.APIServer), programs[release.APIServer]), "undo the change of that unit")
	}
	if at := flags[release.APIServer]["advertise-address"]; at != h.Address() {
		return Imported{}, notImported(h, fmt.Sprintf("its API server is reached at %q", at), "import it by that address, which is the machine's in the cluster")
	}
	endpoint, err := endpointOf(known.Endpoint)
	if err != nil {
		return Imported{}, notImported(h, machine.RecordPath+" does not say where the replica is registered: "+err.Error(), "apply from the configuration, which writes it anew")
	}
	return deriveImport(h, known, version, endpoint, flags, facts.Files), nil
}

// deriveImport combines the record, the flags and the files.
func deriveImport(h *host.Host, r machine.Record, version, endpoint string, flags map[string]map[string]string, files map[string]host.FileState) Imported {
	configured := cmp.Or(r.Configured, &machine.Configured{})
	out := Imported{
		ClusterID: r.ClusterID, ClusterName: r.ClusterName, Name: r.Name, Version: version,
		Registration: r.Endpoint, Port: r.Port, EarlyRenewal: configured.EarlyRenewal, Settings: configured.Settings,
		EtcdURLs:     splitList(flags[release.APIServer]["etcd-servers"]),
		ServiceCIDRs: splitList(flags[release.APIServer]["service-cluster-ip-range"]),
		NoAdminConf:  !issued(r, component.AdminConf),
		PodCIDRs:     recordedIfSame(configured.PodCIDRs, splitList(flags[release.ControllerManager]["cluster-cidr"])),
	}
	if port, err := strconv.Atoi(flags[release.APIServer]["secure-port"]); err == nil {
		out.Port = port
	}
	s := component.Replica{
		Name: out.Name, Address: h.Address(), Version: version, Port: out.Port, EndpointHost: endpoint, EtcdURLs: out.EtcdURLs,
		ServiceCIDRs: out.ServiceCIDRs, PodCIDRs: out.PodCIDRs, Bundle: &pki.Bundle{ClusterID: r.ClusterID, ClusterName: r.ClusterName},
	}
	out.ClusterDomain, out.ExtraSANs = namesInCertificate(s, files[component.APIServerCert].Content, configured.ExtraSANs)
	s.ClusterDomain = out.ClusterDomain
	out.deriveSettings(flags[release.APIServer], configured.ExtraArgs[release.APIServer], files)
	s.Audit = out.Audit
	out.ExtraArgs = map[string]map[string]string{}
	for _, name := range release.Components() {
		recorded, present := configured.ExtraArgs[name]
		s.ExtraArgs = map[string]map[string]string{name: recorded}
		if extra := extraArgs(s, name, flags[name], recorded); extra != nil || present {
			out.ExtraArgs[name] = extra
		}
	}
	return out
}

// issued reports whether the record lists a file. If it does and the file is missing, it was
// deleted manually, which is drift.
func issued(r machine.Record, path string) bool {
	_, ok := r.Issued[path]
	return ok
}

// extraArgs returns the extra arguments that give a component of s its flags: the recorded ones
// if they do, otherwise the differences from the defaults. Flags that the provider manages are
// left out, so that a manual change of one is drift.
func extraArgs(s component.Replica, name string, flags, recorded map[string]string) map[string]string {
	own := func(flags map[string]string) map[string]string {
		rest := maps.Clone(flags)
		maps.DeleteFunc(rest, func(flag, _ string) bool { _, owned := component.OwnedFlags[name][flag]; return owned })
		return rest
	}
	have := own(flags)
	if maps.Equal(own(flagsOf(s, name)), have) {
		return recorded
	}
	s.ExtraArgs = nil
	standard := flagsOf(s, name)
	maps.DeleteFunc(have, func(flag, value string) bool { standard, ok := standard[flag]; return ok && standard == value })
	if len(have) == 0 {
		return nil
	}
	return have
}

// flagsOf returns the flags of one component of s.
func flagsOf(s component.Replica, name string) map[string]string {
	all := component.Of(s)
	return unit.Flags(all[slices.IndexFunc(all, func(c component.Component) bool { return c.Name == name })])
}

// namesInCertificate returns the DNS domain of the cluster and the extra names, read from the serving
// certificate. recorded are the configured extra names; if the certificate has other names, the
// certificate takes precedence.
func namesInCertificate(s component.Replica, certificate string, recorded []string) (domain string, extra []string) {
	info, err := pki.Inspect(certificate)
	if err != nil {
		return component.DefaultClusterDomain, recorded
	}
	const service = "kubernetes.default.svc."
	for _, name := range info.DNSNames {
		if rest, ok := strings.CutPrefix(name, service); ok && (domain == "" || len(rest) < len(domain)) {
			domain = rest
		}
	}
	s.ClusterDomain = domain
	standard := pki.APIServer(s.CertificateNames()).Hosts
	for _, name := range slices.Concat(info.DNSNames, info.IPAddresses) {
		if !slices.Contains(standard, name) {
			extra = append(extra, name)
		}
	}
	for _, name := range recorded {
		if !slices.Contains(standard, name) && !slices.Contains(extra, name) {
			return domain, extra
		}
	}
	s.ExtraSANs = recorded
	if all := pki.APIServer(s.CertificateNames()).Hosts; slices.ContainsFunc(extra, func(name string) bool { return !slices.Contains(all, name) }) {
		return domain, extra
	}
	return domain, recorded
}

// recordedIfSame returns the recorded list if it has the same elements as the observed one.
func recordedIfSame(recorded, observed []string) []string {
	if slices.Equal(slices.Sorted(slices.Values(recorded)), slices.Sorted(slices.Values(observed))) {
		return recorded
	}
	return observed
}

// splitList splits the value of a flag.
func splitList(value string) []string {
	if value == "" {
		return nil
	}
	return strings.Split(value, ",")
}

// notAReplica describes what is on a machine without a record.
func notAReplica(h *host.Host, facts host.Facts) error {
	for _, name := range release.Components() {
		if _, ok := facts.Files[unit.Path(name)]; ok {
			return notImported(h, unit.Path(name)+" is there, and no "+machine.RecordPath+" says of which cluster: it was not made by this provider",
				"make a replica from the configuration on a machine of its own, and take this one away")
		}
	}
	if slices.Contains(facts.Dirs[machine.ManifestDir], release.APIServer+".yaml") {
		return notImported(h, "the API server there is a static pod, which kubeadm runs", "make replicas from the configuration on machines of their own; the PKI can be imported (kube_pki_bundle)")
	}
	return notImported(h, "nothing of a replica is on the machine", "give the address of a machine with one")
}

func notImported(h *host.Host, cause, next string) error {
	return &problem.Problem{
		Summary: "Control-plane replica not imported", Host: h.Address(), Cause: cause, Unchanged: problem.Nothing, Next: next + ".",
		Err: errors.New(cause),
	}
}
