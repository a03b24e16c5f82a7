package provider

import (
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// TestWarnLastStage: the plan says what is rejected after the last stage, and after the first one is taken back.
func TestWarnLastStage(t *testing.T) {
	at := map[int]*pki.Bundle{}
	b, err := pki.Generate(pki.Options{ClusterName: "prod", Now: time.Now()})
	for n := 0; err == nil && n <= 3; n++ {
		at[n] = b
		parts := map[pki.Part]int{pki.KubernetesPart: n + 1, pki.ServiceAccountPart: n + 1}
		b, err = b.Rotate(parts, pki.Next{}, pki.Options{Now: time.Now(), Validity: time.Hour})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from, to int
		want     string
	}{
		{0, 1, ""},
		{1, 2, ""},
		{2, 1, ""},
		{1, 1, ""},
		{0, 0, ""},
		{2, 3, "Last stage of a rotation"},
		{1, 0, "Rotation withdrawn"},
	} {
		var diags diag.Diagnostics
		(&pkiBundleResource{}).warnLastStage(at[c.from], at[c.to], &diags)
		got := ""
		if len(diags) == 1 {
			got = diags[0].Summary()
		}
		if got != c.want || len(diags) > 1 {
			t.Errorf("from %d to %d: %q, want %q", c.from, c.to, diags, c.want)
		}
	}
}
