package controlplane

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/nodebootstrap"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// checkAdoption returns an error if an apply would change objects that it may not change: objects that exist and that
// the provider does not manage yet, without adopt; configurations of kubeadm that adopt would have to overwrite as a
// whole; and fields of others in them that it would remove, if no plan has shown that. The provider may manage such a
// configuration already: a resource with adopt that was destroyed, or has left the state, leaves it so.
func (s NodeBootstrap) checkAdoption(current []existing) error {
	var foreign, conflicts, lost []string
	for _, e := range current {
		others := strings.Join(e.others, ", ")
		if e.current != nil && !e.owned && !e.unwanted && !s.Adopt {
			foreign = append(foreign, fmt.Sprintf("%s, managed by %s", e.wanted.Label(), others))
		}
		if e.conflict != nil {
			conflicts = append(conflicts, e.conflict.Error())
		}
		if len(e.lost) > 0 && !s.Overwrites {
			lost = append(lost, fmt.Sprintf("%s, managed by %s too (%s)", e.wanted.Label(), others, strings.Join(e.lost, "; ")))
		}
	}
	refusal := problem.Problem{Attribute: "adopt", Unchanged: problem.Nothing}
	switch {
	case len(foreign) > 0:
		refusal.Summary = "Objects for joining workers belong to somebody else"
		refusal.Cause = "these exist already, and the provider has not applied them: " + strings.Join(foreign, "; ")
		refusal.Next = "set adopt = true to take them over, which overwrites what differs from this resource; or leave " +
			"them to whoever manages them, and remove this resource."
	case len(conflicts) > 0:
		refusal.Summary = "Configurations of kubeadm cannot be taken over"
		refusal.Cause = strings.Join(conflicts, "; ")
		refusal.Next = "correct the ConfigMap (kubectl edit), or delete it: then the apply creates it with the provider's " +
			"fields alone."
	case len(lost) > 0:
		refusal.Summary = "Fields of kubeadm's configuration would be removed"
		refusal.Cause = "without adopt, the apply would overwrite what this resource does not set: " +
			strings.Join(lost, "; ")
		refusal.Next = "set adopt = true, which keeps these fields. To have them removed, set adopt = false with a later " +
			"apply, whose plan warns of that."
	default:
		return nil
	}
	return &refusal
}

var errNoAPIServer = errors.New("its machine has no definition of an API server")

// checkRaise returns an error for a higher minor than kubeadm-config has while the version of a replica is unknown: it
// may serve, and be older. What kubeadm-config says already changes nothing for workers.
func checkRaise(wanted string, current []existing, unseen []replicaStatus) error {
	to, err := version.ParseGeneric(wanted)
	if err != nil {
		return untouched(err)
	}
	var reasons []string
	for _, st := range unseen {
		reasons = append(reasons, fmt.Sprintf("replica %s does not report its version: %v", st.machine(),
			cmp.Or(st.unknown, errNoAPIServer)))
	}
	for _, e := range current {
		has := nodebootstrap.ConfiguredVersion(e.wanted, e.current)
		from, err := version.ParseGeneric(has)
		if len(unseen) == 0 || err != nil || !from.LessThan(version.MajorMinor(to.Major(), to.Minor())) {
			continue
		}
		return &problem.Problem{
			Summary: "Workers may be newer than the control plane", Attribute: "version", Unchanged: problem.Nothing,
			Cause: fmt.Sprintf("%s has the version %s, which would be raised to %s, but kubelets may not be newer than any "+
				"API server, and %s", e.wanted.Label(), problem.Quote(has), wanted, strings.Join(reasons, "; ")),
			Next: "bring the replica back, or destroy it if it is gone; then apply again.",
		}
	}
	return nil
}
