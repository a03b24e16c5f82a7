package pki

import (
	"strings"
	"testing"
)

func kubeconfigSpec(t testing.TB) KubeconfigSpec {
	b := bundle(t)
	return KubeconfigSpec{
		Cluster: "prod",
		Server:  "https://10.0.0.11:6443",
		CA:      b.CA.Certificate,
		User:    "system:kube-scheduler",
		Client:  issue(t, b, User("system:kube-scheduler"), now, 0),
	}
}

func TestKubeconfig(t *testing.T) {
	spec := kubeconfigSpec(t)
	text, err := Kubeconfig(spec)
	if err != nil {
		t.Fatal(err)
	}
	want := `apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: ` + encode64(spec.CA) + `
    server: https://10.0.0.11:6443
  name: prod
contexts:
- context:
    cluster: prod
    user: system:kube-scheduler
  name: system:kube-scheduler@prod
current-context: system:kube-scheduler@prod
kind: Config
users:
- name: system:kube-scheduler
  user:
    client-certificate-data: ` + encode64(spec.Client.Certificate) + `
    client-key-data: ` + encode64(spec.Client.PrivateKey) + `
`
	if text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	info, err := ParseKubeconfig(text)
	if err != nil {
		t.Fatal(err)
	}
	if info != (KubeconfigInfo{"prod", spec.Server, spec.CA, spec.User, spec.Client.Certificate}) {
		t.Errorf("read %+v", info)
	}
}

func TestKubeconfigRefuses(t *testing.T) {
	tests := map[string]struct {
		change  func(k *KubeconfigSpec)
		wantErr string
	}{
		"no cluster":     {func(k *KubeconfigSpec) { k.Cluster = "" }, "need names"},
		"no user":        {func(k *KubeconfigSpec) { k.User = "" }, "need names"},
		"no server":      {func(k *KubeconfigSpec) { k.Server = "" }, "https URL"},
		"plain server":   {func(k *KubeconfigSpec) { k.Server = "http://10.0.0.11" }, "https URL"},
		"password":       {func(k *KubeconfigSpec) { k.Server = "https://a:b@10.0.0.11" }, "https URL"},
		"no CA":          {func(k *KubeconfigSpec) { k.CA = "" }, "authority: certificate is missing"},
		"leaf as CA":     {func(k *KubeconfigSpec) { k.CA = k.Client.Certificate }, "authority: certificate is not one"},
		"no certificate": {func(k *KubeconfigSpec) { k.Client.Certificate = "" }, "client: no PEM certificate"},
		"no key":         {func(k *KubeconfigSpec) { k.Client.PrivateKey = "" }, "client: private key is missing"},
		"other key":      {func(k *KubeconfigSpec) { k.Client.Certificate = k.CA }, "client: private key does not match"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			spec := kubeconfigSpec(t)
			key := spec.Client.PrivateKey
			test.change(&spec)
			_, err := Kubeconfig(spec)
			wantError(t, err, test.wantErr, key, encode64(key))
		})
	}
}

func TestParseKubeconfigRefuses(t *testing.T) {
	spec := kubeconfigSpec(t)
	text, err := Kubeconfig(spec)
	if err != nil {
		t.Fatal(err)
	}
	certificate, ca := "client-certificate-data: "+encode64(spec.Client.Certificate), "certificate-authority-data: "+
		encode64(spec.CA)
	user := text[strings.Index(text, "- name: system"):]
	tests := map[string]struct{ text, wantErr string }{
		"empty":      {"\n", "it is empty"},
		"no YAML":    {"a: b: c", "not the YAML of a kubeconfig"},
		"a bare key": {spec.Client.PrivateKey, "not the YAML of a kubeconfig"},
		"a key in a field": {
			"apiVersion: v1\nclusters: |\n  " + strings.ReplaceAll(spec.Client.PrivateKey, "\n", "\n  "),
			"not the YAML of a kubeconfig",
		},
		"truncated":    {text[:len(text)/4], "kind Config"},
		"other kind":   {"apiVersion: v1\nkind: Secret\n", "kind Config"},
		"none current": {strings.Replace(text, "current-context: ", "x: ", 1), "no current context"},
		"no context": {
			strings.Replace(text, "current-context: ", "current-context: x", 1),
			"0 entries for the current context",
		},
		"no cluster": {strings.Replace(text, "  name: prod\n", "  name: test\n", 1), "0 entries for the cluster"},
		"no user":    {strings.Replace(text, user, "- name: x\n", 1), "0 entries for the user"},
		"two users":  {text + user, "2 entries for the user"},
		"no server":  {strings.Replace(text, "    server: https://10.0.0.11:6443\n", "", 1), "names no server"},
		"file": {
			strings.Replace(text, certificate, "client-certificate: /var/lib/x.pem", 1),
			"it has no client-certificate-data",
		},
		"no base64": {
			strings.Replace(text, certificate, "client-certificate-data: '%%'", 1),
			"client-certificate-data is not base64",
		},
		"key as CA": {
			strings.Replace(text, ca, "certificate-authority-data: "+encode64(spec.Client.PrivateKey), 1),
			"certificate-authority-data cannot be used: no PEM certificate",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			info, err := ParseKubeconfig(test.text)
			wantError(t, err, test.wantErr, spec.Client.PrivateKey, encode64(spec.Client.PrivateKey))
			if info != (KubeconfigInfo{}) {
				t.Errorf("a refused kubeconfig says %+v", info)
			}
		})
	}
}

// FuzzParseKubeconfig searches for a panic, and for a private key in the result.
func FuzzParseKubeconfig(f *testing.F) {
	text, err := Kubeconfig(kubeconfigSpec(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add("apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n")
	f.Add("a: &a [*a]")
	f.Fuzz(func(t *testing.T, text string) {
		info, err := ParseKubeconfig(text)
		if err != nil {
			wantNoSecret(t, err.Error())
			return
		}
		if info.Server == "" {
			t.Error("accepted without a server")
		}
	})
}
