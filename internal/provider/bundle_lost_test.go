package provider

import (
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// TestRefuseLostBundle: a resource of a cluster that exists never gets a bundle which the plan creates. A rotation, which
// makes the bundle unknown too, and another cluster's new bundle are no reason.
func TestRefuseLostBundle(t *testing.T) {
	mine, err := pki.Generate(pki.Options{ClusterName: "prod", Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	unknown, known := types.StringUnknown(), types.StringValue("text")
	for name, c := range map[string]struct {
		before  *pki.Bundle
		plan    types.String
		created []types.String
		changed []string
		want    bool
	}{
		"created anew":                        {mine, unknown, []types.String{types.StringValue("prod")}, nil, true},
		"another cluster is created":          {mine, unknown, []types.String{types.StringValue("lab")}, nil, false},
		"a cluster of unknown name":           {mine, unknown, []types.String{unknown}, nil, false},
		"it is rotated":                       {mine, unknown, nil, []string{mine.ClusterID}, false},
		"rotated beside a new one":            {mine, unknown, []types.String{types.StringValue("prod")}, []string{mine.ClusterID}, false},
		"created beside the change of others": {mine, unknown, []types.String{types.StringValue("prod")}, []string{"other"}, true},
		"the bundle is known":                 {mine, known, []types.String{types.StringValue("prod")}, nil, false},
		"a new resource":                      {nil, unknown, []types.String{types.StringValue("prod")}, nil, false},
	} {
		s := &session{}
		for _, name := range c.created {
			s.plannedBundles.creates(name)
		}
		for _, id := range c.changed {
			s.plannedBundles.changes(id)
		}
		var diags diag.Diagnostics
		s.refuseLostBundle(c.before, c.plan, &diags)
		if diags.HasError() != c.want {
			t.Errorf("%s: %v", name, diags)
		}
	}
}
