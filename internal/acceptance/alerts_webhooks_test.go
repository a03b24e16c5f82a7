package acceptance

import (
	"net"
	"net/http"
	"testing"
	"time"
)

const webhookConfigs = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"

// silentWebhooks are two webhooks for ConfigMaps whose server never answers. Each request waits for a second. Then the
// failure of one is ignored, and that of the other, for ConfigMaps with the label webhook=fail, refuses the request.
func silentWebhooks(t *testing.T, admin credentials) (remove func()) {
	t.Helper()
	server, err := net.Listen("tcp", net.JoinHostPort(operatorAddress(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	webhook := func(name, policy string, labels map[string]any) map[string]any {
		return map[string]any{
			"name": name + ".example.com", "failurePolicy": policy, "timeoutSeconds": 1, "sideEffects": "None",
			"admissionReviewVersions": []any{"v1"}, "objectSelector": map[string]any{"matchLabels": labels},
			"clientConfig": map[string]any{"url": "https://" + server.Addr().String() + "/"},
			"rules": []any{map[string]any{
				"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE"},
				"resources": []any{"configmaps"},
			}},
		}
	}
	admin.must(t, endpointURL, http.MethodPost, webhookConfigs, map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
		"metadata": map[string]any{"name": "silent"},
		"webhooks": []any{
			webhook("ignored", "Ignore", map[string]any{}), webhook("failing", "Fail", map[string]any{"webhook": "fail"}),
		},
	}, nil)
	return func() {
		admin.must(t, endpointURL, http.MethodDelete, webhookConfigs+"/silent", nil, nil)
		_ = server.Close() // nobody is connected any more, or gives up
	}
}

// provokeWebhooks lets both webhooks be called by the API servers of the named machines.
func provokeWebhooks(t *testing.T, admin credentials, names ...string) {
	t.Helper()
	defer silentWebhooks(t, admin)()
	for _, server := range servers(names...) {
		// An API server learns of webhooks a moment later.
		for end := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
			code, text, err := admin.call(t.Context(), server, http.MethodPost, configMaps, labelledConfigMap(), nil)
			if err == nil && code == http.StatusInternalServerError {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s calls no webhook: HTTP %d, %v: %s", server, code, err, text)
			}
		}
	}
}

func labelledConfigMap() map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"generateName": "refused-", "labels": map[string]any{"webhook": "fail"}},
	}
}

// webhooks lets ConfigMaps be created with webhooks that do not answer.
func (a alarms) webhooks(t *testing.T) {
	t.Helper()
	cause := time.Now()
	remove := silentWebhooks(t, a.admin)
	stop := a.requests(t, a.admin, 6, http.MethodPost, configMaps)
	a.p.expectAlerts(t, cause, 5*time.Minute, "KubeAPIWebhookSlow", "KubeAPIWebhookFails")
	stop()
	remove()
}
