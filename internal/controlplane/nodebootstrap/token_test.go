package nodebootstrap_test

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/nodebootstrap"
)

// tokenForm is upstream's (k8s.io/cluster-bootstrap/token/api, BootstrapTokenPattern).
var tokenForm = regexp.MustCompile(`\A([a-z0-9]{6})\.([a-z0-9]{16})\z`)

func TestNewToken(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		token, err := nodebootstrap.NewToken()
		if err != nil {
			t.Fatal(err)
		}
		match := tokenForm.FindStringSubmatch(token.Text())
		if match == nil || match[1] != token.ID || seen[token.ID] {
			t.Fatalf("token %q with ID %q", token.Text(), token.ID)
		}
		seen[token.ID] = true
		for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
			if text := fmt.Sprintf(verb, token); strings.Contains(text, match[2]) {
				t.Errorf("%s shows the secret: %s", verb, text)
			}
		}
	}
}

func TestTokenObject(t *testing.T) {
	token, err := nodebootstrap.NewToken()
	if err != nil {
		t.Fatal(err)
	}
	read := func(expires time.Time) map[string]string {
		out := map[string]string{}
		data, _ := token.Object(expires, "for a test").Fields["data"].(map[string]any)
		for name, value := range data {
			text, err := base64.StdEncoding.DecodeString(fmt.Sprint(value))
			if err != nil {
				t.Fatal(err)
			}
			out[name] = string(text)
		}
		return out
	}
	got := read(time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600)))
	for name, want := range map[string]string{
		"token-id": token.ID, "expiration": "2026-01-02T02:04:05Z", "usage-bootstrap-signing": "true",
		"usage-bootstrap-authentication": "true", "description": "for a test",
		"auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if got["token-id"]+"."+got["token-secret"] != token.Text() {
		t.Error("the Secret has another token")
	}
	if _, set := read(time.Time{})["expiration"]; set {
		t.Error("a token without expiry expires")
	}
	if label := nodebootstrap.TokenObject("abcdef").Label(); label != "Secret kube-system/bootstrap-token-abcdef" {
		t.Errorf("label %q", label)
	}
}

func TestTokenIDs(t *testing.T) {
	names := []string{"bootstrap-token-zzzzzz", "other", "bootstrap-token-abc123", "bootstrap-token-\x1b[31m"}
	got := nodebootstrap.TokenIDs(names)
	if !slices.Equal(got, []string{"abc123", "zzzzzz"}) {
		t.Errorf("IDs %q", got)
	}
}

func TestJoinCommand(t *testing.T) {
	got := nodebootstrap.JoinCommand("[fd00::100]:6443", "abcdef.0123456789abcdef", []string{"sha256:1", "sha256:2"})
	want := "kubeadm join [fd00::100]:6443 --token abcdef.0123456789abcdef " +
		"--discovery-token-ca-cert-hash sha256:1 --discovery-token-ca-cert-hash sha256:2"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
