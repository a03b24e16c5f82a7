package provider

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// addError converts an error of a domain package into one diagnostic. It has the summary, then
// the host, the cause, what is unchanged and the next step. It is on the attribute that the
// error names, or else on attribute.
func addError(diags *diag.Diagnostics, attribute path.Path, summary string, err error) {
	p := asProblem(summary, err)
	if p.Attribute != "" {
		attribute = attributePath(p.Attribute)
	}
	diags.AddAttributeError(attribute, p.Title(), p.Text())
}

// addInvalid reports an error of a pure check of the configuration.
func addInvalid(diags *diag.Diagnostics, attribute path.Path, summary string, err error) {
	addError(diags, attribute, summary, &problem.Problem{Summary: summary, Cause: err.Error(), Unchanged: problem.Nothing})
}

// asProblem converts any error into a problem. If a machine refuses the connection, the remedy
// is the same for every operation. For other errors, the package that failed provides the
// remedy.
func asProblem(summary string, err error) *problem.Problem {
	p := &problem.Problem{Summary: summary, Cause: err.Error(), Err: err}
	if known := (*problem.Problem)(nil); errors.As(err, &known) {
		if known.Detail != "" { // a list of several machines has no single remedy
			return known
		}
		copied := *known
		p = &copied
	}
	var key *host.HostKeyError
	switch {
	case errors.As(err, &key):
		hostKeyProblem(p, key)
	case errors.Is(err, host.ErrAuth):
		p.Summary = "SSH authentication refused"
		p.Next = "check ssh.user and ssh.private_key (or the agent's keys) of the provider, and that the " +
			"machine's authorized_keys contains the public key."
	case errors.Is(err, host.ErrNotRoot):
		p.Summary = "No root privileges on the machine"
		p.Next = "log in as root, or let the user run sudo without a password (NOPASSWD)."
	case errors.Is(err, host.ErrHostsPending):
		p.Summary = "SSH settings of the machines are not known yet"
		p.Next = "apply: the resources that provide ssh.hosts are applied first. Until then no machine is contacted, so " +
			"the plan shows no drift and checks less. To have machines read, use keys in ssh.hosts that are known before " +
			"the apply, such as fixed addresses, or create the new machines first (terraform apply -target=…)."
	case errors.Is(err, host.ErrPending):
		p.Summary = "SSH settings of the machine are not known yet"
		p.Next = "apply: the resources that provide these settings are applied first. Other machines are not affected."
	case p.Next != "":
	case errors.Is(err, host.ErrNoAnswer):
		p.Summary = "Machine does not answer"
		p.Next = host.HangRemedy
	case errors.Is(err, host.ErrUnreachable):
		p.Summary = "Machine unreachable over SSH"
		p.Next = "recover the machine or its network, then apply again. If it is permanently lost, add its " +
			"address to abandon_unreachable_hosts of the provider before you destroy the resources on it."
	case errors.Is(err, host.ErrDigest):
		p.Summary = "Artifact checksum differs"
		p.Next = "do not use the artifact; check the artifact source of the provider and download it again."
	case errors.Is(err, host.ErrNoArtifact):
		p.Summary = "Artifact not found"
		p.Next = "check the version and the artifact source of the provider."
	}
	return p
}

func hostKeyProblem(p *problem.Problem, key *host.HostKeyError) {
	p.Cause = key.Error()
	pin := fmt.Sprintf("ssh = { hosts = { %q = { host_key = %q } } }", key.Address, key.Seen)
	if len(key.Known) == 0 {
		p.Summary = "Host key not trusted"
		p.Next = "compare the key with the one on the machine's console (cat /etc/ssh/ssh_host_*_key.pub). If it " +
			"matches, add it to known_hosts, or pin it on the provider:\n  " + pin
		return
	}
	p.Summary = "Host key changed"
	p.Next = "rule out a man-in-the-middle attack. If the machine was rebuilt and this is its key, replace the " +
		"old line in known_hosts, or pin the new key on the provider:\n  " + pin
}

// addConfigError adds a *host.ConfigError to the attribute that it names below root.
func addConfigError(diags *diag.Diagnostics, root path.Path, summary string, err error) {
	attribute := root
	cause := err
	var setting *host.ConfigError
	if errors.As(err, &setting) {
		attribute = settingPath(root, setting.Field)
		cause = setting.Err
	}
	diags.AddAttributeError(attribute, summary, "Setting: "+attribute.String()+"\nCause: "+cause.Error()+
		"\nUnchanged: no machine was contacted.")
}

// settingPath resolves "bastion.host_key" or "hosts.10.0.0.11.host_key" below root. The keys of
// hosts, the only map among the settings, contain dots.
func settingPath(root path.Path, field string) path.Path {
	if rest, ok := strings.CutPrefix(field, "hosts."); ok {
		key, leaf := rest, ""
		if i := strings.LastIndex(rest, "."); i >= 0 {
			key, leaf = rest[:i], rest[i+1:]
		}
		at := root.AtName("hosts").AtMapKey(key)
		if leaf != "" {
			at = at.AtName(leaf)
		}
		return at
	}
	for name := range strings.SplitSeq(field, ".") {
		root = root.AtName(name)
	}
	return root
}

// attributePath resolves the attribute that a problem names, such as "host.address".
func attributePath(attribute string) path.Path {
	first, rest, nested := strings.Cut(attribute, ".")
	at := path.Root(first)
	if !nested {
		return at
	}
	for name := range strings.SplitSeq(rest, ".") {
		at = at.AtName(name)
	}
	return at
}
