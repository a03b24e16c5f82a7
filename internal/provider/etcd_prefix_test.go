package provider

import (
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
)

// TestEtcdPrefixesAreSearched: API servers with an --etcd-prefix that extra_args takes are found in a rotation.
func TestEtcdPrefixesAreSearched(t *testing.T) {
	if component.MaxEtcdPrefixSegments > client.MaxPrefixSegments {
		t.Errorf("extra_args take %d segments, and %d are searched", component.MaxEtcdPrefixSegments,
			client.MaxPrefixSegments)
	}
}
