package drill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// candidate is a machine on which a drill may run.
type candidate struct {
	Spec
	err    error // why it cannot
	bucket bool
	newest string
}

// Choose returns the one of specs whose machine has what a drill needs: a member and a replica, and the source
// of the snapshot. Without a source, that is a member's bucket, or the newest snapshot on any machine.
func Choose(ctx context.Context, specs []Spec) (Spec, error) {
	return choose(candidates(ctx, specs, examine))
}

// candidates examines the machines of specs. One that hangs does not take the time of the drill.
func candidates(
	ctx context.Context, specs []Spec, examine func(context.Context, Spec) (place, error),
) []candidate {
	all := make([]candidate, len(specs))
	var asking sync.WaitGroup
	for i, s := range specs {
		asking.Go(func() {
			var at place
			err := host.InTime(ctx, s.Host.Address(), func(ctx context.Context) (err error) {
				at, err = examine(ctx, s)
				return err
			})
			all[i] = candidate{Spec: s, err: err, bucket: at.bucket, newest: at.newest}
		})
	}
	asking.Wait()
	return all
}

// choose is the rule of Choose. Of machines that are equal, it takes the first by name.
func choose(all []candidate) (Spec, error) {
	var usable []candidate
	var reasons []string
	for _, c := range all {
		if c.err != nil {
			reasons = append(reasons, c.label()+": "+c.err.Error())
			continue
		}
		usable = append(usable, c)
	}
	if len(usable) == 0 {
		slices.Sort(reasons)
		return Spec{}, fmt.Errorf("no machine can run a drill: %s", strings.Join(reasons, "; "))
	}
	slices.SortFunc(usable, func(a, b candidate) int { return strings.Compare(a.Member, b.Member) })
	if usable[0].Source.kind() != "" {
		return usable[0].Spec, nil
	}
	if i := slices.IndexFunc(usable, func(c candidate) bool { return c.bucket }); i >= 0 {
		return usable[i].Spec, nil
	}
	best := slices.MaxFunc(usable, func(a, b candidate) int {
		return cmp.Or(strings.Compare(a.newest, b.newest), -strings.Compare(a.Member, b.Member))
	})
	if best.newest == "" {
		return Spec{}, errors.New("no machine has a snapshot: set snapshots of the members, or the source of the snapshot")
	}
	return best.Spec, nil
}
