package controlplane

import (
	"errors"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// How long a replica waits until the others allow it to leave rotation. They may be
// returning, or being deleted, in the same run. It takes a connection's timeout (10 s)
// to find that a machine is down.
const (
	drainTimeout  = 30 * time.Second
	drainInterval = time.Second
	// orphanTimeout is for an etcd member that was removed and will be created again.
	// If this process does that, it begins as soon as the member was removed.
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
	// duringMember: all changes of etcd members wait for this one, so none of them can
	// end what it waits for.
	duringMember bool

	end           time.Time // when it gives up; zero: it has not waited yet
	orphanedSince time.Time // since when it waits for a member that nobody creates; zero: it does not
}

// expired reports whether the wait is over.
func (p *drainWait) expired(now time.Time) bool { return !p.end.IsZero() && now.After(p.end) }

// begin starts the wait. It reports whether this is the first time.
func (p *drainWait) begin(now time.Time) bool {
	if !p.end.IsZero() {
		return false
	}
	p.end = now.Add(drainTimeout)
	return true
}

// update records the state of the others and reports whether waiting is futile. The
// wait is extended while this process does what is waited for. It is futile to wait
// for what only this process could do, and is not doing. comes: another replica is
// being created that may take over.
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

// waitInVain explains a refusal that no wait would end.
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
