package acceptance

import "testing"

// TestRotationDetours makes changes in the middle of a rotation that happen in the lifetime of
// a cluster: a machine is rebuilt, more machines join, the rotation goes back one stage and
// forward again, and a machine is dead when the last stage is applied.
func TestRotationDetours(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	w := newStory(t, append(names, "cp4", "cp5")...)
	bare := fingerprints(t, append(names, "cp4", "cp5")...)
	choose(t, w, names...)
	apply(t, w)
	r := &rotated{w: w, names: names, etcd: stageCredentials{}}
	r.remember(t)
	for _, step := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"a machine is rebuilt while the next is introduced", r.rebuildInFirstStage},
		{"back and forth", r.backAndForth},
		{"more machines join while the next is adopted", r.grow},
		{"a machine is dead when the last stage is asked for", r.deadInLastStage},
	} {
		if !t.Run(step.name, step.run) {
			t.FailNow()
		}
	}
	apply(t, w, "-destroy")
	expectBare(t, bare, "cp1", "cp2", "cp4", "cp5") // cp3 was rebuilt
}

// convergeAt applies a generation.
func (r *rotated) convergeAt(t *testing.T, generation int, args ...string) {
	t.Helper()
	rotateTo(t, r.w, generation)
	apply(t, r.w, args...)
	r.etcd[generation] = credentials{tls: etcdCredentials(t, "cp1")}
	r.expectStage(t, generation)
}

func (r *rotated) rebuildInFirstStage(t *testing.T) {
	r.convergeAt(t, 1)
	if err := shared.lab.Machine("cp3").Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	trustNewHostKeys(t, r.w)
	apply(t, r.w)
	r.expectTrust(t, 1)
	expectHealthy(t, r.w, r.names)
}

func (r *rotated) backAndForth(t *testing.T) {
	l := r.load(t, r.first.kubeconfig, true)
	rotateTo(t, r.w, 2)
	apply(t, r.w, "-target="+memberAddress("cp2"))
	apply(t, r.w)
	rotateTo(t, r.w, 1)
	apply(t, r.w)
	rotateTo(t, r.w, 2)
	apply(t, r.w)
	undisturbed(t, l)
	r.etcd[2] = credentials{tls: etcdCredentials(t, "cp1")}
	r.expectTrust(t, 2)
	expectHealthy(t, r.w, r.names)
}

func (r *rotated) grow(t *testing.T) {
	l := r.load(t, r.first.kubeconfig, true)
	before := processes(t, r.names...)
	r.names = []string{"cp1", "cp2", "cp3", "cp4", "cp5"}
	choose(t, r.w, r.names...)
	apply(t, r.w)
	expectRestarted(t, before, nil)
	undisturbed(t, l)
	expectHealthy(t, r.w, r.names)
	r.expectTrust(t, 2)
	r.first.account.expectKnown(t, "on all", firstAccount, servers(r.names...)...)
}

// deadInLastStage checks that the last stage removes nothing while a machine does not answer,
// because it is not known which authorities the machine trusts.
func (r *rotated) deadInLastStage(t *testing.T) {
	dead := shared.lab.Machine("cp5")
	if err := dead.PowerOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	rotateTo(t, r.w, 3)
	expectContains(t, untouched(t, r.w, []string{"cp1", "cp2", "cp3", "cp4"}, nil),
		"it cannot be determined which etcd CA cp5 (10.97.0.15) trusts", "Unchanged: nothing was changed",
		"recover the machine, or destroy the member if the machine is permanently lost")
	if err := dead.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitRotation(t, r.names...)
	r.convergeAt(t, 3)
	expectHealthy(t, r.w, r.names)
}
