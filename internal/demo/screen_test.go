package demo

import (
	"encoding/json"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

var update = flag.Bool("update", false, "write the golden file")

// TestScreen draws one screen from resources as Terraform shows them.
func TestScreen(t *testing.T) {
	state, err := stateOf([]workspace.Resource{
		resource("kube_pki_bundle", `{"cluster_name":"prod"}`),
		resource("kube_control_plane_endpoint", `{"url":"https://10.0.0.100:6443"}`),
		resource("kube_control_plane", `{"virtual_ip":{"holder":"cp2"},
			"etcd_cluster":{"members":{
				"cp2":{"id":"c51d","version":null,"learner":true,"db_size_bytes":null},
				"cp1":{"id":"a6c7","version":"3.6.16","leader":true,"healthy":true,"db_size_bytes":327680}}},
			"replicas":{"cp1":{"registered":true,"components":{
				"kube-apiserver":{"health":"ok","version":"1.36.3","certificate_expires_at":"2027-01-02T00:00:00Z"},
				"kube-scheduler":{"health":"connection refused","version":null,"certificate_expires_at":null}}}}}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	screen := screen{
		State:  state,
		answer: answer{Ready: "ok", Version: "v1.36.3"},
		Timings: []workspace.Timing{{
			Address: `kube_etcd_member.this["cp1"]`, Action: "create",
			Took: 1900 * time.Millisecond,
		}},
		Total: 17 * time.Second,
		Now:   time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC),
	}
	const golden = "testdata/screen.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(screen.Text()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := screen.Text(); got != string(want) {
		t.Errorf("the screen is\n%s\nwant\n%s", got, want)
	}
}

func resource(kind, values string) workspace.Resource {
	return workspace.Resource{Address: kind + ".this", Type: kind, Values: json.RawMessage(values)}
}
