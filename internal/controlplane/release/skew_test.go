package release

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestMayRun(t *testing.T) {
	replicas := func(versions ...string) Versions {
		s := Versions{Replicas: map[string]string{}}
		for i, version := range versions {
			s.Replicas["cp"+string(rune('1'+i))] = version
		}
		return s
	}
	kubelets := func(versions map[string]string) Versions {
		s := replicas("1.33.13", "1.33.13", "1.33.13")
		s.Kubelets = versions
		return s
	}
	newer := func(versions map[string]string) Versions { // than a minor that no replica runs
		s := replicas("1.34.4")
		s.Kubelets = versions
		return s
	}
	etcd := func(versions map[string]string) Versions {
		s := replicas("1.33.13")
		s.Etcd = versions
		return s
	}
	for _, c := range []struct {
		name, version, replica string
		skew                   Versions
		want                   []string // parts of the refusal; none if it is allowed
	}{
		{name: "nothing is known", version: "1.34.4", replica: "cp1"},
		{name: "the first to go", version: "1.34.4", replica: "cp1", skew: replicas("1.33.13", "1.33.13", "1.33.13")},
		{name: "the last to go", version: "1.34.4", replica: "cp3", skew: replicas("1.34.4", "1.34.4", "1.33.13")},
		{name: "a patch", version: "1.34.4", replica: "cp1", skew: replicas("1.34.3", "1.34.3")},
		{name: "a patch back", version: "1.34.3", replica: "cp1", skew: replicas("1.34.4", "1.34.4")},
		{name: "one does not tell", version: "1.34.4", replica: "cp1", skew: replicas("1.33.13", "")},
		{name: "it does not tell itself", version: "1.34.4", replica: "cp1", skew: replicas("", "1.33.13")},
		{
			name: "a minor skipped", version: "1.35.4", replica: "cp1", skew: replicas("1.33.13"),
			want: []string{"from 1.33.13 to 1.35.4: no minor may be skipped; go to 1.34 first"},
		},
		{
			name: "lowered", version: "1.33.13", replica: "cp1", skew: replicas("1.34.4", "1.34.4"),
			want: []string{"from 1.34.4 to 1.33.13: a minor is never lowered"},
		},
		{
			name: "another one has not taken the step before", version: "1.35.4", replica: "cp1",
			skew: replicas("1.34.4", "1.33.13", "1.34.4"),
			want: []string{
				"replica cp2 is at 1.33.13, more than one minor below 1.35.4", "within one minor of each other",
				"upgrade it to 1.34 first",
			},
		},
		{name: "a new one, newer", version: "1.35.4", replica: "cp4", skew: replicas("1.34.4", "1.34.4", "1.34.4")},
		{name: "a new one, older", version: "1.33.13", replica: "cp4", skew: replicas("1.34.4", "1.34.4", "1.34.4")},
		{
			name: "a new one, too old", version: "1.33.13", replica: "cp4", skew: replicas("1.34.4", "1.35.4"),
			want: []string{"replica cp2 is at 1.35.4, more than one minor above 1.33.13", "choose 1.34 or 1.35"},
		},
		{
			name: "kubelets", version: "1.34.4", replica: "cp1",
			skew: kubelets(map[string]string{"a": "1.31.0", "b": "1.34.9", "c": "1.33.5+k3s1", "d": "", "e": "of somebody's"}),
		},
		{
			name: "kubelets too old", version: "1.34.4", replica: "cp1",
			skew: kubelets(map[string]string{"a": "1.30.9", "b": "1.30.1-gke.5", "c": "1.31.0"}),
			want: []string{
				"more than 3 minors older", "upgrade the kubelets of nodes a (1.30.9), b (1.30.1-gke.5) to 1.31 first",
			},
		},
		{
			name: "kubelets too new", version: "1.33.13", replica: "cp9",
			skew: newer(map[string]string{"a": "1.34.0", "b": "1.35.1"}),
			want: []string{
				"the kubelets of nodes a (1.34.0), b (1.35.1) would be newer than the API server, which is not supported: " +
					"choose 1.35 or newer",
			},
		},
		{
			name: "one kubelet too new", version: "1.33.13", replica: "cp9",
			skew: newer(map[string]string{"a": "1.34.0", "b": "1.33.1"}),
			want: []string{"a (1.34.0) would be newer than the API server"},
		},
		{
			name: "a kubelet too new for the minor that others serve", version: "1.36.3", replica: "cp3",
			skew: Versions{
				Replicas: map[string]string{"cp1": "1.37.2", "cp2": "1.36.3"}, Kubelets: map[string]string{"cp1": "1.37.2"},
			},
		},
		{
			name: "a patch with a kubelet too new", version: "1.36.4", replica: "cp2",
			skew: Versions{
				Replicas: map[string]string{"cp1": "1.37.2", "cp2": "1.36.3"}, Kubelets: map[string]string{"cp1": "1.37.2"},
			},
		},
		{
			name: "a patch with a kubelet too old", version: "1.33.14", replica: "cp1",
			skew: kubelets(map[string]string{"a": "1.29.0"}),
		},
		{
			name: "a kubelet too old for the first of a minor", version: "1.34.4", replica: "cp4",
			skew: kubelets(map[string]string{"a": "1.30.0"}), want: []string{"a (1.30.0) to 1.31 first"},
		},
		{
			name: "many kubelets", version: "1.34.4", replica: "cp1",
			skew: kubelets(map[string]string{
				"a": "1.30.0", "b": "1.30.0", "c": "1.30.0", "d": "1.30.0", "e": "1.30.0", "f": "1.30.0", "g": "1.30.0",
			}),
			want: []string{"e (1.30.0), and 2 more to 1.31"},
		},
		{
			name: "etcd", version: "1.34.4", replica: "cp1",
			skew: etcd(map[string]string{"e1": "3.5.35", "e2": "", "e3": "3.6.16"}),
		},
		{
			name: "one etcd member too old", version: "1.34.4", replica: "cp1",
			skew: etcd(map[string]string{"e1": "3.5.35", "e2": "3.4.30"}),
			want: []string{"etcd member e2: etcd 3.4.30 is too old"},
		},
		{
			name: "all reasons at once", version: "1.35.4", replica: "cp1",
			skew: Versions{
				Replicas: map[string]string{"cp1": "1.33.13", "cp2": "1.33.13"},
				Etcd:     map[string]string{"e1": "3.4.30"}, Kubelets: map[string]string{"a": "1.31.0"},
			},
			want: []string{"from 1.33.13 to 1.35.4", "replica cp2", "etcd member e1", "nodes a (1.31.0) to 1.32 first"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := CheckSkew(c.version, c.replica, c.skew)
			if (err == nil) != (len(c.want) == 0) {
				t.Fatalf("%v, want %q", err, c.want)
			}
			for _, want := range c.want {
				if !strings.Contains(message(err), want) {
					t.Errorf("%q is not in %v", want, err)
				}
			}
			if err != nil && !errors.Is(err, ErrSkew) && !errors.Is(err, ErrVersionStep) {
				t.Errorf("no sentinel: %v", err)
			}
		})
	}
}

// TestUnreadableVersions: a version that cannot be read is never taken for one that fits.
func TestUnreadableVersions(t *testing.T) {
	if err := CheckSkew("1.34", "cp1", Versions{}); !errors.Is(err, ErrVersionMalformed) {
		t.Errorf("a malformed version is wanted: %v", err)
	}
	s := Versions{Replicas: map[string]string{"cp1": "1.34.4", "cp2": "somebody's"}}
	if err := CheckSkew("1.34.5", "cp1", s); !errors.Is(err, ErrVersionMalformed) {
		t.Errorf("another replica has a malformed version: %v", err)
	}
}

func TestShorten(t *testing.T) {
	for names, want := range map[string]string{
		"a": "a", "a b c d e": "a, b, c, d, e", "a b c d e f": "a, b, c, d, e, and 1 more",
	} {
		if got := shorten(strings.Fields(names)); got != want {
			t.Errorf("%s: %q, want %q", names, got, want)
		}
	}
}

func TestParseDeprecated(t *testing.T) {
	const metrics = `# HELP apiserver_requested_deprecated_apis [STABLE] Gauge of deprecated APIs
# TYPE apiserver_requested_deprecated_apis gauge
apiserver_requested_deprecated_apis{group="",removed_release="",` +
		`resource="componentstatuses",subresource="",version="v1"} 1
apiserver_requested_deprecated_apis{group="flowcontrol.apiserver.k8s.io",removed_release="1.32",` +
		`resource="flowschemas",subresource="",version="v1beta3"} 1
apiserver_requested_deprecated_apis{group="example.com",removed_release="1.36",` +
		`resource="later",subresource="",version="v1beta1"} 1
apiserver_request_total{code="200"} 5
`
	flows := "flowschemas of flowcontrol.apiserver.k8s.io/v1beta3 (removed in 1.32)"
	for minor, want := range map[int][]string{
		31: nil, 32: {flows}, 35: {flows}, 36: {flows, "later of example.com/v1beta1 (removed in 1.36)"},
	} {
		have, err := RemovedAPIs(strings.NewReader("# "+strings.Repeat("x", 100_000)+"\n"+metrics), minor)
		if err != nil || !slices.Equal(have, want) {
			t.Errorf("1.%d: %q, %v; want %q", minor, have, err, want)
		}
	}
	if _, err := RemovedAPIs(strings.NewReader(strings.Repeat("x", 2<<20)), 35); err == nil {
		t.Error("metrics that cannot be read are no error")
	}
}
