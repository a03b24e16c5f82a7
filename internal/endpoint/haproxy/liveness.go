package haproxy

import (
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/liveness"
	"github.com/kubequorum/terraform-provider-kube/internal/timer"
)

// pace is faster than that of static pods: while the HAProxy of the machine with the virtual IP
// hangs, no client reaches the API, and while its keepalived hangs, two machines have the address.
// Both start within a second, and hold nothing that a restart could lose.
var pace = liveness.Pace{Period: 5 * time.Second, Timeout: 3 * time.Second, Threshold: 3, Start: time.Minute}

// noProbe is the probe of a machine that has none. clean.sh removes what it has.
var noProbe = liveness.Probe{Name: "kube-endpoint-liveness", Script: programDir + "/liveness.sh", Pace: pace}

// liveness returns the probe of both programs on a host. HAProxy is killed if its worker hangs. A
// master that hangs serves on and cannot be reloaded: that is drift. keepalived is in the state
// FAULT, in which it may sleep, while one of the files that it tracks says so, or the interface of
// the address is down.
func (s Spec) liveness(device string) liveness.Probe {
	if !s.LivenessProbe {
		return noProbe
	}
	p := noProbe
	p.Wanted, p.Asks = true, askPath
	awake := liveness.Awake(vrrpPID, stoppedPath, waitingPath, "/sys/class/net/"+device+"/operstate")
	p.Components = []liveness.Component{
		{
			Unit: haproxyUnit, Ready: liveness.Sockets(adminSocket, masterSocket), Live: liveness.Sockets(adminSocket),
			Rule: liveness.AloneRule,
		},
		{Unit: keepalivedUnit, Ready: awake, Live: awake, Rule: liveness.AloneRule},
	}
	return p
}

// jobs returns what timers start on a host, but no probe that cannot be rendered, because the
// interface of the address is not known: that is drift of its own.
func (s Spec) jobs(device string) []timer.Job {
	all := []timer.Job{s.facts().Job()}
	if device != "" || !s.LivenessProbe {
		all = append(all, s.liveness(device).Job())
	}
	return all
}

// hung returns the units that hang, each with its invocation: "UNIT=INVOCATION …".
func (s Spec) hung(b balancer) string {
	var units []string
	for _, unit := range []string{haproxyUnit, keepalivedUnit} {
		if s.liveness(b.device).NotReady(b.facts, unit) != "" {
			units = append(units, unit+"="+b.facts.Units[unit].Invocation)
		}
	}
	return strings.Join(units, " ")
}
