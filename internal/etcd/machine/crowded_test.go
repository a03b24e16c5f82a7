package machine

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/etcdtest"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestCrowdedDirectories: more entries than are read of a directory are drift with a remedy. A member's data is read
// among any number of entries, so its absence is known too: a restart would lose what the process still has.
func TestCrowdedDirectories(t *testing.T) {
	s := specAt(t, "10.0.0.11")
	s.Bundle = etcdtest.Bundle(t)
	data, inside, apart := s.Directory(), layout.ArchiveInside(s.Directory()), layout.ArchiveRoot(s.Directory())
	for name, c := range map[string]struct {
		dirs    map[string][]string
		crowded []string
		data    bool
	}{
		"nothing":                  {map[string][]string{data: {}}, nil, false},
		"a member":                 {map[string][]string{data: {"member"}}, nil, true},
		"a crowd without a member": {map[string][]string{data: {"x"}}, []string{data}, false},
		"a crowd with a member":    {map[string][]string{data: {"x", "member"}}, []string{data}, true},
		"crowded archives of a member": {
			map[string][]string{data: {"member", "archive"}, inside: {"x"}, apart: {"y"}}, []string{inside, apart}, true,
		},
		"crowded archives without data": {map[string][]string{data: {}, apart: {"x"}}, []string{apart}, false},
	} {
		t.Run(name, func(t *testing.T) {
			facts := host.Facts{Dirs: c.dirs, Crowded: map[string]bool{}}
			for _, dir := range c.crowded {
				facts.Crowded[dir] = true
			}
			f := Interpret("cp1", "10.0.0.11", data, facts, nil)
			if f.Data != c.data || Rebuilt(f) == c.data || f.Empty() == c.data {
				t.Errorf("data %v, rebuilt %v, empty %v", f.Data, Rebuilt(f), f.Empty())
			}
			if foreign := f.Foreign(s.Bundle.ClusterID, data); (foreign != "") != c.data {
				t.Errorf("without a record: %q", foreign)
			}
			f.Record = &Record{ClusterID: s.Bundle.ClusterID, Name: s.Name}
			drift, remedy := strings.Join(Drift(s, f, nil, time.Now()), "\n"), CrowdRemedy(f)
			if got := strings.Count(drift, " has more than 2000 entries"); c.data && got != len(c.crowded) {
				t.Errorf("%d crowded directories in the drift %s", got, drift)
			}
			for _, dir := range c.crowded {
				if c.data && !strings.Contains(drift, "cp1: "+dir+" has more") || !strings.Contains(remedy, dir) {
					t.Errorf("%s is not in %q, or not in %q", dir, drift, remedy)
				}
			}
			if (remedy != "") != (len(c.crowded) > 0) {
				t.Errorf("remedy %q", remedy)
			}
			if after := f.After(s, host.Change{}); !after.Data || len(after.crowded()) > 0 {
				t.Errorf("after a start: data %v, crowded %q", after.Data, after.crowded())
			}
		})
	}
}

// TestQuerySharesDirectories: those in which etcd's user can make entries have no number of entries that is an error.
func TestQuerySharesDirectories(t *testing.T) {
	s := specAt(t, "10.0.0.11")
	s.Bundle = etcdtest.Bundle(t)
	q := Query(s)
	for _, dir := range []string{
		s.Directory(), layout.ArchiveInside(s.Directory()), layout.ArchiveRoot(s.Directory()),
		snapshot.UpgradesDir(s.Directory()),
	} {
		if slices.Contains(q.Dirs, dir) || !slices.Contains(q.SharedDirs, dir) {
			t.Errorf("a crowd in %s would keep the machine from being observed", dir)
		}
	}
	for _, name := range []string{"member", "restoring", "restoring.former", "restoring.received"} {
		if !slices.Contains(q.SharedEntries, name) {
			t.Errorf("a crowd could hide %s", name)
		}
	}
}
