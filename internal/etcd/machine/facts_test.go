package machine

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/etcdtest"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestFacts: a member that writes facts has one more timer, and nothing restarts for it.
func TestFacts(t *testing.T) {
	plain := specAt(t, "10.0.0.11")
	plain.Bundle = etcdtest.Bundle(t)
	s := plain
	s.TextfileDirectory = "/srv/facts"

	f := establishedOn(t, plain)
	if words := Drift(plain, f, nil, time.Now()); len(words) > 0 {
		t.Fatalf("drift without facts: %v", words)
	}
	words := strings.Join(Drift(s, f, nil, time.Now()), "\n")
	if !strings.Contains(words, "/etc/etcd/facts.sh is missing") {
		t.Errorf("drift is %s", words)
	}
	r, err := Repairs(s, f, nil, time.Now())
	if err != nil || r.Restart != "" || !strings.Contains(string(r.Timers), "systemctl restart etcd-facts.timer") ||
		len(r.Change.Files) != 3 {
		t.Errorf("switched on: restart %q, timers %q, %d files, %v", r.Restart, r.Timers, len(r.Change.Files), err)
	}
	script := string(r.Change.Files[2].Content)
	for _, want := range []string{
		"/etc/kubernetes/pki/etcd/server.crt 10.0.0.11:2379\n", "/etc/kubernetes/pki/etcd/peer.crt 10.0.0.11:2380\n",
		"\noutput=/srv/facts/kube_etcd_member.prom\n", "\nrecord=/etc/etcd/member.json\n", "\nsnapshots=''\n",
	} {
		if !strings.Contains(script, want) {
			t.Errorf("%q is not in the script", want)
		}
	}

	on := f
	on.Facts.Files = map[string]host.FileState{}
	for path, state := range f.Facts.Files {
		on.Facts.Files[path] = state
	}
	for _, file := range r.Change.Files {
		on.Facts.Files[file.Path] = host.FileState{Content: string(file.Content)}
	}
	if got := noFacts.DirectoryIn(on.Facts.Files); got != "/srv/facts" {
		t.Errorf("an import reads %q", got)
	}
	r, err = Repairs(plain, on, nil, time.Now())
	if err != nil || r.Restart != "" || !slices.Contains(r.Change.Remove, "/srv/facts/kube_etcd_member.prom") ||
		!slices.Contains(r.Change.Remove, "/etc/etcd/facts.sh") {
		t.Errorf("switched off: restart %q, removed %v, %v", r.Restart, r.Change.Remove, err)
	}
	if stop := string(stopTimers()); !strings.Contains(stop, "/bin/sh /etc/etcd/facts.sh remove") {
		t.Errorf("a stop leaves what was written: %s", stop)
	}
}

// TestFactsOfSnapshots: facts are about the directory and the schedule of the member's own snapshots.
func TestFactsOfSnapshots(t *testing.T) {
	s := scheduledAt(t)
	s.TextfileDirectory = "/srv/facts"
	script := string(s.facts().Job().Files[2].Content)
	for _, want := range []string{
		"\nsnapshots=/var/lib/etcd-archive/scheduled\n", "\ncalendar='Mon..Fri 02:30 Europe/Berlin'\n", "\nupload=yes\n",
		"\nsnapshot_service=etcd-snapshot.service\n",
	} {
		if !strings.Contains(script, want) {
			t.Errorf("%q is not in the script", want)
		}
	}
	s.Snapshots.Upload, s.Snapshots.S3 = "", &snapshot.S3{}
	if !s.SnapshotMember().Facts().Upload {
		t.Error("snapshots that a bucket gets are not sent")
	}
}
