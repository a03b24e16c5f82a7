// Command terraform-provider-kube serves the provider to Terraform and OpenTofu.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"

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

	if !*debug {
		leaveUnsaid()
	}
	err := providerserver.Serve(context.Background(), provider.New(version), providerserver.ServeOpts{
		Address: "registry.terraform.io/kubequorum/kube",
		Debug:   *debug,
	})
	if err != nil {
		log.Fatal(err)
	}
}

// leaveUnsaid turns off what the SDK logs of its own steps where no log was asked
// for. By default it writes all of it for Terraform to throw away, which is an
// eighth of a large plan's work. What the provider itself logs is not concerned.
func leaveUnsaid() {
	for _, variable := range []string{"TF_LOG", "TF_LOG_PROVIDER", "TF_LOG_SDK"} {
		if os.Getenv(variable) != "" {
			return
		}
	}
	_ = os.Setenv("TF_LOG_SDK", "ERROR") // fails for names that are none
}
