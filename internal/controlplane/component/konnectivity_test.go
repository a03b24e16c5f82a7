package component_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/componenttest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
)

func TestValidateKonnectivity(t *testing.T) {
	valid := component.Konnectivity{Program: "/usr/local/bin/proxy-server", AgentPort: 8132}
	for _, c := range []struct {
		name  string
		alter func(*component.Replica)
		want  string
	}{
		{"valid", func(*component.Replica) {}, ""},
		{"none", func(s *component.Replica) { s.Konnectivity = nil }, ""},
		{"relative", func(s *component.Replica) { s.Konnectivity.Program = "proxy-server" }, "not the absolute path"},
		{"shell", func(s *component.Replica) { s.Konnectivity.Program = "/bin/a;b" }, "not the absolute path"},
		{"port of the API", func(s *component.Replica) { s.Konnectivity.AgentPort = 6443 }, "used by another component"},
		{"health port", func(s *component.Replica) { s.Konnectivity.AgentPort = 8134 }, "used by another component"},
		{"privileged", func(s *component.Replica) { s.Konnectivity.AgentPort = 443 }, "not between"},
		{"API at its port", func(s *component.Replica) { s.Port = 8133 }, "used by kube-konnectivity-server"},
		{"flag", func(s *component.Replica) {
			s.ExtraArgs = map[string]map[string]string{release.APIServer: {"egress-selector-config-file": "/x"}}
		}, "says the same thing"},
		{"external CA", func(s *component.Replica) {
			b := *s.Bundle
			b.CA.PrivateKey = ""
			s.Bundle = &b
		}, "held elsewhere"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, k := componenttest.Stacked(t), valid
			s.Konnectivity = &k
			c.alter(&s)
			err := s.Validate()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestAgentManifest: each document is YAML of a known kind, and what agents use is what the proxy server
// expects. An acceptance test creates the objects in an API server.
func TestAgentManifest(t *testing.T) {
	text, err := component.AgentManifest("fd00::100", 8132, "example.com/proxy-agent:v0.36.0")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for document := range strings.SplitSeq(text, "\n---\n") {
		var object struct {
			Kind     string
			Metadata struct{ Name, Namespace string }
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil || object.Metadata.Name == "" {
			t.Errorf("%v: %s", err, document)
		}
		if ns := object.Metadata.Namespace; ns != "" && ns != component.AgentNamespace {
			t.Errorf("%s %s is in namespace %s", object.Kind, object.Metadata.Name, ns)
		}
		kinds[object.Kind]++
	}
	if kinds["DaemonSet"] != 1 || kinds["ServiceAccount"] != 1 || kinds["ClusterRoleBinding"] != 1 || kinds["Role"] != 2 {
		t.Errorf("kinds %v", kinds)
	}
	for _, part := range []string{
		`"--proxy-server-host=fd00::100"`, "--proxy-server-port=8132\n", `image: "example.com/proxy-agent:v0.36.0"`,
		"audience: " + component.KonnectivityUser, "serviceAccountName: " + component.AgentAccount,
		"--lease-namespace=" + component.AgentNamespace,
	} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in the manifest", part)
		}
	}
	if strings.Contains(text, "@IMAGE@") || strings.Contains(text, "@HOST@") || strings.Contains(text, "@PORT@") {
		t.Error("a placeholder is left")
	}
	for _, c := range []struct {
		host  string
		port  int
		image string
	}{
		{"", 8132, "a"},
		{"10.0.0.300", 8132, "a"},
		{"a b", 8132, "a"},
		{"fe80::1%eth0", 8132, "a"},
		{"10.0.0.1", 0, "a"},
		{"10.0.0.1", 65536, "a"},
		{"10.0.0.1", 8132, ""},
		{"10.0.0.1", 8132, "a\"\nb"},
	} {
		if _, err := component.AgentManifest(c.host, c.port, c.image); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}
