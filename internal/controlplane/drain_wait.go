package controlplane

import (
	"errors"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// How long a replica waits until the others allow it to leave rotation. They may be returning,
// or being deleted, in the same run. Detecting that a machine is down takes a connection
// timeout (10 s).
const (
	drainTimeout  = 30 * time.Second
	drainInterval = time.Second
	// orphanTimeout applies to an etcd member that was removed and will be created again. If
	// this process creates it, that begins as soon as the member was removed.
	orphanTimeout = 5 * time.Second
)

// orphan is a replica that stays out of rotation until its only etcd member, on the
// same machine, is created.
type orphan struct {
	machine  string
	changing bool // this process has begun to change that member
}

// drainWait is the time that one replica has waited for others.
type drainWait struct {
	// duringMember means that all changes of etcd members wait for this one, so none of them
	// can end the wait.
	duringMember bool

	end           time.Time // when it gives up; zero: not waiting yet
	orphanedSince time.Time // since when it waits for a member that no process creates; zero: it does not
}

// expired reports whether the waiting time is over.
func (p *drainWait) expired(now time.Time) bool { return !p.end.IsZero() && now.After(p.end) }

// begin starts the wait. It reports whether this is the first time.
func (p *drainWait) begin(now time.Time) bool {
	if !p.end.IsZero() {
		return false
	}
	p.end = now.Add(drainTimeout)
	return true
}

// update records the state of the other replicas and reports whether waiting is futile. The
// waiting time is extended while this process makes the required change. Waiting is futile if
// only this process could make that change and it is not doing so. comes means that another
// replica is being created that may take over.
func (p *drainWait) update(now time.Time, orphans []orphan, comes bool) (futile bool) {
	helped := comes && !p.duringMember
	alone := false
	for _, o := range orphans {
		if o.changing && !p.duringMember {
			helped = true
		} else {
			alone = true
		}
	}
	if !alone {
		p.orphanedSince = time.Time{}
	} else if p.orphanedSince.IsZero() {
		p.orphanedSince = now
	}
	if alone && now.Sub(p.orphanedSince) >= orphanTimeout {
		return true
	}
	if helped {
		p.end = now.Add(drainTimeout)
	}
	return false
}

// waitInVain explains a refusal that waiting cannot resolve.
func waitInVain(err error, orphans []orphan) error {
	var p *problem.Problem
	if !errors.As(err, &p) {
		return err
	}
	var machines []string
	for _, o := range orphans {
		machines = append(machines, o.machine)
	}
	told := *p
	told.Cause += "; " + strings.Join(machines, ", ") + " stays out of rotation until the etcd member on its machine is created again, which would wait for this"
	told.Next = "apply again: that member is created first. Replace one etcd member at a time."
	told.Err = err
	return &told
}
