package drill

import (
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
)

// reported is what a machine prints of a drill.
const reported = `step fetch 12
step verify 340
step restore 374
step etcd 1059
token d1c650606b9f2a162c7f058ba519fc4d-7c3d5b3125948215
size 286752
saved 1795577106
revision 320
bump 0
keys 300
ca 
digest 7d704ca673bb7ac0b8943af883efb4d03f16de4ef34aeb14052bc7266cdbf09f
port 36443
source newest
name 20260102T030405Z-cp1.db
`

func TestReadStarted(t *testing.T) {
	s, err := readStarted(reported)
	if err != nil || s.port != 36443 || s.source != "newest" || s.name != "20260102T030405Z-cp1.db" ||
		s.steps["etcd"] != 1.059 || s.staged.Revision != 320 || !strings.HasPrefix(s.digest, "7d70") {
		t.Fatalf("%+v, %v", s, err)
	}
	r := snapshot.Drill{Started: 1767323045 + 60}
	s.fill(&r)
	if r.Size != 286752 || r.Revision != 320 || r.Saved != 1767323045 || r.RPO != 60 || r.SHA256 != s.digest {
		t.Errorf("%+v", r)
	}
	for old, other := range map[string]string{
		"port 36443": "port 22", "source newest": "source elsewhere", "digest 7d": "digest xx",
		"step etcd 1059":  "step etcd -1",
		"step verify 340": "step sleep 340", "revision 320": "revision -3", "port 36443\n": "", "source newest\n": "",
	} {
		if s, err := readStarted(strings.Replace(reported, old, other, 1)); err == nil {
			t.Errorf("%q instead of %q is accepted: %+v", other, old, s)
		}
	}
	if s, err := readStarted(strings.Replace(reported, "name 2026", "name $(id)2026", 1)); err != nil || s.name != "" {
		t.Errorf("another name is %q, %v", s.name, err)
	}
}

// FuzzReadStarted verifies that nothing but known steps, a port of drills and plain names are read.
func FuzzReadStarted(f *testing.F) {
	f.Add(reported)
	f.Add(strings.Replace(reported, "name ", "name \x1b[2J", 1))
	f.Fuzz(func(t *testing.T, output string) {
		s, err := readStarted(output)
		if err != nil {
			return
		}
		if s.port < firstPort || s.port >= firstPort+20 || strings.ContainsAny(s.name, " /;$\x1b\n") || len(s.digest) != 64 {
			t.Errorf("%q is read as %+v", output, s)
		}
		for name, seconds := range s.steps {
			if seconds < 0 || !slices.Contains(snapshot.DrillSteps, name) {
				t.Errorf("%q has the step %s of %g s", output, name, seconds)
			}
		}
	})
}
