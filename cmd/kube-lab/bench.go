package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"

	"github.com/kubequorum/terraform-provider-kube/internal/bench"
)

func benchCommand(args []string) error {
	flags := flag.NewFlagSet("bench", 0)
	only := flags.String("only", "",
		"measure the parts whose names match this `regexp`: fleet, certificates, upgrade, control plane, kubeadm, restore, "+
			"volume, writes")
	sizes := flags.String("sizes", "10MB,1GB,4GB",
		"measure restores, moves of volumes and writes with databases of these `sizes`")
	if _, _, err := parse(flags, "", args); err != nil {
		return err
	}
	pattern, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("--only: %w", err)
	}
	databases, err := bench.ParseSizes(*sizes)
	if err != nil {
		return fmt.Errorf("--sizes: %w", err)
	}
	ctx, cancel := interruptible()
	defer cancel()
	return bench.Run(ctx, pattern, databases, os.Stdout, os.Stderr)
}
