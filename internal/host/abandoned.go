package host

import (
	"errors"
	"strconv"
	"strings"
)

// Abandoned are the cluster addresses of machines that the user says are gone for good.
type Abandoned map[string]bool

// AbandonedAt are the machines at addresses.
func AbandonedAt(addresses ...string) Abandoned {
	a := Abandoned{}
	for _, address := range addresses {
		a[address] = true
	}
	return a
}

// Covers reports whether a machine that failed with err may be abandoned: the user
// named it, and it cannot be reached. A machine that answers is not gone, even if
// its host key is not trusted or it refuses the login.
func (a Abandoned) Covers(address string, err error) bool { return a[address] && Unreachable(err) }

// Unreachable reports whether err says that no machine it is about could be
// reached, and of none that it answered and was not trusted or let nobody in.
func Unreachable(err error) bool {
	return errors.Is(err, ErrUnreachable) &&
		!errors.Is(err, ErrHostKey) && !errors.Is(err, ErrAuth) && !errors.Is(err, ErrNotRoot)
}

// AbandonRemedy is the next step that abandons machines.
func AbandonRemedy(addresses ...string) string {
	quoted := make([]string, len(addresses))
	for i, address := range addresses {
		quoted[i] = strconv.Quote(address)
	}
	return "add " + strings.Join(quoted, ", ") + " to abandon_unreachable_hosts of the provider"
}
