package drill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/client"
)

// TestCount: resources that only a conversion webhook reads are left out, and any other failure is one.
func TestCount(t *testing.T) {
	resources := []client.Resource{{Name: "pods"}, {Name: "crontabs.example.com"}, {Name: "nodes"}}
	failures := map[string]error{"crontabs.example.com": fmt.Errorf("list: %w", client.ErrConversion)}
	counts := func(_ context.Context, r client.Resource, revision int64) (client.Count, error) {
		return client.Count{Objects: 3, Revision: revision}, failures[r.Name]
	}
	all, unread, err := count(t.Context(), counts, resources, 5)
	if err != nil || len(all) != 2 || all["pods"] != (client.Count{Objects: 3, Revision: 5}) ||
		!slices.Equal(unread, []string{"crontabs.example.com"}) {
		t.Errorf("%v, without %v, %v", all, unread, err)
	}
	want := []client.Resource{{Name: "pods"}, {Name: "nodes"}}
	if got := counted(resources, all); !slices.Equal(got, want) {
		t.Errorf("compared are %v", got)
	}
	failures["nodes"] = errors.New("etcd has no leader")
	if all, _, err := count(t.Context(), counts, resources, 5); !errors.Is(err, failures["nodes"]) {
		t.Errorf("%v, %v", all, err)
	}
}
