package lab

import (
	"context"
	"fmt"
	"os"
)

// RunTests creates the lab of cfg, runs the tests of a package in its network, destroys the lab
// and returns the exit status. use receives the lab before the tests run.
func RunTests(ctx context.Context, cfg Config, tests interface{ Run() int }, use func(*Lab)) int {
	code := 1
	err := With(ctx, cfg, func(l *Lab) error {
		use(l)
		code = tests.Run()
		return nil
	})
	if err != nil {
		fmt.Fprintf(os.Stderr, "lab %s: %v\n", cfg.Name, err)
		return 1
	}
	return code
}
