package host

import (
	"errors"
	"strconv"
	"strings"
)

// Abandoned contains the cluster addresses of machines that the user declares permanently lost.
type Abandoned map[string]bool

// AbandonedAt returns the machines at addresses.
func AbandonedAt(addresses ...string) Abandoned {
	a := Abandoned{}
	for _, address := range addresses {
		a[address] = true
	}
	return a
}

// Covers reports whether a machine that failed with err may be abandoned: the user listed it,
// and it cannot be reached. A machine that answers is not lost, even if its host key is not
// trusted or it refuses the login. Nor is one that accepts connections and hangs, or whose settings are not known yet.
func (a Abandoned) Covers(address string, err error) bool { return a[address] && MayBeLost(err) }

// MayBeLost reports whether a machine that failed with err may be abandoned, if the user lists it: see Covers.
func MayBeLost(err error) bool {
	return Unreachable(err) && !errors.Is(err, ErrPending) && !errors.Is(err, ErrNoAnswer)
}

// Unreachable reports whether err means that none of its machines could be reached. It is false
// if one of them answered with an untrusted host key or refused the login.
func Unreachable(err error) bool { return errors.Is(err, ErrUnreachable) && !Unusable(err) }

// Unanswered reports whether err means that none of its machines has said anything: they could not be reached, or they
// hang. It tells what a Read may keep, and never what is lost: see Covers.
func Unanswered(err error) bool {
	return (errors.Is(err, ErrUnreachable) || errors.Is(err, ErrNoAnswer)) && !Unusable(err)
}

// Unusable reports whether err means that a machine answered, and cannot be worked on.
func Unusable(err error) bool {
	return errors.Is(err, ErrHostKey) || errors.Is(err, ErrAuth) || errors.Is(err, ErrNotRoot)
}

// HangRemedy is the next step of an error with ErrNoAnswer.
const HangRemedy = "log in to the machine and find out why commands do not end there, such as a disk or a network " +
	"file system that hangs; restart it if nothing else helps. Then apply again. A machine that is switched off counts " +
	"as unreachable, not as one that hangs."

// AbandonRemedy describes how to abandon machines, as the next step of an error.
func AbandonRemedy(addresses ...string) string {
	quoted := make([]string, len(addresses))
	for i, address := range addresses {
		quoted[i] = strconv.Quote(address)
	}
	return "add " + strings.Join(quoted, ", ") + " to abandon_unreachable_hosts of the provider"
}
