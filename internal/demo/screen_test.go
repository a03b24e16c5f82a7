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
		resource("kube_control_plane_endpoint", `{"url":"https://10.0.0.100:6443","holder":"cp2"}`),
		resource("kube_etcd_member", `{"name":"cp1","id":"a6c7","running_version":"3.6.16","leader":true,"healthy":true,"db_size_bytes":327680}`),
		resource("kube_etcd_member", `{"name":"cp2","id":"c51d","running_version":"","learner":true,"db_size_bytes":0}`),
		resource("kube_control_plane_replica", `{"name":"cp1","registered":true,"components":[
			{"name":"kube-apiserver","health":"ok","version":"1.34.4","certificate_expires_at":"2027-01-02T00:00:00Z"},
			{"name":"kube-scheduler","health":"connection refused","version":"","certificate_expires_at":null}]}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	screen := Screen{
		State:   state,
		Answer:  Answer{Ready: "ok", Version: "v1.34.4"},
		Timings: []workspace.Timing{{Address: `kube_etcd_member.this["cp1"]`, Action: "create", Took: 1900 * time.Millisecond}},
		Total:   17 * time.Second,
		Now:     time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC),
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
