package pki

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// severalContexts has one context of each kind of user; tests replace its current context.
const severalContexts = `
apiVersion: v1
kind: Config
preferences: {}
current-context: CURRENT
clusters:
- name: prod
  cluster: {server: "https://10.0.0.100:6443", certificate-authority-data: CA, certificate-authority: /ignored.crt}
- name: public
  cluster: {server: "https://api.example", insecure-skip-tls-verify: true}
contexts:
- {name: certificate, context: {cluster: prod, user: admin, namespace: kube-system}}
- {name: token, context: {cluster: public, user: robot}}
- {name: exec, context: {cluster: prod, user: exec}}
- {name: provider, context: {cluster: prod, user: provider}}
- {name: password, context: {cluster: prod, user: password}}
- {name: nobody, context: {cluster: prod, user: nobody}}
users:
- name: admin
  user: {client-certificate-data: CERTIFICATE, client-key-data: KEY, client-key: /ignored.key}
- name: robot
  user: {token: TOKEN}
- name: exec
  user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, args: [eks, get-token]}}
- name: provider
  user: {auth-provider: {name: oidc, config: {id-token: HIDDEN}}}
- name: password
  user: {username: u, password: HIDDEN}
- name: nobody
  user: null
`

const bearer = "eyJhbGciOiJSUzI1NiIsImtpZCI6IiJ9.secret" // the format of a service-account token

// contexts returns severalContexts with the secrets of spec.
func contexts(spec KubeconfigSpec, current string) string {
	return strings.NewReplacer(
		"CURRENT", current,
		"CERTIFICATE", encode64(spec.Client.Certificate), "CA", encode64(spec.CA),
		"KEY", encode64(spec.Client.PrivateKey), "TOKEN", bearer,
	).Replace(severalContexts)
}

func TestParseAccess(t *testing.T) {
	spec := kubeconfigSpec(t)
	const server = "https://10.0.0.100:6443"
	for current, want := range map[string]Access{
		"certificate": {
			Cluster: "prod", Server: server, CA: spec.CA, User: "admin", Client: spec.Client,
			Namespace: "kube-system",
		},
		"token":    {Cluster: "public", Server: "https://api.example", User: "robot", Token: bearer},
		"exec":     {Cluster: "prod", Server: server, CA: spec.CA, User: "exec"},
		"provider": {Cluster: "prod", Server: server, CA: spec.CA, User: "provider"},
		"password": {Cluster: "prod", Server: server, CA: spec.CA, User: "password"},
		"nobody":   {Cluster: "prod", Server: server, CA: spec.CA, User: "nobody"},
	} {
		text := contexts(spec, current)
		asJSON, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		for form, text := range map[string]string{"YAML": text, "JSON": string(asJSON)} {
			t.Run(current+" in "+form, func(t *testing.T) {
				if got, err := ParseAccess(text); err != nil || got != want {
					t.Errorf("read %v, %v; want %v", got, err, want)
				}
			})
		}
	}
}

// TestParseAccessOwn parses the output of Kubeconfig.
func TestParseAccessOwn(t *testing.T) {
	spec := kubeconfigSpec(t)
	text, err := Kubeconfig(spec)
	if err != nil {
		t.Fatal(err)
	}
	want := Access{Cluster: spec.Cluster, Server: spec.Server, CA: spec.CA, User: spec.User, Client: spec.Client}
	if got, err := ParseAccess(text); err != nil || got != want {
		t.Errorf("read %v, %v; want %v", got, err, want)
	}
}

func TestParseAccessRefuses(t *testing.T) {
	spec := kubeconfigSpec(t)
	text, token := contexts(spec, "certificate"), contexts(spec, "token")
	key, ca := encode64(spec.Client.PrivateKey), encode64(spec.CA)
	certificate := encode64(spec.Client.Certificate)
	tests := map[string]struct{ text, wantErr string }{
		"empty": {"", "it is empty"},
		"a key": {spec.Client.PrivateKey, "not the YAML of a kubeconfig"},
		"a key in a list": {
			"apiVersion: v1\nkind: Config\nusers:\n- user: {client-key-data: [" + key + "]}\n",
			"not the YAML of a kubeconfig",
		},
		"other kind": {"apiVersion: v1\nkind: Secret\nstringData: {token: " + bearer + "}\n", "kind Config"},
		"no current context": {
			strings.Replace(text, "current-context: certificate", "", 1),
			"no current context: kubectl config use-context sets one",
		},
		"current is elsewhere": {
			strings.Replace(text, "current-context: certificate", "current-context: other", 1),
			"0 entries for the current context",
		},
		"no cluster": {strings.Replace(text, "- name: prod", "- name: test", 1), "0 entries for the cluster"},
		"no user":    {strings.Replace(text, "- name: admin", "- name: test", 1), "0 entries for the user"},
		"no server":  {strings.Replace(text, `server: "https://10.0.0.100:6443", `, "", 1), "names no server"},
		"CA in a file": {
			strings.Replace(text, "certificate-authority-data: "+ca+", ", "", 1),
			"certificate-authority names a file, which is not read: kubectl config view --flatten",
		},
		"certificate in a file": {
			strings.Replace(text, "client-certificate-data: "+certificate, "client-certificate: /x.crt", 1),
			"client-certificate names a file",
		},
		"key in a file":   {strings.Replace(text, "client-key-data: "+key+", ", "", 1), "client-key names a file"},
		"token in a file": {strings.Replace(token, "token: "+bearer, "tokenFile: /x", 1), "tokenFile names a file"},
		"token beside a file": {
			strings.Replace(token, "token: "+bearer, "token: "+bearer+", tokenFile: /x", 1),
			"tokenFile names a file",
		},
		"no base64": {
			strings.Replace(text, key, spec.Client.PrivateKey[:20], 1),
			"client-key-data is not base64",
		},
		"key as CA": {
			strings.Replace(text, ca, key, 1),
			"certificate-authority-data cannot be used: no PEM certificate in it: it holds a private key",
		},
		"key as certificate": {
			strings.Replace(text, certificate, key, 1),
			"client-certificate-data cannot be used: no PEM certificate in it: it holds a private key",
		},
		"certificate as key": {
			strings.Replace(text, key, certificate, 1),
			"client-key-data cannot be used: no PEM private key in it: it holds a certificate",
		},
		"key encoded twice": {strings.Replace(text, key, encode64(key), 1), "no PEM private key in it: it is base64"},
		"bytes around certificate": {
			strings.Replace(text, ca, encode64(spec.CA+"\xff"), 1),
			"certificate-authority-data cannot be used: it is not text",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			access, err := ParseAccess(test.text)
			wantError(t, err, "read kubeconfig: ", spec.Client.PrivateKey, key, bearer)
			wantError(t, err, test.wantErr)
			if access != (Access{}) {
				t.Error("a refused kubeconfig gives something")
			}
		})
	}
}

func TestAccessPrintsNoSecret(t *testing.T) {
	access := Access{
		Cluster: "prod", Server: "https://10.0.0.11:6443", User: "admin", Token: bearer,
		Client: kubeconfigSpec(t).Client,
	}
	text, err := json.Marshal(access)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprint(access), fmt.Sprintf("%+v %#v %x %q", access, &access, access,
		[]Access{access}), string(text)} {
		wantNoSecret(t, text, access.Client.PrivateKey, bearer)
		if !strings.Contains(text, "Access(prod at https://10.0.0.11:6443 as admin)") {
			t.Errorf("printed as %s", text)
		}
	}
}

// FuzzParseAccess searches for a panic, for a secret in an error, and for text that Terraform
// could not pass on.
func FuzzParseAccess(f *testing.F) {
	for _, current := range []string{"certificate", "token", "exec"} {
		f.Add(contexts(kubeconfigSpec(f), current))
	}
	f.Fuzz(func(t *testing.T, text string) {
		access, err := ParseAccess(text)
		if err != nil {
			wantNoSecret(t, err.Error(), bearer)
			if access != (Access{}) {
				t.Error("a refused kubeconfig gives something")
			}
			return
		}
		if access.Server == "" {
			t.Error("accepted without a server")
		}
		for _, word := range []string{
			access.Cluster, access.Server, access.CA, access.User, access.Token, access.Namespace,
			access.Client.Certificate, access.Client.PrivateKey,
		} {
			if !utf8.ValidString(word) {
				t.Errorf("%q is not UTF-8", word)
			}
		}
	})
}
