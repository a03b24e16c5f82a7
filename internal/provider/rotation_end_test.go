package provider

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

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

// TestRefuseSignersLeftBehind: what a replica signs before the adoption would be refused at once after the end.
func TestRefuseSignersLeftBehind(t *testing.T) {
	for _, part := range []pki.Part{pki.KubernetesPart, pki.ServiceAccountPart} {
		first, _ := bundles(t)
		at := []*pki.Bundle{first}
		for generation := 1; generation <= 3; generation++ {
			at = append(at, rotatedPart(t, at[generation-1], part, generation))
		}
		back := []*pki.Bundle{rotatedPart(t, at[1], part, 0), rotatedPart(t, at[2], part, 1)}
		setting := "rotation." + part.Attribute()
		for name, c := range map[string]struct {
			before, after, machine *pki.Bundle
			want                   string // "" is accepted
		}{
			"at the stage before":           {at[2], at[3], at[2], ""},
			"interrupted at the adoption":   {at[2], at[3], at[1], "set " + setting + " to 2 and"},
			"not introduced":                {at[2], at[3], at[0], "set " + setting + " to 1 and"},
			"back":                          {back[1], back[0], at[1], ""},
			"back, and it has the next one": {back[1], back[0], at[2], "set " + setting + " to 1 and"},
		} {
			s := &session{}
			s.rotationEnds.planned(c.before, c.after)
			var diags diag.Diagnostics
			s.refuseLeftBehind(c.machine, `replica "cp1"`, pki.Parts(), &diags)
			text := ""
			for _, d := range diags {
				text += d.Summary() + ": " + d.Detail()
			}
			if (c.want == "") != (text == "") || !strings.Contains(text, c.want) {
				t.Errorf("%s, %s: %q, want %q", part, name, text, c.want)
			}
		}
	}
}

// rotated returns a bundle at another generation of etcd's authority.
func rotated(t *testing.T, b *pki.Bundle, generation int) *pki.Bundle {
	t.Helper()
	return rotatedPart(t, b, pki.EtcdPart, generation)
}

// rotatedPart returns a bundle at another generation of a part.
func rotatedPart(t *testing.T, b *pki.Bundle, part pki.Part, generation int) *pki.Bundle {
	t.Helper()
	after, err := b.Rotate(map[pki.Part]int{part: generation}, pki.Next{}, pki.Options{Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	return after
}

// TestRefuseMovedCA: the plan that moves the key of the Kubernetes CA to a signer says what no longer works without it.
func TestRefuseMovedCA(t *testing.T) {
	before, _ := bundles(t)
	after := *before
	after.CA.PrivateKey = ""
	state, err := before.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		after, bundle *pki.Bundle
		refused       bool
	}{
		"moved":                {&after, nil, true},
		"moved, and known":     {&after, &after, false}, // refuseExternalCA says so
		"not known for others": {before, nil, false},
	} {
		s := &session{sealKnown: true}
		s.rotationEnds.planned(before, c.after)
		var diags diag.Diagnostics
		s.refuseMovedCA(types.StringValue(state), c.bundle, &diags)
		if diags.HasError() != c.refused {
			t.Errorf("%s: %v", name, diags)
		}
	}
}

// TestNotWithRotation: a version does not change together with a stage of a rotation, also if the plan of the bundle
// makes it unknown.
func TestNotWithRotation(t *testing.T) {
	before, _ := bundles(t)
	after := rotated(t, before, 1)
	renamed := *before
	renamed.ClusterName = "other"
	for name, c := range map[string]struct {
		replica, planned, bundle *pki.Bundle // of the replica's state, of the bundle's plan, and what the replica gets
		refused                  bool
	}{
		"a stage":                         {before, after, nil, true},
		"a stage that is known":           {before, after, after, true},
		"of a replica that has it":        {after, after, after, false},
		"no stage, but keys that changed": {before, &renamed, nil, false},
		"nothing changes":                 {before, before, before, false},
		"the bundle is not planned":       {before, nil, nil, false},
		"a new replica":                   {nil, after, nil, false},
	} {
		s := &session{}
		if c.planned != nil {
			s.rotationEnds.planned(before, c.planned)
		}
		if err := s.notWithRotation(c.replica, c.bundle); (err != nil) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPlanOfVersionAndRotation: the plan of a replica whose bundle is not known, because the same plan moves it to
// another stage, refuses another version.
func TestPlanOfVersionAndRotation(t *testing.T) {
	b, _ := bundles(t)
	text := bundleText(t, b).ValueString()
	prior := replicaState(t, text, b.ClusterID)
	for _, stages := range []bool{true, false} {
		p := newPlanner(t)
		rotation := map[string]any{"kubernetes": 0, "etcd": 0, "front_proxy": 0, "service_account": 0, "encryption": 0}
		state := bundleState(t, b)
		if stages {
			rotation["kubernetes"] = 1
		}
		p.update(t, "kube_pki_bundle", bundleOutputs, state, with(state, map[string]any{"rotation": rotation}), "")

		of := p.schemas.ResourceSchemas["kube_control_plane_replica"].ValueType()
		wanted := with(prior, map[string]any{"version": "1.36.4", "pki": tftypes.UnknownValue})
		arguments := maps.Clone(wanted)
		for _, name := range replicaOutputs {
			delete(arguments, name)
		}
		resp, err := p.server.PlanResourceChange(t.Context(), &tfprotov6.PlanResourceChangeRequest{
			TypeName: "kube_control_plane_replica", PriorState: dynamic(t, of, valueOf(t, of, prior)),
			ProposedNewState: dynamic(t, of, valueOf(t, of, wanted)), Config: dynamic(t, of, valueOf(t, of, arguments)),
		})
		if err != nil {
			t.Fatal(err)
		}
		refused := ""
		for _, d := range resp.Diagnostics {
			if d.Severity == tfprotov6.DiagnosticSeverityError {
				refused += d.Summary + ": " + d.Detail
			}
		}
		if strings.Contains(refused, "change together") != stages || !stages && refused != "" {
			t.Errorf("with a stage %t: %q", stages, refused)
		}
	}
}
