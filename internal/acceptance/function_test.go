package acceptance

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
)

// functionsConfig compares the results of the functions with the resources' own attributes.
const functionsConfig = `
resource "kube_pki_bundle" "this" {
  deletion_protection = false
  cluster_name  = "functions"
  key_algorithm = "ECDSA-P384"
}

resource "kube_kubeconfig" "this" {
  pki    = kube_pki_bundle.this.bundle
  server = "https://192.0.2.100:6443"
}

locals {
  ca     = provider::kube::certificate(kube_pki_bundle.this.ca_certificate)
  access = provider::kube::kubeconfig(kube_kubeconfig.this.content)
  client = provider::kube::certificate(local.access.client_certificate)
}

output "certificate" {
  value = {
    subject       = local.ca.subject
    is_ca         = local.ca.is_ca
    key_algorithm = local.ca.key_algorithm
    fingerprint   = local.ca.sha256 == kube_pki_bundle.this.fingerprints["kubernetes"]
    expiry        = local.ca.not_after == kube_pki_bundle.this.expires_at["kubernetes"]
  }
}

output "kubeconfig" {
  sensitive = true
  value = {
    sensitive             = issensitive(local.access) # as the argument is
    cluster_name          = local.access.cluster_name
    server                = local.access.server
    user                  = local.access.user
    no_token              = local.access.token == null
    no_namespace          = local.access.namespace == null
    certificate_authority = local.access.certificate_authority == kube_kubeconfig.this.cluster_ca_certificate
    client_certificate    = local.access.client_certificate == kube_kubeconfig.this.client_certificate
    client_key            = local.access.client_key == kube_kubeconfig.this.client_key
    groups                = local.client.organizations
    usages                = local.client.usages
    issuer                = local.client.issuer == local.ca.subject
  }
}
`

func TestFunctions(t *testing.T) {
	machines(t) // for the CLI, as in TestBadInput
	yes := knownvalue.Bool(true)
	runTest(t, resource.TestCase{
		Steps: []resource.TestStep{ // errors first: their configurations cannot be destroyed
			{
				Config: `output "x" { value = provider::kube::certificate("nonsense") }`,
				ExpectError: folded(`Invalid value for "pem" parameter: inspect certificate: no PEM certificate in it: it is no ` +
					`PEM text Next step: pass the content of a certificate`),
			},
			{
				Config: `output "x" { value = provider::kube::kubeconfig("nonsense") }`,
				ExpectError: folded(`Invalid value for "text" parameter: read kubeconfig: it is not the YAML of a kubeconfig ` +
					`Next step: pass the content of a self-contained kubeconfig`),
			},
			{
				Config: functionsConfig,
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownOutputValue("certificate", knownvalue.ObjectExact(map[string]knownvalue.Check{
						"subject":       knownvalue.StringExact("CN=kubernetes"),
						"is_ca":         yes,
						"key_algorithm": knownvalue.StringExact("ECDSA-P384"),
						"fingerprint":   yes,
						"expiry":        yes,
					})),
					statecheck.ExpectKnownOutputValue("kubeconfig", knownvalue.ObjectExact(map[string]knownvalue.Check{
						"sensitive":             yes,
						"cluster_name":          knownvalue.StringExact("functions"),
						"server":                knownvalue.StringExact("https://192.0.2.100:6443"),
						"user":                  knownvalue.StringExact("kubernetes-admin"),
						"no_token":              yes,
						"no_namespace":          yes,
						"certificate_authority": yes,
						"client_certificate":    yes,
						"client_key":            yes,
						"groups": knownvalue.ListExact([]knownvalue.Check{
							knownvalue.StringExact("kubeadm:cluster-admins"),
						}),
						"usages": knownvalue.ListExact([]knownvalue.Check{knownvalue.StringExact("client auth")}),
						"issuer": yes,
					})),
				},
			},
		},
	})
}
