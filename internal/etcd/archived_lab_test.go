package etcd

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

const (
	archivedPlace = "/var/lib/etcd-aside"
	moveData      = "mkdir -p " + archivedPlace + "; mv /var/lib/etcd/member " + archivedPlace + "/member"
)

// TestArchivedDataOnMachines: a member goes on with a data directory that was moved aside, if it may.
func TestArchivedDataOnMachines(t *testing.T) {
	testrun.Long(t)
	onMachines(t, "etcdarc", "10.65.0.0/24", []string{newRelease}, func(t *testing.T) {
		r := newRig(t)
		r.all("create", r.create)
		r.ctl("cp1", "put /registry/pods/a one")
		r.hasData("cp2")
		r.takesUp("cp2")
		r.takeUpCutOff("cp2")
		r.refusesWhileItRuns("cp2")
		r.refusesRemoved("cp3")
		r.all("destroy", r.delete)
	})
}

// fromArchive returns the spec of a member that takes up what was moved aside, as an update of its state.
func (r *rig) fromArchive(name string) Spec {
	r.t.Helper()
	s := r.specs[name]
	s.ArchivedDataDir = archivedPlace
	id, err := r.lab.Machine(name).MachineID()
	if err != nil {
		r.t.Fatal(err)
	}
	entry, _ := r.view().ByName(name)
	s.LastMachine, s.LastID = strings.TrimSpace(id), fmt.Sprintf("%x", entry.ID)
	return s
}

// hasData: the attribute changes nothing on a machine that has data.
func (r *rig) hasData(name string) {
	r.t.Helper()
	before := r.processes()
	if _, err := r.clusters.Update(r.t.Context(), r.fromArchive(name)); err != nil {
		r.t.Fatal(err)
	}
	if after := r.processes(); after[name] != before[name] {
		r.t.Errorf("%s was restarted", name)
	}
}

func (r *rig) takesUp(name string) {
	r.t.Helper()
	s := r.fromArchive(name)
	r.sh(name, "systemctl stop etcd; "+moveData)
	r.ctl("cp1", "put /registry/pods/a two")
	status, err := r.clusters.Read(r.t.Context(), s)
	if err != nil || status.NewID || !strings.Contains(strings.Join(status.Drift, "\n"), "has no data of a member") {
		r.t.Errorf("read as %+v, %v", status, err)
	}
	elsewhere, other, absent := s, s, s
	elsewhere.LastMachine, other.LastID, absent.ArchivedDataDir = strings.Repeat("0", 32), "1", "/var/lib/etcd-absent"
	r.refusesTakeUp(elsewhere, "may not be the newest copy of its data")
	r.refusesTakeUp(other, "and the state has member 1")
	r.refusesTakeUp(absent, "there is no data of a member")
	r.sh(name, "ln -s /etc "+archivedPlace+"/member/link")
	r.refusesTakeUp(s, "there are symbolic links in it")
	r.sh(name, "rm "+archivedPlace+"/member/link")
	r.goesOn(s)
}

// goesOn expects that an update brings the member back with its ID and all data.
func (r *rig) goesOn(s Spec) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 3*time.Minute)
	defer cancel()
	status, err := r.clusters.Update(ctx, s)
	if err != nil || status.ID != s.LastID || !status.Healthy || len(status.Drift) > 0 {
		r.t.Fatalf("taken up as %+v, %v, and it was %s", status, err, s.LastID)
	}
	got := r.ctl(s.Name, "get /registry/pods/a --print-value-only --consistency=s")
	if strings.TrimSpace(got) != "two" || len(r.view().Members) != 3 {
		r.t.Errorf("it has %q in\n%s", got, r.view())
	}
	if left := r.sh(s.Name, "ls -d "+archivedPlace+" 2>/dev/null || true"); left != "" {
		r.t.Errorf("there is still %s", left)
	}
	r.only([]string{s.Name}, "read", r.same)
}

func (r *rig) refusesTakeUp(s Spec, want string) {
	r.t.Helper()
	const state = "ls -la --time-style=+ /var/lib /var/lib/etcd /etc/etcd; cat /etc/etcd/member.json"
	before := r.sh(s.Name, state)
	if _, err := r.clusters.Update(r.t.Context(), s); err == nil || !strings.Contains(err.Error(), want) {
		r.t.Fatalf("take up: %v, want %q", err, want)
	}
	if after := r.sh(s.Name, state); after != before {
		r.t.Errorf("%s: the machine was changed from\n%sto\n%s", want, before, after)
	}
}

// takeUpCutOff kills the process before and after each change. The next apply completes it.
func (r *rig) takeUpCutOff(name string) {
	r.t.Helper()
	for at := 1; ; at++ {
		c := &cut{at: (at + 1) / 2, after: at%2 == 0}
		s := r.fromArchive(name)
		r.sh(name, "systemctl stop etcd; "+moveData)
		r.process()
		whole := r.clusters.machine
		r.clusters.machine = func(h *host.Host) machine.Machine { return cutting{whole(h), c} }
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
		_, err := r.clusters.Update(ctx, s)
		cancel()
		r.t.Logf("killed at change %d (%s, after: %v): %.200v", c.at, c.what, c.after, err)
		r.process()
		r.clusters.machine = whole
		if !c.dead {
			return
		}
		r.goesOn(s)
	}
}

// refusesWhileItRuns: etcd keeps the files open that were moved under it.
func (r *rig) refusesWhileItRuns(name string) {
	r.t.Helper()
	s := r.fromArchive(name)
	r.sh(name, moveData)
	r.refusesTakeUp(s, `member "`+name+`" runs`)
	r.sh(name, "systemctl stop etcd")
	r.goesOn(s)
}

// refusesRemoved: what a destroy has archived never votes again. Without it, the member joins anew.
func (r *rig) refusesRemoved(name string) {
	r.t.Helper()
	before, _ := r.view().ByName(name)
	r.only([]string{name}, "destroy one", r.delete)
	archive := strings.TrimSpace(r.sh(name, "ls -d /var/lib/etcd-archive/"+name+"-*"))
	s := r.specs[name]
	s.ArchivedDataDir = archive
	_, err := r.clusters.Create(r.t.Context(), s)
	want := fmt.Sprintf("member %x, which was removed from the cluster", before.ID)
	if err == nil || !strings.Contains(err.Error(), want) ||
		!strings.Contains(err.Error(), "omit archived_data_dir") {
		r.t.Errorf("data of a removed member: %v", err)
	}
	r.sh(name, "[ -d "+archive+"/member ]")
	r.only([]string{name}, "create without it", r.create)
	if now, _ := r.view().ByName(name); now.ID == before.ID {
		r.t.Errorf("%s has its former ID", name)
	}
}
