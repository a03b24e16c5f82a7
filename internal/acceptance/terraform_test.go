package acceptance

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/config"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/provider"
)

// example is the configuration that users start from.
const example = "../../examples/control-plane"

func factories() map[string]func() (tfprotov6.ProviderServer, error) {
	return map[string]func() (tfprotov6.ProviderServer, error){
		"kube": providerserver.NewProtocol6WithError(provider.New("test")()),
	}
}

// runTest runs steps with the CLI of KUBE_TEST_TERRAFORM, or the one that
// plugin-testing finds.
func runTest(t *testing.T, test resource.TestCase) {
	t.Helper()
	if path := os.Getenv("KUBE_TEST_TERRAFORM"); path != "" {
		t.Setenv("TF_ACC_TERRAFORM_PATH", path)
	}
	t.Setenv("TF_ACC_PROVIDER_NAMESPACE", "kubequorum")
	t.Setenv("TF_CLI_CONFIG_FILE", emptyFile(t))
	test.ProtoV6ProviderFactories = factories()
	resource.Test(t, test)
}

// emptyFile stands in for a CLI configuration: none of the user's shall count.
func emptyFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "terraform.rc")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// variables are those of the example for the named machines of the lab.
func variables(t *testing.T, l *lab.Lab, names ...string) config.Variables {
	t.Helper()
	key, err := l.PrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	known, err := l.KnownHosts()
	if err != nil {
		t.Fatal(err)
	}
	return config.Variables{
		"machines":         addresses(l, names...),
		"endpoint_address": config.StringVariable(vip),
		"ssh_private_key":  config.StringVariable(key),
		"ssh_known_hosts":  config.StringVariable(known),
		"artifacts":        config.ObjectVariable(map[string]config.Variable{"directory": config.StringVariable(shared.components)}),
		"drain_timeout":    config.StringVariable("5s"),
	}
}

func addresses(l *lab.Lab, names ...string) config.Variable {
	machines := map[string]config.Variable{}
	for _, name := range names {
		machines[name] = config.StringVariable(l.Machine(name).Address.String())
	}
	return config.MapVariable(machines)
}

// with is v with some variables set otherwise.
func with(v config.Variables, changes config.Variables) config.Variables {
	out := maps.Clone(v)
	maps.Copy(out, changes)
	return out
}
