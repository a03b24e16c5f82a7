// Package acceptance runs the provider as users do, by Terraform or OpenTofu,
// against real machines with systemd, sshd, etcd, Kubernetes, HAProxy and
// keepalived.
package acceptance

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// labName and subnet are these tests' own: a demo may run beside them.
const (
	labName = "acceptance"
	vip     = "10.97.0.100"
)

var subnet = netip.MustParsePrefix("10.97.0.0/24")

// environment is what the tests share: machines, and what is built for them.
type environment struct {
	lab        *lab.Lab
	components string // the provider's artifact directory
	skip       string // why nothing can run here
}

var shared environment

// TestMain makes the machines, moves itself into their network and throws them
// away in the end. Everything that needs the outside (building components) is
// done before the move.
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
	code := 1
	config := lab.Config{Name: labName, Subnet: subnet, Machines: []string{"cp1", "cp2", "cp3"}}
	err = lab.With(ctx, config, func(l *lab.Lab) error {
		shared.lab, shared.components = l, directory
		code = m.Run()
		return nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "acceptance:", err)
		return 1
	}
	return code
}

// cannotRun says in one line why there can be no machines here.
func cannotRun() string {
	if os.Getenv("TF_ACC") == "" {
		return "set TF_ACC=1 (make test-acceptance does) to run Terraform against lab machines"
	}
	return lab.Missing()
}

// machines skips the test where there can be none.
func machines(t *testing.T) *lab.Lab {
	t.Helper()
	if shared.skip != "" {
		t.Skip(shared.skip)
	}
	return shared.lab
}
