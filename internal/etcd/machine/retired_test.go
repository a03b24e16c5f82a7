package machine

import (
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestRetiredRecord: a member that is archived for a restore keeps what its files are of and which restore was done
// before, and no ID.
func TestRetiredRecord(t *testing.T) {
	s := specAt(t, "10.0.0.11")
	s.Restore = &Restore{ID: "two"}
	was := s.record(ID{Member: 1, Cluster: 2}, map[string]string{"etcd/peer": strings.Repeat("a", 64)})
	was.Generation, was.Restored = 3, "one"
	restored := map[string]string{"recorded": "one"}
	for name, f := range map[string]Observed{"recorded": {Record: &was}, "not recorded": {}} {
		m, err := ReadRecord(string(encodeRecord(retiredRecord(s, f)).Content))
		if err != nil || m.ClusterID != s.Bundle.ClusterID || m.Name != s.Name || m.ID() != 0 || m.EtcdCluster != "" ||
			m.Restored != restored[name] || m.Restoring != "two" || len(m.Pairs) > 0 {
			t.Errorf("%s: %+v, %v", name, m, err)
			continue
		}
		if f.Record != nil && (m.Generation != 3 || !m.saysConfigured(s)) {
			t.Errorf("%s: the record lost what the files are of: %+v", name, m)
		}
		after := Observed{Record: m}
		if after.Retired() != "two" || !after.HasMember() {
			t.Errorf("%s: the machine looks like a new one", name)
		}
		if after.Data = true; after.Retired() != "" {
			t.Errorf("%s: a member with data is retired", name)
		}
		after.Data, after.Unit = false, host.UnitState{Active: "activating"}
		if after.Retired() != "" {
			t.Errorf("%s: a member that runs is retired", name)
		}
	}
}

// TestRetireKeepsRecord: the record is there until another one replaces it, so that a power cut leaves no machine that
// looks new.
func TestRetireKeepsRecord(t *testing.T) {
	both, one := string(host.Discard(layout.EnvPath, layout.RecordPath)), string(host.Discard(layout.EnvPath))
	for kept, want := range map[bool]string{true: one, false: both} {
		script := whole(Action{Verb: Retire, DataDir: "/d", Member: "cp1", KeepRecord: kept})
		if !strings.Contains(script, "\n"+want) {
			t.Errorf("kept %t: the script lacks %q:\n%s", kept, want, script)
		}
	}
}

// TestRetireKeepsArchives: an older archive may have what the restore needs, and the number that is kept is another
// member's.
func TestRetireKeepsArchives(t *testing.T) {
	s := specAt(t, "10.0.0.11")
	s.ArchivesKept = 1
	if a := s.retireAction(); a.Keep <= 1000 || a.Wipe || !a.KeepRecord {
		t.Errorf("archives are removed: %+v", a)
	}
}
