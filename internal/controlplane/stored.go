package controlplane

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"path"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// Stored counts the objects of a resource by the form in which etcd has them.
type Stored struct {
	Objects int
	Clear   int  // not encrypted
	Other   int  // encrypted, and not as an API server would write them now
	Partly  bool // there are more, which were not looked at
}

// mostStored limits how many objects of a resource are looked at: etcd returns them with their
// content.
const mostStored = 20_000

// scanner is the part of Store that CountStored needs.
type scanner interface {
	Scan(ctx context.Context, prefix string, see func(key string, value []byte)) error
}

// CountStored reads from etcd how the resources are stored that an encryption covers. seen has the
// API servers' flags, which may name another prefix of the keys.
func CountStored(
	ctx context.Context, store scanner, e pki.Encryption, seen []MachineReview,
) (map[string]Stored, error) {
	root := "registry"
	for _, m := range seen {
		root = cmp.Or(m.Processes[release.APIServer].Flags["etcd-prefix"], root)
	}
	all := map[string]Stored{}
	for _, resource := range encryptable() {
		if !e.Covers(resource) {
			continue
		}
		s, err := countStored(ctx, store, path.Join("/", root, resource)+"/", e, resource)
		if err != nil {
			return nil, fmt.Errorf("check how etcd stores %s: %w", resource, err)
		}
		all[resource] = s
	}
	return all, nil
}

func countStored(
	ctx context.Context, store scanner, prefix string, e pki.Encryption, resource string,
) (Stored, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var s Stored
	err := store.Scan(ctx, prefix, func(_ string, value []byte) {
		if s.Objects == mostStored {
			s.Partly = true
			stop() // ends the read after this page
			return
		}
		s.Objects++
		switch {
		case !bytes.HasPrefix(value, []byte(encryptedPrefix)):
			s.Clear++
		case !isEncryptedWith(e, resource, value):
			s.Other++
		}
	})
	if s.Partly {
		return s, nil
	}
	return s, err
}
