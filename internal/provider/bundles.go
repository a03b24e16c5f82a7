package provider

import (
	"crypto/sha256"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// openedBundles caches the bundles that were read, by the digest of their text. All resources
// of a control plane have the same bundle as an attribute. Opening sealed keys takes
// milliseconds, which would be most of the work of a large fleet's plan if each resource opened
// them again.
type openedBundles struct {
	mu      sync.Mutex
	digests map[[sha256.Size]byte]*pki.Bundle
}

// open calls pki.Parse once for each text. The returned bundle belongs to the caller, so what
// was signed for one resource does not reach another. What the bundle points to is shared and
// never changed.
func (o *openedBundles) open(text string, seal *pki.Seal) (*pki.Bundle, error) {
	digest := sha256.Sum256([]byte(text))
	o.mu.Lock()
	known := o.digests[digest]
	o.mu.Unlock()
	if known == nil {
		var err error
		if known, err = pki.Parse(text, seal); err != nil {
			return nil, err
		}
		o.mu.Lock()
		if o.digests == nil {
			o.digests = map[[sha256.Size]byte]*pki.Bundle{}
		}
		o.digests[digest] = known
		o.mu.Unlock()
	}
	own := *known
	return &own, nil
}
