package provider

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// serve starts the provider as Terraform does, without configuring it.
func serve(t *testing.T) planner {
	t.Helper()
	server, err := providerserver.NewProtocol6WithError(New("test")())()
	if err != nil {
		t.Fatal(err)
	}
	schemas, err := server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return planner{server, schemas}
}

// TestSchemas requests every schema as Terraform does. It checks that each attribute, function
// and parameter has a description, and that an optional one states its default, because the
// registry's documentation is generated from them.
func TestSchemas(t *testing.T) {
	schemas := serve(t).schemas
	for _, d := range schemas.Diagnostics {
		t.Errorf("%s: %s", d.Summary, d.Detail)
	}
	described(t, "provider", schemas.Provider.Block.Attributes)
	for name, schema := range schemas.ResourceSchemas {
		described(t, name, schema.Block.Attributes)
	}
	for name, schema := range schemas.DataSourceSchemas {
		described(t, "data "+name, schema.Block.Attributes)
	}
	for name, schema := range schemas.EphemeralResourceSchemas {
		described(t, "ephemeral "+name, schema.Block.Attributes)
	}
	for name, schema := range schemas.ActionSchemas {
		described(t, "action "+name, schema.Schema.Block.Attributes)
		if schema.Schema.Block.Description == "" {
			t.Errorf("action %s has no description", name)
		}
	}
	for name, schema := range schemas.ListResourceSchemas {
		described(t, "list "+name, schema.Block.Attributes)
	}
	for name, function := range schemas.Functions {
		if function.Summary == "" || function.Description == "" {
			t.Errorf("function %s has no summary or no description", name)
		}
		for _, p := range function.Parameters {
			if p.Description == "" {
				t.Errorf("parameter %s of function %s has no description", p.Name, name)
			}
		}
	}
}

func described(t *testing.T, at string, attributes []*tfprotov6.SchemaAttribute) {
	t.Helper()
	for _, a := range attributes {
		switch text := strings.ToLower(a.Description); {
		case strings.TrimSpace(text) == "":
			t.Errorf("%s.%s has no description", at, a.Name)
		case a.Optional && !strings.Contains(text, "default"):
			t.Errorf("%s.%s does not say its default: %s", at, a.Name, a.Description)
		}
		if a.NestedType != nil {
			described(t, at+"."+a.Name, a.NestedType.Attributes)
		}
	}
}
