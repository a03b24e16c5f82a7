package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

func bootCommand(args []string) error     { return each("boot", args, (*lab.Machine).Boot) }
func powerOffCommand(args []string) error { return each("poweroff", args, (*lab.Machine).PowerOff) }
func cutCommand(args []string) error      { return each("cut", args, (*lab.Machine).Cut) }
func healCommand(args []string) error     { return each("heal", args, (*lab.Machine).Heal) }
func rebuildCommand(args []string) error  { return each("rebuild", args, (*lab.Machine).Rebuild) }

// openLab opens the lab of a subcommand that needs at least one argument, and returns its
// arguments.
func openLab(verb, arguments string, args []string) (*lab.Lab, []string, error) {
	flags := flag.NewFlagSet(verb, 0)
	name, rest, err := parse(flags, arguments, args)
	if err != nil {
		return nil, nil, err
	}
	if len(rest) == 0 {
		flags.Usage()
		return nil, nil, errUsage
	}
	l, err := lab.Open(name)
	return l, rest, err
}

// each calls act for all machines in args, in parallel.
func each(verb string, args []string, act func(*lab.Machine, context.Context) error) error {
	l, names, err := openLab(verb, "MACHINE...", args)
	if err != nil {
		return err
	}
	var machines []*lab.Machine
	for _, n := range names {
		m, err := find(l, n)
		if err != nil {
			return err
		}
		machines = append(machines, m)
	}
	ctx, cancel := interruptible()
	defer cancel()
	var group errgroup.Group
	for _, m := range machines {
		group.Go(func() error { return act(m, ctx) })
	}
	return group.Wait()
}

func find(l *lab.Lab, name string) (*lab.Machine, error) {
	if m := l.Machine(name); m != nil {
		return m, nil
	}
	var names []string
	for _, m := range l.Machines() {
		names = append(names, m.Name)
	}
	return nil, fmt.Errorf("lab %s has no machine %q, it has: %s", l.Name, name, strings.Join(names, " "))
}

func sshCommand(args []string) error {
	l, rest, err := openLab("ssh", "MACHINE [COMMAND...]", args)
	if err != nil {
		return err
	}
	m, err := find(l, rest[0])
	if err != nil {
		return err
	}
	return become(m.SSH(context.Background(), rest[1:]...))
}

func execCommand(args []string) error {
	l, rest, err := openLab("exec", "-- COMMAND...", args)
	if err != nil {
		return err
	}
	return become(l.Command(context.Background(), rest[0], rest[1:]...))
}

// become replaces this process with cmd, which takes over the terminal, the signals and the
// exit status. It returns only if that fails.
func become(cmd *exec.Cmd) error {
	if cmd.Err != nil {
		return cmd.Err
	}
	return fmt.Errorf("run %s: %w", cmd.Path, syscall.Exec(cmd.Path, cmd.Args, os.Environ()))
}
