package etcd

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/wait"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// takenError is why a member cannot be created now: another member of the cluster has its machine or its name.
type takenError struct{ name string }

func (e *takenError) Error() string { return fmt.Sprintf("member %q is in the way", e.name) }

// afterRemoval waits while a Delete of this process removes the member that err names as being in the way. It reports
// whether it has waited for one: the Create then begins again. Otherwise it returns err. It waits without a turn, so
// that the Delete does not let it go first.
func (cl *cluster) afterRemoval(ctx context.Context, s Spec, err error) (bool, error) {
	var taken *takenError
	if !errors.As(err, &taken) || !cl.leavingMembers()[taken.name] {
		return false, err
	}
	problem.Progress(ctx, "etcd %s: waiting until member %s is removed, which this run destroys", s.Name, taken.name)
	cl.await(s.Name, taken.name)
	for cl.leavingMembers()[taken.name] {
		ended := wait.Pause(ctx, cl.pace.Poll)
		switch {
		case ended != nil && problem.Untouched(err):
			return false, notBegun(s, fmt.Errorf("wait until member %q is removed: %w", taken.name, ended))
		case ended != nil:
			return false, err
		}
	}
	cl.note(s) // the Delete has given the machine its former name
	return true, nil
}
