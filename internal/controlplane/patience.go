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
	asidePatience = 30 * time.Second
	asideInterval = time.Second
	// orphanPatience is for an etcd member that has left and is to be made anew:
	// where this process does that, it begins as soon as the member has left.
	orphanPatience = 5 * time.Second
)

// orphan is a replica that stays out of rotation until the etcd member on its
// machine is made, which it lives on alone.
type orphan struct {
	machine  string
	changing bool // this process has begun to change that member
}

// patience is how long one replica has waited for others.
type patience struct {
	// duringMember: all changes of etcd members wait while this one does, so that
	// none of them can end what it waits for.
	duringMember bool

	end      time.Time // when it gives up; zero: it has not waited yet
	orphaned time.Time // since when it has waited for a member that nobody makes; zero: it does not
}

// over reports whether the others had their time.
func (p *patience) over(now time.Time) bool { return !p.end.IsZero() && now.After(p.end) }

// begin starts to wait; it reports whether that is the first time.
func (p *patience) begin(now time.Time) bool {
	if !p.end.IsZero() {
		return false
	}
	p.end = now.Add(asidePatience)
	return true
}

// see takes in what the others are at, and reports whether to wait is futile. Time
// in which this process does what is waited for is not counted; what only this
// process could do, and does not, is not waited for. comes: another replica is
// being made that may take over.
func (p *patience) see(now time.Time, orphans []orphan, comes bool) (futile bool) {
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
		p.orphaned = time.Time{}
	} else if p.orphaned.IsZero() {
		p.orphaned = now
	}
	if alone && now.Sub(p.orphaned) >= orphanPatience {
		return true
	}
	if helped {
		p.end = now.Add(asidePatience)
	}
	return false
}

// inVain is a refusal that would be waited out in vain, and for whom.
func inVain(err error, orphans []orphan) error {
	var p *problem.Problem
	if !errors.As(err, &p) {
		return err
	}
	var machines []string
	for _, o := range orphans {
		machines = append(machines, o.machine)
	}
	told := *p
	told.Cause += "; " + strings.Join(machines, ", ") + " stays out until the etcd member on its machine is made again, which would wait for this"
	told.Next = "apply again: that member is made first. Replace one etcd member at a time."
	told.Err = err
	return &told
}
