package soak

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/load"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// jointOperation is an operation that both units perform at the same time.
type jointOperation struct {
	name    string
	prepare func(ctx context.Context, p *pair) error // before the two applies; nil: none
	args    func(p *pair) [2][]string                // arguments of the two applies; nil: none
	// restarts is the minimum number of members that are restarted by the two applies. If there is one, a replica leaves
	// rotation too. Fewer mean that nothing was tested.
	restarts int
	every    bool // it changes every member and replica; otherwise one of each that a unit has
	members  bool // it changes members alone
}

// least returns how many resources of a unit with these numbers of members and replicas are changed at least.
func (o jointOperation) least(members, replicas int) int {
	if !o.every {
		members, replicas = min(members, 1), min(replicas, 1)
	}
	if o.members {
		return members
	}
	return members + replicas
}

// least returns for each unit how many resources the operation changes at least. The second of two copies may find
// everything changed.
func (p *pair) least(o jointOperation) (least [2]int) {
	for i, u := range p.units {
		members, _ := u.variables["members"].(layout)
		replicas, _ := u.variables["replicas"].(layout)
		least[i] = o.least(len(members), len(replicas))
	}
	return least
}

// unchanged returns what shows that the operation was not tested by both applies: none was applied, or fewer resources
// were changed than the operation changes. A unit that was refused changes them by its next apply.
func (p *pair) unchanged(o jointOperation, seen observation) []string {
	var missing []string
	least, won, changed := p.least(o), false, 0
	for i, end := range seen.ends {
		won = won || end.how == applied && least[i] > 0
		changed += end.changed
		own := end.changed
		if end.how != applied {
			own += seen.later[i]
		}
		if !p.division.copy && own < least[i] {
			missing = append(missing, fmt.Sprintf("the %s unit has changed %d resources, not %d", p.units[i].name, own,
				least[i]))
		}
	}
	if p.division.copy && changed < least[0] {
		missing = append(missing, fmt.Sprintf("both applies have changed %d resources, not %d", changed, least[0]))
	}
	if !won {
		missing = append(missing, "neither apply was completed")
	}
	return missing
}

// jointGroup is a sequence of operations on one cluster.
type jointGroup struct {
	name       string
	from       workspace.Release // the release that the cluster starts with
	builds     []string          // in addition to those of every lab
	operations []jointOperation
}

var (
	newest = workspace.Release{Etcd: "etcd", Kubernetes: "kubernetes"}
	before = workspace.Release{Etcd: "etcd-3.5-before", Kubernetes: "kubernetes"}
	after  = workspace.Release{Etcd: "etcd-3.5", Kubernetes: "kubernetes"}
)

var jointGroups = []jointGroup{
	{name: "change, replace", from: newest, operations: []jointOperation{
		{name: "change of flags", restarts: 3, every: true, prepare: func(_ context.Context, p *pair) error {
			p.assign(map[string]any{
				"etcd_extra_args":      map[string]string{"max-txn-ops": "129"},
				"apiserver_extra_args": map[string]string{"v": "3"},
			})
			return nil
		}},
		{name: "replace of one", args: (*pair).replacing},
	}},
	{name: "scaling", from: newest, operations: []jointOperation{
		{name: "scale up to five", prepare: resizing(5)},
		{name: "scale down to three", prepare: resizing(3)},
	}},
	{name: "rotation", from: newest, operations: []jointOperation{
		{name: "stage 1", every: true, prepare: staging(1)},
		{name: "stage 2", every: true, prepare: staging(2)},
		{name: "stage 3", every: true, prepare: staging(3)},
	}},
	{name: "upgrade", from: before, builds: []string{before.Etcd, after.Etcd}, operations: []jointOperation{
		{name: "etcd by a patch", restarts: 3, every: true, members: true, prepare: func(_ context.Context, p *pair) error {
			variables, err := after.Variables()
			p.assign(variables)
			return err
		}},
	}},
}

func resizing(n int) func(context.Context, *pair) error {
	return func(_ context.Context, p *pair) error { return p.resize(n) }
}

// staging moves every authority and the service-account keys by one stage.
func staging(stage int) func(context.Context, *pair) error {
	return func(ctx context.Context, p *pair) error {
		p.base.variables["rotation"] = map[string]int{
			"kubernetes": stage, "etcd": stage, "front_proxy": stage,
			"service_account": stage,
		}
		if err := p.base.write(); err != nil {
			return err
		}
		if _, err := p.base.work.Apply(ctx, p.site.env.Log); err != nil {
			return err
		}
		for _, u := range p.units {
			if err := u.share(ctx, p.base); err != nil {
				return err
			}
		}
		return nil
	}
}

// replacing replaces one member and one replica in each unit, if it has any. It takes the
// unit's last ones, so the units replace different ones unless the states are copies.
func (p *pair) replacing() [2][]string {
	var args [2][]string
	for i, u := range p.units {
		for kind, variable := range map[string]string{
			"kube_etcd_member":           "members",
			"kube_control_plane_replica": "replicas",
		} {
			owned, _ := u.variables[variable].(layout)
			if keys := owned.keys(); len(keys) > 0 {
				args[i] = append(args[i], fmt.Sprintf("-replace=%s.this[%q]", kind, keys[len(keys)-1]))
			}
		}
	}
	return args
}

// operate performs the operation, with clients on the cluster, and evaluates the observations.
func (p *pair) operate(ctx context.Context, o jointOperation) (Result, error) {
	result := Result{Name: p.name + ": " + o.name}
	fmt.Fprintf(p.site.env.Log, "-- %s\n", o.name)
	if o.prepare != nil {
		if err := o.prepare(ctx, p); err != nil {
			return result, err
		}
	}
	var args [2][]string
	if o.args != nil {
		args = o.args(p)
	}
	watched := p.site.machine(machineNames[0])
	if p.cluster != 0 {
		if err := watchRotation(ctx, watched); err != nil {
			return result, err
		}
	}
	begun := time.Now()
	var seen observation
	var err error
	seen.clients, err = p.during(ctx, func() (err error) {
		seen.ends, err = p.applyBoth(ctx, args)
		return err
	})
	if err != nil {
		return result, err
	}
	if err := p.observe(ctx, begun, &seen); err != nil {
		return result, err
	}
	seen.later, seen.after = p.applyAgain(ctx)
	p.evaluate(&result, o, seen)
	return result, seen.after
}

// observation is the observed course of an operation.
type observation struct {
	ends     outcomes
	clients  load.Report
	restarts []restart
	rotation [][]string
	alive    error
	later    [2]int // resources that the applies which follow have changed
	after    error  // of these applies
}

// observe reads from the machines what happened since a point in time.
func (p *pair) observe(ctx context.Context, begun time.Time, seen *observation) error {
	all, err := p.all().restarts(ctx, p.begun)
	if err != nil {
		return err
	}
	for _, r := range all {
		if r.from >= float64(begun.Unix()) {
			seen.restarts = append(seen.restarts, r)
		}
	}
	bootstrapped := p.cluster == 0
	p.cluster, seen.alive = p.all().waitForCluster(ctx, p.cluster)
	if bootstrapped {
		return nil
	}
	seen.rotation, err = rotationSeen(ctx, p.site.machine(machineNames[0]))
	return err
}

// noticedByClients returns what clients noticed of both applies. How long they may wait is no criterion: two applies
// take turns.
func noticedByClients(r load.Report) []string {
	c := load.Unnoticed()
	c.Longest = load.Gaps{}
	return load.Verdict(r, c)
}

// evaluate counts what must hold: the outcome of both applies, at least one of which is completed, one cluster,
// restarts and drains one at a time, no lost writes, and a following apply that converges.
func (p *pair) evaluate(r *Result, o jointOperation, seen observation) {
	var failures []string
	check := func(right bool, failure string) {
		r.count(right)
		if !right {
			failures = append(failures, failure)
		}
	}
	var ends []string
	for i, end := range seen.ends {
		ends = append(ends, fmt.Sprintf("%s after %.0f s and %d changes", end.how, end.took.Seconds(),
			end.changed))
		check(end.how != failing, fmt.Sprintf("the %s apply %s in the middle: %s", p.units[i].name, end.how, end.message))
	}
	unchanged := p.unchanged(o, seen)
	check(len(unchanged) == 0, "the operation was not tested: "+strings.Join(unchanged, ", "))
	check(seen.alive == nil, fmt.Sprint(seen.alive))
	overlapping := overlaps(seen.restarts)
	check(len(overlapping) == 0, "members restarted at once: "+strings.Join(overlapping, "; "))
	check(len(seen.restarts) >= o.restarts, fmt.Sprintf("%d members were restarted, not %d", len(seen.restarts),
		o.restarts))
	if seen.clients.Tried() > 0 {
		outside := rotationResult("", seen.rotation)
		check(outside.Passed == outside.Tried || len(seen.rotation) == 0 && o.restarts == 0,
			"replicas out of rotation: "+outside.Detail)
		noticed := noticedByClients(seen.clients)
		check(len(noticed) == 0 && seen.clients.HashesAgree(),
			fmt.Sprintf("clients noticed the applies: %s; %v", strings.Join(noticed, "; "), seen.clients.Hashes))
	}
	check(seen.after == nil, fmt.Sprint(seen.after))
	r.Detail = fmt.Sprintf("first %s, second %s; %d restarts of members; %d writes acknowledged, %d lost; %s; "+
		"longest gap %s",
		ends[0], ends[1], len(seen.restarts), seen.clients.Acknowledged(), len(seen.clients.Lost()),
		countsOf(seen.clients), seen.clients.LongestGap())
	if seen.clients.Tried() > 0 {
		r.Observed = []load.Summary{seen.clients.Summary()}
	}
	for i, end := range seen.ends {
		if end.how == refused || end.how == stopped {
			r.Detail += fmt.Sprintf("\nthe %s apply was %s: %s", p.units[i].name, end.how, end.message)
		}
	}
	if len(failures) > 0 {
		r.Detail += "\n" + strings.Join(failures, "\n")
	}
}
