// Package acceptance runs the provider as users do, with Terraform or OpenTofu, against real
// machines with systemd, sshd, etcd, Kubernetes, HAProxy and keepalived.
package acceptance

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// labName is the lab of these tests, unless KUBE_TEST_LAB names another one, for tests at the same time. Labs do not
// see each other, so all have the same addresses.
const labName = "acceptance"

const vip = "10.97.0.100"

var subnet = netip.MustParsePrefix("10.97.0.0/24")

// environment is what the tests share: the machines, and the artifacts built for them.
type environment struct {
	lab        *lab.Lab
	components string    // the provider's artifact directory
	skip       string    // why the tests cannot run here
	dial       load.Dial // of clients; nil: this process is in the lab's network
}

var shared environment

// TestMain creates the machines, moves its process into their network and removes them at the
// end. Steps that need the internet (building components) run before the move.
func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	if reason := cannotRun(); reason != "" {
		shared.skip = reason
		return m.Run()
	}
	directory, err := build.Components(ctx, "etcd", "kubernetes") // not possible within the lab's network
	if err != nil {
		fmt.Fprintln(os.Stderr, "acceptance: build components:", err)
		return 1
	}
	name := cmp.Or(os.Getenv("KUBE_TEST_LAB"), labName)
	config := lab.Config{Name: name, Subnet: subnet, Machines: []string{"cp1", "cp2", "cp3"}}
	return lab.RunTests(ctx, config, m, func(l *lab.Lab) { shared.lab, shared.components = l, directory })
}

// cannotRun returns in one line why machines cannot run here.
func cannotRun() string {
	if os.Getenv("TF_ACC") == "" {
		return "TF_ACC is not set"
	}
	return lab.Missing()
}

// machines returns the lab, or skips the test if machines cannot run here.
func machines(t *testing.T) *lab.Lab {
	t.Helper()
	if os.Getenv("TF_ACC") == "" {
		testrun.Elsewhere(t, "make test-acceptance runs it")
	}
	if shared.skip != "" {
		testrun.Missing(t, shared.skip)
	}
	expectDocumentedRuns(t)
	return shared.lab
}
