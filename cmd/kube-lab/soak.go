package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"regexp"

	"github.com/kubequorum/terraform-provider-kube/internal/soak"
)

func soakCommand(args []string) error {
	flags := flag.NewFlagSet("soak", 0)
	only := flags.String("only", "", "run the scenarios whose names match this `regexp`")
	sample := flags.Int("sample", 0,
		"`number` of random points at which each operation is interrupted, and of other random attempts (default all and 5)")
	steps := flags.Int("steps", 40, "`number` of careless edits, one after the other")
	every := flags.Int("every", 1, "interrupt operations at every `number`th command or request instead of at each")
	cursor := flags.String("cursor", os.Getenv("SOAK_CURSOR"),
		"`file` with the points that were cut: a run goes on with the others (default $SOAK_CURSOR)")
	seed := flags.Uint64("seed", rand.Uint64(), "`number` that seeds the random choices")
	subnet := flags.String("subnet", soak.DefaultSubnet,
		"IPv4 `prefix` of the lab's network; with another one and --name, two soaks run at once")
	list := flags.Bool("list", false, "list the scenarios")
	name, _, err := parse(flags, "", args)
	if err != nil {
		return err
	}
	if name == defaultName {
		name = soak.DefaultName
	}
	if *list {
		for _, s := range soak.Scenarios() {
			fmt.Println(s.Name)
		}
		return nil
	}
	pattern, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("--only: %w", err)
	}
	network, err := netip.ParsePrefix(*subnet)
	if err != nil {
		return fmt.Errorf("--subnet: %w", err)
	}
	ctx, cancel := interruptible()
	defer cancel()
	return soak.Run(ctx, soak.Options{
		Name: name, Subnet: network, Only: pattern, Sample: *sample, Steps: *steps, Every: *every, Seed: *seed,
		Out: os.Getenv("SOAK_OUT"), Cursor: *cursor,
	}, os.Stdout, os.Stderr)
}
