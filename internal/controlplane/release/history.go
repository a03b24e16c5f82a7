package release

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// state describes how a release treats a flag or a feature gate.
type state int

const (
	unknown   state = iota // not added yet
	known                  // a flag, possibly deprecated
	free                   // a feature gate that can be set to true and false
	lockedOn               // a feature gate that accepts true only
	lockedOff              // a feature gate that accepts false only
	gone                   // removed
)

// history maps each minor in which a name changed to its state from then on.
type history map[int]state

// named is the history of one flag or feature gate.
type named struct {
	components string // the letters of the components that have it
	name       string
	history    history
}

// letters abbreviates the components in the tables.
var letters = map[string]string{APIServer: "a", ControllerManager: "c", Scheduler: "s"}

// at returns the state in a minor, and the minor in which that state began.
func (h history) at(minor int) (what state, since int) {
	for since = minor; since >= OldestMinor; since-- {
		if what, ok := h[since]; ok {
			return what, since
		}
	}
	return unknown, 0
}

// from returns the first minor that has the name.
func (h history) from() int { return slices.Min(slices.Collect(maps.Keys(h))) }

// find returns the history of a component's flag or feature gate, or nil if there is none.
func find(table []named, component, name string) history {
	for _, n := range table {
		if n.name == name && strings.Contains(n.components, letters[component]) {
			return n.history
		}
	}
	return nil
}

// knownNames returns the names that a component accepts in a minor.
func knownNames(table []named, component string, minor int) []string {
	var names []string
	for _, n := range table {
		if what, _ := n.history.at(minor); what != unknown && what != gone &&
			strings.Contains(n.components, letters[component]) {
			names = append(names, n.name)
		}
	}
	return names
}

// target is the release of a component that arguments are validated against.
type target struct {
	component, version string
	minor              int
	// later means that this patch release is newer than the one the table was generated from.
	// It has the flags and gates of the minor. Later additions, such as a gate that disables a
	// security fix, are not in the table.
	later bool
}

func targetOf(component, version string) (target, error) {
	minor, err := Minor(version)
	if err != nil {
		return target{}, err
	}
	have, err := parseVersion(version)
	if err != nil {
		return target{}, err
	}
	read, err := parseVersion(readFrom[minor])
	if err != nil {
		return target{}, err
	}
	return target{component: component, version: version, minor: minor, later: read.LessThan(have)}, nil
}

// String returns "kube-apiserver 1.34.4".
func (t target) String() string { return t.component + " " + t.version }

// unknownName returns why a name that is in no known release is rejected. It returns nil if the
// name may be new in a patch release that the table was not generated from, unless it looks
// misspelt. A vendor's build has the version of the release it was made from, so flags added by
// a vendor are rejected too. This is a trade-off: a misspelt flag that stops a component is
// common, such a build is not.
func (t target) unknownName(kind, name string, table []named) error {
	for _, other := range Components() {
		if h := find(table, other, name); h != nil {
			if what, _ := h.at(t.minor); what != unknown && what != gone {
				return fmt.Errorf("%s %q: %s does not know it, it is one of %s", kind, name, t, other)
			}
		}
	}
	if meant := problem.Nearest(name, knownNames(table, t.component, t.minor)); meant != "" {
		return fmt.Errorf("%s %q: %s does not know it; did you mean %q?", kind, name, t, meant)
	}
	if t.later {
		return nil
	}
	return fmt.Errorf("%s %q: %s does not know it, nor does any other release of 1.%d to 1.%d; drop it",
		kind, name, t, OldestMinor, NewestMinor)
}

// notYet returns the error for a name that a later minor adds.
func (t target) notYet(kind, name string, from int) error {
	return fmt.Errorf("%s %q: %s does not know it, 1.%d added it; leave it out until version is 1.%d",
		kind, name, t, from, from)
}
