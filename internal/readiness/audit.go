package readiness

import (
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// policy has the relevant fields of an audit.k8s.io/v1 file.
type policy struct {
	OmitStages []string `json:"omitStages"`
	Rules      []rule   `json:"rules"`
}

type rule struct {
	Level           string      `json:"level"`
	Users           []string    `json:"users"`
	UserGroups      []string    `json:"userGroups"`
	Verbs           []string    `json:"verbs"`
	Namespaces      []string    `json:"namespaces"`
	NonResourceURLs []string    `json:"nonResourceURLs"`
	Resources       []resources `json:"resources"`
	OmitStages      []string    `json:"omitStages"`
}

type resources struct {
	Group         string   `json:"group"`
	Resources     []string `json:"resources"`
	ResourceNames []string `json:"resourceNames"`
}

// request is what somebody asks of an API server.
type request struct {
	what, verb, group, resource string
	namespaced                  bool
	path                        string // instead of a resource
}

const rbacGroup = "rbac.authorization.k8s.io"

// auditedRequests returns the requests that have to be logged: every verb that reads or changes
// Secrets and roles, and exec, which is a GET by WebSocket and a POST by SPDY.
func auditedRequests() []request {
	var all []request
	for _, verb := range []string{"get", "list", "watch"} {
		all = append(all, request{what: "reads of Secrets", verb: verb, resource: "secrets", namespaced: true})
	}
	for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection"} {
		all = append(all, request{what: "changes of Secrets", verb: verb, resource: "secrets", namespaced: true})
	}
	for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"} {
		what := "changes of RBAC"
		if slices.Contains([]string{"get", "list", "watch"}, verb) {
			what = "reads of RBAC"
		}
		for _, resource := range []string{"roles", "rolebindings", "clusterroles", "clusterrolebindings"} {
			all = append(all, request{
				what: what, verb: verb, group: rbacGroup, resource: resource,
				namespaced: !strings.HasPrefix(resource, "cluster"),
			})
		}
	}
	for _, verb := range []string{"get", "create"} {
		all = append(all, request{what: "exec", verb: verb, resource: "pods/exec", namespaced: true})
	}
	return all
}

// identity is who asks: a user, with the groups that every user has.
type identity struct {
	user   string
	groups []string
}

// someone is the name of a user or namespace that no rule names.
const someone = "\x00"

// mostNames limits the users, groups and namespaces of a policy that are looked at, and mostRules
// its rules.
const (
	mostNames = 30
	mostRules = 500
)

// Names of service accounts (k8s.io/apiserver/pkg/authentication/serviceaccount). Those of systemNamespace are of the
// system itself.
const (
	accountPrefix   = "system:serviceaccount:" // followed by NAMESPACE:NAME
	accountsGroup   = "system:serviceaccounts"
	systemNamespace = "kube-system"
)

// account is the service account of a name in a namespace.
func account(namespace, name string) identity {
	return identity{
		user: accountPrefix + namespace + ":" + name, groups: []string{accountsGroup, accountsGroup + ":" + namespace},
	}
}

// identities returns those whose requests have to be logged: a user that no rule names, the
// administrators, service accounts, and the users and groups of people that rules name. What the system itself does
// may be left out.
func (p policy) identities() []identity {
	all := []identity{{user: someone}, {user: someone, groups: []string{"system:masters"}}, account(someone, someone)}
	for _, r := range p.Rules {
		for _, user := range r.Users {
			namespace, name, isAccount := strings.Cut(strings.TrimPrefix(user, accountPrefix), ":")
			switch {
			case !strings.HasPrefix(user, "system:"):
				all = append(all, identity{user: user})
			case strings.HasPrefix(user, accountPrefix) && isAccount && namespace != systemNamespace:
				all = append(all, account(namespace, name))
			}
		}
		for _, group := range r.UserGroups {
			namespace, ofNamespace := strings.CutPrefix(group, accountsGroup+":")
			switch {
			case !strings.HasPrefix(group, "system:"):
				all = append(all, identity{user: someone, groups: []string{group}})
			case ofNamespace && namespace != systemNamespace:
				all = append(all, account(namespace, someone))
			}
		}
	}
	return all
}

func (p policy) namespaces() []string {
	all := []string{someone}
	for _, r := range p.Rules {
		for _, namespace := range r.Namespaces {
			if !slices.Contains(all, namespace) {
				all = append(all, namespace)
			}
		}
	}
	return all
}

// level returns the level at which a request is logged. The first matching rule decides, and
// without a match the request is not logged (apiserver's audit/policy/checker.go).
func (p policy) level(q request, by identity, namespace string) string {
	for _, r := range p.Rules {
		if r.matches(q, by, namespace) {
			return p.levelOf(r)
		}
	}
	return "None"
}

// levelOf returns the level of the requests that a rule matches.
func (p policy) levelOf(r rule) string {
	omits := func(stage string) bool {
		return slices.Contains(p.OmitStages, stage) || slices.Contains(r.OmitStages, stage)
	}
	if r.Level == "" || omits("RequestReceived") && omits("ResponseComplete") {
		return "None"
	}
	return r.Level
}

// holes returns the names of objects whose requests are not logged, because a rule before the one that matches all
// objects leaves them out.
func (p policy) holes(q request, by identity, namespace string) []string {
	var names []string
	for _, r := range p.Rules {
		if r.matches(q, by, namespace) {
			break
		}
		if p.levelOf(r) == "None" {
			names = append(names, r.named(q, by, namespace)...)
		}
	}
	return names
}

// named returns the names of the objects that a rule is about, if it is about these alone. A request that creates an
// object, or deletes many, has no name; one for a part of an object, such as exec, has, and a list or watch may have
// (apiserver's endpoints/request/requestinfo.go).
func (r rule) named(q request, by identity, namespace string) []string {
	var names []string
	if q.verb == "deletecollection" || q.verb == "create" && !strings.Contains(q.resource, "/") {
		return nil
	}
	for _, of := range r.Resources {
		if len(of.ResourceNames) == 0 {
			continue
		}
		every := r
		every.Resources = []resources{{Group: of.Group, Resources: of.Resources}}
		if every.matches(q, by, namespace) {
			names = append(names, of.ResourceNames...)
		}
	}
	return names
}

// matches reports whether a rule applies to a request, as k8s.io/apiserver/pkg/audit/policy decides: "*" is no verb,
// and "secrets/*" includes Secrets themselves.
func (r rule) matches(q request, by identity, namespace string) bool {
	in := func(group string) bool { return slices.Contains(r.UserGroups, group) }
	switch {
	case len(r.Users) > 0 && !slices.Contains(r.Users, by.user),
		len(r.UserGroups) > 0 && !in("system:authenticated") && !slices.ContainsFunc(by.groups, in),
		len(r.Verbs) > 0 && !slices.Contains(r.Verbs, q.verb):
		return false
	case q.path != "":
		return len(r.Namespaces)+len(r.Resources)+len(r.NonResourceURLs) == 0 ||
			slices.ContainsFunc(r.NonResourceURLs, func(pattern string) bool { return matchesPath(pattern, q.path) })
	case len(r.Namespaces) > 0 && !slices.Contains(r.Namespaces, namespace):
		return false
	case len(r.Resources) == 0:
		return len(r.NonResourceURLs) == 0
	}
	return slices.ContainsFunc(r.Resources, func(of resources) bool { return of.matches(q) })
}

func matchesPath(pattern, path string) bool {
	prefix, open := strings.CutSuffix(pattern, "*")
	return pattern == path || open && strings.HasPrefix(path, prefix)
}

func (of resources) matches(q request) bool {
	if of.Group != q.group && of.Group != "*" || len(of.ResourceNames) > 0 {
		return false
	}
	if len(of.Resources) == 0 {
		return true
	}
	resource, sub, _ := strings.Cut(q.resource, "/")
	return slices.ContainsFunc(of.Resources, func(name string) bool {
		return name == q.resource || name == "*" || name == resource+"/*" || sub != "" && name == "*/"+sub
	})
}

// readPolicy returns the policy of an API server, or why there is none to look at.
func readPolicy(flags, files map[string]string) (p policy, why verdict) {
	switch {
	case flags["audit-log-path"] == "" && flags["audit-webhook-config-file"] == "":
		return p, fail("no audit log is configured")
	case flags["audit-policy-file"] == "":
		return p, fail("no audit policy is configured, so nothing is logged")
	}
	text, read := files["audit-policy-file"]
	if err := yaml.Unmarshal([]byte(text), &p); err != nil || !read {
		return p, unknown("%s cannot be read", flags["audit-policy-file"])
	}
	if len(p.Rules) > mostRules || len(p.identities()) > mostNames || len(p.namespaces()) > mostNames {
		return p, unknown("%s has too many rules, users or namespaces to be checked", flags["audit-policy-file"])
	}
	return p, pass("")
}

func judgeAudit(e Evidence) verdict {
	return everyAPIServer(e, func(flags, files map[string]string) verdict {
		p, why := readPolicy(flags, files)
		if why.status != Pass {
			return why
		}
		return p.judge()
	})
}

// judge checks that each of the requests is logged, and that the content of Secrets is not.
func (p policy) judge() verdict {
	var lacks, bodies, open []string
	for _, q := range auditedRequests() {
		levels, holes := p.levels(q)
		for _, level := range levels {
			switch {
			case level == "None":
				lacks = append(lacks, q.what)
			case q.resource == "secrets" && level != "Metadata":
				bodies = append(bodies, q.what)
			}
		}
		if len(holes) > 0 && !slices.Contains(lacks, q.what) {
			open = append(open, q.what+" of the objects "+listed(holes))
		}
	}
	switch {
	case len(lacks) == 0 && len(open) > 0:
		return fail("the policy does not cover %s", strings.Join(slices.Compact(open), ", "))
	case len(lacks) > 0:
		return fail("the policy does not cover %s of every user in every namespace",
			strings.Join(slices.Compact(lacks), ", "))
	case len(bodies) > 0:
		return warn("the log contains the content of Secrets: %s are logged with bodies",
			strings.Join(slices.Compact(bodies), ", "))
	}
	return pass("the policy covers Secrets, RBAC and exec in every verb that reads or changes them")
}

// levels returns the levels of a request for all users and namespaces, and the names of objects that are left out, each
// without duplicates.
func (p policy) levels(q request) (all, holes []string) {
	namespaces := []string{""}
	if q.namespaced {
		namespaces = p.namespaces()
	}
	for _, by := range p.identities() {
		for _, namespace := range namespaces {
			if level := p.level(q, by, namespace); !slices.Contains(all, level) {
				all = append(all, level)
			}
			for _, name := range p.holes(q, by, namespace) {
				if !slices.Contains(holes, name) {
					holes = append(holes, name)
				}
			}
		}
	}
	slices.Sort(holes)
	return all, holes
}
