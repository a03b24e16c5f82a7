package provider

import (
	"slices"
	"strings"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// claims are the identities that Creates of this run have begun to make or to adopt.
// Two resources of a run can describe the same thing: a key of a for_each was renamed
// without a moved block, or a Create that failed is tainted and, with
// create_before_destroy, its replacement completes what the next Delete would then
// remove. Terraform runs both in any order. A claim is made when the Create begins,
// and a Delete asks again before each of its steps: what is claimed stays.
type claims struct {
	mu   sync.Mutex
	made map[string]bool
}

// identity is what a resource is on its machines, whatever Terraform calls it.
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

// superseded reports, whenever it is asked, whether an identity is claimed.
func (c *claims) superseded(identity string) func() bool {
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.made[identity]
	}
}

// joined lists the addresses of machines, sorted.
func joined(machines map[string]*host.Host) string {
	var all []string
	for _, machine := range machines {
		all = append(all, machine.Address())
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}
