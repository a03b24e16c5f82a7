// Command provider is the provider with a fault injector. It is used by the interruption sweep
// and never released. It serves the same provider as main.go, records the remote commands and the
// changing requests of an apply, and kills itself at the given one.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"syscall"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"

	"github.com/kubequorum/terraform-provider-kube/internal/provider"
	"github.com/kubequorum/terraform-provider-kube/internal/soak/cut"
)

func main() {
	injector, err := newInjector()
	if err != nil {
		log.Fatal(err)
	}
	constructor := provider.NewAround("soak", injector.Around)
	err = tf6server.Serve("registry.terraform.io/kubequorum/kube", func() tfprotov6.ProviderServer {
		return server{providerserver.NewProtocol6(constructor())(), injector}
	})
	if err != nil {
		log.Fatal(err)
	}
}

// newInjector reads the environment. Without a log nothing is interrupted, as in the runs that
// must converge.
func newInjector() (*cut.Injector, error) {
	path := os.Getenv(cut.LogVariable)
	if path == "" {
		return cut.NewInjector(cut.Point{}, io.Discard, nil), nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log of commands: %w", err)
	}
	return cut.NewInjectorOf(os.Getenv(cut.PointVariable), file, die)
}

// die ends this process immediately, without cleanup.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// server opens the injector when Terraform first requests a change. Terraform also starts
// providers for validation and for the plan, each in a process of its own; their commands are
// not counted.
type server struct {
	tfprotov6.ProviderServer
	injector *cut.Injector
}

func (s server) ApplyResourceChange(ctx context.Context, req *tfprotov6.ApplyResourceChangeRequest) (
	*tfprotov6.ApplyResourceChangeResponse, error,
) {
	s.injector.Open()
	return s.ProviderServer.ApplyResourceChange(ctx, req)
}
