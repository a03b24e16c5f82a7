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

// Covers reports whether a machine that failed with err may be left as it is:
// the user has named it, and it cannot be reached. One that answers is not gone,
// whoever it may be that answers with a host key that is not trusted, or refuses
// to let the provider in.
func (a Abandoned) Covers(address string, err error) bool { return a[address] && Unreachable(err) }

// Unreachable reports whether err says that no machine it is about could be
// reached, and of none that it answered and was not trusted or let nobody in.
func Unreachable(err error) bool {
	return errors.Is(err, ErrUnreachable) &&
		!errors.Is(err, ErrHostKey) && !errors.Is(err, ErrAuth) && !errors.Is(err, ErrNotRoot)
}

// AbandonRemedy is the next step that gives machines up.
func AbandonRemedy(addresses ...string) string {
	quoted := make([]string, len(addresses))
	for i, address := range addresses {
		quoted[i] = strconv.Quote(address)
	}
	return "add " + strings.Join(quoted, ", ") + " to abandon_unreachable_hosts of the provider"
}
