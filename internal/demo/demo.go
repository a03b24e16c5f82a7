// Package demo is the provider's demonstration: machines, one apply, and a
// screen that shows what came of it.
package demo

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/cache"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// labName is the name of the demonstration's lab.
const labName = "demo"

// machineNames has two more than the control plane starts with, to scale to.
var machineNames = []string{"cp1", "cp2", "cp3", "cp4", "cp5"}

// kubeconfigName is the administrator's kubeconfig within the workspace.
const kubeconfigName = "kubeconfig"

// startWith is the number of machines of the first apply.
const startWith = 3

// Up makes machines and workspace, applies, and draws the screen on out.
// Progress goes to log. Repeated, it applies again to what is there.
func Up(ctx context.Context, out, log io.Writer) error {
	if _, err := build.Components(ctx, "etcd", "kubernetes"); err != nil {
		return err
	}
	if _, err := build.Terraform(ctx); err != nil {
		return err
	}
	fmt.Fprintf(log, "booting %d machines\n", len(machineNames))
	l, err := lab.Up(ctx, lab.Config{
		Name: labName, Subnet: netip.MustParsePrefix("10.90.0.0/24"), Machines: machineNames,
		Log: log,
	})
	if err != nil {
		return err
	}
	dir, err := directory()
	if err != nil {
		return err
	}
	w, err := workspace.Open(ctx, l, dir, "")
	if err != nil {
		return err
	}
	if err := w.Make(ctx, "control-plane", log); err != nil {
		return err
	}
	if err := write(ctx, w); err != nil {
		return err
	}
	fmt.Fprintf(log, "terraform apply: a control plane on %d bare machines\n", startWith)
	begun := time.Now()
	timings, err := w.Apply(ctx, log)
	if err != nil {
		return err
	}
	return show(ctx, w, out, timings, time.Since(begun))
}

// Show draws the screen for the demonstration as it is now.
func Show(ctx context.Context, out io.Writer) error {
	l, err := lab.Open(labName)
	if err != nil {
		return fmt.Errorf("%w (run make demo first)", err)
	}
	dir, err := directory()
	if err != nil {
		return err
	}
	w, err := workspace.Open(ctx, l, dir, "")
	if err != nil {
		return err
	}
	return show(ctx, w, out, nil, 0)
}

// Down removes the demonstration: machines, network, workspace, wrapper.
func Down(ctx context.Context) error {
	if err := lab.Destroy(ctx, labName); err != nil {
		return err
	}
	dir, err := directory()
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove workspace: %w", err)
	}
	terraform, kubectl, err := wrappers()
	if err != nil {
		return err
	}
	for _, wrapper := range []string{terraform, kubectl} {
		if err := os.Remove(wrapper); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("remove wrapper: %w", err)
		}
	}
	return nil
}

// write writes what makes the workspace the demonstration's: how many machines
// there are, the next size to try, and the commands to type.
func write(ctx context.Context, w *workspace.Workspace) error {
	for name, n := range map[string]int{"terraform.tfvars.json": startWith, "five.tfvars.json": len(machineNames)} {
		if err := w.WriteJSON(name, map[string]any{"machines": w.Machines(n)}); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(w.Dir, "health.tf"), []byte(healthFile), 0o600); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	terraform, kubectl, err := wrappers()
	if err != nil {
		return err
	}
	return w.WriteWrappers(ctx, terraform, kubectl, kubeconfigName)
}

func directory() (string, error) {
	dir, err := cache.Dir()
	return filepath.Join(dir, "workspaces", labName), err
}

// wrappers are the commands to type, in the checkout.
func wrappers() (terraform, kubectl string, err error) {
	root, err := build.Checkout()
	return filepath.Join(root, "bin", "demo"), filepath.Join(root, "bin", "demo-kubectl"), err
}
