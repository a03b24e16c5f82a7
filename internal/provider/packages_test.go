package provider

import (
	"slices"
	"strings"
	"testing"

	replica "github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	member "github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/packages"
)

// TestCurlIsKept: an endpoint that leaves the machine does not take curl from probes and from the writers of facts.
func TestCurlIsKept(t *testing.T) {
	kept := strings.Fields(packages.DNS().WithRemoval("", nil).Vars["packages_kept"])
	timers := slices.Concat(replica.FactsPaths, member.FactsPaths)
	timers = append(slices.DeleteFunc(timers, func(path string) bool { return !strings.HasSuffix(path, ".timer") }),
		replica.LivenessTimerPath, member.LivenessTimerPath)
	if len(timers) != 4 {
		t.Fatalf("timers %q", timers)
	}
	for _, timer := range timers {
		if !slices.Contains(kept, timer+":curl") {
			t.Errorf("curl is not kept for %s: %q", timer, kept)
		}
	}
}
