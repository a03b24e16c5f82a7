package etcd

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/etcdtest"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership/membershiptest"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
)

// unitOf returns a unit that starts a release.
func unitOf(version string, flags ...string) string {
	return "[Service]\nExecStart=" + strings.Join(append([]string{machine.Artifacts(version)[0].Path()}, flags...),
		" \\\n  ") + "\n"
}

func TestVersionStep(t *testing.T) {
	s := Spec{Spec: machine.Spec{Version: "3.6.16"}}
	older, newer := unitOf("3.5.35"), unitOf("3.6.16")
	entry := func(version string, healthy bool) *membership.Member {
		return &membership.Member{Version: version, Healthy: healthy}
	}
	for _, c := range []struct {
		name         string
		unit, before string
		entry        *membership.Member
		want         versionStep
	}{
		{"nothing is known", "", "", nil, versionStep{To: "3.6.16"}},
		{"as it is", newer, "", entry("3.6.16", true), versionStep{"3.6.16", "3.6.16", newer}},
		{"to be upgraded", older, "", entry("3.5.35", true), versionStep{"3.5.35", "3.6.16", older}},
		{"to be upgraded, it is down", older, "", nil, versionStep{"3.5.35", "3.6.16", older}},
		{"down", newer, "", entry("", false), versionStep{"3.6.16", "3.6.16", newer}},
		{"cut off before the restart", newer, older, entry("3.5.35", true), versionStep{"3.5.35", "3.6.16", older}},
		{"cut off between stop and start", newer, older, nil, versionStep{"3.5.35", "3.6.16", older}},
		{"cut off while it comes up", newer, older, entry("3.6.16", false), versionStep{"3.5.35", "3.6.16", older}},
		{"cut off when it served", newer, older, entry("3.6.16", true), versionStep{"3.6.16", "3.6.16", newer}},
		{"cut off in a rollback", older, older, nil, versionStep{"3.5.35", "3.6.16", older}},
		{"cut off after a rollback", older, older, entry("3.5.35", true), versionStep{"3.5.35", "3.6.16", older}},
		{"the way back is unknown", newer, "", entry("3.5.35", true), versionStep{"3.5.35", "3.6.16", ""}},
		{"the leftover is another one", unitOf("3.6.15"), older, entry("3.6.15", true), versionStep{
			"3.6.15",
			"3.6.16", unitOf("3.6.15"),
		}},
		{"a unit of somebody else", "ExecStart=/usr/bin/etcd\n", "", nil, versionStep{To: "3.6.16"}},
	} {
		f := machine.Observed{Facts: host.Facts{Files: map[string]host.FileState{}}}
		for path, content := range map[string]string{layout.UnitPath: c.unit, layout.RollbackUnitPath: c.before} {
			if content != "" {
				f.Facts.Files[path] = host.FileState{Content: content}
			}
		}
		if got := versionStepOf(s, f, c.entry); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestVersionStepIsDue(t *testing.T) {
	for step, want := range map[versionStep]bool{
		{From: "3.5.35", To: "3.6.16"}: true, {From: "3.6.16", To: "3.6.16"}: false, {To: "3.6.16"}: false,
	} {
		if got := step.due(); got != want {
			t.Errorf("%+v: %v", step, got)
		}
	}
}

// TestOlderUnit: only the tools of 3.5 know the v2 store.
func TestOlderUnit(t *testing.T) {
	older, newer := unitOf("3.5.35"), unitOf("3.6.16")
	for _, c := range []struct{ name, unit, before, want string }{
		{"nothing is interrupted", older, "", older},
		{"an upgrade was interrupted", newer, older, older},
		{"an upgrade was rolled back", older, older, older},
		{"a downgrade was interrupted", older, newer, older},
		{"a downgrade was interrupted before it changed the unit", newer, newer, newer},
		{"a unit of somebody else", "ExecStart=/usr/bin/etcd\n", older, older},
	} {
		f := machine.Observed{Facts: host.Facts{Files: map[string]host.FileState{
			layout.UnitPath: {Content: c.unit}, layout.RollbackUnitPath: {Content: c.before},
		}}}
		if got := olderUnit(f); got != c.want {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

func TestVersionStepInWords(t *testing.T) {
	for step, want := range map[versionStep]string{
		{From: "3.5.35", To: "3.6.16"}: "upgrade", {From: "3.6.16", To: "3.6.15"}: "upgrade",
		{From: "3.6.16", To: "3.5.35"}: "downgrade", {To: "3.5.35"}: "upgrade",
	} {
		summary := "etcd not " + want + "d"
		if got := step.summaries(); step.noun() != want || step.downgrades() != (want == "downgrade") ||
			got != (stepSummaries{summary, summary + ", and rolled back", summary + ", and not rolled back"}) {
			t.Errorf("%+v: %s, %+v", step, step.noun(), got)
		}
	}
}

// TestSaver: the member that is upgraded saves the snapshot if it can, or else the first voter
// that is healthy and whose machine is reachable.
func TestSaver(t *testing.T) {
	for _, c := range []struct {
		letters, unreachable string
		id                   uint64
		want                 string
	}{
		{"Lhh", "", 1, "cp1"},
		{"Lhh", "", 2, "cp2"},
		{"Lhh", "", 3, "cp3"},
		{"Ldh", "", 2, "cp1"},
		{"Lhh", "10.0.0.2", 2, "cp1"},
		{"Lhh", "10.0.0.1", 1, "cp2"},
		{"Lhl", "", 3, "cp1"},
		{"d", "", 1, ""},
		{"Ld", "10.0.0.1", 2, ""},
	} {
		v := membershiptest.ClusterOf(c.letters)
		reached := map[string]bool{}
		for _, m := range v.Members {
			reached[m.Address()] = m.Address() != c.unreachable
		}
		got := ""
		if m := saver(v, c.id, reached); m != nil {
			got = m.Name
		}
		if got != c.want {
			t.Errorf("%s, %d is upgraded, %q is unreachable: %q saves, want %q", c.letters, c.id, c.unreachable, got, c.want)
		}
	}
}

// atPeers gives the members of a view addresses, and returns the machines they are on.
func atPeers(t *testing.T, version string, v membership.View) (Spec, membership.View, []machine.Observed) {
	t.Helper()
	s := Spec{Spec: machine.Spec{Bundle: etcdtest.Bundle(t), Version: "3.6.16"}}
	var machines []machine.Observed
	for i := range v.Members {
		m, address := &v.Members[i], fmt.Sprintf("10.0.0.%d", i+1)
		m.Name, m.PeerURLs, m.ClientURLs = fmt.Sprint("cp", i+1), []string{membership.PeerURL(address)},
			[]string{membership.ClientURL(address)}
		m.Version = ""
		if m.Healthy {
			m.Version = version
		}
		machines = append(machines, machine.Observed{
			Name: m.Name, Address: address, Record: &machine.Record{ClusterID: s.Bundle.ClusterID},
			Facts: host.Facts{Files: map[string]host.FileState{layout.UnitPath: {Content: unitOf(version,
				"--data-dir=/var/lib/etcd")}}, Dirs: map[string][]string{}},
		})
	}
	return s, v, machines
}

func TestPrepare(t *testing.T) {
	const (
		earlier = "20251201T000000Z-etcd-3.5.35-to-3.6.16.db"
		kept    = "20260101T000000Z-etcd-3.5.35-to-3.6.16.db"
		other   = "20260201T000000Z-etcd-3.6.15-to-3.6.16.db"
	)
	for _, c := range []struct {
		name string
		from string
		view string
		edit func(*membership.View, []machine.Observed) []machine.Observed
		want string // the expected preparation
	}{
		{"the first one", "3.5.35", "Lhh", nil, "install cp1 cp2 cp3, inspect cp1 cp2 cp3, save cp1"},
		{"a patch", "3.6.15", "Lhh", nil, "install cp1 cp2 cp3, save cp1"},
		{"programs are there", "3.6.15", "Lhh", func(_ *membership.View, all []machine.Observed) []machine.Observed {
			all[1].Facts.Dirs[machine.ArtifactDir("3.6.16")] = []string{"etcd", "etcdctl", "etcdutl"}
			return all
		}, "install cp1 cp3, save cp1"},
		{"half of the programs", "3.6.15", "L", func(_ *membership.View, all []machine.Observed) []machine.Observed {
			all[0].Facts.Dirs[machine.ArtifactDir("3.6.16")] = []string{"etcd"}
			return all
		}, "install cp1, save cp1"},
		{"all but one program", "3.6.15", "L", func(_ *membership.View, all []machine.Observed) []machine.Observed {
			all[0].Facts.Dirs[machine.ArtifactDir("3.6.16")] = []string{"etcd", "etcdctl"}
			return all
		}, "install cp1, save cp1"},
		{"a member without a record", "3.6.15", "Lhh", func(_ *membership.View, all []machine.Observed) []machine.Observed {
			all[0].Record = nil
			return all
		}, "install cp2 cp3, save cp2"},
		{"another cluster's record", "3.6.15", "Lhh", func(_ *membership.View, all []machine.Observed) []machine.Observed {
			all[0].Record = &machine.Record{ClusterID: "other"}
			return all
		}, "install cp2 cp3, save cp2"},
		{"it is down itself", "3.6.15", "dLh", nil, "install cp1 cp2 cp3, save cp2"},
		{"in progress", "3.5.35", "Lhh", func(v *membership.View, all []machine.Observed) []machine.Observed {
			v.Members[2].Version = "3.6.16"
			all[2].Facts.Dirs[snapshot.UpgradesDir(layout.DefaultDataDir)] = []string{kept}
			return all
		}, "install cp1 cp2 cp3, inspect cp1 cp2, saved on cp3 (10.0.0.3)"},
		{"in progress, and one before", "3.5.35", "Lhh", func(v *membership.View, all []machine.Observed) []machine.Observed {
			v.Members[2].Version = "3.6.16"
			dir := snapshot.UpgradesDir(layout.DefaultDataDir)
			all[0].Facts.Dirs[dir], all[1].Facts.Dirs[dir] = []string{earlier}, []string{kept}
			return all
		}, "install cp1 cp2 cp3, inspect cp1 cp2, saved on cp2 (10.0.0.2)"},
		{"in progress, after another one", "3.5.35", "Lhh", func(
			v *membership.View, all []machine.Observed,
		) []machine.Observed {
			v.Members[2].Version = "3.6.16"
			all[2].Facts.Dirs[snapshot.UpgradesDir(layout.DefaultDataDir)] = []string{other}
			return all
		}, "install cp1 cp2 cp3, inspect cp1 cp2, save cp1"},
		{
			"an attempt that left none behind", "3.5.35",
			"Lhh", func(_ *membership.View, all []machine.Observed) []machine.Observed {
				all[2].Facts.Dirs[snapshot.UpgradesDir(layout.DefaultDataDir)] = []string{kept}
				return all
			}, "install cp1 cp2 cp3, inspect cp1 cp2 cp3, save cp1",
		},
		{
			"a newer member that came anew", "3.5.35",
			"Lhh", func(v *membership.View, all []machine.Observed) []machine.Observed {
				v.Members[2].Version = "3.6.16"
				return all
			}, "install cp1 cp2 cp3, inspect cp1 cp2, save cp1",
		},
		{"unreachable", "3.6.15", "Lhh", func(_ *membership.View, all []machine.Observed) []machine.Observed {
			all[1] = machine.Observed{Name: "cp2", Address: "10.0.0.2", Err: errors.New("no route to host")}
			return all
		}, "wait: a member's machine cannot be reached: cp2 (10.0.0.2): no route to host"},
		{"unreachable, and no member", "3.6.15", "Lhh", func(_ *membership.View, all []machine.Observed) []machine.Observed {
			return append(all, machine.Observed{Name: "cp4", Address: "10.0.0.4", Err: errors.New("no route to host")})
		}, "install cp1 cp2 cp3, save cp1"},
		{"a machine that is yet empty", "3.6.15", "Lhh", func(_ *membership.View, all []machine.Observed) []machine.Observed {
			return append(all, machine.Observed{Name: "cp4", Address: "10.0.0.4"})
		}, "install cp1 cp2 cp3, save cp1"},
		{"the v2 API", "3.5.35", "Lhh", func(_ *membership.View, all []machine.Observed) []machine.Observed {
			all[1].Facts.Files[layout.UnitPath] = host.FileState{Content: unitOf("3.5.35", "--enable-v2=true")}
			return all
		}, "refuse: etcd on cp2 (10.0.0.2) runs with --enable-v2, which etcd 3.6 does not support"},
		{"the v2 API, switched off", "3.5.35", "L", func(_ *membership.View, all []machine.Observed) []machine.Observed {
			all[0].Facts.Files[layout.UnitPath] = host.FileState{Content: unitOf("3.5.35", "--enable-v2=false")}
			return all
		}, "install cp1, inspect cp1, save cp1"},
		{"the emulated v2 API", "3.5.35", "L", func(_ *membership.View, all []machine.Observed) []machine.Observed {
			all[0].Facts.Files[layout.UnitPath] = host.FileState{Content: unitOf("3.5.35", "--experimental-enable-v2v3=/v2")}
			return all
		}, "refuse: etcd on cp1 (10.0.0.1) runs with --experimental-enable-v2v3, which etcd 3.6 does not support"},
		{"no machine of ours", "3.6.15", "Lh", func(_ *membership.View, all []machine.Observed) []machine.Observed {
			return nil
		}, "refuse: no healthy member is on a reachable machine, so no snapshot can be saved"},
	} {
		s, v, machines := atPeers(t, c.from, membershiptest.ClusterOf(c.view))
		if c.edit != nil {
			machines = c.edit(&v, machines)
		}
		if got := prepareUpgrade(s, c.from, v, v.Members[0].ID, machines).words(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestPrepareImages: the image of a member is prepared on the machines of those members only that have the image that
// it has now. Each other one gets its own in its turn, and the programs here.
func TestPrepareImages(t *testing.T) {
	const present, mirrored = "registry.k8s.io/etcd:3.6.15-0", "registry.example.com/etcd:3.6.15-0"
	for _, c := range []struct {
		name   string
		images [3]string // "": a unit
		lacks  bool      // the programs
		want   string
	}{
		{"all alike", [3]string{present, present, present}, false, "install cp1 cp2 cp3, save cp1"},
		{"a mirror of its own", [3]string{present, mirrored, present}, false, "install cp1 cp3, save cp1"},
		{"its own mirror", [3]string{mirrored, present, present}, false, "install cp1, save cp1"},
		{"a unit", [3]string{present, "", present}, false, "install cp1 cp3, save cp1"},
		{"a mirror, and no programs", [3]string{present, mirrored, ""}, true, "install cp1 cp2 cp3, save cp1"},
	} {
		s, v, machines := atPeers(t, "3.6.15", membershiptest.ClusterOf("Lhh"))
		s.Runtime = machine.StaticPod
		for i, image := range c.images {
			f := &machines[i]
			f.Pod.Answers = true
			if !c.lacks {
				f.Facts.Dirs[machine.ArtifactDir("3.6.16")] = []string{"etcd", "etcdctl", "etcdutl"}
			}
			if image != "" {
				manifest := staticpod.Pod{Name: layout.Product, Image: image, Program: layout.Product}.Manifest()
				f.Facts.Files = map[string]host.FileState{layout.PodPath: {Content: string(manifest)}}
			}
		}
		if got := prepareUpgrade(s, "3.6.15", v, v.Members[0].ID, machines).words(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func (p upgradePreparation) words() string {
	switch {
	case p.Wait != nil:
		return "wait: " + p.Wait.Error()
	case p.Refuse != "":
		return "refuse: " + p.Refuse
	}
	var all []string
	list := func(what string, machines []machine.Observed) {
		if len(machines) > 0 {
			all = append(all, what+" "+strings.Join(names(machines), " "))
		}
	}
	list("install", p.Install)
	list("inspect", p.Inspect)
	if p.Save != nil {
		all = append(all, "save "+p.Save.Name)
	}
	if p.Saved != "" {
		_, on, _ := strings.Cut(p.Saved, " on ")
		all = append(all, "saved on "+on)
	}
	return strings.Join(all, ", ")
}

func TestWayBack(t *testing.T) {
	minor, patch := versionStep{"3.5.35", "3.6.16", "unit"}, versionStep{"3.6.15", "3.6.16", "unit"}
	old, young, silent := membership.Member{Name: "a", Version: "3.5.35"}, membership.Member{Name: "b", Version: "3.6.16"},
		membership.Member{Name: "c"}
	for _, c := range []struct {
		name   string
		step   versionStep
		agreed string
		others []membership.Member
		want   bool
		why    string
	}{
		{"patch", patch, "3.6", []membership.Member{young, young}, true, "same minor version"},
		{"patch, nobody tells", patch, "", nil, true, "same minor version"},
		{
			"a downgrade",
			versionStep{"3.6.16", "3.5.35", "unit"},
			"3.5",
			[]membership.Member{young, old},
			true,
			"etcd 3.6.16 reads what 3.5.35 writes",
		},
		{"a downgrade whose unit is lost", versionStep{"3.6.16", "3.5.35", ""}, "3.5", nil, false, "no longer known"},
		{"minor, the first", minor, "3.5", []membership.Member{old, old}, true, "cluster version is still 3.5"},
		{"minor, the last", minor, "3.5", []membership.Member{young, young}, true, "cluster version is still 3.5"},
		{
			"minor, the last, and it was seen by the others", minor, "3.6",
			[]membership.Member{young, young},
			false,
			"cluster version is now 3.6",
		},
		{
			"minor, nobody tells but one runs the old one", minor, "",
			[]membership.Member{young, old},
			true,
			"member a still runs 3.5.35",
		},
		{"minor, nobody tells", minor, "", []membership.Member{young, silent}, true, "etcd itself refuses"},
		{"minor, alone", minor, "", nil, true, "etcd itself refuses"},
		{"the unit is lost", versionStep{"3.5.35", "3.6.16", ""}, "3.5", []membership.Member{old}, false, "no longer known"},
		{
			"where from is not known",
			versionStep{"", "3.6.16", "unit"},
			"3.5",
			[]membership.Member{old},
			false,
			"no longer known",
		},
	} {
		got, why := mayRollBack(c.step, c.agreed, c.others)
		if got != c.want || !strings.Contains(why, c.why) {
			t.Errorf("%s: %v, %s", c.name, got, why)
		}
	}
}

func TestUnitFailure(t *testing.T) {
	before := host.UnitState{Active: "activating", Restarts: 2}
	for _, c := range []struct {
		now  host.UnitState
		want string
	}{
		{host.UnitState{Active: "activating", Restarts: 2}, ""},
		{host.UnitState{Active: "active", Restarts: 4}, ""},
		{host.UnitState{Active: "activating", Restarts: 5}, "it exited 3 times after the start"},
		{host.UnitState{Active: "failed", Result: "protocol"}, "etcd.service is failed (protocol)"},
		{host.UnitState{Active: "inactive", Result: "assert"}, "etcd.service is inactive (assert)"},
		{host.UnitState{Active: "inactive", Result: "success", Queued: true}, ""},
		{host.UnitState{Active: "failed", Restarts: 5, Queued: true}, "it exited 3 times after the start"},
	} {
		if got := machine.UnitFailure(before, c.now); got != c.want {
			t.Errorf("%+v: %q, want %q", c.now, got, c.want)
		}
	}
}
