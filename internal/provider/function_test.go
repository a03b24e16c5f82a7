package provider

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// run calls a function as the framework does.
func run(t *testing.T, f function.Function, argument string) (map[string]attr.Value, *function.FuncError) {
	t.Helper()
	var definition function.DefinitionResponse
	f.Definition(context.Background(), function.DefinitionRequest{}, &definition)
	returned := definition.Definition.Return.GetType().(basetypes.ObjectType)
	resp := function.RunResponse{Result: function.NewResultData(types.ObjectUnknown(returned.AttrTypes))}
	f.Run(context.Background(), function.RunRequest{
		Arguments: function.NewArgumentsData([]attr.Value{types.StringValue(argument)}),
	}, &resp)
	if resp.Error != nil {
		return nil, resp.Error
	}
	return resp.Result.Value().(types.Object).Attributes(), nil
}

// refused checks that a function's error is about its argument, contains words, and contains
// nothing of the secret.
func refused(t *testing.T, f function.Function, argument, words, secret string) {
	t.Helper()
	_, err := run(t, f, argument)
	if err == nil {
		t.Fatalf("no error, want %q", words)
	}
	if err.FunctionArgument == nil || *err.FunctionArgument != 0 {
		t.Errorf("the error is not about the argument: %v", err.FunctionArgument)
	}
	if !strings.Contains(err.Text, words) || !strings.Contains(err.Text, "\nNext step: ") {
		t.Errorf("error %q does not say %q and the next step", err.Text, words)
	}
	for line := range strings.Lines(secret) {
		if line = strings.TrimSpace(line); strings.Contains(err.Text, line) {
			t.Error("the error quotes a key")
		}
	}
}

func sameAttributes(t *testing.T, got, want map[string]attr.Value) {
	t.Helper()
	for name, value := range want {
		if !value.Equal(got[name]) {
			t.Errorf("%s is %s, want %s", name, got[name], value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d attributes, want %d", len(got), len(want))
	}
}

func issued(t *testing.T, leaf pki.Leaf, now time.Time) (*pki.Bundle, pki.KeyPair) {
	t.Helper()
	bundle, err := pki.Generate(pki.Options{ClusterName: "prod", Now: now})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := bundle.Issue(leaf, now, 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return bundle, pair
}

func TestCertificateFunction(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.FixedZone("", 3600))
	bundle, pair := issued(t, pki.User("jane", "dev", "ops"), now)
	info, err := pki.Inspect(pair.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	got, funcErr := run(t, newCertificateFunction(), pair.Certificate+bundle.CA.Certificate)
	if funcErr != nil {
		t.Fatal(funcErr)
	}
	sameAttributes(t, got, map[string]attr.Value{
		"subject":       types.StringValue("CN=jane,O=dev+O=ops"),
		"common_name":   types.StringValue("jane"),
		"organizations": stringList([]string{"dev", "ops"}),
		"issuer":        types.StringValue("CN=kubernetes"),
		"serial_number": types.StringValue(info.Serial),
		"dns_names":     stringList(nil),
		"ip_addresses":  stringList(nil),
		"is_ca":         types.BoolValue(false),
		"key_algorithm": types.StringValue("ECDSA-P256"),
		"usages":        stringList([]string{"client auth"}),
		"not_before":    types.StringValue("2026-03-01T10:55:00Z"),
		"not_after":     types.StringValue("2026-03-02T11:00:00Z"),
		"sha256":        types.StringValue(info.SHA256),
	})
	refused(t, newCertificateFunction(), pair.PrivateKey, "it holds a private key", pair.PrivateKey)
	refused(t, newCertificateFunction(), "", "it is empty", pair.PrivateKey)
}

func TestKubeconfigFunction(t *testing.T) {
	bundle, pair := issued(t, pki.User("jane"), time.Now())
	text, err := pki.Kubeconfig(pki.KubeconfigSpec{
		Cluster: "prod", Server: "https://10.0.0.100:6443", CA: bundle.CA.Certificate, User: "jane", Client: pair,
	})
	if err != nil {
		t.Fatal(err)
	}
	got, funcErr := run(t, newKubeconfigFunction(), text)
	if funcErr != nil {
		t.Fatal(funcErr)
	}
	sameAttributes(t, got, map[string]attr.Value{
		"cluster_name":          types.StringValue("prod"),
		"server":                types.StringValue("https://10.0.0.100:6443"),
		"certificate_authority": types.StringValue(bundle.CA.Certificate),
		"user":                  types.StringValue("jane"),
		"client_certificate":    types.StringValue(pair.Certificate),
		"client_key":            types.StringValue(pair.PrivateKey),
		"token":                 types.StringNull(),
		"namespace":             types.StringNull(),
	})
	withFile := strings.Replace(text, "client-key-data: ", "client-key: ", 1)
	refused(t, newKubeconfigFunction(), withFile, "its client-key names a file, which is not read", withFile)
	refused(t, newKubeconfigFunction(), pair.PrivateKey, "it is not the YAML of a kubeconfig", pair.PrivateKey)
}

// TestKubeconfigFunctionOfAnother reads a minimal kubeconfig.
func TestKubeconfigFunctionOfAnother(t *testing.T) {
	got, err := run(t, newKubeconfigFunction(), `{"apiVersion": "v1", "kind": "Config", "current-context": "b",
		"clusters": [{"name": "c", "cluster": {"server": "https://api.example"}}],
		"contexts": [{"name": "a", "context": {"cluster": "x", "user": "x"}},
			{"name": "b", "context": {"cluster": "c", "user": "u", "namespace": "n"}}],
		"users": [{"name": "u", "user": {"token": "t"}}]}`)
	if err != nil {
		t.Fatal(err)
	}
	sameAttributes(t, got, map[string]attr.Value{
		"cluster_name":          types.StringValue("c"),
		"server":                types.StringValue("https://api.example"),
		"certificate_authority": types.StringNull(),
		"user":                  types.StringValue("u"),
		"client_certificate":    types.StringNull(),
		"client_key":            types.StringNull(),
		"token":                 types.StringValue("t"),
		"namespace":             types.StringValue("n"),
	})
}
