package acceptance

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"

	"github.com/kubequorum/terraform-provider-kube/internal/provider"
)

func factories() map[string]func() (tfprotov6.ProviderServer, error) {
	return map[string]func() (tfprotov6.ProviderServer, error){
		"kube": providerserver.NewProtocol6WithError(provider.New("test")()),
	}
}

// runTest runs steps with the CLI of KUBE_TEST_TERRAFORM, or the one that plugin-testing finds.
// more adds providers besides this one.
func runTest(t *testing.T, test resource.TestCase, more ...func(map[string]func() (tfprotov6.ProviderServer, error))) {
	t.Helper()
	if path := os.Getenv("KUBE_TEST_TERRAFORM"); path != "" {
		t.Setenv("TF_ACC_TERRAFORM_PATH", path)
	}
	t.Setenv("TF_ACC_PROVIDER_NAMESPACE", "kubequorum")
	t.Setenv("TF_CLI_CONFIG_FILE", emptyFile(t))
	test.Steps = slices.Clone(test.Steps)
	for i := range test.Steps { // not of the case: the example's own terraform block counts as one of the step
		test.Steps[i].ProtoV6ProviderFactories = factories()
		for _, add := range more {
			add(test.Steps[i].ProtoV6ProviderFactories)
		}
	}
	resource.Test(t, test)
}

// emptyFile replaces the CLI configuration, so that the user's own has no effect.
func emptyFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "terraform.rc")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
