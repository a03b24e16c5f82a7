package controlplane

import (
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// listing is an endpoint that lists a replica at addresses.
type listing struct {
	Registrar
	at  []string
	err error
}

func (l listing) ListedAt(context.Context, string) ([]string, error) { return l.at, l.err }

// TestCheckListed: a machine that says to have a replica is believed if no endpoint has that one at another machine.
func TestCheckListed(t *testing.T) {
	for name, c := range map[string]struct {
		own  string
		at   listing
		want string // part of the refusal
	}{
		"here":                       {"10.0.0.11", listing{at: []string{"10.0.0.11"}}, ""},
		"here, in another form":      {"fd00:0:0::11", listing{at: []string{"fd00::11"}}, ""},
		"nowhere":                    {"10.0.0.11", listing{}, ""},
		"elsewhere":                  {"10.0.0.11", listing{at: []string{"10.0.0.12"}}, "has that one at 10.0.0.12"},
		"here, by one balancer only": {"10.0.0.11", listing{at: []string{"10.0.0.11", "10.0.0.12"}}, "at 10.0.0.12"},
		"nobody can be asked":        {"10.0.0.11", listing{err: host.ErrUnreachable}, "look for the replica"},
	} {
		err := checkListed(t.Context(), c.at, "cp2", c.own)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestForeignReplicaOnMember: an API server of kubeadm depends on the member of its machine if it has no other one, and
// runs.
func TestForeignReplicaOnMember(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "staticpod", "testdata", "kubeadm", "kube-apiserver.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	manifest := string(text)
	b := StackedMember{
		Host: testHost(t, host.Config{}, "10.0.0.11"), EtcdURL: component.MemberURL("10.0.0.11"),
		Bundle: &pki.Bundle{},
	}
	const local = "--etcd-servers=https://127.0.0.1:2379"
	for name, c := range map[string]struct {
		manifest, state string
		port            int
	}{
		"runs": {manifest, "RUNNING", 6443},
		"with the address of the machine": {
			strings.Replace(manifest, local, "--etcd-servers="+b.EtcdURL, 1), "RUNNING", 6443,
		},
		"at another port": {
			strings.Replace(manifest, "--secure-port=6443", "--secure-port=7443", 1), "RUNNING", 7443,
		},
		"with more members": {
			strings.Replace(manifest, local, local+",https://10.0.0.12:2379", 1), "RUNNING", 0,
		},
		"with another member": {
			strings.Replace(manifest, local, "--etcd-servers=https://10.0.0.12:2379", 1), "RUNNING", 0,
		},
		"has ended": {manifest, "EXITED", 0},
		"with another container": {
			strings.Replace(manifest, "  containers:\n", "  containers:\n  - name: kms\n    image: kms:v1\n", 1), "RUNNING",
			6443,
		},
		"of an unknown form": {"", "RUNNING", 6443},
	} {
		facts := host.Facts{Output: "pod\truntime\tctr\npod\tkubelet\tactive\npod\tanswers\tkube-apiserver\n" +
			"pod\tcontainer\tkube-apiserver\t" + strings.Repeat("ab", 32) + "\t" + c.state + "\t7\t\n" +
			"replica\tkube-apiserver\tplaced\n"}
		if c.manifest != "" {
			facts.Output += "replica\tkube-apiserver\tinherited\t" +
				base64.StdEncoding.EncodeToString([]byte(c.manifest)) + "\n"
		}
		port := 0
		if s := b.foreignReplica(facts); s != nil {
			port = s.Port
		}
		if port != c.port {
			t.Errorf("%s: the port is %d, want %d", name, port, c.port)
		}
	}
}
