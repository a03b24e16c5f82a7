package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// tools lists the commands that the lab runs and the Debian package of each;
// gpg is there for the test of a release's signature.
var tools = []struct{ command, pkg string }{
	{"debootstrap", "debootstrap"},
	{"systemd-nspawn", "systemd-container"},
	{"ip", "iproute2"},
	{"ssh", "openssh-client"},
	{"ssh-keygen", "openssh-client"},
	{"nsenter", "util-linux"},
	{"unshare", "util-linux"},
	{"gpg", "gnupg"},
}

// Missing says in one line what this computer lacks to run a lab, or nothing.
func Missing() string {
	var lacks []string
	if os.Geteuid() != 0 {
		lacks = append(lacks, "root privileges")
	}
	if pkgs := missingPackages(); len(pkgs) > 0 {
		lacks = append(lacks, "the packages "+strings.Join(pkgs, ", ")+" (kube-lab setup installs them)")
	}
	if len(lacks) == 0 {
		return ""
	}
	return "the lab needs " + strings.Join(lacks, " and ")
}

// Setup makes this computer ready for labs: missing packages, installed with
// apt-get, and the tree that machines boot from. Its output goes to log.
func Setup(ctx context.Context, log io.Writer) error {
	if err := installPackages(ctx, log); err != nil {
		return err
	}
	_, err := baseTree(ctx, log)
	return err
}

func installPackages(ctx context.Context, log io.Writer) error {
	pkgs := missingPackages()
	if len(pkgs) == 0 {
		return nil
	}
	fmt.Fprintln(log, "installing", strings.Join(pkgs, ", "))
	if os.Geteuid() != 0 {
		return fmt.Errorf("install %s: root privileges are needed", strings.Join(pkgs, ", "))
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("install %s: this computer has no apt-get: %w", strings.Join(pkgs, ", "), err)
	}
	install := append([]string{"install", "--yes", "--no-install-recommends"}, pkgs...)
	for _, args := range [][]string{{"update"}, install} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("apt-get %s: %w", args[0], err)
		}
	}
	return nil
}

func missingPackages() []string {
	var pkgs []string
	for _, tool := range tools {
		if _, err := exec.LookPath(tool.command); err != nil && !slices.Contains(pkgs, tool.pkg) {
			pkgs = append(pkgs, tool.pkg)
		}
	}
	return pkgs
}
