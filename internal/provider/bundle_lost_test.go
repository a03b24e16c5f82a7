package provider

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// importedInto is the private state of a resource that was imported into a cluster; "" if it was not.
type importedInto string

func (i importedInto) GetKey(context.Context, string) ([]byte, diag.Diagnostics) {
	if i == "" {
		return nil, nil
	}
	text, _ := json.Marshal(string(i))
	return text, nil
}

// TestRefuseLostBundle: a resource of a cluster that exists never gets a bundle which the plan creates. A change of the
// cluster's own bundle, which makes it unknown too, is no reason, also beside the new bundle of another cluster.
func TestRefuseLostBundle(t *testing.T) {
	mine, err := pki.Generate(pki.Options{ClusterName: "prod", Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	text, err := mine.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	config := func(name string) tftypes.Value { return tftypes.NewValue(tftypes.String, name) }
	unknown, known, none := types.StringUnknown(), types.StringValue(text), types.StringNull()
	type planned []func(*plannedBundles)
	keeps := func(id string) func(*plannedBundles) {
		return func(p *plannedBundles) { p.keeps(id, config("prod")) }
	}
	creates := func(name string) func(*plannedBundles) {
		return func(p *plannedBundles) { p.creates(config(name)) }
	}
	id := mine.ClusterID
	for name, c := range map[string]struct {
		before, plan types.String
		imported     importedInto
		planned      planned
		want         bool
	}{
		"created anew":                        {known, unknown, "", planned{creates("prod")}, true},
		"created under another name":          {known, unknown, "", planned{creates("lab")}, true},
		"replaced":                            {known, unknown, "", planned{keeps(id), creates("prod")}, true},
		"changed":                             {known, unknown, "", planned{keeps(id)}, false},
		"changed, another cluster is created": {known, unknown, "", planned{keeps(id), creates("lab")}, false},
		"the bundle of another is kept":       {known, unknown, "", planned{keeps("other"), creates("lab")}, true},
		"it comes from elsewhere":             {known, unknown, "", nil, false},
		"the bundle is known":                 {known, known, "", planned{creates("prod")}, false},
		"a new resource":                      {none, unknown, "", planned{creates("prod")}, false},
		"imported, its bundle is not":         {none, unknown, importedInto(id), planned{creates("prod")}, true},
		"imported with its bundle":            {none, unknown, importedInto(id), planned{keeps(id)}, false},
	} {
		s := &session{sealKnown: true}
		for _, plan := range c.planned {
			plan(&s.plannedBundles)
		}
		var diags diag.Diagnostics
		s.refuseLostBundle(t.Context(), c.before, c.plan, c.imported, &diags)
		if diags.HasError() != c.want {
			t.Errorf("%s: %v", name, diags)
		}
	}
}
