package main

import (
	"flag"
	"os"

	"github.com/kubequorum/terraform-provider-kube/internal/bench"
)

func benchCommand(args []string) error {
	if _, _, err := parse(flag.NewFlagSet("bench", 0), "", args); err != nil {
		return err
	}
	ctx, cancel := interruptible()
	defer cancel()
	return bench.Run(ctx, os.Stdout, os.Stderr)
}
