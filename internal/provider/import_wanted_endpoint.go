package provider

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// wantedEndpoint is the endpoint that an import names. What it does not name is "".
type wantedEndpoint struct {
	kind    endpoint.Kind
	address string
}

// wantedIn parses ADDRESS or KIND:ADDRESS. No address begins with the name of a kind and a colon.
func wantedIn(text string) wantedEndpoint {
	if kind, address, both := strings.Cut(text, ":"); both && slices.Contains(kindNames(), kind) {
		return wantedEndpoint{endpoint.Kind(kind), address}
	}
	return wantedEndpoint{address: text}
}

// is reports whether the endpoint of a registration can be the wanted one.
func (w wantedEndpoint) is(at endpoint.Registration) bool {
	return (w.address == "" || at.Address == w.address) && (w.kind == "" || kindOf(at).name() == w.kind)
}

func (w wantedEndpoint) String() string { return strings.TrimSpace(string(w.kind) + " " + w.address) }

// kindAndAddress is what wantedIn parses.
func kindAndAddress(at endpoint.Registration) string {
	return string(kindOf(at).name()) + ":" + at.Address
}

// registrationNamed returns the registration, of the replica on a machine, at the endpoint that an import names, or the
// first one if it names none. If the replica is not registered at that endpoint, there is false: the machine may be
// a balancer of it.
func registrationNamed(
	machine string, recorded endpoint.Registration, wanted wantedEndpoint,
) (named endpoint.Registration, there bool, err error) {
	if recorded.Address == "" {
		return endpoint.Registration{}, false, nil
	}
	var all []endpoint.Registration
	for _, each := range recorded.All() {
		if wanted.is(each) {
			all = append(all, each)
		}
	}
	if len(all) == 0 {
		return endpoint.Registration{}, false, nil
	}
	for _, other := range all[1:] {
		if other.Address == all[0].Address {
			return endpoint.Registration{}, true, &problem.Problem{
				Summary: "Endpoint not imported", Host: machine, Unchanged: problem.Nothing,
				Cause: fmt.Sprintf("the replica there is registered at %s and at %s", all[0].ID(), other.ID()),
				Next: fmt.Sprintf("name the kind too: import by the ID %s/%s or %s/%s.", machine, kindAndAddress(all[0]),
					machine, kindAndAddress(other)),
			}
		}
	}
	return all[0], true, nil
}

// otherEndpoint is the error of an import that names another endpoint than those of a machine. unread is why it is not
// imported as a balancer, or nil.
func otherEndpoint(machine string, has endpoint.Registration, wanted wantedEndpoint, unread error) error {
	cause := fmt.Sprintf("the machine has the endpoint %s, not %s", strings.Join(has.IDs(), ", "), wanted)
	if unread != nil {
		cause += "; and as a balancer it cannot be imported: " + asProblem("", unread).Cause
	}
	return &problem.Problem{
		Summary: "Endpoint not imported", Host: machine, Cause: cause, Unchanged: problem.Nothing,
		Next: "use the address of one of the machines of " + wanted.String() + ".", Err: unread,
	}
}
