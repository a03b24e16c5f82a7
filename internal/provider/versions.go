package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	etcdrelease "github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// planTimeout limits the queries of a plan to the machines, in addition to the refresh.
const planTimeout = 15 * time.Second

// versions is what one run of Terraform knows about the versions in its clusters: the running
// versions, observed once for all resources of a plan, and the planned versions of etcd
// members. Replicas are checked against the planned versions of the members, because Terraform
// plans and applies members before the replicas that depend on them. Replicas are planned and
// applied in no particular order, so they are checked against the running versions of each
// other.
type versions struct {
	mu      sync.Mutex
	begun   bool // a change of this run has begun
	members map[string]plannedMember
	surveys map[string]*observation[membership.Survey] // by cluster ID
	skews   map[string]*observation[release.Versions]  // by cluster ID, endpoint and wanted version
	warned  map[string]bool
}

// plannedMember is an etcd member as it is after this run. The map's key is its client URL.
type plannedMember struct {
	cluster string // ID of its bundle's cluster; "" while it is unknown
	name    string
	version string
	before  string // its version in the state; "" for a new member
}

// observation is one observation of the running versions, shared by all callers.
type observation[T any] struct {
	once     sync.Once
	observed T
	err      error
}

func newVersions() *versions {
	return &versions{
		members: map[string]plannedMember{}, surveys: map[string]*observation[membership.Survey]{},
		skews: map[string]*observation[release.Versions]{}, warned: map[string]bool{},
	}
}

// Reasons why the running versions are not observed.
var (
	errChanging   = errors.New("this run is changing it")
	errNoSettings = errors.New("the provider's settings are not known yet")
	errNoBundle   = errors.New("the PKI bundle is not known yet, or cannot be opened")
	errNoMachines = errors.New("its machines are not known yet")
)

// begin records that a change of this run begins. Terraform plans each resource again right
// before it applies it, while other resources may be restarting. Checking versions then would
// fail without reason. From then on, the operations on the machines check whether a change is
// possible.
func (s *session) begin() {
	s.versions.mu.Lock()
	defer s.versions.mu.Unlock()
	s.versions.begun = true
}

func (v *versions) hasBegun() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.begun
}

// plan records the planned version of an etcd member.
func (v *versions) plan(clientURL string, m plannedMember) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.members[clientURL] = m
}

// afterPlan returns the versions that etcd's members run when replicas are changed: the
// observed ones, updated with this run's plan for members at the URLs and in the cluster.
func (v *versions) afterPlan(seen map[string]string, urls []string, cluster string) map[string]string {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := maps.Clone(seen)
	if all == nil {
		all = map[string]string{}
	}
	for _, m := range v.members {
		if cluster != "" && m.cluster == cluster {
			all[m.name] = m.version
		}
	}
	for _, url := range urls {
		if m, ok := v.members[url]; ok {
			all[m.name] = m.version
		}
	}
	return all
}

// lowered returns the planned versions of the members at the URLs and in the cluster that are older
// than what these members have.
func (v *versions) lowered(urls []string, cluster string) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var all []string
	for url, m := range v.members {
		same := slices.Contains(urls, url) || cluster != "" && m.cluster == cluster
		if same && etcdrelease.Precedes(m.version, m.before) {
			all = append(all, m.version)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// reachedAt returns the client URLs at which a cluster's etcd can be queried: the given ones,
// and those of all members that this run knows.
func (v *versions) reachedAt(urls []string, cluster string) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := slices.Clone(urls)
	for url, m := range v.members {
		if m.cluster == cluster && !slices.Contains(all, url) {
			all = append(all, url)
		}
	}
	return all
}

// once reports whether a warning has not been added before.
func (v *versions) once(warning string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	first := !v.warned[warning]
	v.warned[warning] = true
	return first
}

// observable returns why the running versions cannot be queried now, or nil.
func (s *session) observable(bundle *pki.Bundle) error {
	switch {
	case !s.asks():
		return errNoSettings
	case bundle == nil:
		return errNoBundle
	case s.versions.hasBegun():
		return errChanging
	}
	return nil
}

// survey returns the versions that the cluster's members run, for a plan.
func (s *session) survey(ctx context.Context, bundle *pki.Bundle, peers map[string]string) (membership.Survey, error) {
	if err := s.observable(bundle); err != nil {
		return membership.Survey{}, err
	}
	observed, err := shared(ctx, &s.versions.mu, s.versions.surveys, bundle.ClusterID,
		func(ctx context.Context) (membership.Survey, error) {
			return s.clusters.Survey(ctx, s.machinesAt(slices.Collect(maps.Values(peers))), bundle)
		})
	if s.versions.hasBegun() { // it may have been observed in the middle of a restart
		return membership.Survey{}, errChanging
	}
	return observed, err
}

// skew returns the versions that run beside a replica, for a plan. With an error, it returns
// those that could be observed. All replicas of a plan share the first observation, so etcd is
// queried through every member, not only the member of that replica.
func (s *session) skew(ctx context.Context, spec controlplane.Spec) (release.Versions, error) {
	if err := s.observable(spec.Bundle); err != nil {
		return release.Versions{}, err
	}
	spec.Store = s.storeAt(s.versions.reachedAt(spec.EtcdURLs, spec.Bundle.ClusterID), spec.Bundle)
	key := spec.Bundle.ClusterID + " " + spec.EndpointURL() + " " + spec.Version
	observed, err := shared(ctx, &s.versions.mu, s.versions.skews, key, func(ctx context.Context) (release.Versions,
		error,
	) {
		return s.replicas.Versions(ctx, spec)
	})
	if s.versions.hasBegun() {
		return release.Versions{}, errChanging
	}
	return observed, err
}

// shared makes one observation for each key, within planTimeout.
func shared[T any](ctx context.Context, mu *sync.Mutex, observations map[string]*observation[T], key string,
	see func(context.Context) (T, error),
) (T, error) {
	mu.Lock()
	l, ok := observations[key]
	if !ok {
		l = &observation[T]{}
		observations[key] = l
	}
	mu.Unlock()
	l.once.Do(func() {
		ctx, cancel := context.WithTimeout(ctx, planTimeout)
		defer cancel()
		l.observed, l.err = see(ctx)
	})
	return l.observed, l.err
}

// refuseVersion reports a version that the rules do not allow.
func refuseVersion(diags *diag.Diagnostics, err error) {
	if err == nil {
		return
	}
	addError(diags, path.Root("version"), "Version not allowed", &problem.Problem{
		Summary: "Version not allowed", Cause: problem.Indented(err.Error()), Unchanged: problem.Nothing, Err: err,
		Next: "follow the remedy of each rule. Each step is a separate apply.",
	})
}

// warnUnknownVersions warns, once in a run, that a plan could not be checked against all
// running versions. Components that the run itself changes are checked when they are changed.
func (s *session) warnUnknownVersions(diags *diag.Diagnostics, what string, unknown []string, err error) {
	if errors.Is(err, errChanging) || err == nil && len(unknown) == 0 {
		return
	}
	if err != nil {
		unknown = append([]string{asProblem("", err).Cause}, unknown...)
	}
	if s.versions.once(what) {
		diags.AddAttributeWarning(path.Root("version"), what+" not checked against all running versions",
			"Cause: "+problem.Indented(strings.Join(unknown, "\n"))+
				"\nNext step: recover the components that do not answer, and plan again. The apply checks again "+
				"before it changes anything, and refuses a version that is not allowed.")
	}
}

// warnDowngrade says, once in a run, what a downgrade of etcd means. If the cluster cannot be asked (err),
// the member's previous version decides whether it is one.
func (s *session) warnDowngrade(
	diags *diag.Diagnostics, survey membership.Survey, before, target string, err error,
) {
	due := err == nil && survey.Downgrades(target) || err != nil && etcdrelease.IsOlder(target, before)
	if errors.Is(err, errChanging) || !due || !s.versions.once("downgrade to "+target) {
		return
	}
	from, to := membership.MinorReported(before), membership.MinorReported(target)
	diags.AddAttributeWarning(path.Root("version"), "etcd is downgraded to "+target,
		fmt.Sprintf("What happens: every member must be healthy. A snapshot is saved and verified, then the downgrade "+
			"to %[2]s is enabled in the cluster, and the members convert their data. They restart with %[3]s one at a time, "+
			"the leader last.\n"+
			"What is lost: no data. From the moment it is enabled, the cluster works as etcd %[2]s, without what %[1]s has "+
			"added: feature gates, settings and metrics.\n"+
			"The way back: as long as a member runs %[1]s, set version back, which cancels the downgrade. Afterwards, "+
			"upgrade again.",
			from, to, target))
}

// warnRemoved lists, once in a run, the APIs that clients lose.
func (s *session) warnRemoved(diags *diag.Diagnostics, removed []string, target string) {
	if len(removed) > 0 && s.versions.once("removed from "+target) {
		diags.AddAttributeWarning(path.Root("version"), "Clients use APIs that Kubernetes "+target+" does not serve",
			"Since the API servers started, clients have requested:\n  "+strings.Join(problem.Lines(removed), "\n  ")+
				"\nNext step: find these clients (the audit log names them) and migrate them to an API that "+target+
				" serves, then apply.")
	}
}

// clusterOf returns the ID of the bundle's cluster, "" without a bundle.
func clusterOf(b *pki.Bundle) string {
	if b == nil {
		return ""
	}
	return b.ClusterID
}
