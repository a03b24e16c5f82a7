package provider

import (
	"slices"
	"strings"
	"sync"
)

// adoptions are the identities that Create calls of this run create or adopt. Two resources of a
// run can describe the same object: a key of a for_each was renamed without a moved block, or a
// failed Create left a tainted resource and, with create_before_destroy, its replacement
// completes the object that the next Delete would then remove. Terraform runs the two in any
// order. Create records its identity when it begins. Delete checks the adoptions before each of
// its steps and does not remove a recorded object.
type adoptions struct {
	mu         sync.Mutex
	identities map[string]bool
}

// identity identifies a resource's object on its machines, independent of its Terraform
// address.
func identity(kind string, parts ...string) string {
	return strings.Join(append([]string{kind}, parts...), "\x00")
}

func (a *adoptions) record(identities ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.identities == nil {
		a.identities = map[string]bool{}
	}
	for _, identity := range identities {
		a.identities[identity] = true
	}
}

// superseded returns a function that reports whether one of the identities is recorded at the time of the
// call.
func (a *adoptions) superseded(identities ...string) func() bool {
	return func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return slices.ContainsFunc(identities, func(identity string) bool { return a.identities[identity] })
	}
}
