package controlplane

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/pod"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

func TestChangesVersion(t *testing.T) {
	s := testSpec(t)
	for _, c := range []struct {
		name  string
		alter func(*machine.Observed)
		want  bool
	}{
		{"as it is", func(*machine.Observed) {}, false},
		{"an older one runs", func(f *machine.Observed) {
			f.Executables[release.APIServer] = component.Artifact("1.35.4", release.APIServer).Path()
		}, true},
		{"one was left behind", func(f *machine.Observed) {
			f.Executables[release.Scheduler] = component.Artifact("1.35.4", release.Scheduler).Path()
		}, true},
		{"an older one would start", func(f *machine.Observed) {
			f.Executables = nil
			edit(f, unit.Path(release.APIServer),
				"[Service]\nExecStart="+component.Artifact("1.35.4", release.APIServer).Path()+" --v=1\n")
		}, true},
		{"the wanted one does not come up", func(f *machine.Observed) { f.Executables = nil }, false},
	} {
		f := converged(t, s)
		c.alter(&f)
		if have := changesVersion(s, f); have != c.want {
			t.Errorf("%s: %v", c.name, have)
		}
	}
	if changesVersion(s, bare()) {
		t.Error("a bare machine changes its version")
	}
}

// busyStore does not answer the first times.
type busyStore struct {
	fakeStore
	late *int
}

func (b busyStore) Versions(context.Context) (map[string]string, error) {
	if *b.late--; *b.late >= 0 {
		return nil, context.DeadlineExceeded
	}
	return map[string]string{"cp1": "3.6.16"}, nil
}

// TestEtcdVersions: etcd is asked once more. An interruption ends that.
func TestEtcdVersions(t *testing.T) {
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	for late, fails := range map[int]bool{0: false, 1: false, 2: true} {
		n := late
		if _, err := etcdVersions(t.Context(), busyStore{late: &n}); (err != nil) != fails {
			t.Errorf("late %d times: %v", late, err)
		}
	}
	n := 1
	if _, err := etcdVersions(interrupted, busyStore{late: &n}); err == nil {
		t.Error("an interruption is not the end")
	}
}

// TestUnknownVersions: what an upgrade needs to know and does not is named; a patch does not need
// the kubelets.
func TestUnknownVersions(t *testing.T) {
	s := testSpec(t)
	s.Version = "1.36.4"
	silent := map[string]string{"b": "", "a": "", "c": "3.6.16"}
	for _, c := range []struct {
		name string
		seen release.Versions
		want []string
	}{
		{"all is known", release.Versions{
			Replicas: map[string]string{"cp1": "1.35.4"}, Etcd: map[string]string{"a": "3.6.16"},
			Kubelets: map[string]string{},
		}, nil},
		{"a patch, kubelets unknown", release.Versions{Replicas: map[string]string{"cp1": "1.36.3"}}, nil},
		{"a minor, kubelets unknown", release.Versions{Replicas: map[string]string{"cp1": "1.35.4"}}, []string{"kubelets"}},
		{"its version and kubelets unknown", release.Versions{}, []string{"kubelets"}},
		{"members are silent", release.Versions{
			Replicas: map[string]string{"cp1": "1.36.3"}, Etcd: silent,
		}, []string{"etcd member a does not answer", "etcd member b does not answer"}},
	} {
		got := unknownVersions(s, c.seen)
		if len(got) != len(c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(got[i], want) {
				t.Errorf("%s: %q, want %q", c.name, got[i], want)
			}
		}
	}
}

// TestReplicasNotReady: each other replica must report its version, be ready, and be in rotation.
func TestReplicasNotReady(t *testing.T) {
	s := unreachable(t)
	at := func(name, version string) replicaStatus {
		return replicaStatus{
			name: name, address: "127.0.0.1", port: 6443, host: s.Host, version: version, unknown: errors.New("no answer"),
		}
	}
	registrar := &recordingRegistrar{members: map[string]string{"cp3": "127.0.0.1:6443"}}
	s.Registrar = registrar
	all := []replicaStatus{at(s.Name, ""), at("cp2", "1.36.3"), at("cp3", "1.36.3"), at("cp4", "")}
	got := replicasNotReady(t.Context(), s, all)
	count, unregistered := map[string]int{}, ""
	for _, text := range got {
		if !strings.HasPrefix(text, "replica cp") {
			t.Errorf("it is not said which replica: %q", text)
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(text, "replica "), " ")
		count[name]++
		if strings.Contains(text, "not registered") {
			unregistered += name
		}
	}
	if unregistered != "cp2" || count[s.Name] > 0 || count["cp2"] != count["cp3"]+1 || count["cp3"] == 0 ||
		count["cp4"] != 1 ||
		!strings.Contains(got[len(got)-1], "cp4 (127.0.0.1) does not report its version: no answer") {
		t.Errorf("%q", got)
	}
	s.Registrar = unseenRegistrar{registrar}
	if got := at("cp3", "1.36.3").notReady(t.Context(), s); len(got) != count["cp3"]+2 ||
		!strings.Contains(got[len(got)-2], "not registered on lb1") ||
		!strings.Contains(got[len(got)-1], "its registration cannot be seen: no balancer answers") {
		t.Errorf("%q", got)
	}
}

// unseenRegistrar does not know all of what is registered.
type unseenRegistrar struct{ *recordingRegistrar }

func (unseenRegistrar) Registered(context.Context, string, string) ([]string, error) {
	return []string{"not registered on lb1"}, errors.New("no balancer answers")
}

// TestUpgradeComparesKeys: a version may change together with a bundle that has other keys at the same stage, as one
// from another copy of the state does. What the replica has signed would be refused.
func TestUpgradeComparesKeys(t *testing.T) {
	base := unreachable(t)
	for _, version := range []string{base.Version, "1.36.4"} {
		s := base
		s.Bundle = cptest.At(t, base.Bundle, pki.ServiceAccountPart, 2)
		f := converged(t, s)
		s.Bundle, s.Version = cptest.At(t, base.Bundle, pki.ServiceAccountPart, 2), version
		s.Registrar = &recordingRegistrar{}
		err := NewReplicas(nil).checkChange(t.Context(), s, f, heldLock{})
		if !problem.Untouched(err) || !strings.Contains(cptest.Text(err), "at generation 2 of service-account with another") {
			t.Errorf("%s: %v", version, err)
		}
	}
}

// TestUpgradingStatus: while an upgrade of a replica is interrupted, its version is the one from before, whoever asks.
func TestUpgradingStatus(t *testing.T) {
	s := testSpec(t)
	for name, c := range map[string]struct {
		before, want string
		upgrading    bool
	}{
		"no change":      {"", s.Version, false},
		"another change": {s.Version, s.Version, false},
		"an upgrade":     {"1.35.4", "1.35.4", true},
	} {
		f := converged(t, s)
		if c.before != "" {
			f.Rollback = &machine.RollbackRecord{Version: c.before}
		}
		st := replicaStatus{name: s.Name}
		if st.read(s.Bundle.ClusterID, f); st.version != c.want || st.upgrading != c.upgrading {
			t.Errorf("%s: %+v", name, st)
		}
	}
}

// TestRunsFirst: the snapshot is saved before the first API server of a version, whether that is upgraded or created.
func TestRunsFirst(t *testing.T) {
	s := testSpec(t)
	at := func(name, version string) replicaStatus { return replicaStatus{name: name, version: version} }
	for name, c := range map[string]struct {
		all  []replicaStatus
		want bool
	}{
		"a new control plane":              {nil, false},
		"an upgrade":                       {[]replicaStatus{at(s.Name, "1.35.4"), at("cp2", "1.35.4")}, true},
		"its only replica":                 {[]replicaStatus{at(s.Name, "1.35.4")}, true},
		"the second upgrade":               {[]replicaStatus{at(s.Name, "1.35.4"), at("cp2", s.Version)}, false},
		"a new replica":                    {[]replicaStatus{at("cp2", "1.35.4"), at("cp3", "1.35.4")}, true},
		"a new replica, not the first one": {[]replicaStatus{at("cp2", "1.35.4"), at("cp3", s.Version)}, false},
		"an upgrade was interrupted": {
			[]replicaStatus{at(s.Name, "1.35.4"), {name: "cp2", version: "1.35.4", upgrading: true}}, false,
		},
	} {
		if got := runsFirst(s, c.all); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// savingStore counts the snapshots.
type savingStore struct {
	fakeStore
	saved *[]string
	err   error
}

func (b savingStore) Save(_ context.Context, label string) (string, error) {
	*b.saved = append(*b.saved, label)
	return "cp1:/x.db", b.err
}

// TestSaveBeforeJoin: replicas that are created together save one snapshot. Without one, none is created.
func TestSaveBeforeJoin(t *testing.T) {
	s := unreachable(t)
	s.Registrar = &recordingRegistrar{}
	var saved []string
	full := errors.New("no space")
	r := NewReplicas(nil)
	for _, fails := range []error{full, nil, nil} {
		s.Store = savingStore{saved: &saved, err: fails}
		if err := r.saveBeforeJoin(t.Context(), s); !errors.Is(err, fails) || err != nil && !problem.Untouched(err) {
			t.Errorf("%v, want %v", err, fails)
		}
	}
	if len(saved) != 2 || saved[1] != "kubernetes-"+s.Version {
		t.Errorf("saved %q", saved)
	}
}

// TestImagesOfOtherReplicas: before an upgrade, the machine of another replica gets images of the repository that it
// has. Where its next one is not known, it gets none.
func TestImagesOfOtherReplicas(t *testing.T) {
	const mirror = "mirror.example.com/kubernetes"
	observed := func(name, runtime, repository string) replicaStatus {
		s := testSpec(t)
		s.Name, s.Runtime, s.ImageRepository = name, runtime, repository
		st := replicaStatus{name: name}
		st.read(s.Bundle.ClusterID, converged(t, s))
		return st
	}
	own, another := observed("cp1", component.StaticPod, ""), observed("cp2", component.StaticPod, mirror)
	unknown := another
	unknown.repository = ""
	for name, c := range map[string]struct {
		runtime, repository string
		own, other          replicaStatus
		want                string // the first image; "none": nothing is installed
	}{
		"another repository": {component.StaticPod, "", own, another, mirror + "/kube-apiserver:v1.36.4"},
		"the same": {
			component.StaticPod, mirror, observed("cp1", component.StaticPod, mirror), another,
			mirror + "/kube-apiserver:v1.36.4",
		},
		"kubeadm's": {
			component.StaticPod, mirror, observed("cp1", component.StaticPod, mirror),
			observed("cp2", component.StaticPod, ""), "registry.k8s.io/kube-apiserver:v1.36.4",
		},
		"it changes with the version": {component.StaticPod, mirror, own, another, "none"},
		"it is not known":             {component.StaticPod, "", own, unknown, "none"},
		"another runtime":             {component.StaticPod, "", own, observed("cp2", "", ""), "none"},
		"units":                       {"", "", observed("cp1", "", ""), observed("cp2", "", ""), ""},
	} {
		s := testSpec(t)
		s.Version, s.Runtime, s.ImageRepository = "1.36.4", c.runtime, c.repository
		others := othersToInstall(s, []replicaStatus{c.own, c.other})
		if c.want == "none" {
			if len(others) > 0 {
				t.Errorf("%s: %d others", name, len(others))
			}
			continue
		}
		if len(others) != 1 || others[0].Name != "cp2" {
			t.Errorf("%s: %d others", name, len(others))
			continue
		}
		if got := pod.Images(others[0].Replica)[0].Reference; c.want != "" && got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
