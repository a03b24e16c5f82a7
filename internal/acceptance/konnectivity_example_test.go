package acceptance

import (
	"context"
	"encoding/base64"
	"net/http"
	"testing"
	"time"
)

// exampleOutputs has what a kubelet would give the agent.
const exampleOutputs = `
output "ca" {
  value = module.control_plane.ca_certificate
}
`

// TestKonnectivityExample applies examples/konnectivity: API servers call a webhook and an aggregated API that only an
// agent reaches.
func TestKonnectivityExample(t *testing.T) {
	programs := konnectivityPrograms(t)
	s := &konnectivityStory{names: []string{"cp1", "cp2", "cp3"}}
	s.w = storyIn(t, append(s.names, "cp4"), checkout(t), "examples/konnectivity")
	t.Cleanup(func() {
		if err := shared.lab.Machine("cp4").Rebuild(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	bare := fingerprints(t, s.names...)
	const program = "/usr/local/bin/proxy-server" // the default of the example
	uploadProxyServer(t, programs, s.names, program)
	extend(t, s.w, exampleOutputs)
	if err := s.w.WriteJSON("z.auto.tfvars.json", map[string]any{
		"machines": addresses(s.names), "agent_image": "example.com/proxy-agent:v0.36.0",
	}); err != nil {
		t.Fatal(err)
	}
	apply(t, s.w)
	s.startAgents(t)
	s.answers(t)
	s.aggregated(t)
	apply(t, s.w, "-destroy")
	for _, name := range s.names {
		onMachine(t, shared.lab.Machine(name), "rm "+program)
	}
	expectBare(t, bare, s.names...)
}

const (
	apiServicePath = "/apis/apiregistration.k8s.io/v1/apiservices"
	aggregatedName = "v1.tunnel.example.com"
)

// aggregated: each API server passes requests on to an aggregated API behind the tunnel, and says who asks. The
// webhook's Service leads to it, whose program serves both. An API server asks only a Service with endpoints.
func (s *konnectivityStory) aggregated(t *testing.T) {
	s.admin.must(t, endpointURL, http.MethodPost, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
		map[string]any{
			"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
			"metadata": map[string]any{
				"name": "webhook-1", "labels": map[string]any{"kubernetes.io/service-name": "webhook"},
			},
			"endpoints": []any{map[string]any{
				"addresses": []any{s.worker.Address.String()}, "conditions": map[string]any{"ready": true},
			}},
			"ports": []any{map[string]any{"name": "", "port": 443, "protocol": "TCP"}},
		}, nil)
	s.admin.must(t, endpointURL, http.MethodPost, apiServicePath, map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": aggregatedName},
		"spec": map[string]any{
			"group": "tunnel.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
			"service":  map[string]any{"namespace": "default", "name": "webhook", "port": 443},
			"caBundle": base64.StdEncoding.EncodeToString([]byte(s.worker.ca)),
		},
	}, nil)
	for _, server := range servers(s.names...) {
		var echo struct {
			Metadata struct{ Name string }
			User     string
		}
		answer := ""
		awaitFor(t, time.Minute, server+" does not pass requests on", func() bool {
			code, text, err := s.admin.call(t.Context(), server, http.MethodGet, "/apis/tunnel.example.com/v1/echoes/hello",
				nil, &echo)
			answer = text
			return err == nil && code == http.StatusOK
		})
		if echo.Metadata.Name != "hello" || echo.User == "" {
			t.Errorf("%s: the aggregated API answers %+v: %s", server, echo, answer)
		}
	}
	s.admin.must(t, endpointURL, http.MethodDelete, apiServicePath+"/"+aggregatedName, nil, nil)
}
