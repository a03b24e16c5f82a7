package provider

import (
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// TestRefuseLeftBehind: a rotation does not end while the state of a machine says that it could not follow.
func TestRefuseLeftBehind(t *testing.T) {
	first, _ := bundles(t)
	at := []*pki.Bundle{first}
	for generation := 1; generation <= 6; generation++ {
		at = append(at, rotated(t, at[generation-1], generation))
	}
	back := []*pki.Bundle{rotated(t, at[1], 0), rotated(t, at[2], 1)}
	for name, c := range map[string]struct {
		before, after, machine *pki.Bundle
		want                   string // "" is accepted
	}{
		"at the stage before":            {at[2], at[3], at[2], ""},
		"interrupted at the adoption":    {at[2], at[3], at[1], ""},
		"not introduced":                 {at[2], at[3], at[0], "set rotation.etcd to 1 and"},
		"a rotation behind":              {at[5], at[6], at[1], "destroy or replace it"},
		"no end":                         {at[1], at[2], at[0], ""},
		"nothing changes":                {at[3], at[3], at[0], ""},
		"back":                           {back[1], back[0], at[1], ""},
		"back, and it has the next one":  {back[1], back[0], at[2], "set rotation.etcd to 1 and"},
		"back, and it was not there yet": {back[1], back[0], at[0], ""},
		"nothing is known":               {at[2], at[3], nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := &session{}
			s.rotationEnds.planned(c.before, c.after)
			var diags diag.Diagnostics
			s.refuseLeftBehind(c.machine, `etcd member "cp1"`, []pki.Part{pki.EtcdPart}, &diags)
			text := ""
			for _, d := range diags {
				text += d.Summary() + ": " + d.Detail()
			}
			if (c.want == "") != (text == "") || !strings.Contains(text, c.want) {
				t.Errorf("%q, want %q", text, c.want)
			}
			diags = nil
			s.refuseLeftBehind(c.machine, "it", []pki.Part{pki.FrontProxyPart}, &diags)
			if diags.HasError() {
				t.Errorf("of another part: %v", diags)
			}
		})
	}
}

// rotated returns a bundle at another generation of etcd's authority.
func rotated(t *testing.T, b *pki.Bundle, generation int) *pki.Bundle {
	t.Helper()
	after, err := b.Rotate(map[pki.Part]int{pki.EtcdPart: generation}, pki.Next{}, pki.Options{Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	return after
}
