package provider

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

const moduleDir = "../../modules/control-plane"

// notInModule are the arguments that the module does not pass through, with the reason.
var notInModule = map[string]map[string]string{
	"kube_pki_bundle": {
		"ca.private_key":              "the variable private_keys is never stored",
		"etcd_ca.private_key":         "as ca.private_key",
		"front_proxy_ca.private_key":  "as ca.private_key",
		"service_account.private_key": "as ca.private_key",
	},
	"kube_kubeconfig": {
		"user":          "the module issues the administrators' kubeconfig; others are resources beside it",
		"groups":        "as user",
		"validity":      "as user",
		"early_renewal": "as user",
		"signed":        "as user",
	},
	"kube_etcd_restore_drill":      nil, // beside the module: it needs a snapshot, which the first apply does not have
	"kube_etcd_client_certificate": nil, // beside the module: who reads etcd's metrics is not the control plane's
	"kube_bootstrap_token":         nil, // beside the module: who joins, and when, is not the control plane's
	"kube_certificate_requests":    nil, // beside the module: its signer is not the provider
}

// TestModulePassesArguments checks that the module passes every argument of each resource
// through: the resource sets it, and the type of a variable has each nested one.
func TestModulePassesArguments(t *testing.T) {
	main, variables := moduleText(t, "main.tf"), moduleText(t, "variables.tf")
	for kind, schema := range serve(t).schemas.ResourceSchemas {
		if without, listed := notInModule[kind]; listed && without == nil {
			continue
		}
		block := regexp.MustCompile(`(?ms)^resource "` + kind + `" "[a-z]+" \{\n(.*?)^\}`).FindStringSubmatch(main)
		if block == nil {
			t.Errorf("the module has no %s", kind)
			continue
		}
		got := map[string]bool{}
		for _, a := range schema.Block.Attributes {
			if !isArgument(a) {
				continue
			}
			if !regexp.MustCompile(`(?m)^  ` + a.Name + ` += `).MatchString(block[1]) {
				got[a.Name] = true
				continue
			}
			if regexp.MustCompile(`(?m)^  ` + a.Name + ` += (kube_|(.* : )?var\.` + a.Name + `\n)`).MatchString(block[1]) {
				continue // the value of another resource
			}
			for _, name := range nestedArguments(a.Name, a) {
				leaf := regexp.MustCompile(`\b` + regexp.QuoteMeta(name[len(name)-1]) + ` += `)
				if !leaf.MatchString(block[1]) && !leaf.MatchString(variables) {
					got[strings.Join(name, ".")] = true
				}
			}
		}
		for name := range got {
			if notInModule[kind][name] == "" {
				t.Errorf("%s.%s cannot be set with the module", kind, name)
			}
		}
		for name := range notInModule[kind] {
			if !got[name] {
				t.Errorf("%s.%s can be set with the module", kind, name)
			}
		}
	}
}

func moduleText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(moduleDir, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func isArgument(a *tfprotov6.SchemaAttribute) bool { return a.Required || a.Optional }

// nestedArguments returns the paths of the arguments below a.
func nestedArguments(at string, a *tfprotov6.SchemaAttribute) [][]string {
	if a.NestedType == nil {
		return nil
	}
	var out [][]string
	for _, n := range a.NestedType.Attributes {
		if !isArgument(n) {
			continue
		}
		if n.NestedType == nil {
			out = append(out, []string{at, n.Name})
		}
		for _, below := range nestedArguments(n.Name, n) {
			out = append(out, slices.Insert(below, 0, at))
		}
	}
	return out
}

var update = flag.Bool("update", false, "write the generated test of the module for OpenTofu")

// TestOpenTofuMocks checks that the test of the module for OpenTofu is the one for Terraform with
// the mocks inline: OpenTofu's mock_provider has no source, and reads mocked.tofutest.hcl instead
// of mocked.tftest.hcl.
func TestOpenTofuMocks(t *testing.T) {
	_, mocks, ok := strings.Cut(moduleText(t, "tests/mocks/kube.tfmock.hcl"), "\n\n") // without its comment
	if !ok {
		t.Fatal("the mocks have no comment")
	}
	_, test, ok := strings.Cut(moduleText(t, "tests/mocked.tftest.hcl"), "\n\n")
	const source = "  source = \"./tests/mocks\"\n"
	if !ok || strings.Count(test, source) != 1 {
		t.Fatal("the test for Terraform has no comment, or not one source of mocks")
	}
	var inline strings.Builder
	for line := range strings.Lines(mocks) {
		if line != "\n" {
			inline.WriteString("  ")
		}
		inline.WriteString(line)
	}
	// Terraform takes a mocked list of objects as one object, and OpenTofu as a list.
	lists := regexp.MustCompile(`peers = (\{[^}]*\})`)
	want := "# Generated from mocked.tftest.hcl and mocks/kube.tfmock.hcl, for OpenTofu:\n" +
		"#   go test ./internal/provider -run TestOpenTofuMocks -update\n\n" +
		strings.Replace(test, source, lists.ReplaceAllString(inline.String(), "peers = [$1]"), 1)
	const file = "tests/mocked.tofutest.hcl"
	if *update {
		if err := os.WriteFile(filepath.Join(moduleDir, file), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if moduleText(t, file) != want {
		t.Errorf("%s is outdated: go test ./internal/provider -run TestOpenTofuMocks -update", file)
	}
}
