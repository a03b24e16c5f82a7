package drill

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/client"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
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

// TestIdleLimit: the machine does not end the API server of a large database while the provider waits for it.
func TestIdleLimit(t *testing.T) {
	job, begins, ok := strings.Cut(string(Spec{Bundle: &pki.Bundle{}}.job(place{})), "\nbegin ")
	if !ok {
		t.Fatal("the script begins nothing")
	}
	for _, size := range []int64{0, 1 << 20, 8 << 30, quota} {
		vars := host.Assignments(map[string]string{"size": strconv.FormatInt(size, 10)})
		script := job + "\n" + string(vars) + "idle_limit\n"
		out, err := exec.CommandContext(t.Context(), "sh", "-euc", script).Output()
		if err != nil {
			t.Fatalf("%v, before %s", err, begins)
		}
		seconds, err := strconv.Atoi(strings.TrimSpace(string(out)))
		if idle := time.Duration(seconds) * time.Second; err != nil || idle != servingLimit(size)+unattended {
			t.Errorf("with %d bytes, the API server ends after %s (%v), and may take %s", size, idle, err, servingLimit(size))
		}
	}
	if limit := servingLimit(8 << 30); limit <= unattended || limit > longest {
		t.Errorf("8 GiB get %s", limit)
	}
}
