package component

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// KonnectivityServer is the name of the component through which the API server of a replica
// reaches Services, Pods and nodes: the proxy server of kubernetes-sigs/apiserver-network-proxy.
// Agents in the cluster connect to it. It is not konnectivity-server, which is the name of a unit that
// users may have written themselves.
const KonnectivityServer = "kube-konnectivity-server"

// Konnectivity configures the proxy server of a replica.
type Konnectivity struct {
	Program   string // path of proxy-server on the machine; the provider does not install it
	AgentPort int    // on which agents connect
}

// Defaults of Konnectivity. The ports are those of upstream's manifests.
const (
	DefaultKonnectivityProgram = "/usr/local/bin/proxy-server"
	DefaultAgentPort           = 8132

	konnectivityAdminPort  = 8133
	konnectivityHealthPort = 8134
)

// Files and names of the proxy server. KonnectivitySocket is in the unit's runtime directory. The
// program creates it with mode 0770 (getUDSListener in cmd/server/app/server.go), so its group,
// which the API server has too, decides who can connect.
const (
	KonnectivityCert   = PKIDir + "/kube-konnectivity-server.crt"
	KonnectivityConf   = KubernetesDir + "/kube-konnectivity-server.conf"
	EgressSelectorPath = KubernetesDir + "/kube-egress-selector.yaml"
	KonnectivitySocket = "/run/" + KonnectivityServer + "/proxy.socket"

	// KonnectivityUser is the user of the proxy server, and the audience of agents' tokens.
	KonnectivityUser = "system:konnectivity-server"
	// AgentNamespace has the agents, their ServiceAccount AgentAccount, and the leases of the proxy
	// servers. It is not kube-system: the right to delete leases there would be one to take the
	// leadership of kube-controller-manager and kube-scheduler.
	AgentNamespace = "konnectivity"
	AgentAccount   = "konnectivity-agent"
)

// EgressSelectorFlag is the flag of the API server that names EgressSelectorPath.
const EgressSelectorFlag = "egress-selector-config-file"

// Names returns the names of all components that a replica may have.
func Names() []string { return append(release.Components(), KonnectivityServer) }

// NamesOf returns the names of the components of s.
func NamesOf(s Replica) []string {
	var names []string
	for _, c := range Of(s) {
		names = append(names, c.Name)
	}
	return names
}

// hasKonnectivity reports whether s has a proxy server. While a change is rolled back, it has one
// if it had one before the change.
func (s Replica) hasKonnectivity() bool {
	if s.Previous != nil {
		return s.Previous.Definitions[KonnectivityServer] != ""
	}
	return s.Konnectivity != nil
}

// konnectivity describes the proxy server. It needs no API server to start: the one of its own
// machine, which verifies the tokens of agents, starts after it.
//
// Agents count the servers by their leases, so a replica that is added or removed needs no change of
// the others. Each start has another ID (the program's default): an agent connects to the new
// process even if it has not noticed yet that the old one is gone.
func konnectivity(s Replica) Component {
	var settings Konnectivity
	if s.Konnectivity != nil {
		settings = *s.Konnectivity
	}
	port := settings.AgentPort
	return Component{
		Name:    KonnectivityServer,
		Program: settings.Program,
		Flags: map[string]string{
			"mode": "grpc", "uds-name": KonnectivitySocket, "server-port": "0",
			"agent-bind-address": s.bindAddress(s.AllAddresses), "agent-port": fmt.Sprint(port),
			"cluster-cert": KonnectivityCert, "cluster-key": KeyPath(KonnectivityCert),
			"tls-min-version": "VersionTLS12", "cipher-suites": cipherSuites,
			"kubeconfig":              KonnectivityConf,
			"authentication-audience": KonnectivityUser, "agent-namespace": AgentNamespace,
			"agent-service-account":   AgentAccount,
			"enable-lease-controller": "true", "lease-namespace": AgentNamespace,
			// An agent whose node has died is noticed within a minute, not within an hour.
			"keepalive-time":     "30s",
			"admin-bind-address": "127.0.0.1", "admin-port": fmt.Sprint(konnectivityAdminPort),
			"health-bind-address": "127.0.0.1", "health-port": fmt.Sprint(konnectivityHealthPort),
			"v": "2",
		},
		Inputs:       []string{KonnectivityCert, KeyPath(KonnectivityCert), KonnectivityConf},
		Certificates: []string{KonnectivityCert, KonnectivityConf},
		Probe:        probe{Address: "127.0.0.1", Port: konnectivityHealthPort, Path: "/healthz", Plain: true},
		Listens: []Listener{
			{Address: s.Address, Port: port, AllAddresses: s.AllAddresses},
			{Address: "127.0.0.1", Port: konnectivityAdminPort},
		},
		StartsFirst: true,
	}
}

// AgentsProbe returns the component's probe that succeeds while an agent is connected.
func AgentsProbe(s Replica) Component {
	c := konnectivity(s)
	c.Probe.Path = "/readyz"
	return c
}

// egressSelectorText sends requests to Services, Pods and nodes through the proxy server, and
// nothing else: etcd and webhooks with a URL are reached directly (k8s.io/apiserver,
// pkg/util/webhook/authentication.go: a URL belongs to "controlplane").
const egressSelectorText = `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: GRPC
    transport:
      uds:
        udsName: ` + KonnectivitySocket + `
`

// konnectivityCertificate is what agents verify with the cluster's CA, which every Pod has. It has no
// extra names, because a change of those restarts nothing.
func konnectivityCertificate(s Replica) Certificate {
	hosts := []string{s.Name, s.Address, s.EndpointHost}
	if s.EndpointHost6 != "" {
		hosts = append(hosts, s.EndpointHost6)
	}
	return Certificate{
		Leaf: pki.Leaf{
			Name: KonnectivityServer, Authority: pki.Kubernetes, CommonName: KonnectivityServer, Usage: pki.Server,
			Hosts: append(hosts, s.AdditionalHosts...),
		},
		Path: KonnectivityCert, Owner: KonnectivityServer,
	}
}

// KonnectivityFiles returns the files that only a replica with a proxy server has, and that its
// process uses as long as it runs.
func KonnectivityFiles() []string {
	return []string{KonnectivityConf, KonnectivityCert, KeyPath(KonnectivityCert)}
}

var programPath = regexp.MustCompile(`^(/[A-Za-z0-9][A-Za-z0-9._+-]*)+$`)

// ValidateKonnectivity returns why k cannot be combined with the API server's port and its extra
// arguments.
func ValidateKonnectivity(k *Konnectivity, port int, extra map[string]string) error {
	if k == nil {
		return nil
	}
	if _, ok := extra[EgressSelectorFlag]; ok {
		return fmt.Errorf("the flag %q in extra_args says the same thing: remove one of the two", EgressSelectorFlag)
	}
	if err := ValidateKonnectivityProgram(k.Program); err != nil {
		return err
	}
	used := []int{port, controllerManagerPort, schedulerPort, konnectivityAdminPort, konnectivityHealthPort}
	switch {
	case k.AgentPort < 1024 || k.AgentPort > 65535:
		return fmt.Errorf("agent_port %d is not between 1024 and 65535", k.AgentPort)
	case slices.Contains(used, k.AgentPort):
		return fmt.Errorf("agent_port %d is used by another component", k.AgentPort)
	case port == konnectivityAdminPort || port == konnectivityHealthPort:
		return fmt.Errorf("the API server's port %d is used by %s", port, KonnectivityServer)
	}
	return nil
}

// ValidateKonnectivityProgram returns why at cannot be the path of the proxy server.
func ValidateKonnectivityProgram(at string) error {
	if !programPath.MatchString(at) || path.Clean(at) != at {
		return fmt.Errorf("%q is not the absolute path of a program, such as %s", at, DefaultKonnectivityProgram)
	}
	return nil
}

// validateKonnectivity also checks the bundle.
func (s Replica) validateKonnectivity() error {
	if s.Konnectivity != nil && s.Bundle != nil && s.Bundle.External(pki.Kubernetes) {
		return errors.New("the key of the Kubernetes CA is held elsewhere: its certificates cannot be issued")
	}
	return ValidateKonnectivity(s.Konnectivity, s.APIPort(), s.ExtraArgs[release.APIServer])
}
