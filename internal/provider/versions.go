package provider

import (
	"context"
	"errors"
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
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// planTimeout bounds what a plan asks of the machines beyond the refresh.
const planTimeout = 15 * time.Second

// versions is what one run of Terraform knows of the versions in its clusters:
// what runs, looked at once for all resources of a plan, and what the plan makes
// of etcd members, by which replicas are judged: Terraform plans and applies
// members before the replicas that depend on them. Replicas among each other are
// planned and applied in no order, so they are judged by what runs.
type versions struct {
	mu      sync.Mutex
	begun   bool // a change of this run has begun
	members map[string]plannedMember
	surveys map[string]*look[membership.Survey] // by cluster id
	skews   map[string]*look[release.Versions]  // by cluster id, endpoint and wanted version
	warned  map[string]bool
}

// plannedMember is an etcd member as it is after this run; it is kept by its client URL.
type plannedMember struct {
	cluster string // id of its bundle; "" while that is not known
	name    string
	version string
}

// look is one look at what runs, shared by all who want it.
type look[T any] struct {
	once  sync.Once
	found T
	err   error
}

func newVersions() *versions {
	return &versions{
		members: map[string]plannedMember{}, surveys: map[string]*look[membership.Survey]{},
		skews: map[string]*look[release.Versions]{}, warned: map[string]bool{},
	}
}

// Why what runs is not looked at.
var (
	errBegun      = errors.New("this run is changing it")
	errNoSettings = errors.New("the provider's settings are not known yet")
	errNoBundle   = errors.New("the PKI bundle is not known yet, or cannot be opened")
	errNoPlace    = errors.New("it is not known yet where it runs")
)

// begin notes that a change of this run begins. Terraform plans each resource
// once more when it is about to be applied, beside others that restart: that
// would be refused for no reason, and whether a change is possible is decided
// on the machines by then.
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

// plan notes what a plan makes of an etcd member.
func (v *versions) plan(clientURL string, m plannedMember) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.members[clientURL] = m
}

// afterwards is what etcd's members run when replicas are changed: those that
// were seen, with what this run makes of those at the URLs and in the cluster.
func (v *versions) afterwards(seen map[string]string, urls []string, cluster string) map[string]string {
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

// reachedAt are the client URLs by which a cluster's etcd can be asked: the
// given ones, and those of all members that this run knows.
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

// once reports whether a warning has not been given before.
func (v *versions) once(warning string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	first := !v.warned[warning]
	v.warned[warning] = true
	return first
}

// observable says why machines cannot be asked now what runs, or nil.
func (s *session) observable(bundle *pki.Bundle) error {
	switch {
	case s == nil || s.pool == nil:
		return errNoSettings
	case bundle == nil:
		return errNoBundle
	case s.versions.hasBegun():
		return errBegun
	}
	return nil
}

// survey is what the cluster's members run, for a plan.
func (s *session) survey(ctx context.Context, bundle *pki.Bundle, peers map[string]string) (membership.Survey, error) {
	if err := s.observable(bundle); err != nil {
		return membership.Survey{}, err
	}
	found, err := shared(ctx, &s.versions.mu, s.versions.surveys, bundle.ClusterID, func(ctx context.Context) (membership.Survey, error) {
		return s.clusters.Survey(ctx, s.machinesAt(slices.Collect(maps.Values(peers))), bundle)
	})
	if s.versions.hasBegun() { // it may have been seen in the middle of a restart
		return membership.Survey{}, errBegun
	}
	return found, err
}

// skew is what runs beside a replica, for a plan. With an error it is what
// could be told nevertheless. All replicas of a plan share what the first one
// sees, so etcd is asked by way of every member, not of that replica's alone.
func (s *session) skew(ctx context.Context, spec controlplane.Spec) (release.Versions, error) {
	if err := s.observable(spec.Bundle); err != nil {
		return release.Versions{}, err
	}
	spec.Store = s.storeAt(s.versions.reachedAt(spec.EtcdURLs, spec.Bundle.ClusterID), spec.Bundle)
	key := spec.Bundle.ClusterID + " " + spec.EndpointURL() + " " + spec.Version
	found, err := shared(ctx, &s.versions.mu, s.versions.skews, key, func(ctx context.Context) (release.Versions, error) {
		return s.replicas.Versions(ctx, spec)
	})
	if s.versions.hasBegun() {
		return release.Versions{}, errBegun
	}
	return found, err
}

// shared looks once for each key, within planTimeout.
func shared[T any](ctx context.Context, mu *sync.Mutex, looks map[string]*look[T], key string, see func(context.Context) (T, error)) (T, error) {
	mu.Lock()
	l, ok := looks[key]
	if !ok {
		l = &look[T]{}
		looks[key] = l
	}
	mu.Unlock()
	l.once.Do(func() {
		ctx, cancel := context.WithTimeout(ctx, planTimeout)
		defer cancel()
		l.found, l.err = see(ctx)
	})
	return l.found, l.err
}

// refuseVersion reports a version that the rules do not allow.
func refuseVersion(diags *diag.Diagnostics, err error) {
	if err == nil {
		return
	}
	addError(diags, path.Root("version"), "Version not possible", &problem.Problem{
		Summary: "Version not possible", Cause: indented(err.Error()), Unchanged: problem.Nothing, Err: err,
		Next: "take the way that each rule names. Every step is an apply of its own.",
	})
}

// warnUnknownVersions says, once in a run, that a plan could not be held against all
// that runs. What the run itself is changing is judged where it is changed.
func (s *session) warnUnknownVersions(diags *diag.Diagnostics, what string, untold []string, err error) {
	if errors.Is(err, errBegun) || err == nil && len(untold) == 0 {
		return
	}
	if err != nil {
		untold = append([]string{asProblem("", err).Cause}, untold...)
	}
	if s.versions.once(what) {
		diags.AddAttributeWarning(path.Root("version"), what+" not held against all that runs",
			"Cause: "+indented(strings.Join(untold, "\n"))+
				"\nNext step: bring back what does not answer and plan again. The apply looks again before it changes anything, and refuses what is not possible.")
	}
}

// warnRemoved names, once in a run, the APIs that clients will miss.
func (s *session) warnRemoved(diags *diag.Diagnostics, removed []string, target string) {
	if len(removed) > 0 && s.versions.once("removed from "+target) {
		diags.AddAttributeWarning(path.Root("version"), "Clients use APIs that Kubernetes "+target+" does not serve",
			"Since the API servers started, clients have asked for:\n  "+strings.Join(problem.Lines(removed), "\n  ")+
				"\nNext step: find these clients (the audit log names them) and move them to an API that "+target+" serves, then apply.")
	}
}

// clusterOf is the id of the cluster that a bundle is of, "" without a bundle.
func clusterOf(b *pki.Bundle) string {
	if b == nil {
		return ""
	}
	return b.ClusterID
}
