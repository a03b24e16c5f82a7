package release

import (
	"slices"
	"strings"
	"testing"
)

func TestUpgradePathsFrom(t *testing.T) {
	etcd := map[string]string{"cp1": "3.6.16"}
	for name, c := range map[string]struct {
		skew           Versions
		stable         bool
		oldest, newest string
		next           []string
		kubelet        string
		blocks         string
	}{
		"nothing is there": {},
		"settled": {
			skew:   Versions{Replicas: map[string]string{"cp1": "1.34.4", "cp2": "1.34.4"}, Etcd: etcd},
			stable: true, oldest: "1.34.4", newest: "1.34.4", next: []string{"1.35"},
		},
		"patches differ": {
			skew:   Versions{Replicas: map[string]string{"cp1": "1.34.4", "cp2": "1.34.10"}, Etcd: etcd},
			oldest: "1.34.4", newest: "1.34.10", next: []string{"1.35"},
		},
		"an upgrade begun": { // the others may follow, none may go further
			skew:   Versions{Replicas: map[string]string{"cp1": "1.35.4", "cp2": "1.34.4"}, Etcd: etcd},
			oldest: "1.34.4", newest: "1.35.4", next: []string{"1.35"},
		},
		"one does not tell": {
			skew:   Versions{Replicas: map[string]string{"cp1": "1.34.4", "cp2": ""}, Etcd: etcd},
			oldest: "1.34.4", newest: "1.34.4", next: []string{"1.35"},
		},
		"the newest known": {
			skew:   Versions{Replicas: map[string]string{"cp1": "1.37.2"}, Etcd: etcd},
			stable: true, oldest: "1.37.2", newest: "1.37.2",
		},
		"the newest known, etcd is not seen": {
			skew:   Versions{Replicas: map[string]string{"cp1": "1.37.2"}},
			stable: true, oldest: "1.37.2", newest: "1.37.2",
		},
		"the last step": {
			skew:   Versions{Replicas: map[string]string{"cp1": "1.36.3"}, Etcd: etcd},
			stable: true, oldest: "1.36.3", newest: "1.36.3", next: []string{"1.37"},
		},
		"none tells": {skew: Versions{Replicas: map[string]string{"cp1": "", "cp2": ""}, Etcd: etcd}},
		"etcd is too old": {
			skew:   Versions{Replicas: map[string]string{"cp1": "1.34.4"}, Etcd: map[string]string{"cp1": "3.5.20"}},
			stable: true, oldest: "1.34.4", newest: "1.34.4",
		},
		"a kubelet at its limit": {
			skew: Versions{
				Replicas: map[string]string{"cp1": "1.34.4"}, Etcd: etcd,
				Kubelets: map[string]string{"n1": "1.34.4", "n2": "1.31.9+k3s1", "n3": "", "n4": "unknown"},
			},
			stable: true, oldest: "1.34.4", newest: "1.34.4", kubelet: "1.31.9+k3s1", blocks: "1.35",
		},
		"a release candidate": {
			skew:   Versions{Replicas: map[string]string{"cp1": "1.35.0", "cp2": "1.35.0-rc.1"}, Etcd: etcd},
			oldest: "1.35.0-rc.1", newest: "1.35.0", next: []string{"1.36"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := UpgradePathsFrom(c.skew)
			if w.Uniform != c.stable || w.Oldest != c.oldest || w.Newest != c.newest || !slices.Equal(w.NextMinors, c.next) {
				t.Errorf("%+v; want settled %v, %q to %q, next %q", w, c.stable, c.oldest, c.newest, c.next)
			}
			if w.OldestKubelet != c.kubelet || w.BlockedFrom != c.blocks {
				t.Errorf("oldest kubelet %q blocks %q, want %q and %q", w.OldestKubelet, w.BlockedFrom, c.kubelet, c.blocks)
			}
		})
	}
}

// TestLatest: an upgrade goes to the newest patch of a minor that a replica runs already.
func TestLatest(t *testing.T) {
	s := Versions{Replicas: map[string]string{"cp1": "1.35.4", "cp2": "1.35.10", "cp3": "1.34.4", "cp4": ""}}
	for minor, want := range map[int]string{34: "1.34.4", 35: "1.35.10", 36: "1.36.0"} {
		if got := s.latest(minor); got != want {
			t.Errorf("1.%d: %s, want %s", minor, got, want)
		}
	}
}

// TestRefusals: every rule is reported once, even if it concerns several replicas.
func TestRefusals(t *testing.T) {
	s := Versions{
		Replicas: map[string]string{"cp1": "1.33.13", "cp2": "1.33.13"},
		Etcd:     map[string]string{"cp1": "3.5.20"},
		Kubelets: map[string]string{"n1": "1.31.0"},
	}
	if refusals := Violations("1.33.14", s); len(refusals) != 1 || !strings.Contains(refusals[0], "etcd") {
		t.Errorf("a patch is refused by %q, want etcd's rule only", refusals)
	}
	refusals := Violations("1.35.4", s)
	for _, want := range []string{"no minor may be skipped", "replica cp1", "replica cp2", "etcd member cp1", "n1"} {
		n := 0
		for _, refusal := range refusals {
			if strings.Contains(refusal, want) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%q is said %d times in\n%s", want, n, strings.Join(refusals, "\n"))
		}
	}
	if len(refusals) != 5 {
		t.Errorf("%d refusals:\n%s", len(refusals), strings.Join(refusals, "\n"))
	}
	if refusals := Violations("1.35.4", Versions{Etcd: s.Etcd}); len(refusals) != 1 {
		t.Errorf("without any replica: %q, want etcd's rule only", refusals)
	}
}

func TestUnknown(t *testing.T) {
	for name, c := range map[string]struct {
		skew Versions
		want []string
	}{
		"nobody was asked": {},
		"all told": {
			skew: Versions{
				Replicas: map[string]string{"cp1": "1.34.4"}, Etcd: map[string]string{"cp1": "3.6.16"},
				Kubelets: map[string]string{},
			},
		},
		"some did not": {
			skew: Versions{
				Replicas: map[string]string{"cp1": "1.34.4", "cp2": ""}, Etcd: map[string]string{"cp3": ""},
				Kubelets: map[string]string{"n1": ""},
			},
			want: []string{"replica cp2 does not", "etcd member cp3 does not", "kubelet of node n1 does not"},
		},
		"no API server answers": {
			skew: Versions{Replicas: map[string]string{"cp1": ""}},
			want: []string{"replica cp1 does not", "no API server reports"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			problems := c.skew.Unknown()
			if len(problems) != len(c.want) {
				t.Fatalf("%q, want %q", problems, c.want)
			}
			for i, problem := range problems {
				if !strings.Contains(problem, c.want[i]) {
					t.Errorf("%q, want %q", problem, c.want[i])
				}
			}
		})
	}
}
