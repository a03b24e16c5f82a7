package readiness

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// minValidity is the remaining validity that certificates need.
const minValidity = 30 * 24 * time.Hour

func judgeCertificates(e Evidence) verdict {
	if len(e.Certificates)+len(e.CertificatesUnread) == 0 {
		return unknown("no certificate could be read")
	}
	var ending []string
	var first Certificate
	for _, c := range e.Certificates {
		if first.Of == "" || c.End.Before(first.End) {
			first = c
		}
		if c.End.Sub(e.Now) < minValidity {
			ending = append(ending, c.Of+" on "+c.End.UTC().Format(time.DateOnly))
		}
	}
	unread := unreadOf(e)
	switch {
	case len(ending) > 0:
		return fail("expired or expiring within 30 days: %s", strings.Join(ending, ", "))
	case len(unread) > 0:
		return unknown("some machines could not be observed: %s", strings.Join(unread, ", "))
	case len(e.CertificatesUnread) > 0:
		return unknown("missing, or not a certificate: %s", strings.Join(e.CertificatesUnread, ", "))
	case len(e.SignedOutside) > 0:
		return warn("certificates of the CAs %s are renewed only by their external signer; the first certificate "+
			"to expire is that of %s, on %s",
			strings.Join(e.SignedOutside, ", "), first.Of, first.End.UTC().Format(time.DateOnly))
	}
	ends := fmt.Sprintf("every apply renews certificates that are due; the first to expire is that of %s, on %s", first.Of,
		first.End.UTC().Format(time.DateOnly))
	return e.Alerts.judge(ends)
}

// judge judges whether somebody is told before certificates expire, because no apply ran.
func (a Alerts) judge(ends string) verdict {
	switch {
	case a.Unread != "":
		return unknown("%s; whether an alert is there is unknown: %s", ends, a.Unread)
	case len(a.Certificates) > 0:
		return pass("%s; before that, %s is raised", ends, listed(slices.Sorted(slices.Values(a.Certificates))))
	case a.Rules > 0:
		return warn("%s; none of the %d alerts in the cluster's PrometheusRules looks at that", ends, a.Rules)
	}
	return notShown("%s; whether an alert is there does not show: the cluster has no PrometheusRule", ends)
}

// unreadOf returns the machines that could not be observed, without duplicates.
func unreadOf(e Evidence) []string {
	var unread []string
	for _, m := range e.Members {
		if m.Unread != "" {
			unread = append(unread, m.Name)
		}
	}
	for _, r := range e.Replicas {
		if r.Unread != "" && !slices.Contains(unread, r.Name) {
			unread = append(unread, r.Name)
		}
	}
	return unread
}

// judgeInsecure checks for insecure ports. That of kube-apiserver was removed in 1.24, and
// those of the other components with it. What remains are etcd's URLs, by their scheme.
func judgeInsecure(e Evidence) verdict {
	replicas := everyReplica(e, func(r Replica) verdict {
		for _, p := range r.processes() {
			for _, flag := range []string{"insecure-port", "port"} {
				if value, set := p.Flags[flag]; set && !isZero(value) {
					return fail("%s runs with --%s=%s", p.name, flag, value)
				}
			}
		}
		for _, p := range r.processes() {
			if !p.Running {
				return unknown("%s is not running", p.name)
			}
		}
		return pass("none")
	})
	members := everyMember(e, func(m Member) verdict {
		switch file, set := m.Process.Flags["config-file"]; {
		case !m.Process.Running:
			return unknown("etcd is not running")
		case set:
			return unknown("etcd takes its URLs from %s", file) // and ignores its flags
		}
		for _, flag := range []string{"listen-client-urls", "listen-peer-urls", "listen-client-http-urls"} {
			for _, text := range listOf(m.Process.Flags[flag]) {
				if strings.HasPrefix(text, "http://") {
					return fail("etcd listens on %s", text)
				}
			}
		}
		return pass("none")
	})
	return worst(replicas, members)
}

// worst returns the worse of two verdicts, with the evidence of each.
func worst(a, b verdict) verdict {
	out := verdict{worse(a.status, b.status), a.evidence}
	if b.evidence != a.evidence {
		out.evidence += "; etcd: " + b.evidence
	}
	return out
}

func judgeTaints(e Evidence) verdict {
	if e.NodesUnread != "" {
		return unknown("%s", e.NodesUnread)
	}
	var tainted, open []string
	for _, node := range e.Nodes {
		if !isControlPlane(e, node) {
			continue
		}
		if slices.ContainsFunc(node.Taints, repelsPods) {
			tainted = append(tainted, node.Name)
		} else {
			open = append(open, node.Name)
		}
	}
	switch {
	case len(open) > 0:
		return fail("no NoSchedule taint on %s", strings.Join(open, ", "))
	case len(tainted) > 0:
		return pass("%s", strings.Join(tainted, ", "))
	}
	var kubelets []string
	for _, r := range e.Replicas {
		if r.Kubelet {
			kubelets = append(kubelets, r.Name)
		}
	}
	unread := unreadOf(e)
	switch {
	case len(unread) > 0:
		return unknown("some machines could not be observed: %s", strings.Join(unread, ", "))
	case len(kubelets) > 0:
		return notShown("which node is that of the kubelet on %s does not show: none has the machine's address or name, or "+
			"the label %s", strings.Join(kubelets, ", "), controlPlaneLabel)
	}
	return pass("none of these machines is a node")
}

// controlPlaneLabel is the label of the nodes of a control plane, as kubeadm sets it.
const controlPlaneLabel = "node-role.kubernetes.io/control-plane"

// isControlPlane reports whether a node is one of these machines. Nodes may register with other addresses.
func isControlPlane(e Evidence, node Node) bool {
	is := func(name, address string) bool { return node.Name == name || slices.Contains(node.Addresses, address) }
	return node.ControlPlane || slices.ContainsFunc(e.Replicas, func(r Replica) bool { return is(r.Name, r.Address) }) ||
		slices.ContainsFunc(e.Members, func(m Member) bool { return is(m.Name, m.Address) })
}

// repelsPods reports whether a taint permanently repels pods that do not tolerate it. The taints of
// the node controller for a node that is not ready are removed again.
func repelsPods(taint string) bool {
	key, effect, _ := strings.Cut(taint, ":")
	return (effect == "NoSchedule" || effect == "NoExecute") && !strings.HasPrefix(key, "node.kubernetes.io/") &&
		!strings.HasPrefix(key, "node.cloudprovider.kubernetes.io/")
}

// String formats a finding for test messages and logs.
func (f Finding) String() string { return fmt.Sprintf("%s: %s (%s)", f.ID, f.Status, f.Evidence) }
