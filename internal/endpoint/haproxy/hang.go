package haproxy

import (
	"errors"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// hangError is the error of machines that accept connections and do not answer. Such a machine may serve, so it is not
// skipped as an unreachable one is, and a command there would not end before the time of the operation has.
type hangError struct {
	machines  string // for a message
	addresses []string
	unchanged string
	cause     error
}

func (e *hangError) Error() string {
	return "connections are accepted, and commands do not end: " + e.cause.Error()
}

func (e *hangError) Unwrap() error { return e.cause }

// hangRemedy is the next step for machines that hang.
const hangRemedy = "log in there and find out why commands do not end, or switch the machine off: one that is off is " +
	"skipped. Then apply again"

// leavingHangRemedy is the next step for hosts that leave the endpoint and hang.
func leavingHangRemedy(addresses []string) string {
	return "log in there and find out why commands do not end, then apply again. If they are lost, switch them off and " +
		host.AbandonRemedy(addresses...)
}

// hanging returns the error of the machines that hang, or nil.
func hanging(s Spec, seen map[string]balancer) *hangError {
	var machines, addresses []string
	var causes []error
	for _, name := range names(seen) {
		if err := seen[name].unreachable; errors.Is(err, host.ErrNoAnswer) {
			machines, addresses = append(machines, s.label(name)), append(addresses, s.Hosts[name].Address())
			causes = append(causes, err)
		}
	}
	if len(machines) == 0 {
		return nil
	}
	return &hangError{strings.Join(machines, ", "), addresses, "no balancer was changed.", errors.Join(causes...)}
}
