// Command terraform-provider-kube serves the provider to Terraform and OpenTofu.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/kubequorum/terraform-provider-kube/internal/provider"
)

// version is set at link time by the release build.
var version = "dev"

func main() {
	debug := flag.Bool("debug", false, "run under a debugger: print how to reattach, then wait")
	tell := flag.Bool("version", false, "print the provider's version and end")
	flag.Parse()
	if *tell {
		fmt.Println(version)
		return
	}

	err := providerserver.Serve(context.Background(), provider.New(version), providerserver.ServeOpts{
		Address: "registry.terraform.io/kubequorum/kube",
		Debug:   *debug,
	})
	if err != nil {
		log.Fatal(err)
	}
}
