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

// program is a command and the Debian package that has it.
type program struct{ command, pkg string }

// programs lists what the lab runs.
var programs = []program{
	{"debootstrap", "debootstrap"},
	{"systemd-nspawn", "systemd-container"},
	{"ip", "iproute2"},
	{"ssh", "openssh-client"},
	{"ssh-keygen", "openssh-client"},
	{"mkfs.ext4", "e2fsprogs"},
	{"nsenter", "util-linux"},
	{"unshare", "util-linux"},
}

// checkPrograms lists what only the checks of the Makefile run.
var checkPrograms = []program{
	{"gpg", "gnupg"}, // the signature of a release
	{"shellcheck", "shellcheck"},
}

// Missing lists what this computer lacks to run a lab on one line, or is "".
func Missing() string {
	var missing []string
	if os.Geteuid() != 0 {
		missing = append(missing, "root privileges")
	}
	if pkgs := missingPackages(programs); len(pkgs) > 0 {
		missing = append(missing, "the packages "+strings.Join(pkgs, ", ")+" (kube-lab setup installs them)")
	}
	if len(missing) == 0 {
		return ""
	}
	return "the lab needs " + strings.Join(missing, " and ")
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
	pkgs := missingPackages(slices.Concat(programs, checkPrograms))
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

func missingPackages(of []program) []string {
	var pkgs []string
	for _, p := range of {
		if _, err := exec.LookPath(p.command); err != nil && !slices.Contains(pkgs, p.pkg) {
			pkgs = append(pkgs, p.pkg)
		}
	}
	return pkgs
}
