package main

import (
	"flag"
	"os"

	"github.com/kubequorum/terraform-provider-kube/internal/demo"
)

func demoCommand(args []string) error {
	if _, _, err := parse(flag.NewFlagSet("demo", 0), "", args); err != nil {
		return err
	}
	ctx, cancel := interruptible()
	defer cancel()
	return demo.Up(ctx, os.Stdout, os.Stderr)
}

func demoShowCommand(args []string) error {
	if _, _, err := parse(flag.NewFlagSet("demo-show", 0), "", args); err != nil {
		return err
	}
	ctx, cancel := interruptible()
	defer cancel()
	return demo.Show(ctx, os.Stdout)
}

func demoDownCommand(args []string) error {
	if _, _, err := parse(flag.NewFlagSet("demo-down", 0), "", args); err != nil {
		return err
	}
	ctx, cancel := interruptible()
	defer cancel()
	return demo.Down(ctx)
}
