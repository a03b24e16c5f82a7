package controlplane

import (
	"errors"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// How long a replica waits for the others to let it out of rotation: they may
// be coming back, or leaving for good, in the same run. A machine that is dead
// takes a connection's time limit (10 s) to be known as such.
const (
	drainTimeout  = 30 * time.Second
	drainInterval = time.Second
	// orphanTimeout is for an etcd member that has left and is to be made anew:
	// where this process does that, it begins as soon as the member has left.
	orphanTimeout = 5 * time.Second
)

// orphan is a replica that stays out of rotation until the etcd member on its
// machine is made, which it lives on alone.
type orphan struct {
	machine  string
	changing bool // this process has begun to change that member
}

// drainWait is how long one replica has waited for others.
type drainWait struct {
	// duringMember: all changes of etcd members wait while this one does, so that
	// none of them can end what it waits for.
	duringMember bool

	end           time.Time // when it gives up; zero: it has not waited yet
	orphanedSince time.Time // since when it has waited for a member that nobody makes; zero: it does not
}

// expired reports whether the others had their time.
func (p *drainWait) expired(now time.Time) bool { return !p.end.IsZero() && now.After(p.end) }

// begin starts to wait; it reports whether that is the first time.
func (p *drainWait) begin(now time.Time) bool {
	if !p.end.IsZero() {
		return false
	}
	p.end = now.Add(drainTimeout)
	return true
}

// update takes in what the others are at, and reports whether to wait is futile. Time
// in which this process does what is waited for is not counted; what only this
// process could do, and does not, is not waited for. comes: another replica is
// being made that may take over.
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

// waitInVain is a refusal that would be waited out in vain, and for whom.
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
