package provider

import (
	"slices"
	"strings"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// successors are what Creates of this run have made or adopted. With
// create_before_destroy, Terraform first creates what a resource describes and
// then deletes what it described before, and both can be the same: a Create
// that failed is tainted, and the next apply adopts on the machine what it left,
// and would then remove it. What has such a successor is gone already.
type successors struct {
	mu   sync.Mutex
	made map[string]bool
}

// identity is what a resource is on its machines, whatever Terraform calls it.
func identity(kind string, parts ...string) string {
	return strings.Join(append([]string{kind}, parts...), "\x00")
}

func (s *successors) add(identity string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made == nil {
		s.made = map[string]bool{}
	}
	s.made[identity] = true
}

func (s *successors) has(identity string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made[identity]
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
