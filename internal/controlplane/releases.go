package controlplane

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// state is what a release does with a flag or a feature gate.
type state int

const (
	unknown   state = iota // it does not know it yet
	known                  // a flag, perhaps a deprecated one
	free                   // a feature gate that can be set to true and false
	lockedOn               // a feature gate that accepts true only
	lockedOff              // a feature gate that accepts false only
	gone                   // it does not know it any more
)

// history is the state of a name from each minor on in which it changed.
type history map[int]state

// named is the history of one flag or feature gate.
type named struct {
	components string // letters of those that have it: see letters
	name       string
	history    history
}

// letters are how tables write the components.
var letters = map[string]string{APIServer: "a", ControllerManager: "c", Scheduler: "s"}

// at is the state in a minor, and the minor since which it is that.
func (h history) at(minor int) (what state, since int) {
	for since = minor; since >= oldestMinor; since-- {
		if what, ok := h[since]; ok {
			return what, since
		}
	}
	return unknown, 0
}

// from is the first minor that knows it.
func (h history) from() int { return slices.Min(slices.Collect(maps.Keys(h))) }

// find returns the history of a component's flag or feature gate, or nil.
func find(table []named, component, name string) history {
	for _, n := range table {
		if n.name == name && strings.Contains(n.components, letters[component]) {
			return n.history
		}
	}
	return nil
}

// knownNames are those that a component of a minor accepts.
func knownNames(table []named, component string, minor int) []string {
	var names []string
	for _, n := range table {
		if what, _ := n.history.at(minor); what != unknown && what != gone && strings.Contains(n.components, letters[component]) {
			names = append(names, n.name)
		}
	}
	return names
}

// edition is the release of a component against which arguments are held.
type edition struct {
	component, version string
	minor              int
	// later: a later patch release than the table was read from. It knows the
	// flags and gates of the minor, but what it has got since (a gate that
	// switches a security fix off, say) is not in the table.
	later bool
}

func editionOf(component, version string) (edition, error) {
	minor, err := minorOf(version)
	if err != nil {
		return edition{}, err
	}
	plain, _, _ := strings.Cut(version, "-") // a candidate for 1.36.0 is earlier than what was read
	have, err := parseRelease(plain)
	if err != nil {
		return edition{}, err
	}
	read, err := parseRelease(readFrom[minor])
	return edition{component: component, version: version, minor: minor, later: read.before(have)}, err
}

// String names it in messages: "kube-apiserver 1.34.4".
func (e edition) String() string { return e.component + " " + e.version }

// unknownName says why a name that no release is known to have is refused, or
// nil: it may be new in a patch release that was not read, unless it looks like
// a misspelling. A vendor's own build has the version of the release it was made
// from, so what a vendor added is refused too: a misspelling that stops a
// component is common, such a build is not.
func (e edition) unknownName(kind, name string, table []named) error {
	for _, other := range Components() {
		if h := find(table, other, name); h != nil {
			if what, _ := h.at(e.minor); what != unknown && what != gone {
				return fmt.Errorf("%s %q: %s does not know it, it is one of %s", kind, name, e, other)
			}
		}
	}
	if meant := problem.Nearest(name, knownNames(table, e.component, e.minor)); meant != "" {
		return fmt.Errorf("%s %q: %s does not know it; did you mean %q?", kind, name, e, meant)
	}
	if e.later {
		return nil
	}
	return fmt.Errorf("%s %q: %s does not know it, nor does any other release of 1.%d to 1.%d; drop it", kind, name, e, oldestMinor, newestMinor)
}

// notYet says that a later minor is the first to have a name.
func (e edition) notYet(kind, name string, from int) error {
	return fmt.Errorf("%s %q: %s does not know it, 1.%d added it; leave it out until version is 1.%d", kind, name, e, from, from)
}
