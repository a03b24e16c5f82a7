package provider

import (
	"slices"
	"strings"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// claims are the identities that Create calls of this run create or adopt. Two resources of a
// run can describe the same object: a key of a for_each was renamed without a moved block, or a
// failed Create left a tainted resource and, with create_before_destroy, its replacement
// completes the object that the next Delete would then remove. Terraform runs the two in any
// order. Create makes its claim when it begins. Delete checks the claims before each of its
// steps and does not remove a claimed object.
type claims struct {
	mu   sync.Mutex
	made map[string]bool
}

// identity identifies a resource's object on its machines, independent of its Terraform
// address.
func identity(kind string, parts ...string) string {
	return strings.Join(append([]string{kind}, parts...), "\x00")
}

func (c *claims) claim(identity string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made == nil {
		c.made = map[string]bool{}
	}
	c.made[identity] = true
}

// superseded returns a function that reports whether an identity is claimed at the time of the
// call.
func (c *claims) superseded(identity string) func() bool {
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.made[identity]
	}
}

// joined returns the sorted addresses of machines as one string.
func joined(machines map[string]*host.Host) string {
	var all []string
	for _, machine := range machines {
		all = append(all, machine.Address())
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}
