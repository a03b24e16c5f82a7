package acceptance

import (
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/compare"
	"github.com/hashicorp/terraform-plugin-testing/echoprovider"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// ephemeralConfig passes an ephemeral kubeconfig to a provider that echoes it into its state,
// the only way to observe it.
const ephemeralConfig = `
resource "kube_pki_bundle" "this" {
  deletion_protection = false
  cluster_name = "ephemeral"
}

ephemeral "kube_kubeconfig" "this" {
  pki    = kube_pki_bundle.this.bundle
  server = "https://192.0.2.100:6443"
  groups = ["system:masters"]
}

provider "echo" {
  data = ephemeral.kube_kubeconfig.this
}

resource "echo" "this" {}
`

// renewedConfig takes the renewal time of the kubeconfig.
const renewedConfig = `
resource "kube_pki_bundle" "this" {
  deletion_protection = false
  cluster_name = "renewal"
}

resource "kube_kubeconfig" "this" {
  pki           = kube_pki_bundle.this.bundle
  server        = "https://192.0.2.100:6443"
  validity      = "24h"
  early_renewal = %q
}
`

// TestKubeconfigRenewal checks that an ordinary apply renews a due kubeconfig in place. A
// kubeconfig that is due right after it is issued is renewed again by the next plan.
func TestKubeconfigRenewal(t *testing.T) {
	machines(t) // for the CLI, as in TestBadInput
	differ := statecheck.CompareValue(compare.ValuesDiffer())
	content := func() []statecheck.StateCheck {
		return []statecheck.StateCheck{differ.AddStateValue("kube_kubeconfig.this", tfjsonpath.New("content"))}
	}
	runTest(t, resource.TestCase{
		Steps: []resource.TestStep{
			{
				Config:      fmt.Sprintf(renewedConfig, "24h"),
				ExpectError: folded("early renewal 24h0m0s is not less than the validity 24h0m0s"),
			},
			{
				Config:            fmt.Sprintf(renewedConfig, "8h"),
				ConfigStateChecks: content(),
			},
			{
				Config: fmt.Sprintf(renewedConfig, "23h59m59.999s"),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
					plancheck.ExpectResourceAction("kube_kubeconfig.this", plancheck.ResourceActionUpdate),
					plancheck.ExpectResourceAction("kube_pki_bundle.this", plancheck.ResourceActionNoop),
				}},
				ConfigStateChecks:  content(),
				ExpectNonEmptyPlan: true,
			},
		},
	})
}

func TestEphemeralKubeconfig(t *testing.T) {
	machines(t) // for the CLI, as in TestBadInput
	within := func(text string) error {
		info, err := pki.ParseKubeconfig(text)
		if err != nil {
			return err
		}
		certificate, err := pki.Inspect(info.ClientCertificate)
		if err != nil {
			return err
		}
		if left := time.Until(certificate.NotAfter); left <= 0 || left > time.Hour {
			return fmt.Errorf("the certificate lasts %s, want at most an hour", left)
		}
		if info.User != "kubernetes-admin" || info.Server != "https://192.0.2.100:6443" ||
			fmt.Sprint(certificate.Organizations) != "[system:masters]" {
			return fmt.Errorf("it is for %s of %v at %s", info.User, certificate.Organizations, info.Server)
		}
		return nil
	}
	runTest(t, resource.TestCase{
		Steps: []resource.TestStep{{
			Config: ephemeralConfig,
			ConfigStateChecks: []statecheck.StateCheck{
				statecheck.ExpectKnownValue("echo.this", tfjsonpath.New("data").AtMapKey("content"), knownvalue.StringFunc(within)),
			},
		}},
	}, func(factories map[string]func() (tfprotov6.ProviderServer, error)) {
		factories["echo"] = echoprovider.NewProviderServer()
	})
}
