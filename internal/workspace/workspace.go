// Package workspace is a directory in which Terraform runs against the machines
// of a lab: the provider of this checkout behind a filesystem mirror, a
// configuration, and its variables. The demo, the benchmarks and the soak use it.
package workspace

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/jsonfile"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// version is what the mirror calls the provider of this checkout.
// Examples ask for it by their version constraints.
const version = "0.1.0"

// Workspace is one such directory.
type Workspace struct {
	Dir       string
	Log       string               // file for a trace of everything, as TF_LOG_PATH; "" for none
	Program   string               // folder of the provider's main package; "" for the released one
	Variables []string             // of the provider, NAME=VALUE, set by the linker
	Others    []Other              // providers that the configuration needs in addition
	Env       []string             // added to the environment of the CLI and of the provider
	Started   func(address string) // called for each resource that an Apply begins; may be nil
	lab       *lab.Lab
	terraform string
}

// Other is a provider of somebody else.
type Other struct {
	Source  string // NAMESPACE/NAME
	Version string
	Program string // the path of the executable
}

// Open gives the workspace in dir without making anything. terraform is the
// CLI's path; "" means build.Terraform's choice. A nil lab is for machines that
// are simulated: the CLI then runs in this process's network.
func Open(ctx context.Context, l *lab.Lab, dir, terraform string) (*Workspace, error) {
	if terraform == "" {
		var err error
		if terraform, err = build.Terraform(ctx); err != nil {
			return nil, err
		}
	}
	return &Workspace{Dir: dir, lab: l, terraform: terraform}, nil
}

// Make makes or renews the workspace from the example of that name.
func (w *Workspace) Make(ctx context.Context, example string, log io.Writer) error {
	root, err := build.Checkout()
	if err != nil {
		return err
	}
	return w.MakeFrom(ctx, os.DirFS(filepath.Join(root, "examples", example)), log)
}

// MakeFrom makes or renews the workspace from the *.tf files of config: builds
// the provider, writes the mirror and the variables, runs init.
func (w *Workspace) MakeFrom(ctx context.Context, config fs.FS, log io.Writer) error {
	if err := os.MkdirAll(w.Dir, 0o700); err != nil {
		return fmt.Errorf("make workspace: %w", err)
	}
	if err := w.copy(config); err != nil {
		return err
	}
	if err := w.writeVariables(ctx); err != nil {
		return err
	}
	return w.Init(ctx, log)
}

// Init makes a workspace of a directory that has its configuration: builds the
// provider, writes the mirror, runs init.
func (w *Workspace) Init(ctx context.Context, log io.Writer) error {
	fmt.Fprintln(log, "building the provider")
	if err := w.mirror(ctx); err != nil {
		return err
	}
	// The mirror holds a new build under the same version: the old lock's digest is void.
	if err := os.RemoveAll(filepath.Join(w.Dir, ".terraform.lock.hcl")); err != nil {
		return fmt.Errorf("make workspace: %w", err)
	}
	_, err := w.Run(ctx, "init", "-input=false", "-no-color")
	return err
}

// ProviderPath is the provider's binary within the mirror.
func (w *Workspace) ProviderPath() string { return w.binary("registry.terraform.io") }

func (w *Workspace) binary(registry string) string {
	return w.mirrored(registry, "kubequorum/kube", version)
}

// mirrored is the path of the binary of a provider within the mirror.
func (w *Workspace) mirrored(registry, source, version string) string {
	return filepath.Join(w.Dir, "mirror", registry, source, version, runtime.GOOS+"_"+runtime.GOARCH,
		"terraform-provider-"+path.Base(source)+"_v"+version)
}

// mirror builds the provider into the mirror, for Terraform and for OpenTofu.
func (w *Workspace) mirror(ctx context.Context) error {
	if err := build.Provider(ctx, cmp.Or(w.Program, "."), w.ProviderPath(), w.Variables...); err != nil {
		return err
	}
	if err := link(w.ProviderPath(), w.binary("registry.opentofu.org"), os.Link); err != nil {
		return err
	}
	for _, o := range w.Others {
		for _, registry := range []string{"registry.terraform.io", "registry.opentofu.org"} {
			if err := link(o.Program, w.mirrored(registry, o.Source, o.Version), os.Symlink); err != nil {
				return err
			}
		}
	}
	cli := fmt.Sprintf("provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\ndisable_checkpoint = "+
		"true\n", filepath.Join(w.Dir, "mirror"))
	return os.WriteFile(w.CLIConfig(), []byte(cli), 0o600)
}

// link makes a link to a file in the mirror, in place of an earlier one.
func link(to, at string, make func(to, at string) error) error {
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return fmt.Errorf("make mirror: %w", err)
	}
	_ = os.Remove(at)
	if err := make(to, at); err != nil {
		return fmt.Errorf("make mirror: %w", err)
	}
	return nil
}

// CLIConfig is the CLI configuration that leads to the mirror.
func (w *Workspace) CLIConfig() string { return filepath.Join(w.Dir, "cli.tfrc") }

func (w *Workspace) copy(config fs.FS) error {
	files, err := fs.Glob(config, "*.tf")
	if err != nil {
		return fmt.Errorf("copy configuration: %w", err)
	}
	if len(files) == 0 {
		return fmt.Errorf("copy configuration: there is no *.tf in %v", config)
	}
	for _, file := range files {
		text, err := fs.ReadFile(config, file)
		if err != nil {
			return fmt.Errorf("copy configuration: %w", err)
		}
		if err := os.WriteFile(filepath.Join(w.Dir, file), text, 0o600); err != nil {
			return fmt.Errorf("copy configuration: %w", err)
		}
	}
	return nil
}

// writeVariables writes what does not change between runs: how the machines
// are reached and where the programs are.
func (w *Workspace) writeVariables(ctx context.Context) error {
	components, err := build.Components(ctx, "etcd", "kubernetes")
	if err != nil {
		return err
	}
	key, err := w.lab.PrivateKey()
	if err != nil {
		return err
	}
	known, err := w.lab.KnownHosts()
	if err != nil {
		return err
	}
	return w.WriteJSON("lab.auto.tfvars.json", map[string]any{
		"endpoint_address": w.VIP(),
		"ssh_private_key":  key,
		"ssh_known_hosts":  known,
		"artifacts":        map[string]any{"directory": components},
	})
}

// VIP returns VIP of the lab.
func (w *Workspace) VIP() string { return VIP(w.lab) }

// VIP6 returns VIP6 of the lab.
func (w *Workspace) VIP6() string { return VIP6(w.lab) }

// VIP is the virtual IP for a lab: its network's address .100, or VIP6 if its machines have no IPv4.
func VIP(l *lab.Lab) string {
	if machines := l.Machines(); len(machines) > 0 && machines[0].Address.Is6() {
		return VIP6(l)
	}
	four := l.Subnet.Addr().As4()
	return fmt.Sprintf("%d.%d.%d.100", four[0], four[1], four[2])
}

// VIP6 is the virtual IP of a lab's IPv6 network, ::100.
func VIP6(l *lab.Lab) string {
	six := l.Subnet6.Masked().Addr().As16()
	six[14] = 1
	return netip.AddrFrom16(six).String()
}

// WriteJSON writes a file of variables, readable by its owner only.
func (w *Workspace) WriteJSON(name string, variables map[string]any) error {
	return jsonfile.Write(filepath.Join(w.Dir, name), variables, 0o600)
}

// Machines is the value of the variable "machines" for the first n machines.
func (w *Workspace) Machines(n int) map[string]string {
	machines := map[string]string{}
	for i, m := range w.lab.Machines() {
		if i < n {
			machines[m.Name] = m.Address.String()
		}
	}
	return machines
}

// stopTimeout is how long a CLI that was told to stop may take to write its state.
const stopTimeout = 30 * time.Second

// Command is the CLI within the lab's network, with the workspace's settings.
// When ctx ends it is interrupted, as by Ctrl-C, before it is killed.
func (w *Workspace) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := w.InLab(ctx, w.terraform, append([]string{"-chdir=" + w.Dir}, args...)...)
	cmd.Env = append(environment(), "TF_CLI_CONFIG_FILE="+w.CLIConfig(), "TF_IN_AUTOMATION=1", "CHECKPOINT_DISABLE=1")
	cmd.Env = append(cmd.Env, w.Env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopTimeout
	if w.Log != "" {
		cmd.Env = append(cmd.Env, "TF_LOG=TRACE", "TF_LOG_PATH="+w.Log)
	}
	return cmd
}

// environment is this process's without the settings of the user's own Terraform.
func environment() []string {
	var kept []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "TF_") {
			kept = append(kept, variable)
		}
	}
	return kept
}

// Run runs the CLI and returns its standard output; its error is in the error.
func (w *Workspace) Run(ctx context.Context, args ...string) (string, error) {
	cmd := w.Command(ctx, args...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("terraform %s: %w\n%s%s", args[0], err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}

// InLab is any command within the lab's network.
func (w *Workspace) InLab(ctx context.Context, name string, args ...string) *exec.Cmd {
	if w.lab == nil {
		return exec.CommandContext(ctx, name, args...)
	}
	return w.lab.Command(ctx, name, args...)
}
