package readiness

import (
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// policy has the relevant fields of an audit.k8s.io/v1 file.
type policy struct {
	Rules []rule `json:"rules"`
}

type rule struct {
	Level           string      `json:"level"`
	Users           []string    `json:"users"`
	UserGroups      []string    `json:"userGroups"`
	Verbs           []string    `json:"verbs"`
	Namespaces      []string    `json:"namespaces"`
	NonResourceURLs []string    `json:"nonResourceURLs"`
	Resources       []resources `json:"resources"`
}

type resources struct {
	Group         string   `json:"group"`
	Resources     []string `json:"resources"`
	ResourceNames []string `json:"resourceNames"`
}

// request is a request that any user may send.
type request struct {
	what, verb, group, resource string
}

// auditedRequests are the requests that have to be logged.
var auditedRequests = []request{
	{"reads of Secrets", "get", "", "secrets"},
	{"changes of Secrets", "update", "", "secrets"},
	{"changes of RBAC", "create", "rbac.authorization.k8s.io", "clusterrolebindings"},
	{"changes of RBAC", "update", "rbac.authorization.k8s.io", "roles"},
	{"exec", "create", "", "pods/exec"},
}

// level returns the level at which a request of any user is logged. The first matching rule
// decides, and without a match the request is not logged (apiserver's audit/policy/checker.go).
// A rule for specific users or namespaces does not match any user.
func (p policy) level(r request) string {
	for _, rule := range p.Rules {
		if rule.matches(r) {
			return rule.Level
		}
	}
	return "None"
}

func (r rule) matches(q request) bool {
	anyone := len(r.Users) == 0 && (len(r.UserGroups) == 0 || slices.Contains(r.UserGroups, "system:authenticated"))
	if !anyone || len(r.Namespaces) > 0 || len(r.Verbs) > 0 && !slices.Contains(r.Verbs, q.verb) &&
		!slices.Contains(r.Verbs, "*") {
		return false
	}
	if len(r.Resources) == 0 {
		return len(r.NonResourceURLs) == 0
	}
	return slices.ContainsFunc(r.Resources, func(of resources) bool { return of.matches(q) })
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
		return name == q.resource || name == "*" || sub != "" && (name == "*/"+sub || name == resource+"/*")
	})
}

func judgeAudit(e Evidence) verdict {
	return everyAPIServer(e, func(flags, files map[string]string) verdict {
		switch {
		case flags["audit-log-path"] == "" && flags["audit-webhook-config-file"] == "":
			return fail("no audit log is configured")
		case flags["audit-policy-file"] == "":
			return fail("no audit policy is configured, so nothing is logged")
		}
		var p policy
		text, read := files["audit-policy-file"]
		if err := yaml.Unmarshal([]byte(text), &p); err != nil || !read {
			return unknown("%s cannot be read", flags["audit-policy-file"])
		}
		return p.judge()
	})
}

// judge checks that each of the requests is logged, and that the content of Secrets is not.
func (p policy) judge() verdict {
	var lacks, bodies []string
	for _, r := range auditedRequests {
		switch level := p.level(r); {
		case level == "None" || level == "":
			lacks = append(lacks, r.what)
		case r.resource == "secrets" && level != "Metadata":
			bodies = append(bodies, r.what)
		}
	}
	switch {
	case len(lacks) > 0:
		return fail("the policy does not cover %s", strings.Join(slices.Compact(lacks), ", "))
	case len(bodies) > 0:
		return warn("the log contains the content of Secrets: %s are logged with bodies", strings.Join(bodies, ", "))
	}
	return pass("the policy covers Secrets, RBAC and exec")
}
