package component

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
)

// shutdownDelay is how long a stopping API server continues to serve while /readyz already
// fails. It exceeds the slowest detection by a load balancer that checks every second, requires
// two failures and waits up to a second for each answer. Afterwards, open connections receive a
// GOAWAY, and clients resend unprocessed requests elsewhere on their own.
// shutdown-send-retry-after stays off, because it would answer those requests with 429 instead.
const shutdownDelay = 5 * time.Second

// detectionMargin is the time that a balancer of somebody else gets, in addition to its detection
// time, for the answer to its check and for taking the server out.
const detectionMargin = 2 * time.Second

// requestsEnd is how long the requests in flight may take after the shutdown delay.
// --request-timeout limits them to 60 s.
const requestsEnd = 85 * time.Second

// ShutdownDelay is how long the stopping API server of a replica continues to serve.
func ShutdownDelay(s Replica) time.Duration {
	if s.DetectionTime == 0 {
		return shutdownDelay
	}
	return max(shutdownDelay, (s.DetectionTime + detectionMargin).Round(time.Second))
}

// watchGrace is the maximum time a stopping API server takes to end its watches. Without it,
// watches keep their connections, and therefore the server, for a minute (--request-timeout).
const watchGrace = "5s"

// goawayChance is the fraction of requests after which a client's connection is moved to
// another API server. It is the recommended value. Without it, connections stay on the first
// servers of a rolling restart.
const goawayChance = "0.001"

// AuditLogDir is where the provider has an API server write its audit log, and the only directory that the API server
// of a unit may write to. A static pod may have a volume elsewhere.
const AuditLogDir = "/var/log/" + release.APIServer

// APIServer follows kubeadm's getAPIServerCommand (v1.36,
// cmd/kubeadm/app/phases/controlplane/manifests.go). In addition, the server binds only its own
// address, unless AllAddresses is set, and shuts down gracefully.
func APIServer(s Replica) Component {
	extra := s.ExtraArgs[release.APIServer]
	flags := hardening()
	flags["advertise-address"] = s.Address
	flags["bind-address"] = s.bindAddress(s.AllAddresses || s.ListenAll)
	flags["secure-port"] = strconv.Itoa(s.APIPort())
	flags["allow-privileged"] = "true"
	flags["authorization-mode"] = "Node,RBAC"
	flags[AdmissionFlag] = admission(extra)
	flags["enable-bootstrap-token-auth"] = "true"
	flags["kubelet-preferred-address-types"] = "InternalIP,ExternalIP,Hostname"
	flags["service-account-issuer"] = "https://kubernetes.default.svc." + s.Domain()
	flags["service-cluster-ip-range"] = strings.Join(s.ServiceCIDRs, ",")
	flags["shutdown-delay-duration"] = ShutdownDelay(s).String()
	flags["shutdown-watch-termination-grace-period"] = watchGrace
	flags["goaway-chance"] = goawayChance
	// Sorted, so that the order of members is not a change.
	flags["etcd-servers"] = strings.Join(slices.Sorted(slices.Values(s.EtcdURLs)), ",")
	apiServerCertificates(flags)
	maps.Copy(flags, s.AuditFlags())
	if s.writesAuthentication() {
		flags["authentication-config"] = AuthenticationConfigPath
	}
	// These are read only at start. The server itself reloads its serving certificate, both
	// client CAs, and its client certificates for kubelets, for aggregated servers and (at each
	// handshake) for etcd.
	inputs := []string{SAKey, SAPub, EtcdClientCA}
	if s.encrypts() {
		// The server could reload this file, but then the time of the change would be unknown.
		flags[EncryptionFlag] = EncryptionConfigPath
		inputs = append(inputs, EncryptionConfigPath)
	}
	if s.VerifyKubelets {
		flags[KubeletCAFlag] = CACert
		inputs = append(inputs, CACert)
	}
	inputs = append(inputs, settingInputs(s)...)
	groups := slices.Clone(s.SupplementaryGroups)
	if s.hasKonnectivity() {
		flags[EgressSelectorFlag] = EgressSelectorPath
		groups = append(groups, KonnectivityServer) // which may open the socket
	}
	if _, ok := extra["authorization-config"]; ok {
		delete(flags, "authorization-mode") // the two flags exclude each other
	}
	extra = maps.Clone(extra)
	delete(extra, AdmissionFlag) // already part of the default
	return Component{
		Name:         release.APIServer,
		Program:      Artifact(s.Version, release.APIServer).Path(),
		Flags:        withExtra(flags, extra),
		Inputs:       inputs,
		Limits:       s.Limits[release.APIServer],
		Groups:       slices.Compact(slices.Sorted(slices.Values(groups))),
		Certificates: []string{APIServerCert, KubeletClientCert, FrontProxyClientCert, EtcdClientCert},
		Probe: probe{
			Address: s.Address, Port: s.APIPort(), Path: "/readyz", Verified: true,
			AllAddresses: s.AllAddresses || s.ListenAll,
		},
		StopTimeout: ShutdownDelay(s) + requestsEnd,
		Sockets:     s.Sockets(),
	}
}

// bindAddress returns the address that a server listens on: the machine's own, or the one that stands for all.
func (s Replica) bindAddress(all bool) string {
	switch {
	case !all:
		return s.Address
	case strings.Contains(s.Address, ":"):
		return "::"
	}
	return "0.0.0.0"
}

// EncryptionFlag names the configuration of encryption at rest.
const EncryptionFlag = "encryption-provider-config"

// EndpointReconcilerFlag says how API servers maintain the endpoints of the Service kubernetes. With the default,
// EndpointReconcilerLease, each registers in etcd.
const (
	EndpointReconcilerFlag  = "endpoint-reconciler-type"
	EndpointReconcilerLease = "lease"
)

// KubeletCAFlag names the CAs of kubelets' serving certificates (the benchmark's 1.2.5).
const KubeletCAFlag = "kubelet-certificate-authority"

// AdmissionFlag lists plugins in addition to those of the release.
const AdmissionFlag = "enable-admission-plugins"

// admission returns the plugins that are enabled in addition to the release's defaults, which
// include PodSecurity and ResourceQuota: those of the provider and those of the user. Adding a
// plugin does not remove NodeRestriction. Only "disable-admission-plugins" does; a plugin
// listed there must not be listed here.
//
// DenyServiceExternalIPs is the benchmark's 1.2.3 and upstream's advice: anyone who may create
// a Service could otherwise take over the traffic to any address (CVE-2020-8554). External IPs
// of existing Services stay.
func admission(extra map[string]string) string {
	plugins, disabled := pluginsIn(extra[AdmissionFlag]), pluginsIn(extra["disable-admission-plugins"])
	for _, own := range ownPlugins {
		if !slices.Contains(plugins, own) && !slices.Contains(disabled, own) {
			plugins = slices.Insert(plugins, 0, own)
		}
	}
	return strings.Join(plugins, ",")
}

var ownPlugins = []string{"DenyServiceExternalIPs", "NodeRestriction"}

func pluginsIn(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// Admits reports whether a list of plugins is another list with plugins that the provider enables by itself.
func Admits(list, others string) bool {
	have := pluginsIn(others)
	added := slices.DeleteFunc(pluginsIn(list), func(plugin string) bool {
		i := slices.Index(have, plugin)
		if i >= 0 {
			have = slices.Delete(have, i, i+1)
		}
		return i >= 0
	})
	return len(have) == 0 && !slices.ContainsFunc(added, func(plugin string) bool {
		return !slices.Contains(ownPlugins, plugin)
	})
}

func apiServerCertificates(flags map[string]string) {
	flags["client-ca-file"] = ClientCA
	flags["tls-cert-file"] = APIServerCert
	flags["tls-private-key-file"] = KeyPath(APIServerCert)
	flags["kubelet-client-certificate"] = KubeletClientCert
	flags["kubelet-client-key"] = KeyPath(KubeletClientCert)
	flags["proxy-client-cert-file"] = FrontProxyClientCert
	flags["proxy-client-key-file"] = KeyPath(FrontProxyClientCert)
	flags["requestheader-allowed-names"] = "front-proxy-client"
	flags["requestheader-client-ca-file"] = FrontProxyCA
	flags["requestheader-extra-headers-prefix"] = "X-Remote-Extra-"
	flags["requestheader-group-headers"] = "X-Remote-Group"
	flags["requestheader-username-headers"] = "X-Remote-User"
	flags["service-account-key-file"] = SAPub
	flags["service-account-signing-key-file"] = SAKey
	flags["etcd-cafile"] = EtcdClientCA
	flags["etcd-certfile"] = EtcdClientCert
	flags["etcd-keyfile"] = KeyPath(EtcdClientCert)
}
