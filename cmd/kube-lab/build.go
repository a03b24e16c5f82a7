package main

import (
	"errors"
	"flag"
	"fmt"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
)

// buildCommand builds the named sets, by default every component for the lab's machines, and
// prints the path of each, so that scripts can use the output.
func buildCommand(args []string) error {
	flags := flag.NewFlagSet("build", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), `Usage: kube-lab build [NAME...]

Builds pinned programs from source into the cache, skips what is there, and
prints the path of each. Names: %s.
Default: %s.
`, strings.Join(build.Names(), ", "), strings.Join(build.ComponentNames(), ", "))
	}
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return err
	} else if err != nil {
		return errUsage // flags printed it
	}
	ctx, cancel := interruptible()
	defer cancel()

	names := flags.Args()
	if len(names) == 0 {
		names = build.ComponentNames()
	}
	for _, name := range names {
		path, err := build.Set(ctx, name)
		if err != nil {
			return err
		}
		fmt.Println(path)
	}
	return nil
}
