package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// defaultName is the lab that commands without --name use.
const defaultName = "kube"

// parse parses the flags of a subcommand. All have --name, the lab's name.
func parse(flags *flag.FlagSet, arguments string, args []string) (name string, rest []string, err error) {
	flags.Init(flags.Name(), flag.ContinueOnError)
	flags.StringVar(&name, "name", defaultName, "`name` of the lab")
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "Usage: kube-lab %s [flags] %s\n", flags.Name(), arguments)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return "", nil, err
	} else if err != nil {
		return "", nil, errUsage // flags printed it
	}
	if arguments == "" && flags.NArg() > 0 {
		flags.Usage()
		return "", nil, errUsage
	}
	return name, flags.Args(), nil
}

// interruptible returns a context that is cancelled by Ctrl-C, so that commands can clean up.
func interruptible() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
}

func setupCommand(args []string) error {
	if _, _, err := parse(flag.NewFlagSet("setup", 0), "", args); err != nil {
		return err
	}
	ctx, cancel := interruptible()
	defer cancel()
	if err := lab.Setup(ctx, os.Stderr); err != nil {
		return err
	}
	if missing := lab.Missing(); missing != "" {
		return errors.New(missing)
	}
	fmt.Println("nothing is missing: kube-lab up")
	return nil
}

func upCommand(args []string) error {
	flags := flag.NewFlagSet("up", 0)
	subnet := flags.String("subnet", "", "IPv4 `prefix` of the lab's network (default "+lab.DefaultSubnet.String()+")")
	subnet6 := flags.String("subnet6", "",
		"IPv6 `prefix`, unique local, from which each machine gets a second address (default none)")
	machines := flags.String("machines", "cp1,cp2,cp3",
		"`names` of machines, with commas; addresses .11, .12, ... in this order")
	name, _, err := parse(flags, "", args)
	if err != nil {
		return err
	}
	cfg := lab.Config{Name: name, Machines: strings.Split(*machines, ",")}
	if *subnet != "" {
		if cfg.Subnet, err = netip.ParsePrefix(*subnet); err != nil {
			return fmt.Errorf("--subnet: %w", err)
		}
	}
	if *subnet6 != "" {
		if cfg.Subnet6, err = netip.ParsePrefix(*subnet6); err != nil {
			return fmt.Errorf("--subnet6: %w", err)
		}
	}
	ctx, cancel := interruptible()
	defer cancel()
	start := time.Now()
	l, err := lab.Up(ctx, cfg)
	if err != nil {
		return err
	}
	fmt.Printf("lab %s is up after %s\n", name, time.Since(start).Round(10*time.Millisecond))
	for _, m := range l.Machines() {
		fmt.Printf("  %-15s %s", m.Name, m.Address)
		if m.Address6.IsValid() {
			fmt.Printf("  %s", m.Address6)
		}
		fmt.Println()
	}
	fmt.Printf("private key  %s\nknown hosts  %s\n", l.PrivateKeyPath(), l.KnownHostsPath())
	fmt.Printf("next         kube-lab ssh --name %[1]s MACHINE    kube-lab exec --name %[1]s -- COMMAND\n", name)
	return nil
}

func downCommand(args []string) error {
	name, _, err := parse(flag.NewFlagSet("down", 0), "", args)
	if err != nil {
		return err
	}
	ctx, cancel := interruptible()
	defer cancel()
	return lab.Destroy(ctx, name)
}

func listCommand(args []string) error {
	if _, _, err := parse(flag.NewFlagSet("list", 0), "", args); err != nil {
		return err
	}
	names, err := lab.Names()
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "LAB\tMACHINE\tADDRESS\tPOWER\tMACHINE ID")
	for _, name := range names {
		l, err := lab.Open(name)
		if errors.Is(err, lab.ErrNoLab) {
			fmt.Fprintf(table, "%s\thalf made: up completes it, down removes it\n", name)
			continue
		} else if err != nil {
			return err
		}
		for _, m := range l.Machines() {
			running, err := m.Running()
			if err != nil {
				return err
			}
			id, err := m.MachineID()
			if err != nil {
				id = "no disk"
			}
			power := map[bool]string{true: "on", false: "off"}[running]
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", name, m.Name, m.Address, power, id)
		}
	}
	return table.Flush()
}
