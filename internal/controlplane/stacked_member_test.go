package controlplane

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

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
		"is none":   {"", "RUNNING", 0},
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
