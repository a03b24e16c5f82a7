package drill

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
)

func TestDifferences(t *testing.T) {
	three := map[string]int64{"pods": 3}
	at := func(objects, revision int64) client.Count { return client.Count{Objects: objects, Revision: revision} }
	for name, c := range map[string]struct {
		saved    map[string]int64
		revision int64
		live     map[string]client.Count
		want     string
	}{
		"the same":           {three, 100, map[string]client.Count{"pods": at(3, 100)}, ""},
		"one more, written":  {three, 100, map[string]client.Count{"pods": at(4, 101)}, ""},
		"one less, written":  {three, 100, map[string]client.Count{"pods": at(2, 101)}, ""},
		"one too many":       {three, 100, map[string]client.Count{"pods": at(5, 101)}, "differ by 2, and only 1"},
		"one too few":        {three, 100, map[string]client.Count{"pods": at(1, 101)}, "pods: 3 in the snapshot, 1"},
		"nothing written":    {three, 100, map[string]client.Count{"pods": at(4, 100)}, "only 0 changes"},
		"not in the drill":   {nil, 100, map[string]client.Count{"pods": at(2, 101)}, "pods: 0 in the snapshot, 2"},
		"of later data":      {three, 100, map[string]client.Count{"pods": at(3, 99)}, "revision 100"},
		"nothing is counted": {three, 100, nil, "revision 100"},
		"the newest revision counts, of any resource": {
			three, 100, map[string]client.Count{"pods": at(5, 100), "nodes": at(0, 102)}, "",
		},
		"the sum counts": {
			map[string]int64{"pods": 3, "nodes": 1},
			100,
			map[string]client.Count{"pods": at(5, 102), "nodes": at(0, 102)},
			"differ by 3, and only 2 changes were written since the snapshot: pods: 3 in the snapshot, 5 in the cluster; " +
				"nodes: 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := differences(c.saved, c.revision, c.live)
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestRestoredSince: a restore makes the revisions of a snapshot and of the cluster incomparable.
func TestRestoredSince(t *testing.T) {
	for _, c := range []struct {
		revision, saved, live int64
		want                  bool
	}{
		{100, 0, 200, false},
		{100, 1_795_000_000, 200, false},
		{1e7, 0, 1_800_000_000_000, true},
		{1e7, 1_795_000_000, 1_800_000_000_000, true},
		{1e7, 1_805_000_000, 1_800_000_000_000, true}, // the time of a copy
		{1_800_000_000_000, 0, 1_800_000_000_500, false},
		{1_790_000_000_000, 1_792_000_000, 1_790_000_000_500, false}, // restored once, before it was saved
		{1_790_000_000_000, 1_792_000_000, 1_795_000_000_000, true},  // and again, since
		{1_790_000_000_000, 0, 1_795_000_000_000, false},
	} {
		live := map[string]client.Count{"pods": {Objects: 1, Revision: c.live}}
		if got := restoredSince(c.revision, c.saved, live); got != c.want {
			t.Errorf("%d, saved at %d, and %d: %t", c.revision, c.saved, c.live, got)
		}
	}
}

func TestDifferencesAreFew(t *testing.T) {
	live := map[string]client.Count{}
	for i, name := range []string{"f", "e", "d", "c", "b", "a"} {
		live[name] = client.Count{Objects: int64(1 + i/2), Revision: 1}
	}
	got := differences(nil, 1, live)
	const want = "a: 0 in the snapshot, 3 in the cluster; b: 0 in the snapshot, 3 in the cluster; c: 0 in the snapshot, " +
		"2 in the cluster; d: 0 in the snapshot, 2 in the cluster; e: 0 in the snapshot, 1 in the cluster"
	if !strings.HasSuffix(got, ": "+want) {
		t.Errorf("%q", got)
	}
}

func TestMissingKeys(t *testing.T) {
	for _, c := range []struct {
		drill, live []string
		want        int
	}{
		{[]string{"a"}, []string{"a"}, 0},
		{[]string{"a", "b"}, []string{"a"}, 0},
		{[]string{"a"}, []string{"a", "b"}, 1},
		{nil, []string{"a"}, 1},
	} {
		if got := missingKeys(c.drill, c.live); len(got) != c.want {
			t.Errorf("%v for %v: %v are missing", c.drill, c.live, got)
		}
	}
}

func TestSavedAt(t *testing.T) {
	written := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	named := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const name = "20260102T030405Z-cp1.db"
	for _, c := range []struct {
		source, name string
		want         time.Time
	}{
		{"newest", name, named},
		{"bucket", name, named},
		{"snapshot", name, named},
		{"snapshot", "good.db", written},
		{"newest", "good.db", written},
		{"fetch", "", time.Time{}},
		{"bucket", "", time.Time{}},
		{"bucket", "20261302T030405Z-cp1.db", time.Time{}},
	} {
		if got := savedAt(c.source, c.name, written); !got.Equal(c.want) {
			t.Errorf("%s %s: %s, want %s", c.source, c.name, got, c.want)
		}
	}
}

func TestRTO(t *testing.T) {
	if got := rto(map[string]float64{"fetch": 1, "verify": 0.5, "apiserver": 2.5004}); got != 4 {
		t.Errorf("%g", got)
	}
	if got := rto(nil); got != 0 {
		t.Errorf("%g without steps", got)
	}
}

// TestEncrypted: one encrypted object among others in the clear encrypts nothing.
func TestEncrypted(t *testing.T) {
	sealed := [][]byte{[]byte("k8s:enc:x")}
	for want, staged := range map[string]machine.Staged{
		"2 all":             {Secrets: 2, Sealed: 2},
		"0 some":            {Secrets: 2, Sealed: 1, Heads: sealed},
		"0 only ConfigMaps": {Secrets: 2, Heads: sealed},
		"0 no Secrets":      {Heads: sealed},
	} {
		if got := encrypted(staged); strconv.FormatInt(got, 10) != want[:1] {
			t.Errorf("%s: %d", want, got)
		}
	}
}
