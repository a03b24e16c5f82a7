package acceptance

import (
	"path/filepath"
	"strings"
	"testing"
)

const proxyServer = "/usr/local/bin/proxy-server"

// tunnelOutputs has the manifest of the agents, and what a kubelet would give them.
const tunnelOutputs = `
output "agents" {
  value = provider::kube::konnectivity_agent_manifest(var.endpoint_address, 8132, "example.com/proxy-agent:v0.36.0")
}

output "ca" {
  value = kube_pki_bundle.this.ca_certificate
}
`

// throughTunnel: where a firewall keeps API servers from kubelets, kubectl logs and kubectl exec work through an agent
// on the worker, and not without it. Without the setting and the firewall, they work as before.
func (s *joinStory) throughTunnel(t *testing.T) {
	programs := konnectivityPrograms(t)
	file := filepath.Join(s.w.Dir, "tunnel.tf")
	write(t, file, tunnelOutputs)
	uploadProxyServer(t, programs, s.names, proxyServer)
	s.tunnel = true
	s.configure(t)
	apply(t, s.w)

	firewall := "OUTPUT -p tcp -d " + s.node.Address.String() + " --dport 10250 -j REJECT"
	s.onControlPlane(t, "iptables -I "+firewall)
	for _, m := range labMachines(s.names) {
		if out, err := m.Run(t.Context(), "curl -s -k --max-time 3 https://"+s.node.Address.String()+":10250"); err == nil {
			t.Fatalf("%s reaches the kubelet: %s", m.Name, out)
		}
	}
	if text, err := s.kubectl(t, "logs", "first"); err == nil {
		t.Errorf("kubectl logs, without an agent: %s", text)
	} else {
		t.Logf("kubectl logs, without an agent: %s", strings.TrimSpace(text))
	}
	s.admin = credentialsOf(t, outputOf(t, s.w, "kubeconfig"))
	agents := applyManifest(t, s.admin, outputOf(t, s.w, "agents"))
	worker{Machine: s.node}.startAgent(t, s.admin, agents, outputOf(t, s.w, "ca"))
	awaitAgents(t, s.names)
	s.expectStreams(t, "first")

	s.onControlPlane(t, "iptables -D "+firewall)
	onMachine(t, s.node, "systemctl stop agent")
	s.admin.must(t, endpointURL, "DELETE", "/api/v1/namespaces/konnectivity", nil, nil)
	s.tunnel = false
	s.configure(t)
	write(t, file, "")
	apply(t, s.w)
	s.onControlPlane(t, "rm "+proxyServer)
	s.expectStreams(t, "first")
}

func (s *joinStory) onControlPlane(t *testing.T, script string) {
	t.Helper()
	for _, m := range labMachines(s.names) {
		onMachine(t, m, script)
	}
}
