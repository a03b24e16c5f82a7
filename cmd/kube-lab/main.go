// Command kube-lab creates machines on one computer, for trying out the provider and for
// failure tests. See package lab for what a machine is.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
)

// command is one subcommand. It parses its own arguments.
type command struct {
	name    string
	summary string
	run     func(args []string) error
}

func commands() []command {
	return []command{
		{"setup", "install what the lab needs on this computer (Debian packages)", setupCommand},
		{"build", "build etcd, Kubernetes or a tool from source and print where it is", buildCommand},
		{"up", "create a lab, or complete it, and wait until its machines answer", asRoot(upCommand)},
		{"down", "remove a lab with everything in it", asRoot(downCommand)},
		{"list", "list labs and machines", listCommand},
		{"boot", "power machines on", asRoot(bootCommand)},
		{"poweroff", "kill machines: their processes end at once", asRoot(powerOffCommand)},
		{"cut", "disconnect machines from the network", asRoot(cutCommand)},
		{"heal", "connect machines to the network again", asRoot(healCommand)},
		{"rebuild", "replace machines with new, empty ones at the same addresses", asRoot(rebuildCommand)},
		{"ssh", "run a command, or a shell, as root on a machine", asRoot(sshCommand)},
		{"demo", "create a control plane on three machines of a lab called demo", asRoot(demoCommand)},
		{"demo-show", "show the current state of the demo", asRoot(demoShowCommand)},
		{"demo-down", "remove the demo", asRoot(demoDownCommand)},
		{"bench", "measure the provider; BENCH_OUT names a file for JSON", asRoot(benchCommand)},
		{
			"soak", "run changes, failures and interruptions for hours; SOAK_OUT and SOAK_CURSOR name files for JSON",
			asRoot(soakCommand),
		},
		{"exec", "run a command on this computer within the lab's network", asRoot(execCommand)},
	}
}

// asRoot reports an error early if a command would fail halfway without root.
func asRoot(run func([]string) error) func([]string) error {
	return func(args []string) error {
		wantsHelp := slices.ContainsFunc(args, func(arg string) bool { return arg == "-h" || arg == "--help" })
		if os.Geteuid() != 0 && !wantsHelp {
			return errors.New("root privileges are needed: run it with sudo")
		}
		return run(args)
	}
}

func main() {
	if err := dispatch(os.Args[1:]); err != nil {
		os.Exit(report(err))
	}
}

func dispatch(args []string) error {
	if len(args) == 0 {
		printUsage()
		return errUsage
	}
	for _, c := range commands() {
		if c.name == args[0] {
			return c.run(args[1:])
		}
	}
	printUsage()
	switch args[0] {
	case "help", "-h", "-help", "--help":
		return nil
	}
	return fmt.Errorf("unknown command %q", args[0])
}

func printUsage() {
	fmt.Fprint(os.Stderr, "Usage: kube-lab COMMAND [flags] [arguments]\n\nCommands (-h after one shows its flags):\n")
	for _, c := range commands() {
		fmt.Fprintf(os.Stderr, "  %-9s %s\n", c.name, c.summary)
	}
}

// errUsage ends the program after the usage was shown.
var errUsage = errors.New("wrong usage")

// report prints err and returns the exit status: 2 for wrong usage, otherwise 1.
func report(err error) int {
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		return 2
	}
	fmt.Fprintln(os.Stderr, "kube-lab:", err)
	return 1
}
