package component

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
)

// AuditLogFlag names the file of the audit log: "" for none, "-" for standard output.
const AuditLogFlag = "audit-log-path"

// AuditPolicyPath is the audit policy that the API server reads.
const AuditPolicyPath = KubernetesDir + "/audit-policy.yaml"

// Retention of the audit log: the CIS benchmark's values (1.2.17 to 1.2.19).
const (
	DefaultAuditAge     = 30  // days
	DefaultAuditBackups = 10  // rotated files, in addition to the current one
	DefaultAuditSize    = 100 // MB
)

// MaxAuditNumber is the upper limit of each setting.
const MaxAuditNumber = 36500

// Audit configures the audit log of an API server. The zero value uses the built-in policy.
type Audit struct {
	Off        bool
	Policy     string // YAML of audit.k8s.io/v1; "" means BuiltInPolicy
	MaxAgeDays int    // 0 means the default, for each number
	MaxBackups int
	MaxSizeMB  int
}

// BuiltInPolicy follows the benchmark's 3.2.2. Every request that could matter is logged with
// its user, verb and object. Bodies are logged only if they contain no secrets and an
// investigation needs them. Rules are evaluated in order, and the first match applies.
const BuiltInPolicy = `# Written by terraform-provider-kube: its built-in audit policy.
apiVersion: audit.k8s.io/v1
kind: Policy
omitManagedFields: true
omitStages: [RequestReceived]
rules:
  # Every node watches the ConfigMaps of its pods: by far the most there would be.
  - level: None
    userGroups: ["system:nodes"]
    verbs: [get, list, watch]
    resources:
      - group: ""
        resources: [configmaps]
  # Never a body: secrets, tokens, and what people put into ConfigMaps.
  - level: Metadata
    resources:
      - group: ""
        resources: [secrets, configmaps, serviceaccounts/token]
      - group: authentication.k8s.io
        resources: [tokenreviews]
  # Who may do what: the change as it was asked for, and what came of it.
  - level: RequestResponse
    verbs: [create, update, patch, delete, deletecollection]
    resources:
      - group: rbac.authorization.k8s.io
  # Into and through containers, services and nodes. The address of the request
  # holds the command; a body may hold a secret.
  - level: Metadata
    resources:
      - group: ""
        resources: [pods/exec, pods/attach, pods/portforward, pods/proxy, pods/ephemeralcontainers,` +
	` services/proxy, nodes/proxy]
  # Noise: health, discovery, events, heartbeats, and what the control plane and
  # nodes look at all the time.
  - level: None
    verbs: [get, head]
    nonResourceURLs: ["/healthz*", "/livez*", "/readyz*", "/version", "/openapi*", "/api", "/api/*", "/apis", "/apis/*"]
  - level: None
    resources:
      - group: ""
        resources: [events]
      - group: events.k8s.io
      - group: coordination.k8s.io
        resources: [leases]
  - level: None
    users: ["system:apiserver", "system:kube-controller-manager", "system:kube-scheduler", "system:kube-proxy"]
    verbs: [get, list, watch]
  - level: None
    userGroups: ["system:nodes", "system:serviceaccounts:kube-system"]
    verbs: [get, list, watch]
  - level: None
    userGroups: ["system:nodes"]
    verbs: [update, patch]
    resources:
      - group: ""
        resources: [nodes/status, pods/status]
  # Everything else: who, what, when, from where, and with which result.
  - level: Metadata
`

// AuditFlags returns the flags of the audit log and its policy. As with any flag, the user's
// extra_args take precedence. With a policy file of the user, the provider writes none.
func (s Replica) AuditFlags() map[string]string {
	if s.Audit.Off {
		return nil
	}
	a := s.Audit
	return map[string]string{
		"audit-policy-file":   AuditPolicyPath,
		AuditLogFlag:          AuditLogDir + "/audit.log",
		"audit-log-maxage":    strconv.Itoa(orElse(a.MaxAgeDays, DefaultAuditAge)),
		"audit-log-maxbackup": strconv.Itoa(orElse(a.MaxBackups, DefaultAuditBackups)),
		"audit-log-maxsize":   strconv.Itoa(orElse(a.MaxSizeMB, DefaultAuditSize)),
	}
}

// AuditSpace returns the maximum disk space of the log files, in bytes. The log is often on the
// same disk as etcd. It returns 0 if the user's flags configure the log.
func (s Replica) AuditSpace() int64 {
	for name := range s.ExtraArgs[release.APIServer] {
		if strings.HasPrefix(name, "audit-log-") {
			return 0
		}
	}
	if s.Audit.Off {
		return 0
	}
	files, size := orElse(s.Audit.MaxBackups, DefaultAuditBackups)+1, orElse(s.Audit.MaxSizeMB, DefaultAuditSize)
	return int64(files) * int64(size) << 20
}

func orElse(n, absent int) int {
	if n == 0 {
		return absent
	}
	return n
}

// WritesPolicy reports whether the API server reads a policy written by the provider.
func (s Replica) WritesPolicy() bool {
	_, other := s.ExtraArgs[release.APIServer]["audit-policy-file"]
	return !s.Audit.Off && !other
}

// PolicyText returns the audit policy that the provider writes.
func (s Replica) PolicyText() string {
	if s.Audit.Policy == "" {
		return BuiltInPolicy
	}
	return s.Audit.Policy
}

// ValidateAudit returns why a is invalid together with the API server's extra arguments: a
// setting and its flag must not contradict each other.
func ValidateAudit(a Audit, extra map[string]string) error {
	for _, twice := range []struct {
		set           bool
		setting, flag string
	}{
		{a.Policy != "", "policy", "audit-policy-file"},
		{a.MaxAgeDays != 0, "max_age_days", "audit-log-maxage"},
		{a.MaxBackups != 0, "max_backups", "audit-log-maxbackup"},
		{a.MaxSizeMB != 0, "max_size_mb", "audit-log-maxsize"},
	} {
		switch _, extraSet := extra[twice.flag]; {
		case twice.set && a.Off:
			return fmt.Errorf("audit.%s has no effect with audit.enabled = false; drop one of them", twice.setting)
		case twice.set && extraSet:
			return fmt.Errorf("audit.%s and the flag %q of extra_args.apiserver say the same thing twice; drop the flag",
				twice.setting, twice.flag)
		}
	}
	if a.Policy == "" {
		return nil
	}
	return validatePolicy(a.Policy)
}

// IncompleteAudit returns the flags of an audit log that somebody else has configured, if they are not all of those
// that the provider sets: a replica has them as extra arguments then. It returns nil if they are all or none.
func IncompleteAudit(flags map[string]string) map[string]string {
	args, missing := map[string]string{}, false
	for flag := range (Replica{}).AuditFlags() {
		if value, there := flags[flag]; there {
			args[flag] = value
		} else {
			missing = true
		}
	}
	if !missing || len(args) == 0 {
		return nil
	}
	return args
}

// AuditFrom derives the audit settings from the flags and from the policy on the machine. It
// ignores flags in extra and numbers that are out of range. Auditing is off if some of its
// flags are missing and all that are present are in extra.
func AuditFrom(flags, extra map[string]string, policy string) Audit {
	missing, own := false, false
	for flag := range (Replica{}).AuditFlags() {
		_, there := flags[flag]
		_, extraSet := extra[flag]
		missing, own = missing || !there, own || there && !extraSet
	}
	if missing && !own {
		return Audit{Off: true}
	}
	number := func(flag string, absent int) int {
		n, err := strconv.Atoi(flags[flag])
		if _, extraSet := extra[flag]; extraSet || err != nil || n < 1 || n > MaxAuditNumber || n == absent {
			return 0
		}
		return n
	}
	a := Audit{
		MaxAgeDays: number("audit-log-maxage", DefaultAuditAge),
		MaxBackups: number("audit-log-maxbackup", DefaultAuditBackups),
		MaxSizeMB:  number("audit-log-maxsize", DefaultAuditSize),
	}
	if flags["audit-policy-file"] == AuditPolicyPath && policy != BuiltInPolicy {
		a.Policy = policy
	}
	return a
}
