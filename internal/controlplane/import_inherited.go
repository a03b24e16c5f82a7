package controlplane

import (
	"cmp"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/kubelet"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/pod"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/runtime"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
)

// importInherited derives a replica from the manifests and files of kubeadm.
func importInherited(h *host.Host, facts host.Facts, endpoints EndpointReader) (Imported, error) {
	manifests, err := inheritedManifests(h, facts)
	if err != nil {
		return Imported{}, err
	}
	flags := manifests[release.APIServer].Flags
	version := pod.VersionOf(manifests[release.APIServer])
	ca := pki.CertificatesIn(facts.Files[component.CACert].Content)
	name := nodeName(facts)
	port, portErr := strconv.Atoi(cmp.Or(flags["secure-port"], strconv.Itoa(component.DefaultPort)))
	at, reached := serverIn(machine.Interpret(facts).Kubeconfigs[component.AdminConf])
	switch {
	case len(ca) == 0:
		return Imported{}, notImported(h, component.CACert+" is not on the machine", "restore it from another machine")
	case flags["advertise-address"] != h.Address():
		return Imported{}, notImported(h, "its API server is reached at "+strconv.Quote(flags["advertise-address"]),
			"import it by that address, which is the machine's in the cluster")
	case name == "" || component.ValidateName(name) != nil:
		return Imported{}, notImported(h, "the certificate "+component.APIServerCert+" does not have the node's name",
			"renew it with kubeadm (kubeadm init phase certs apiserver, with the node's name in "+
				"nodeRegistration.name of its configuration)")
	case portErr != nil:
		return Imported{}, notImported(h, "--secure-port is "+strconv.Quote(flags["secure-port"]), "set a port")
	case !reached:
		return Imported{}, notImported(h, component.AdminConf+", which names the endpoint, cannot be read",
			"create it with kubeadm (kubeadm init phase kubeconfig admin)")
	}
	id := pki.ClusterIDOf([]byte(ca[0]))
	record := machine.Record{
		ClusterID: id, Name: name, Port: port, Runtime: component.StaticPod,
		ClusterName: cmp.Or(manifests[release.ControllerManager].Flags["cluster-name"], "kubernetes"),
		Endpoint:    endpoints.Foreign(at, id, name, h.Address(), port),
		Issued:      map[string]string{component.AdminConf: ""},
	}
	if args := component.IncompleteAudit(flags); args != nil {
		record.Configured = &machine.Configured{ExtraArgs: map[string]map[string]string{release.APIServer: args}}
	}
	registered, err := endpoints.At(record.Endpoint)
	if err != nil {
		return Imported{}, notImported(h, "the endpoint in "+component.AdminConf+" is not usable: "+err.Error(),
			"use an address as controlPlaneEndpoint")
	}
	out := deriveImport(h, record, version, registered, inheritedDefinitions(h, manifests), facts.Files)
	return out, out.completeInherited(h, registered, manifests)
}

// inheritedManifests returns the manifests of the three components. What a definition of the provider cannot have is an
// error that names it.
func inheritedManifests(h *host.Host, facts host.Facts) (map[string]staticpod.Inherited, error) {
	manifests := map[string]staticpod.Inherited{}
	for _, name := range release.Components() {
		at := staticpod.Path(name)
		have := pod.Read(facts.Output, name).Inherited
		if have == nil {
			return nil, notImported(h, at+" is missing, or is not a manifest of kubeadm", "restore it (kubeadm init phase "+
				"control-plane), and import then")
		}
		if lost := pod.Lost(*have); len(lost) > 0 {
			return nil, notImported(h, at+" has what a definition of the provider cannot have: "+strings.Join(lost, ", "),
				"remove it from the manifest, one machine at a time, if it is not needed")
		}
		version := pod.VersionOf(*have)
		if release.ValidateVersion(version) != nil || pod.RepositoryOf(*have) == "" {
			return nil, notImported(h, at+" has the image "+strconv.Quote(have.Image)+", which does not name a version of "+
				"Kubernetes that the provider knows", "use an image that is named REPOSITORY/"+name+":vVERSION")
		}
		manifests[name] = *have
		if first := manifests[release.APIServer]; pod.VersionOf(first) != version ||
			pod.RepositoryOf(first) != pod.RepositoryOf(*have) {
			return nil, notImported(h, at+" has another version or image repository than the API server",
				"complete the upgrade with kubeadm, and import then")
		}
	}
	return manifests, nil
}

// inheritedDefinitions returns the manifests as definitions. The member on the same machine is named by its address,
// and plugins that are enabled anyway are no setting.
func inheritedDefinitions(h *host.Host, manifests map[string]staticpod.Inherited) map[string]runtime.Definition {
	definitions := map[string]runtime.Definition{}
	for name, m := range manifests {
		d := runtime.Definition{
			Program: component.Artifact(pod.VersionOf(m), name).Path(), Flags: map[string]string{},
			Environment: m.Environment, ImageRepository: pod.RepositoryOf(m), Volumes: pod.VolumesOf(m), Patch: m.Patch.YAML(),
		}
		for flag, value := range m.Flags {
			if flag == "etcd-servers" && component.IsLoopbackURL(value) {
				value = component.MemberURL(h.Address())
			}
			if flag == component.AdmissionFlag && value == "NodeRestriction" {
				continue
			}
			d.Flags[flag] = value
		}
		definitions[name] = d
	}
	return definitions
}

// completeInherited compares the derived replica with the manifests it comes from: what it cannot express is an error.
func (i *Imported) completeInherited(
	h *host.Host, at RegisteredAt, manifests map[string]staticpod.Inherited,
) error {
	s := component.Replica{
		Name: i.Name, Address: h.Address(), Version: i.Version, Port: i.Port, EndpointHost: at.Address,
		EndpointHost6: at.Address6, DetectionTime: at.DetectionTime, AllAddresses: at.AllAddresses,
		ListenAll: i.ListenAll,
		EtcdURLs:  i.EtcdURLs, MetricsAddress: i.MetricsAddress, VerifyKubelets: i.VerifyKubelets,
		ServiceCIDRs: i.ServiceCIDRs, PodCIDRs: i.PodCIDRs, ClusterDomain: i.ClusterDomain, Audit: i.Audit,
		Authentication: i.Authentication, Limits: i.Limits, Environment: i.Environment, ExtraArgs: i.ExtraArgs,
		Bundle:  &pki.Bundle{ClusterID: i.ClusterID, ClusterName: i.ClusterName},
		Runtime: component.StaticPod, ImageRepository: i.ImageRepository, ExtraVolumes: i.ExtraVolumes,
		Patches: i.Patches,
	}
	if _, signs := manifests[release.ControllerManager].Flags["cluster-signing-key-file"]; signs {
		s.Bundle.CA.PrivateKey = "on the machine" // the bundle, which is imported by itself, has it too
	}
	if _, encrypts := manifests[release.APIServer].Flags[component.EncryptionFlag]; encrypts { // the same
		s.Bundle.Encryption = pki.Encryption{Kind: pki.Secretbox, Resources: []string{"secrets"}}
	}
	var differences []string
	for _, name := range release.Components() {
		if err := component.ValidateExtraArgs(name, i.Version, i.ExtraArgs[name]); err != nil {
			differences = append(differences, err.Error())
		}
	}
	if err := pod.Validate(s); err != nil {
		differences = append(differences, errors.Unwrap(err).Error())
	}
	for _, c := range component.Of(s) {
		for _, text := range pod.InheritedDifferences(manifests[c.Name], c) {
			differences = append(differences, c.Name+": "+text)
		}
		i.Added = append(i.Added, pod.Added(manifests[c.Name], c)...)
	}
	if len(differences) > 0 {
		return notImported(h, "it runs with what the provider sets otherwise: "+strings.Join(differences, "; "),
			"change that in the manifests, one machine at a time, and import then")
	}
	return nil
}

// nodeName returns the name of the node, if the API server's certificate has it: that in the certificate of the
// kubelet. If the kubelet has none that is understood, it is that of kubeadm's etcd member on the machine, which
// kubeadm names after the node, or the machine's own in lower case, as the kubelet and kubeadm have it.
func nodeName(facts host.Facts) string {
	info, err := pki.Inspect(facts.Files[component.APIServerCert].Content)
	if err != nil {
		return ""
	}
	member, _ := staticpod.ParseInherited(facts.Files[machine.EtcdManifest].Content)
	names := []string{member.Flags["name"], strings.ToLower(facts.Hostname)}
	if c := kubelet.ReadCredentials(facts.Output); c != nil {
		names = []string{c.Node}
	}
	for _, name := range names {
		if name != "" && slices.Contains(info.DNSNames, name) {
			return name
		}
	}
	return ""
}

// serverIn returns the server of a kubeconfig.
func serverIn(kubeconfig string) (HostPort, bool) {
	info, err := pki.ParseKubeconfig(kubeconfig)
	if err != nil {
		return HostPort{}, false
	}
	u, err := url.Parse(info.Server)
	if err != nil || u.Hostname() == "" {
		return HostPort{}, false
	}
	port, err := strconv.Atoi(cmp.Or(u.Port(), "443"))
	return HostPort{u.Hostname(), port}, err == nil
}
