package etcd

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// TestRestoreWithoutAMachine recovers a cluster from a survivor while one machine is off, which is switched on in the
// middle. Its member has the data of the former cluster, whose quorum it would be a part of.
func TestRestoreWithoutAMachine(t *testing.T) {
	testrun.Long(t)
	onMachines(t, "etcdoff", "10.61.0.0/24", []string{newRelease}, func(t *testing.T) {
		r := newRig(t)
		r.all("create", r.create)
		const archive = "/var/lib/etcd-archive/requested"
		r.ctl("cp1", "put /registry/pods/a first")
		r.sh("cp3", "mkdir -p "+archive)
		r.ctl("cp3", "snapshot save "+archive+"/first.db")
		saved := r.revision("cp3")
		r.powerOff("cp1")
		r.ctl("cp3", "endpoint health || until c endpoint health; do sleep 0.1; done", // cp1 may have been the leader
			"put /registry/pods/a late")
		before := r.revision("cp3")
		r.lose("cp2")

		r.request("off", machine.Restore{Member: "cp3"})
		r.refusesSilent()
		r.edit(func(s *Spec) { s.Abandoned = host.AbandonedAt(address(r.lab, 0)) }, everyone...)
		r.planSays(archive+"/first.db on cp3", fmt.Sprintf("up to revision %d.", saved),
			fmt.Sprintf("%d of its revisions, up to %d.", before-saved, before), "Given up", "cp1 (",
			"What member cp3 does not have is lost")
		r.recoversWhileItBoots()
		r.stranger("late")
		r.edit(func(s *Spec) { s.Abandoned = nil }, everyone...)
		r.joinsAnew(before)
		r.all("destroy", r.delete)
	})
}

func (r *rig) powerOff(name string) {
	r.t.Helper()
	if err := r.lab.Machine(name).PowerOff(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) planSays(words ...string) {
	r.t.Helper()
	plan, err := r.clusters.PreviewRestore(r.t.Context(), r.specs["cp3"])
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Log(plan)
	for _, word := range words {
		if !strings.Contains(plan, word) {
			r.t.Errorf("the plan lacks %q", word)
		}
	}
}

// refusesSilent expects that nothing is restored while a machine is silent that nobody has given up.
func (r *rig) refusesSilent() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Minute)
	defer cancel()
	for name, err := range together(r.t, r.specs, func(s Spec) error { return r.update(ctx, s) }, "cp2", "cp3") {
		if err == nil || !strings.Contains(err.Error(), "abandon_unreachable_hosts") {
			r.t.Fatalf("%s: %v", name, err)
		}
	}
}

// recoversWhileItBoots applies all members. When the data of the others is archived, cp1 boots.
func (r *rig) recoversWhileItBoots() {
	r.t.Helper()
	var boot sync.Once
	began := time.Now()
	ctx, cancel := context.WithTimeout(r.t.Context(), 4*time.Minute)
	defer cancel()
	ctx = problem.WithReport(ctx, problem.Report{Progress: func(line string) {
		r.t.Logf("  %6dms %s", time.Since(began).Milliseconds(), line)
		if !strings.Contains(line, "archiving its data") {
			return
		}
		boot.Do(func() { r.switchOn(ctx, "cp1") })
	}})
	errs := together(r.t, r.specs, func(s Spec) error { return r.update(ctx, s) }, everyone...)
	for _, name := range []string{"cp2", "cp3"} {
		if errs[name] != nil {
			r.t.Fatalf("%s: %v", name, errs[name])
		}
	}
	if errs["cp1"] == nil {
		r.t.Error("a member of which nothing was known is reported as updated")
	}
	boot.Do(func() { r.t.Fatal("cp1 was not switched on") })
}

// switchOn switches a machine on and waits until etcd runs there. The caller is not the test's own goroutine.
func (r *rig) switchOn(ctx context.Context, name string) {
	m := r.lab.Machine(name)
	err := m.Boot(ctx) // on a busy computer, it may be on although nobody has waited long enough
	for range 60 {
		if _, gone := m.Run(ctx, "pgrep -x etcd"); gone == nil {
			r.t.Logf("  %s is on, with its old data", name)
			return
		}
		time.Sleep(time.Second)
	}
	r.t.Errorf("%s is not on, or etcd does not run there: %v", name, err)
}

// stranger expects that cp1 runs with the data of the former cluster, serves nothing, and does not disturb the others,
// and that their machine says who was silent.
func (r *rig) stranger(value string) {
	r.t.Helper()
	r.process()
	before := r.view()
	for range 5 {
		r.sh("cp1", "pgrep -x etcd >/dev/null")
		v := r.view()
		if len(v.Members) != 2 || v.Leader != before.Leader || v.ClusterID != before.ClusterID {
			r.t.Fatalf("with a member of the former cluster, from\n%sto\n%s", before, v)
		}
		for _, name := range []string{"cp2", "cp3"} {
			if got := strings.TrimSpace(r.ctl(name, "get /registry/pods/a --print-value-only")); got != value {
				r.t.Errorf("%s serves %q, want %q", name, got, value)
			}
		}
		time.Sleep(time.Second)
	}
	out := r.sh("cp1", "c() { "+machine.ArtifactDir(newRelease)+ctlFunction+
		"if c --command-timeout=3s get /registry/pods/a >/dev/null; then echo serves; fi")
	if strings.Contains(out, "serves") {
		r.t.Error("the member of the former cluster serves with a quorum")
	}
	f := r.clusters.of(r.specs["cp3"]).observe(r.t.Context(), r.specs["cp3"], "cp3", r.specs["cp3"].Host)
	if f.Record == nil || len(f.Record.Silent) != 1 || f.Record.Silent[address(r.lab, 0)] != "cp1" {
		r.t.Errorf("cp3 records %+v, without cp1 that was silent", f.Record)
	}
}

// joinsAnew applies all members again: the data of cp1 is archived, and it joins as a learner.
func (r *rig) joinsAnew(before int64) {
	r.t.Helper()
	status, err := r.clusters.Read(r.t.Context(), r.specs["cp1"])
	if words := strings.Join(status.Drift, "\n"); err != nil || !strings.Contains(words, "has data of etcd cluster") {
		r.t.Errorf("the plan of cp1 says %q, %v", words, err)
	}
	var mu sync.Mutex
	var steps strings.Builder
	r.all("the next apply", func(ctx context.Context, s Spec) error {
		report := problem.Report{Progress: func(line string) {
			mu.Lock()
			defer mu.Unlock()
			steps.WriteString(line + "\n")
		}}
		return r.update(problem.WithReport(ctx, report), s)
	})
	r.t.Log(steps.String())
	archived := strings.Index(steps.String(), "etcd cp1: archiving")
	joined := strings.Index(steps.String(), "etcd cp1: added as learner")
	if archived < 0 || joined < archived {
		r.t.Error("cp1 was not archived and then added as a learner")
	}
	r.sh("cp1", "[ -d /var/lib/etcd-archive/cp1-*/member ]")
	r.wantData("late", before)
	r.unchanged()
}
