package review

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Class is what a plan does as a whole.
type Class string

// The classes, of plans and of single changes. A repair may renew certificates too, and both may have restore drills
// run. What is not understood is ClassOther.
const (
	ClassNone    Class = "none"    // an apply changes nothing
	ClassDrill   Class = "drill"   // restore drills run that are due, and nothing changes
	ClassRenewal Class = "renewal" // certificates whose time has come are renewed, and nothing else changes
	ClassRepair  Class = "repair"  // drift is repaired, and no argument changes
	ClassOther   Class = "other"
)

// changeClasses are those of changes, in ascending order: that of a plan is the greatest of its changes.
var changeClasses = []Class{ClassDrill, ClassRenewal, ClassRepair}

// Verdict says whether a pipeline may apply a plan without a person.
type Verdict struct {
	Class     Class
	Automatic bool
	Machines  []string // addresses of the machines that an apply changes
	Reasons   []string // why a person decides, as Markdown; none if Automatic, or if nothing changes

	machines map[Class][]string // the same by the class of the changes: a machine may have several
}

// Judge judges a plan at a time. It fails closed: what it does not understand is for a person.
// What machines say cannot make it overlook a change of the configuration, because only the
// values before and after an apply decide that.
func Judge(p NamedPlan, policy Policy, now time.Time) Verdict {
	var reasons []string
	if p.Err == nil && p.Plan.Partial {
		reasons = append(reasons, "the plan is partial")
	}
	return p.judge(reasons, p.Plan, policy, now)
}

// judge judges a plan to which there may be more objections. A complete plan says what else exists.
func (p NamedPlan) judge(more []string, complete Plan, policy Policy, now time.Time) Verdict {
	v := Verdict{Class: ClassOther, Reasons: slices.Clone(p.Plan.scrutiny.objections)}
	switch {
	case p.Err != nil:
		v.Reasons = append(v.Reasons, "the plan cannot be read")
	case !p.Plan.scrutiny.done:
		v.Reasons = append(v.Reasons, "a reduced plan lacks the values by which it could be judged")
	case p.Plan.Errored:
		v.Reasons = append(v.Reasons, "planning failed")
	}
	for _, c := range p.Plan.scrutiny.changes {
		if reason := c.untimely(now); reason != "" {
			v.Reasons = append(v.Reasons, code(c.address)+": "+reason)
		}
	}
	v.Reasons = append(v.Reasons, more...)
	v.machines = machinesOf(p.Plan.scrutiny.changes)
	v.Machines = distinct(slices.Concat(slices.Collect(maps.Values(v.machines))...))
	if len(v.Reasons) > 0 {
		return v
	}
	if v.Class = ClassNone; len(v.machines) == 0 {
		return v
	}
	for _, class := range changeClasses {
		if _, ok := v.machines[class]; ok {
			v.Class = class
			v.Reasons = append(v.Reasons, policy.limit(class, len(v.machines[class]), now)...)
		}
	}
	v.Reasons = append(v.Reasons, complete.interruptions(classesOf(p.Plan.scrutiny.changes), policy)...)
	v.Automatic = len(v.Reasons) == 0
	return v
}

// machinesOf returns the machines of changes by class. A class that has no machines may have changes.
func machinesOf(changes []scrutinized) map[Class][]string {
	all := map[Class][]string{}
	for _, c := range changes {
		all[c.class] = append(all[c.class], c.machines...)
	}
	for class, machines := range all {
		all[class] = distinct(machines)
	}
	return all
}

// classesOf returns the classes of changes by address.
func classesOf(changes []scrutinized) map[string]Class {
	all := map[string]Class{}
	for _, c := range changes {
		all[c.address] = c.class
	}
	return all
}

// distinct returns values sorted, and each once.
func distinct[T cmp.Ordered](all []T) []T {
	slices.Sort(all)
	return slices.Compact(all)
}

// limit returns which limits of the policy the changes of one class exceed.
func (p Policy) limit(class Class, machines int, now time.Time) []string {
	limits := map[Class]*Limits{ClassDrill: p.drill(), ClassRenewal: p.Renewal, ClassRepair: p.Repair}[class]
	if limits == nil {
		return []string{fmt.Sprintf("the policy does not allow a %s", class)}
	}
	var reasons []string
	if machines > limits.MaxMachines {
		reasons = append(reasons, fmt.Sprintf("%d machines change, and the policy allows %d for a %s",
			machines, limits.MaxMachines, class))
	}
	if !limits.Hours.contain(now) {
		reasons = append(reasons, fmt.Sprintf("the policy allows a %s only %s", class, limits.Hours))
	}
	return reasons
}

// interruptions returns why an apply might interrupt clients. A renewal stops neither etcd nor an
// API server: both reload their certificates.
func (p Plan) interruptions(classes map[string]Class, policy Policy) []string {
	var reasons []string
	whole := p.whole()
	members, replicas := whole.serving(classes)
	for _, s := range members {
		reasons = append(reasons, s.etcdLoss()...)
	}
	for _, s := range replicas {
		if s.repaired > 0 && s.healthy < 2 {
			reasons = append(reasons, "API: the only server in rotation may restart")
		}
	}
	for _, e := range whole.Endpoints {
		if classes[e.Address] == ClassRepair && e.onlyMayRestart() {
			reasons = append(reasons, code(e.Address)+": its only balancer that works may restart")
		}
	}
	if policy.Repair == nil || policy.Repair.Restarts == nil || !*policy.Repair.Restarts {
		for _, address := range slices.Concat(mayRestart(members), mayRestart(replicas), whole.mayReload(classes)) {
			reasons = append(reasons, code(address)+": its repair may restart what serves, and the policy does not allow that")
		}
	}
	blind := whole.mayRestartUnseen(slices.Concat(members, replicas), classes)
	if sources := p.deferredHealth(); blind && len(sources) > 0 {
		reasons = append(reasons, "the health of what may restart is not known: "+code(strings.Join(sources, ", "))+
			" is read only during the apply")
	}
	return reasons
}

// deferredHealth returns the addresses of the data sources that would have said what is healthy.
func (p Plan) deferredHealth() []string {
	return slices.DeleteFunc(slices.Clone(p.Deferred), func(address string) bool {
		return !strings.Contains("."+address, ".data.kube_control_plane.")
	})
}

// mayRestartUnseen reports whether something may restart while it serves, and nobody has observed all that takes over.
func (p ControlPlane) mayRestartUnseen(services []service, classes map[string]Class) bool {
	return slices.ContainsFunc(services, func(s service) bool { return s.unseen && s.repaired > 0 }) ||
		slices.ContainsFunc(p.Endpoints, func(e Endpoint) bool {
			return classes[e.Address] == ClassRepair && len(e.mayRestart()) > 0 && !e.HealthKnown
		})
}

// service counts the members of one cluster, or the servers of one endpoint: those that exist, serve, and may restart
// while they serve.
type service struct {
	existing, healthy, repaired int
	others                      int      // how many of the existing ones are not in the plan: their health is not known
	may                         []string // addresses of those that may restart while they serve
	unsure                      bool     // some may be of another cluster
	unseen                      bool     // no kube_control_plane has observed all of them
}

func (s *service) count(r Resource, healthy bool, classes map[string]Class) {
	s.existing++
	if !healthy {
		return
	}
	s.healthy++
	if classes[r.Address] == ClassRepair {
		s.repaired++
		s.may = append(s.may, r.Address)
	}
}

// mayRestart returns the addresses of those that may restart while they serve.
func mayRestart(services []service) []string {
	var all []string
	for _, s := range services {
		all = append(all, s.may...)
	}
	return all
}

// serving counts by the rules of the comment (availability.go), each cluster of etcd and the servers of each endpoint
// by themselves. A server whose only member may restart may stop with it.
func (p ControlPlane) serving(classes map[string]Class) (members, replicas []service) {
	restarts := map[string]bool{}
	for _, cluster := range p.etcdClusters() {
		s := service{existing: cluster.others, others: cluster.others, unsure: cluster.unsure}
		for _, m := range cluster.members {
			healthy := m.Action != Create && m.votes() && !p.unreachable(m.Resource)
			s.count(m.Resource, healthy, classes)
			s.unseen = s.unseen || m.Healthy == nil && !p.unreachable(m.Resource)
			restarts[m.URL] = healthy && classes[m.Address] == ClassRepair
		}
		members = append(members, s)
	}
	for _, servers := range p.replicasByEndpoint() {
		var s service
		for _, r := range servers {
			healthy := r.Registered != nil && *r.Registered && p.inRotation(r) && !p.unreachable(r.Resource)
			s.count(r.Resource, healthy, classes)
			s.unseen = s.unseen || !r.HealthKnown && !p.unreachable(r.Resource)
			if healthy && classes[r.Address] != ClassRepair && len(r.Etcd) == 1 && restarts[r.Etcd[0]] {
				s.repaired++
			}
		}
		replicas = append(replicas, s)
	}
	return members, replicas
}

// etcdLoss returns why etcd has no quorum, or may lose it. Members that are not in the plan may be healthy or not.
func (s service) etcdLoss() []string {
	need := quorum(s.existing)
	switch {
	case s.healthy+s.others < need:
		return []string{fmt.Sprintf("etcd has no quorum: %d of %d members are healthy", s.healthy, s.existing)}
	case s.repaired > 0 && s.healthy-1 < need:
		reason := fmt.Sprintf("etcd: a member may restart that is needed for quorum: %d of %d members are healthy",
			s.healthy, s.existing)
		if s.others > 0 {
			reason += fmt.Sprintf(", and %d are not in this plan", s.others)
		}
		return []string{reason}
	case s.repaired > 0 && s.unsure:
		return []string{"etcd: a member may restart, and the peers of its cluster differ by member: " +
			"it is not known which ones are needed for quorum"}
	}
	return nil
}

// mayReload returns the endpoints whose repair may restart a balancer that works.
func (p ControlPlane) mayReload(classes map[string]Class) []string {
	var all []string
	for _, e := range p.Endpoints {
		if classes[e.Address] == ClassRepair && len(e.mayRestart()) > 0 {
			all = append(all, e.Address)
		}
	}
	return all
}

// maxReasons is how many reasons a line has. The JSON has all.
const maxReasons = 4

// String is the verdict in one line of Markdown.
func (v Verdict) String() string {
	switch {
	case v.Class == ClassNone:
		return "Nothing to apply."
	case v.Automatic:
		return "**May be applied without a person**: only " + v.done() + "."
	}
	reasons := v.Reasons
	if len(reasons) > maxReasons {
		reasons = append(slices.Clone(reasons[:maxReasons]), "and "+strconv.Itoa(len(reasons)-maxReasons)+" more")
	}
	return fmt.Sprintf("**A person decides** (%s): %s.", v.Class, strings.Join(reasons, "; "))
}

// done says what an apply does, the greatest class first.
func (v Verdict) done() string {
	texts := map[Class]string{
		ClassRepair: "drift is repaired", ClassRenewal: "certificates are renewed", ClassDrill: "a restore drill runs",
	}
	var parts []string
	for _, class := range slices.Backward(changeClasses) {
		machines, ok := v.machines[class]
		text := texts[class]
		if len(machines) > 0 {
			text += ", on " + number(len(machines), "machine", "machines")
		}
		if ok {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "; ")
}
