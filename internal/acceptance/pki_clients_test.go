package acceptance

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	authentication "k8s.io/api/authentication/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// credentials are the credentials of a client of an API server.
type credentials struct {
	tls   *tls.Config
	token string
}

// credentialsOf returns the credentials in a kubeconfig.
func credentialsOf(t *testing.T, kubeconfig string) credentials {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(kubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	trust, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	if trust == nil {
		t.Fatal("the kubeconfig has neither an authority nor a client certificate")
	}
	return credentials{tls: trust}
}

// with returns credentials with a token instead of a client certificate.
func (c credentials) with(token string) credentials {
	trust := c.tls.Clone()
	trust.Certificates, trust.GetClientCertificate = nil, nil
	return credentials{tls: trust, token: token}
}

// trusting returns the same client with the trusted authorities of another one.
func (c credentials) trusting(other credentials) credentials {
	trust := c.tls.Clone()
	trust.RootCAs = other.tls.RootCAs
	return credentials{tls: trust, token: c.token}
}

// timeout is the timeout of one request.
const timeout = 10 * time.Second

// call sends one request over its own connection. It returns the status code of the response,
// or an error if there was none.
func (c credentials) call(
	ctx context.Context, server, method, path string, in, out any) (code int, text string, err error,
) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var body io.Reader
	if in != nil {
		encoded, err := json.Marshal(in)
		if err != nil {
			return 0, "", err
		}
		body = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, server+path, body)
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Content-Type", "application/json")
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	transport := &http.Transport{TLSClientConfig: c.tls, DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, "", err
	}
	if out != nil && response.StatusCode/100 == 2 {
		err = json.Unmarshal(answer, out)
	}
	return response.StatusCode, string(answer), err
}

// must is call for a request that has to succeed.
func (c credentials) must(t *testing.T, server, method, path string, in, out any) {
	t.Helper()
	code, text, err := c.call(t.Context(), server, method, path, in, out)
	if err != nil || code/100 != 2 {
		t.Fatalf("%s %s%s: HTTP %d, %v: %s", method, server, path, code, err, text)
	}
}

// endpointURL is the API through the virtual IP.
const endpointURL = "https://" + vip + ":6443"

// servers returns the URLs of the API servers on machines, bypassing the balancer.
func servers(names ...string) []string {
	var urls []string
	for _, name := range names {
		urls = append(urls, "https://"+address(name)+":6443")
	}
	return urls
}

// expectKnown expects every server to authenticate the client as user.
func (c credentials) expectKnown(t *testing.T, what, user string, servers ...string) {
	t.Helper()
	for _, server := range servers {
		var review authentication.SelfSubjectReview
		code, text, err := c.call(t.Context(), server, http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews",
			selfReview(), &review)
		switch {
		case err != nil || code != http.StatusCreated:
			t.Errorf("%s: %s does not accept %s: HTTP %d, %v: %s", what, server, user, code, err, text)
		case review.Status.UserInfo.Username != user:
			t.Errorf("%s: %s takes the client for %q, want %q", what, server, review.Status.UserInfo.Username, user)
		}
	}
}

// expectRefused expects every server to respond with 401.
func (c credentials) expectRefused(t *testing.T, what string, servers ...string) {
	t.Helper()
	for _, server := range servers {
		code, text, err := c.call(t.Context(), server, http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews",
			selfReview(), nil)
		if err != nil || code != http.StatusUnauthorized {
			t.Errorf("%s: %s was to refuse with 401: HTTP %d, %v: %s", what, server, code, err, text)
		}
	}
}

func selfReview() authentication.SelfSubjectReview {
	return authentication.SelfSubjectReview{TypeMeta: meta.TypeMeta{
		APIVersion: "authentication.k8s.io/v1",
		Kind:       "SelfSubjectReview",
	}}
}

// tokenOf creates a token for the default ServiceAccount of a namespace.
func (c credentials) tokenOf(t *testing.T, namespace string) string {
	t.Helper()
	return c.tokenAt(t, endpointURL, namespace)
}

// tokenAt is tokenOf at an API server.
func (c credentials) tokenAt(t *testing.T, server, namespace string) string {
	t.Helper()
	var request authentication.TokenRequest
	c.must(t, server, http.MethodPost, "/api/v1/namespaces/"+namespace+"/serviceaccounts/default/token",
		authentication.TokenRequest{TypeMeta: meta.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenRequest"}},
		&request)
	return request.Status.Token
}

// expectControllers creates a namespace and waits until the controllers, each with the token of
// its own ServiceAccount, have created its default objects. roots are the authorities that they
// publish for verifying servers.
func (c credentials) expectControllers(t *testing.T, namespace, roots string) {
	t.Helper()
	c.must(t, endpointURL, http.MethodPost, "/api/v1/namespaces",
		core.Namespace{ObjectMeta: meta.ObjectMeta{Name: namespace}}, nil)
	base := endpointURL + "/api/v1/namespaces/" + namespace
	await(t, "the controllers gave the namespace "+namespace+" no ServiceAccount", func() bool {
		code, _, err := c.call(t.Context(), base, http.MethodGet, "/serviceaccounts/default", nil, nil)
		return err == nil && code == http.StatusOK
	})
	var published core.ConfigMap
	await(t, "the controllers did not publish the authorities in "+namespace, func() bool {
		code, _, err := c.call(t.Context(), base, http.MethodGet, "/configmaps/kube-root-ca.crt", nil, &published)
		return err == nil && code == http.StatusOK
	})
	if got := certificatesIn(published.Data["ca.crt"]); !slices.Equal(got, certificatesIn(roots)) {
		t.Errorf("the controllers publish %d authorities, want the %d of the bundle:\n%s", len(got),
			len(certificatesIn(roots)), published.Data["ca.crt"])
	}
}

// awaitTimeout is the timeout of conditions that do not depend on the test.
const awaitTimeout = time.Minute

// await waits until a condition is true.
func await(t *testing.T, otherwise string, condition func() bool) {
	t.Helper()
	awaitFor(t, awaitTimeout, otherwise, condition)
}

func awaitFor(t *testing.T, timeout time.Duration, otherwise string, condition func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s within %s", otherwise, timeout)
		}
	}
}

// outputOf returns one of the example's outputs.
func outputOf(t *testing.T, w *workspace.Workspace, name string) string {
	t.Helper()
	text, err := w.Run(t.Context(), "output", "-raw", name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// valuesOf returns the values of a resource in the state.
func valuesOf(t *testing.T, w *workspace.Workspace, address string) map[string]any {
	t.Helper()
	resources, err := w.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resources {
		if r.Address != address {
			continue
		}
		var values map[string]any
		if err := json.Unmarshal(r.Values, &values); err != nil {
			t.Fatal(err)
		}
		return values
	}
	t.Fatalf("the state has no %s", address)
	return nil
}

func textOf(values map[string]any, attribute string) string { return fmt.Sprint(values[attribute]) }
