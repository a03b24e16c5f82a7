package machine

import (
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/componenttest"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestFacts: facts are about all certificates of the replica, that of the API server also as it is served.
func TestFacts(t *testing.T) {
	s := componenttest.Stacked(t)
	if files := Facts(s).Job().Files; len(files) > 0 {
		t.Errorf("files without a directory: %v", files)
	}
	s.TextfileDirectory = "/srv/facts"
	s.HeldAddresses = []string{"10.0.0.100"}
	s.AnnouncedAddresses = map[string]string{"10.200.0.1": "bird:/run/bird.ctl"}
	job := Facts(s).Job()
	script := string(job.Files[2].Content)
	for _, want := range []string{
		"/etc/kubernetes/pki/apiserver.crt " + s.ServingAddress() + "\n", "/etc/kubernetes/scheduler.conf",
		"/etc/kubernetes/pki/front-proxy-client.crt\n", "kube-scheduler kube-scheduler.service",
		"\noutput=/srv/facts/kube_control_plane_replica.prom\n", "\nrecord=/etc/kubernetes/replica.json\n",
		"\naddresses=10.0.0.100\n", "\nannounced='10.200.0.1 bird:/run/bird.ctl'\n",
	} {
		if !strings.Contains(script, want) {
			t.Errorf("%q is not in\n%.2000s", want, script)
		}
	}
	files := map[string]host.FileState{}
	for _, file := range job.Files {
		files[file.Path] = host.FileState{Content: string(file.Content)}
	}
	if got := TextfileDirectoryIn(files); got != "/srv/facts" {
		t.Errorf("an import reads %q", got)
	}
	s.TextfileDirectory = ""
	_, remove, commands := RepairTimers(s, host.Facts{Files: files})
	if !slices.Contains(remove, "/srv/facts/kube_control_plane_replica.prom") ||
		!strings.Contains(string(commands), "systemctl stop kube-facts.timer") {
		t.Errorf("switched off: removed %v, commands %s", remove, commands)
	}
	if stop := string(stopTimers()); !strings.Contains(stop, "/bin/sh /etc/kubernetes/facts.sh remove") {
		t.Errorf("a stop leaves what was written: %s", stop)
	}
}
