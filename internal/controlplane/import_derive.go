package controlplane

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/kubelet"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/runtime"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/node"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/timer"
)

// deriveImport combines the record, the flags and the files.
func deriveImport(
	h *host.Host, r machine.Record, version string, endpoint RegisteredAt,
	definitions map[string]runtime.Definition, files map[string]host.FileState,
) Imported {
	configured := cmp.Or(r.Configured, &machine.Configured{})
	flags := map[string]map[string]string{}
	for name, definition := range definitions {
		flags[name] = definition.Flags
	}
	out := Imported{
		ClusterID: r.ClusterID, ClusterName: r.ClusterName, Name: r.Name, Version: version,
		Registration: r.Endpoint, Port: r.Port, EarlyRenewal: configured.EarlyRenewal, Settings: configured.Settings,
		EtcdURLs:     splitList(flags[release.APIServer]["etcd-servers"]),
		ServiceCIDRs: splitList(flags[release.APIServer]["service-cluster-ip-range"]),
		NoAdminConf:  !issued(r, component.AdminConf), LivenessProbe: timer.Managed(files[machine.LivenessTimerPath]),
		PodCIDRs: recordedIfSame(configured.PodCIDRs, splitList(flags[release.ControllerManager]["cluster-cidr"])),
		VerifyKubelets: flags[release.APIServer][component.KubeletCAFlag] == component.CACert &&
			configured.ExtraArgs[release.APIServer][component.KubeletCAFlag] == "",
	}
	out.Runtime = r.Runtime
	switch {
	case configured.ManageKubelet != nil:
		out.ManageKubelet = *configured.ManageKubelet
	case r.Runtime == component.StaticPod:
		out.ManageKubelet = files[kubelet.DropIn].Content != "" && !node.Recorded(files)
	}
	if at := definitions[release.APIServer].ImageRepository; at != component.DefaultImageRepository {
		out.ImageRepository = at
	}
	out.TextfileDirectory = machine.TextfileDirectoryIn(files)
	if at := flags[release.ControllerManager]["bind-address"]; component.ValidateMetricsAddress(at) == nil {
		out.MetricsAddress = at
	}
	if at, err := netip.ParseAddr(flags[release.APIServer]["bind-address"]); err == nil {
		out.ListenAll = at.IsUnspecified() && !endpoint.AllAddresses
	}
	if port, err := strconv.Atoi(flags[release.APIServer]["secure-port"]); err == nil {
		out.Port = port
	}
	s := component.Replica{
		Name: out.Name, Address: h.Address(), Version: version, Port: out.Port, EndpointHost: endpoint.Address,
		EndpointHost6: endpoint.Address6, AdditionalHosts: endpoint.Additional,
		DetectionTime: endpoint.DetectionTime, AllAddresses: endpoint.AllAddresses, ListenAll: out.ListenAll,
		EtcdURLs: out.EtcdURLs, MetricsAddress: out.MetricsAddress, VerifyKubelets: out.VerifyKubelets,
		ServiceCIDRs: out.ServiceCIDRs, PodCIDRs: out.PodCIDRs,
		Bundle: &pki.Bundle{ClusterID: r.ClusterID, ClusterName: r.ClusterName}, Runtime: r.Runtime,
	}
	out.ClusterDomain, out.ExtraSANs = namesInCertificate(s, files[component.APIServerCert].Content, configured.ExtraSANs)
	s.ClusterDomain = out.ClusterDomain
	out.deriveSettings(runtime.Of(s), definitions, configured.ExtraArgs[release.APIServer], files)
	s.Audit, s.Konnectivity = out.Audit, out.Konnectivity
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
	return runtime.Of(s).Flags(all[slices.IndexFunc(all, func(c component.Component) bool { return c.Name == name })])
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
	if all := pki.APIServer(s.CertificateNames()).Hosts; slices.ContainsFunc(extra,
		func(name string) bool { return !slices.Contains(all, name) }) {
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

// deriveSettings derives the settings of the replica from its files and definitions.
// extra are its recorded extra arguments.
func (i *Imported) deriveSettings(
	by runtime.Runtime, definitions map[string]runtime.Definition, extra map[string]string,
	files map[string]host.FileState,
) {
	flags := definitions[release.APIServer].Flags
	i.Audit = component.AuditFrom(flags, extra, files[component.AuditPolicyPath].Content)
	if flags["authentication-config"] == component.AuthenticationConfigPath {
		i.Authentication = component.AuthenticationFrom(files[component.AuthenticationConfigPath].Content)
	}
	i.SupplementaryGroups = definitions[release.APIServer].Groups
	if flags[component.EgressSelectorFlag] == component.EgressSelectorPath {
		i.Konnectivity = konnectivityIn(by, files[by.Path(component.KonnectivityServer)].Content)
		i.SupplementaryGroups = slices.DeleteFunc(i.SupplementaryGroups, func(group string) bool {
			return group == component.KonnectivityServer
		})
	}
	i.Limits = map[string]component.Limits{}
	for _, name := range release.Components() {
		i.Limits[name] = definitions[name].Limits
		if volumes := definitions[name].Volumes; volumes != nil {
			if i.ExtraVolumes == nil {
				i.ExtraVolumes = map[string]map[string]component.Volume{}
			}
			i.ExtraVolumes[name] = volumes
		}
		if patch := definitions[name].Patch; patch != "" {
			if i.Patches == nil {
				i.Patches = map[string]string{}
			}
			i.Patches[name] = patch
		}
		variables := definitions[name].Environment
		if variables != nil && i.Environment == nil {
			i.Environment = map[string]map[string]string{}
		}
		if variables != nil {
			i.Environment[name] = variables
		}
	}
}

// SameAudit reports whether a, together with the extra arguments, results in the API server's
// current audit configuration.
func (i Imported) SameAudit(a component.Audit) bool {
	with := func(a component.Audit) component.Replica { return component.Replica{Audit: a, ExtraArgs: i.ExtraArgs} }
	have, want := with(i.Audit), with(a)
	if have.WritesPolicy() && want.WritesPolicy() && have.PolicyText() != want.PolicyText() {
		return false
	}
	flags := func(s component.Replica) map[string]string {
		all := map[string]string{}
		maps.Copy(all, s.AuditFlags())
		maps.Copy(all, s.ExtraArgs[release.APIServer])
		return all
	}
	return maps.Equal(flags(have), flags(want))
}

// SameAuthentication reports whether a is equivalent to the API server's current authentication
// configuration.
func (i Imported) SameAuthentication(a component.Authentication) bool {
	have, want := component.Replica{Authentication: i.Authentication}, component.Replica{Authentication: a}
	return have.AuthenticationText() == want.AuthenticationText()
}
