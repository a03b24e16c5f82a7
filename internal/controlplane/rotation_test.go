package controlplane

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

func generations(kubernetes, encryption int) map[pki.Part]int {
	return map[pki.Part]int{pki.KubernetesPart: kubernetes, pki.EncryptionPart: encryption}
}

func TestCheckStages(t *testing.T) {
	stands := func(name string, kubernetes, encryption int) replicaStatus {
		return replicaStatus{name: name, address: "10.0.0.12", generations: generations(kubernetes, encryption)}
	}
	dead := replicaStatus{name: "cp3", address: "10.0.0.13", unknown: fmt.Errorf("connect: %w", host.ErrUnreachable)}
	unsettled := replicaStatus{
		name: "cp3", address: "10.0.0.13", unknown: errors.New("kube-apiserver was started with another sa.pub"),
	}
	for _, c := range []struct {
		name   string
		target map[pki.Part]int
		others []replicaStatus
		joins  bool
		want   []string // parts of the refusal; none if it is allowed
	}{
		{name: "alone", target: generations(3, 0)},
		{
			name: "the first to go", target: generations(1, 0),
			others: []replicaStatus{stands("cp2", 0, 0), stands("cp3", 0, 0)},
		},
		{
			name: "the last to go", target: generations(1, 0),
			others: []replicaStatus{stands("cp2", 1, 0), stands("cp3", 1, 0)},
		},
		{name: "two stages behind the others' next", target: generations(2, 0), others: []replicaStatus{stands("cp2", 1, 0)}},
		{name: "back", target: generations(2, 0), others: []replicaStatus{stands("cp2", 3, 0)}},
		{
			name: "another one is two stages behind", target: generations(2, 1),
			others: []replicaStatus{stands("cp2", 0, 0), stands("cp3", 1, 0)},
			want: []string{
				"replica cp2 (10.0.0.12) is at generation 0 of kubernetes", "would go to 2",
				"set rotation.kubernetes back to 1, apply, then raise it again",
			},
		},
		{
			name: "another one is two stages ahead", target: generations(0, 3), others: []replicaStatus{stands("cp2", 0, 5)},
			want: []string{"is at generation 5 of encryption", "set rotation.encryption to 4, apply, then lower it again"},
		},
		{
			name: "unreachable", target: generations(1, 0), others: []replicaStatus{stands("cp2", 1, 0), dead},
			want: []string{
				"cannot determine the rotation stage of replica cp3 (10.0.0.13)", "bring it back", "destroy its replica",
			},
		},
		{
			name: "in the middle of a change", target: generations(1, 0), others: []replicaStatus{unsettled},
			want: []string{"another sa.pub"},
		},
		{
			name: "a new one, answered for", target: generations(3, 0), others: []replicaStatus{stands("cp2", 3, 0), dead},
			joins: true,
		},
		{
			name: "a new one, not answered for", target: generations(3, 0), others: []replicaStatus{stands("cp2", 2, 0), dead},
			joins: true, want: []string{"cannot determine"},
		},
		{
			name: "a new one beside one that is being changed", target: generations(3, 0),
			others: []replicaStatus{stands("cp2", 3, 0), unsettled}, joins: true, want: []string{"cannot determine"},
		},
		{
			name: "a new one, and neither an empty machine nor a dead one answers for it", target: generations(0, 0),
			others: []replicaStatus{{name: "cp2", absent: true}, dead}, joins: true, want: []string{"cannot determine"},
		},
		{name: "nothing there", target: generations(3, 0), others: []replicaStatus{{name: "cp3", absent: true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := checkStages(testSpec(t), c.target, c.others, c.joins)
			if (err == nil) != (len(c.want) == 0) {
				t.Fatalf("%v, want %q", err, c.want)
			}
			for _, want := range c.want {
				if !strings.Contains(cptest.Text(err), want) {
					t.Errorf("%q is not in %v", want, err)
				}
			}
			if err != nil && (!errors.Is(err, errRotationNotYet) || !problem.Untouched(err)) {
				t.Errorf("not waited for: %v", err)
			}
		})
	}
}

// TestReplicaStatus: a process runs with the files on disk, or the difference is reported.
func TestReplicaStatus(t *testing.T) {
	started := unit.StartNotePath
	for _, c := range []struct {
		name  string
		alter func(*machine.Observed)
		want  string
	}{
		{"as it was made", func(*machine.Observed) {}, ""},
		{
			"a file replaced since", func(f *machine.Observed) { edit(f, component.SAPub, "x") },
			"kube-apiserver was started with another " + component.SAPub,
		},
		{
			"a unit replaced since", func(f *machine.Observed) { edit(f, unit.Path(release.Scheduler), "x") },
			"kube-scheduler was started with another",
		},
		{"a file that is reloaded", func(f *machine.Observed) { edit(f, component.ClientCA, "x") }, ""},
		{
			"no note", func(f *machine.Observed) { f.Facts.Files[started(release.APIServer)] = host.FileState{} },
			"kube-apiserver runs without a record of the files it has read",
		},
		{"stopped", func(f *machine.Observed) {
			f.Facts.Files[started(release.APIServer)] = host.FileState{}
			alterUnit(f, release.APIServer, func(u *host.UnitState) { u.Active = "inactive" })
		}, ""},
		{"between two starts", func(f *machine.Observed) {
			edit(f, component.SAPub, "x")
			alterUnit(f, release.APIServer, func(u *host.UnitState) { u.Active, u.Sub = "activating", "auto-restart" })
		}, ""},
		{"ending", func(f *machine.Observed) {
			edit(f, component.SAPub, "x")
			alterUnit(f, release.APIServer, func(u *host.UnitState) { u.Active = "deactivating" })
		}, "was started with another"},
		{"of an earlier version, whose etcd member has gone ahead", func(f *machine.Observed) {
			state := f.Facts.Files[started(release.APIServer)]
			state.Content += systemd.StartNoteEntry("0123", component.EtcdCA)
			f.Facts.Files[started(release.APIServer)] = state
		}, ""},
	} {
		f := converged(t, testSpec(t))
		c.alter(&f)
		if err := machine.StaleProcess(f, release.Components()); (c.want == "") != (err == nil) ||
			!strings.Contains(cptest.Text(err), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestStaleProcessChecksEveryInput(t *testing.T) {
	s := testSpec(t)
	s.Bundle = cptest.Encrypting(s.Bundle, cptest.Secretbox("key1", "secrets"))
	asked := strings.Join(append(machine.StatusQuery().Files, machine.StatusQuery().Contents...), " ")
	for _, c := range component.Of(s.Replica) {
		for _, path := range append([]string{unit.Path(c.Name)}, c.Inputs...) {
			if !strings.Contains(asked, path) {
				t.Errorf("%s of %s is not asked for", path, c.Name)
			}
		}
	}
}

// TestUnreachablePeers: no machine is changed while another one cannot be reached.
func TestUnreachablePeers(t *testing.T) {
	s := testSpec(t)
	f := converged(t, s)
	s.Registrar = &recordingRegistrar{others: map[string]string{"cp1": "10.0.0.11:6443", "cp2": "127.0.0.1:6443"}}
	r := NewReplicas(func(string) *host.Host { return unreachable(t).Host })
	if err := r.checkRotation(t.Context(), s, f); err != nil {
		t.Errorf("without a rotation: %v", err)
	}
	s.Bundle = cptest.At(t, s.Bundle, pki.KubernetesPart, 1)
	if err := r.checkRotation(t.Context(), s, f); !problem.Untouched(err) ||
		!strings.Contains(cptest.Text(err), "cannot determine the rotation stage of replica cp2 (127.0.0.1)") {
		t.Errorf("%v", err)
	}
	if _, err := r.EtcdGeneration(t.Context(), "127.0.0.1"); !errors.Is(err, host.ErrUnreachable) {
		t.Errorf("%v", err)
	}
}

func TestIntermediateStage(t *testing.T) {
	base := testSpec(t).Bundle
	for _, c := range []struct {
		name         string
		from, to     int
		cutOff, goes bool
	}{
		{name: "stage by stage", from: 2, to: 3},
		{name: "a stage was missed", from: 1, to: 3, goes: true},
		{name: "put back from a backup", from: 0, to: 3, goes: true},
		{name: "a stage was written and not taken", from: 2, to: 3, cutOff: true, goes: true},
		{name: "a stage was missed in which nothing is dropped", from: 0, to: 2},
		{name: "back", from: 4, to: 3},
	} {
		s := testSpec(t)
		s.Bundle = cptest.At(t, base, pki.EncryptionPart, c.from)
		f := converged(t, s)
		if c.cutOff {
			edit(&f, component.EncryptionConfigPath, "x")
		}
		s.Bundle = cptest.At(t, s.Bundle, pki.EncryptionPart, c.to)
		between, goes := intermediateStage(s, f)
		if goes != c.goes || goes && between.Bundle.Generation(pki.EncryptionPart) != c.to-1 {
			t.Errorf("%s: %v, generation %d", c.name, goes, between.Bundle.Generation(pki.EncryptionPart))
		}
		if s.Bundle.Generation(pki.EncryptionPart) != c.to {
			t.Errorf("%s: the wanted bundle was changed", c.name)
		}
	}
	s := testSpec(t)
	s.Bundle = cptest.At(t, base, pki.EncryptionPart, 1)
	f := converged(t, s)
	forgotten := *cptest.At(t, s.Bundle, pki.EncryptionPart, 3)
	forgotten.EncryptionRotation.Other, s.Bundle = nil, &forgotten
	if between, goes := intermediateStage(s, f); goes || between.Bundle != s.Bundle {
		t.Error("a stage whose encryption is unknown is gone through")
	}
}

func TestLosesTrust(t *testing.T) {
	old := testSpec(t).Bundle
	both := cptest.At(t, old, pki.EtcdPart, 1)
	last := cptest.At(t, both, pki.EtcdPart, 3)
	a, ab, b := old.Anchors(pki.Etcd), both.Anchors(pki.Etcd), last.Anchors(pki.Etcd)
	for _, c := range []struct {
		before, after string
		want          bool
	}{{"", a, false}, {a, a, false}, {a, ab, false}, {ab, ab, false}, {ab, b, true}, {ab, a, true}, {a, b, true}} {
		if pki.Loses(c.before, c.after) != c.want {
			t.Errorf("want %v for\n%s\n%s", c.want, c.before, c.after)
		}
	}
}

func TestAllAtGeneration(t *testing.T) {
	s := testSpec(t)
	s.Bundle = cptest.At(t, s.Bundle, pki.EncryptionPart, 2)
	stands := func(g int) replicaStatus { return replicaStatus{generations: generations(0, g)} }
	for _, c := range []struct {
		others []replicaStatus
		want   bool
	}{
		{nil, true},
		{[]replicaStatus{stands(2), {absent: true}}, true},
		{[]replicaStatus{stands(2), stands(1)}, false},
		{[]replicaStatus{stands(2), {unknown: errors.New("x")}}, false},
	} {
		if have := allAtGeneration(s, pki.EncryptionPart, c.others); have != c.want {
			t.Errorf("%v: %v", c.others, have)
		}
	}
}
