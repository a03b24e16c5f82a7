package etcd

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/wait"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// rotationWait is the wait of one member, in its turn, until everything else that depends
// on the etcd authority is within one stage of the generation of its spec.
type rotationWait struct {
	cl      *cluster
	s       Spec
	turn    *wait.Turn
	clients *client.Clients
	joins   bool // the member joins for the first time or again

	summary   string // of a refusal
	unchanged string // of a refusal

	since     wait.Clock // of the wait for blockedBy
	blockedBy *obstacle  // nil: not waiting
}

// ready reports whether the member may take the files of its generation now. If not, it
// has waited a moment, or let others go first, because the same run may change what blocks
// it. If nothing has changed for pace.ConditionTimeout, it returns the refusal as error. v
// is nil if no member answered.
func (a *rotationWait) ready(ctx context.Context, v *membership.View) (bool, error) {
	o := a.obstacle(ctx, v)
	if o == nil {
		a.blockedBy = nil
		return true, nil
	}
	if !o.same(a.blockedBy) {
		a.since.Restart(a.turn)
		a.blockedBy = o
		problem.Progress(ctx, "etcd %s: waiting: %s", a.s.Name, o.Cause)
	}
	if a.since.Lasted() > a.cl.pace.ConditionTimeout || wait.Pause(ctx, 5*a.cl.pace.Poll) != nil {
		return false, refusal(a.summary, a.s, v, o.Cause, a.unchanged, o.Next)
	}
	if waiting, _ := a.turn.Others(); waiting > 0 {
		return false, a.turn.Yield(ctx)
	}
	return false, nil
}

// obstacle checks the members first, then the API servers. A member that joins members of
// its own generation changes nothing for the API servers.
func (a *rotationWait) obstacle(ctx context.Context, v *membership.View) *obstacle {
	target := a.s.Generation()
	members := rotationStatuses(a.s, v, a.cl.observeAll(ctx, a.s))
	if o := mayTakeGeneration(target, a.joins, members); o != nil {
		return o
	}
	first := !slices.ContainsFunc(members, func(m rotationStatus) bool {
		return m.Unknown == "" && m.Generation == target
	})
	if a.s.APIServers == nil || a.joins && !first {
		return nil
	}
	return mayTakeGeneration(target, false, a.apiServerStatuses(ctx, v))
}

// APIServers is the set of API servers that use the cluster. Package etcd knows only their
// addresses.
type APIServers interface {
	// EtcdTrust returns which etcd authorities the process of the API server at an address has
	// loaded, and the certificate that it presents to etcd.
	EtcdTrust(ctx context.Context, address string) (pki.Trust, error)
}

// apiServerStatuses returns the stage of all API servers that use the cluster in a rotation.
func (a *rotationWait) apiServerStatuses(ctx context.Context, v *membership.View) []rotationStatus {
	addresses, err := a.clients.APIServers(ctx, v)
	if err != nil {
		remedy := "restore a quorum of the members (with the previous value of rotation.etcd), then apply again"
		switch {
		case client.TooManyDirs(err):
			remedy = "store what other programs keep in this etcd elsewhere, or below fewer directories, then apply again"
		case client.IsNoAddress(err):
			remedy = "find out which program has stored that key, remove the key, then apply again"
		}
		return []rotationStatus{{
			Who: "the API servers", Unknown: "the cluster does not list them: " + err.Error(), Remedy: remedy,
		}}
	}
	out := make([]rotationStatus, len(addresses))
	var group sync.WaitGroup
	for i, address := range addresses {
		group.Go(func() {
			out[i] = apiServerStatus(ctx, a.s, address)
		})
	}
	group.Wait()
	return out
}

func apiServerStatus(ctx context.Context, s Spec, address string) rotationStatus {
	out := rotationStatus{Who: "the API server at " + address}
	trust, err := s.APIServers.EtcdTrust(ctx, address)
	if err != nil {
		out.Unknown = err.Error()
		out.Remedy = "recover or stop that API server (its registration expires within 15 s), then apply again"
		return out
	}
	out.Generation = trust.Generation
	out.Between = cmp.Or(distrusts(s, trust.Roots), distrusted(s, trust.Certificate, pki.APIServerEtcdClient().Name,
		pki.Client))
	out.Remedy = "apply the replica of that API server at this stage of rotation.etcd, then apply again"
	return out
}
