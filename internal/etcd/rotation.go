package etcd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// rotationStatus is the observed stage, in the rotation of the etcd authority, of a
// process that depends on the authority.
type rotationStatus struct {
	Who        string // "cp3 (10.0.0.13)"
	Generation int    // of the files that it runs with
	Unknown    string // why Generation is unknown; "": it is known
	Between    string // why it does not run with these files, or not only with them; "": it does
	Remedy     string // for Unknown and Between
}

// obstacle is what keeps a member from moving to a generation.
type obstacle struct {
	Who         []rotationStatus
	Cause, Next string
}

// same reports whether nothing has changed since another observation. It does not compare
// messages: those of a lost connection differ each time.
func (o *obstacle) same(before *obstacle) bool {
	return before != nil && slices.EqualFunc(o.Who, before.Who, func(a, b rotationStatus) bool {
		return a.Who == b.Who && a.Generation == b.Generation && (a.Unknown == "") == (b.Unknown == "") &&
			(a.Between == "") == (b.Between == "")
	})
}

// obstacle returns why this process blocks a member at generation target, or nil.
// Processes one stage apart trust each other's certificates. Those further apart may not.
func (s rotationStatus) obstacle(target int) *obstacle {
	who := []rotationStatus{s}
	switch {
	case s.Unknown != "":
		return &obstacle{who, fmt.Sprintf("it cannot be determined which etcd CA %s trusts: %s", s.Who, s.Unknown), s.Remedy}
	case s.Generation < target-1:
		return &obstacle{
			who,
			fmt.Sprintf("%s is still at generation %d of the etcd CA, and only adjacent generations are "+
				"compatible with generation %d", s.Who, s.Generation, target),
			fmt.Sprintf("set rotation.etcd back to %d and apply, then raise it again", target-1),
		}
	case s.Generation > target+1:
		next := fmt.Sprintf("set rotation.etcd to %d and apply, then lower it again", target+1)
		if pki.StageOf(target) == pki.Steady { // a higher number introduces another CA
			next = fmt.Sprintf("use the state of kube_pki_bundle of generation %d or %d of etcd. Do not raise rotation.etcd "+
				"before that: it would introduce another CA", s.Generation, s.Generation-1)
		}
		return &obstacle{
			who,
			fmt.Sprintf("%s is already at generation %d of the etcd CA, and only adjacent generations are "+
				"compatible with generation %d", s.Who, s.Generation, target),
			next,
		}
	case s.Between != "":
		return &obstacle{who, fmt.Sprintf("%s is between two generations of the etcd CA: %s", s.Who, s.Between), s.Remedy}
	}
	return nil
}

// mayTakeGeneration returns what keeps a member from taking the files of a generation, or
// nil. Everything else that depends on the authority must demonstrably be within one stage
// of it. An unknown stage is refused.
//
// A joining member may do so although another member cannot be queried, if all members
// that can be queried are at exactly that generation. They were allowed to take it by this
// rule, so the silent member is within one stage of them. A refusal would deadlock the
// repair of a cluster that lost two of five members.
func mayTakeGeneration(target int, joins bool, others []rotationStatus) *obstacle {
	known := slices.DeleteFunc(slices.Clone(others), func(s rotationStatus) bool { return s.Unknown != "" })
	if joins && len(known) > 0 && !slices.ContainsFunc(known, func(s rotationStatus) bool {
		return s.Generation != target
	}) {
		others = known
	}
	var all *obstacle
	for _, s := range others {
		switch o := s.obstacle(target); {
		case o == nil:
		case all == nil:
			all = o
		default:
			all.Who, all.Cause = append(all.Who, s), all.Cause+"; "+o.Cause
		}
	}
	return all
}

// rotationStatuses returns the status of all members except that of s. v is nil if no
// member answered: then every machine that has something of a member counts.
func rotationStatuses(s Spec, v *membership.View, machines []machine.Observed) []rotationStatus {
	var out []rotationStatus
	at := map[string]bool{}
	for _, m := range machines {
		at[membership.PeerURL(m.Address)] = true
		if m.Name != s.Name && counts(m, v) {
			out = append(out, rotationStatusOf(s, m))
		}
	}
	if v == nil {
		return out
	}
	for _, m := range v.Members {
		known := slices.ContainsFunc(m.PeerURLs, func(u string) bool { return at[u] })
		// A member of the same name is the predecessor on another machine: it is removed
		// before a new one is added.
		if !known && m.Started() && m.Name != s.Name {
			out = append(out, rotationStatus{
				Who: m.Label(), Unknown: "the cluster lists it at " + strings.Join(m.PeerURLs, ", ") + ", which is not in peers",
				Remedy: "add it to peers, or remove it from the cluster, then apply again",
			})
		}
	}
	return out
}

// counts reports whether the machine has, or may have, a member of the cluster. A machine
// without one gets its member at the desired generation.
func counts(f machine.Observed, v *membership.View) bool {
	if v != nil {
		if _, listed := v.ByPeerURL(membership.PeerURL(f.Address)); !listed {
			return false
		}
	}
	return !f.Reached() || f.Data || f.Running() || f.Record != nil
}

// rotationStatusOf returns the stage of the member on a machine, as seen from s.
func rotationStatusOf(s Spec, f machine.Observed) rotationStatus {
	out := rotationStatus{Who: f.Label(), Remedy: "recover the machine, or destroy the member if the machine is " +
		"permanently lost, then apply again"}
	switch {
	case !f.Reached():
		out.Unknown = f.Err.Error()
		return out
	case f.Foreign(s.Bundle.ClusterID, s.Directory()) != "":
		out.Unknown = f.Foreign(s.Bundle.ClusterID, s.Directory())
		out.Remedy = "destroy the member, then apply again"
		return out
	}
	if f.Record != nil {
		out.Generation = f.Record.Generation
	}
	out.Between = mixedGenerations(s, f, out.Generation)
	out.Remedy = fmt.Sprintf("set rotation.etcd to %d and apply, which completes that generation on the machine, "+
		"then set it to %d again", out.Generation, s.Generation())
	if out.Generation == s.Generation() {
		out.Remedy = "apply without -target: the update of that member completes the generation on its machine"
	}
	return out
}

// mixedGenerations describes why the member does not run with the files of its record's
// generation, or not only with them, because a change of them was interrupted. etcd reads
// the CA pool at its start, and the rest at each handshake.
func mixedGenerations(s Spec, f machine.Observed, generation int) string {
	trust := f.Facts.Files[layout.CAPath].SHA256
	if generation == s.Generation() { // whatever is on the disk, it should run with this one
		trust = machine.Digest([]byte(s.Bundle.Anchors(pki.Etcd)))
	}
	noted := f.StartedWith()[layout.CAPath]
	if f.Running() && noted != trust && noted != f.Facts.Files[layout.CAPath].SHA256 {
		return "etcd is running with a different " + layout.CAPath + " than the one on disk"
	}
	roots := s.Bundle.Anchors(pki.Etcd) // of a process that has read the bundle's file, or will
	if f.Running() && noted != machine.Digest([]byte(roots)) {
		roots = f.Facts.Files[layout.CAPath].Content
	}
	why := distrusts(s, roots)
	for _, l := range []pki.Leaf{pki.EtcdServer(f.Name, f.Address), pki.EtcdPeer(f.Name, f.Address)} {
		path := machine.CertificatePath(l)
		why = cmp.Or(why, distrusted(s, f.Facts.Files[path].Content, path, pki.Server))
	}
	return why
}

// distrusts returns why a process with these roots does not accept the certificates of a member with the bundle of s,
// or "". The number of a generation does not tell: a CA whose introduction was taken back has the number of the one
// that was introduced after it.
func distrusts(s Spec, roots string) string {
	if s.Bundle.TrustedBy(pki.Etcd, roots, time.Now()) {
		return ""
	}
	return fmt.Sprintf("it was started without the CA that issues at generation %d", s.Generation())
}

// distrusted returns why a member with the bundle of s does not accept a certificate that a process presents, or "". It
// is evaluated at the start of its validity: whether it has expired does not matter here.
func distrusted(s Spec, certificate, name string, usage pki.Usage) string {
	chain := machine.CertificatesOf(certificate)
	if len(chain) == 0 || pki.Accepts(s.Bundle.Anchors(pki.Etcd), chain, usage, chain[0].NotBefore) {
		return ""
	}
	return fmt.Sprintf("it presents a certificate (%s) issued by %q, which generation %d does not trust", name,
		chain[0].Issuer.CommonName, s.Generation())
}
