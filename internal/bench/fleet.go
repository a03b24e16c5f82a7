package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"filippo.io/age"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/simulated"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// Size of the fleet. The module creates nine resources on three machines: the bundle, the
// endpoint, three members, three replicas, a kubeconfig.
const (
	planes   = 100
	perPlane = 9
)

// fleetConfig contains every control plane of a fleet in one configuration.
const fleetConfig = `terraform {
  required_providers {
    kube = { source = "kubequorum/kube" }
  }
}

variable "planes" {
  type = map(object({ endpoint = string, machines = map(string) }))
}

variable "private_key" { sensitive = true }
variable "hosts" {}
variable "programs" {}
variable "seal" {
  type      = object({ identities = list(string), recipients = list(string) })
  sensitive = true
}

provider "kube" {
  ssh       = { private_key = var.private_key, hosts = var.hosts }
  artifacts = { directory = var.programs }
  seal      = var.seal
}

module "plane" {
  source   = %q
  for_each = var.planes

  cluster_name = each.key
  endpoint     = { address = each.value.endpoint }
  machines     = { for name, address in each.value.machines : name => { address = address } }
  etcd         = { version = %q }
  kubernetes   = { version = %q }
}
`

// trivialConfig contains the same number of resources, in the same number of modules, with
// Terraform's own resource type.
const (
	trivialConfig = "module \"plane\" {\n  source = \"./plane\"\n  count  = %d\n}\n"
	trivialModule = "resource \"terraform_data\" \"this\" {\n  count = %d\n  input = count.index\n}\n"
)

// fleet measures a refresh of a hundred control planes. Their machines are simulated in this
// process, which uses CPU time of its own for that.
func (b *bench) fleet(ctx context.Context) (results []Result, err error) {
	machines, err := simulated.Start(ctx, planes)
	if err != nil {
		return nil, err
	}
	defer machines.Close()
	w, err := b.fleetWorkspace(ctx, machines)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(b.log, "creating %d simulated control planes\n", planes)
	if _, err := w.Apply(ctx, io.Discard, "-parallelism=20"); err != nil { // most of the time is waiting
		return nil, err
	}
	fmt.Fprintf(b.log, "created: %+v\n", machines.Count())
	trivial, err := b.trivial(ctx, planes)
	if err != nil {
		return nil, err
	}
	memory := watch(w.ProviderPath())
	var plans, unread, trivials series
	var used processorTime
	var served simulated.Counts
	for range rounds {
		start := spent()
		if plans, err = b.another(ctx, plans, w); err != nil {
			return nil, err
		}
		used = used.plus(spent().minus(start))
		served.Add(machines.Count())
		if unread, err = b.another(ctx, unread, w, "-refresh=false"); err != nil {
			return nil, err
		}
		if asked := machines.Count(); asked.Connections > 0 {
			return nil, fmt.Errorf("a plan with -refresh=false has observed machines: %+v", asked)
		}
		if trivials, err = b.another(ctx, trivials, trivial); err != nil {
			return nil, err
		}
	}
	peak := memory.stop()
	fmt.Fprintf(b.log, "in %d plans (%.2f s): %+v\n", rounds, plans, served)
	each := func(count, of int) float64 { return float64(count) / float64(rounds*of) }
	plan := fmt.Sprintf("terraform plan, %d simulated control planes of three (%d resources), against ", planes,
		planes*perPlane)
	return []Result{
		ratio(plan+"as many of terraform_data", plans, trivials, 2, "s"),
		ratio(plan+"the same without observing any machine (-refresh=false)", plans, unread, 2, "s"),
		figure("processor time in it of Terraform and the provider", used.children.Seconds()/rounds, "s"),
		figure("processor time in it of the simulated machines", used.own.Seconds()/rounds, "s"),
		ratio("SSH connections per machine and plan", series{each(served.Connections, 3*planes)}, series{1}, 1, ""),
		ratio("commands per machine and Read (endpoint, member and replica observe each machine)",
			series{each(served.Commands, 3*3*planes)}, series{1}, 1, ""),
		figure("TCP connections inside SSH, to etcd and the components, per machine and plan",
			each(served.Tunnels, 3*planes), ""),
		figure("peak memory of the provider, the fleet", peak, "MiB"),
	}, nil
}

// fleetWorkspace returns the configuration of the fleet, ready to apply.
func (b *bench) fleetWorkspace(ctx context.Context, machines *simulated.Fleet) (*workspace.Workspace, error) {
	root, err := build.Checkout()
	if err != nil {
		return nil, err
	}
	all, err := artifacts(newer)
	if err != nil {
		return nil, err
	}
	etcd, kubernetes, err := newer.Versions()
	if err != nil {
		return nil, err
	}
	programs := filepath.Join(b.dir, "programs")
	if err := simulated.Programs(programs, all); err != nil {
		return nil, err
	}
	key, err := machines.PrivateKey()
	if err != nil {
		return nil, err
	}
	seal, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, fmt.Errorf("make a seal: %w", err)
	}
	w, err := b.configured(ctx, "fleet", map[string]string{
		"main.tf": fmt.Sprintf(fleetConfig, filepath.Join(root, "modules", "control-plane"), etcd, kubernetes),
	})
	if err != nil {
		return nil, err
	}
	return w, w.WriteJSON("terraform.tfvars.json", map[string]any{
		"planes": machines.Clusters(), "hosts": machines.Hosts(), "private_key": key, "programs": programs,
		"seal": map[string]any{"identities": []string{seal.String()}, "recipients": []string{seal.Recipient().String()}},
	})
}

// another appends the seconds of another plan without changes.
func (b *bench) another(ctx context.Context, s series, w *workspace.Workspace, args ...string) (series, error) {
	seconds, err := b.planned(ctx, w, args...)
	return append(s, seconds), err
}

// trivial returns a workspace with the resource count of that many control planes, without
// machines. Its plan takes the time that Terraform itself needs.
func (b *bench) trivial(ctx context.Context, planes int) (*workspace.Workspace, error) {
	w, err := b.configured(ctx, "trivial", map[string]string{
		"main.tf": fmt.Sprintf(trivialConfig, planes), "plane/main.tf": fmt.Sprintf(trivialModule, perPlane),
	})
	if err != nil {
		return nil, err
	}
	_, err = w.Apply(ctx, io.Discard)
	return w, err
}

// configured returns a workspace below the bench's own with these files.
func (b *bench) configured(ctx context.Context, name string, files map[string]string) (*workspace.Workspace, error) {
	dir := filepath.Join(b.dir, name)
	for file, text := range files {
		at := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			return nil, fmt.Errorf("make %s: %w", name, err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			return nil, fmt.Errorf("make %s: %w", name, err)
		}
	}
	w, err := workspace.Open(ctx, b.lab, dir, "")
	if err != nil {
		return nil, err
	}
	return w, w.Init(ctx, b.log)
}

// processorTime is the CPU time of this process and of its children that have ended.
type processorTime struct{ own, children time.Duration }

func spent() processorTime {
	of := func(who int) time.Duration {
		var usage syscall.Rusage
		_ = syscall.Getrusage(who, &usage) // fails only for an unknown "who"
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	return processorTime{of(syscall.RUSAGE_SELF), of(syscall.RUSAGE_CHILDREN)}
}

func (p processorTime) plus(other processorTime) processorTime {
	return processorTime{p.own + other.own, p.children + other.children}
}

func (p processorTime) minus(other processorTime) processorTime {
	return processorTime{p.own - other.own, p.children - other.children}
}
