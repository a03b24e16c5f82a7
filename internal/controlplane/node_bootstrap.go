package controlplane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/nodebootstrap"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// namespaceWait is how long a control plane that has just started may take to create kube-public.
const namespaceWait = 30 * time.Second

// NodeBootstrap is the desired state of what workers need to join.
type NodeBootstrap struct {
	nodebootstrap.Settings
	Registrar Registrar
	// Overwrites allows an apply to remove fields that other managers have set in kubeadm's configurations. It is set once
	// the resource has been applied, because a plan has then shown the removal.
	Overwrites bool
}

// NodeBootstrapStatus is what was observed.
type NodeBootstrapStatus struct {
	Drift []string
	// Closed are the replicas whose API servers refuse requests without credentials for cluster-info.
	Closed []string
}

// existing is an object as wanted and as it is.
type existing struct {
	wanted   nodebootstrap.Object
	unwanted bool           // of earlier settings, or of kubeadm
	deleted  bool           // by an apply: it is there, unwanted, and the provider's alone or adopted
	current  map[string]any // nil if there is none
	owned    bool
	others   []string
	conflict error    // why its fields cannot be kept
	lost     []string // fields that adopt would keep, and others manage too
}

// ownedAlone reports whether the object exists, and nobody else manages it.
func (e existing) ownedAlone() bool { return e.current != nil && e.owned && len(e.others) == 0 }

func observeObjects(ctx context.Context, api objectsAPI, s nodebootstrap.Settings) ([]existing, error) {
	objects, err := nodebootstrap.Objects(s)
	if err != nil {
		return nil, err
	}
	wanted := len(objects)
	objects = append(objects, nodebootstrap.Unwanted(s)...)
	out := make([]existing, 0, len(objects))
	for i, object := range objects {
		current, err := api.Get(ctx, object)
		if err != nil {
			return nil, err
		}
		e := existing{wanted: object, unwanted: i >= wanted, current: current}
		if current != nil {
			e.owned, e.others = nodebootstrap.Owners(current)
			e.wanted, e.conflict = s.Adopted(object, current)
			e.deleted = e.unwanted && (s.Adopt || e.ownedAlone())
			if !s.Adopt && len(e.others) > 0 {
				e.lost = s.Overwritten(object, current)
			}
		}
		out = append(out, e)
	}
	return out, nil
}

// ReadNodeBootstrap compares the objects with s. It changes nothing.
func (r *Replicas) ReadNodeBootstrap(ctx context.Context, s NodeBootstrap) (NodeBootstrapStatus, error) {
	replicas, err := r.listed(ctx, s.Bundle, s.Registrar)
	if err != nil {
		return NodeBootstrapStatus{}, err
	}
	api, err := anyReady(ctx, replicas)
	if err != nil {
		return NodeBootstrapStatus{}, err
	}
	defer api.Close()
	current, err := observeObjects(ctx, api, s.Settings)
	if err != nil {
		return NodeBootstrapStatus{}, err
	}
	return NodeBootstrapStatus{Drift: objectDrift(current), Closed: s.closedTo(ctx, replicas)}, nil
}

// objectDrift describes what an apply would change.
func objectDrift(current []existing) []string {
	var out []string
	for _, e := range current {
		if e.unwanted {
			if e.deleted {
				out = append(out, e.wanted.Label()+" exists, but is not wanted")
			}
			continue
		}
		if e.conflict != nil {
			out = append(out, e.conflict.Error())
		} else {
			out = append(out, e.wanted.Differences(e.current)...)
		}
		if e.current != nil && !e.owned {
			out = append(out, fmt.Sprintf("%s is managed by %s alone", e.wanted.Label(), strings.Join(e.others, ", ")))
		}
	}
	return out
}

// closedTo returns the replicas that refuse requests without credentials for cluster-info. One that does not
// answer is not among them.
func (s NodeBootstrap) closedTo(ctx context.Context, replicas []reachable) []string {
	if s.DiscoveryByFile {
		return nil
	}
	var out []string
	for _, replica := range replicas {
		if allows, err := replica.client.AllowsDiscovery(ctx); err == nil && !allows {
			out = append(out, replica.name)
		}
	}
	return out
}

// ApplyNodeBootstrap makes the objects as s describes them. What is as wanted is not written, so that a worker
// that is joining reads the same cluster-info twice.
func (r *Replicas) ApplyNodeBootstrap(ctx context.Context, s NodeBootstrap) (NodeBootstrapStatus, error) {
	replicas, err := r.listed(ctx, s.Bundle, s.Registrar)
	if err != nil {
		return NodeBootstrapStatus{}, untouched(err)
	}
	unseen, err := r.checkNotNewer(ctx, s)
	if err != nil {
		return NodeBootstrapStatus{}, err
	}
	api, err := anyReady(ctx, replicas)
	if err != nil {
		return NodeBootstrapStatus{}, err
	}
	defer api.Close()
	current, err := observeObjects(ctx, api, s.Settings)
	if err != nil {
		return NodeBootstrapStatus{}, untouched(err)
	}
	if err := s.checkAdoption(current); err != nil {
		return NodeBootstrapStatus{}, err
	}
	if err := checkRaise(s.Version, current, unseen); err != nil {
		return NodeBootstrapStatus{}, err
	}
	after, err := applyObjects(ctx, api, s.Settings, current)
	if err != nil {
		return NodeBootstrapStatus{}, err
	}
	return NodeBootstrapStatus{Drift: objectDrift(after), Closed: s.closedTo(ctx, replicas)}, nil
}

// applyObject takes over what was changed by others: checkAdoption has allowed it. What somebody else has created since
// then is not taken over. The role of a binding cannot be changed, so a binding to another role is replaced.
func applyObject(ctx context.Context, api objectsAPI, e existing) error {
	switch {
	case e.unwanted && !e.deleted, !e.unwanted && e.owned && len(e.wanted.Differences(e.current)) == 0:
		return nil
	case e.unwanted:
		problem.Progress(ctx, "deleting %s", e.wanted.Label())
		return api.Delete(ctx, e.wanted, uidOf(e.current))
	}
	problem.Progress(ctx, "applying %s", e.wanted.Label())
	if role, bound := e.wanted.Fields["roleRef"]; bound && e.current != nil {
		ref := nodebootstrap.Object{Kind: "roleRef", Fields: map[string]any{"roleRef": role}}
		if len(ref.Differences(e.current)) > 0 {
			if err := api.Delete(ctx, e.wanted, uidOf(e.current)); err != nil {
				return err
			}
		}
	}
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollInterval, namespaceWait, true, func(ctx context.Context) (bool, error) {
		last = api.Apply(ctx, e.wanted, e.current != nil)
		if apierrors.IsNotFound(last) { // the namespace
			return false, nil
		}
		return last == nil, last
	})
	return errors.Join(last, ctxOnly(err, last))
}

// ctxOnly returns err if last does not explain it.
func ctxOnly(err, last error) error {
	if last != nil {
		return nil
	}
	return err
}

func uidOf(current map[string]any) string {
	metadata, _ := current["metadata"].(map[string]any)
	uid, _ := metadata["uid"].(string)
	return uid
}

// checkNotNewer refuses a version that a replica does not run yet: kubelets that install it would be newer than
// that replica. It returns the replicas whose version is unknown: checkRaise judges them.
func (r *Replicas) checkNotNewer(ctx context.Context, s NodeBootstrap) (unseen []replicaStatus, err error) {
	all, err := r.otherReplicas(ctx, Spec{Registrar: s.Registrar, Replica: component.Replica{Bundle: s.Bundle}})
	if err != nil {
		return nil, untouched(err)
	}
	wanted, err := version.ParseGeneric(s.Version)
	if err != nil {
		return nil, untouched(err)
	}
	for _, st := range all {
		running, err := version.ParseGeneric(st.version)
		switch {
		case st.absent:
			continue
		case err != nil:
			unseen = append(unseen, st)
			continue
		case !running.LessThan(wanted):
			continue
		}
		return nil, &problem.Problem{
			Summary: "Workers would be newer than the control plane", Attribute: "version", Unchanged: problem.Nothing,
			Cause: fmt.Sprintf("replica %s runs Kubernetes %s, which is older than %s: kubelets may not be newer than any "+
				"API server", st.machine(), st.version, s.Version),
			Next: "upgrade all replicas first: refer to them in depends_on, so that this resource follows.",
		}
	}
	return unseen, nil
}
