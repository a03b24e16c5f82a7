package provider

import (
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// TestWarnLastStage: the plan says what is rejected after the last stage, and after the first one is taken back.
func TestWarnLastStage(t *testing.T) {
	at := map[int]*pki.Bundle{}
	b, err := pki.Generate(pki.Options{ClusterName: "prod", Now: time.Now()})
	for n := 0; err == nil && n <= 3; n++ {
		at[n] = b
		parts := map[pki.Part]int{pki.KubernetesPart: n + 1, pki.EtcdPart: n + 1, pki.ServiceAccountPart: n + 1}
		b, err = b.Rotate(parts, pki.Next{}, pki.Options{Now: time.Now(), Validity: time.Hour})
	}
	if err != nil {
		t.Fatal(err)
	}
	var last diag.Diagnostics
	warnLastStage(at[2].Generations(), at[3].Generations(), &last)
	for _, what := range []string{
		"kubeconfigs and kubelets", "service-account tokens", "client certificates of the previous etcd CA",
	} {
		if !strings.Contains(last[0].Detail(), what) {
			t.Errorf("the last stage does not say that %s are rejected: %s", what, last[0].Detail())
		}
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
		warnLastStage(at[c.from].Generations(), at[c.to].Generations(), &diags)
		got := ""
		if len(diags) == 1 {
			got = diags[0].Summary()
		}
		if got != c.want || len(diags) > 1 {
			t.Errorf("from %d to %d: %q, want %q", c.from, c.to, diags, c.want)
		}
	}
}

// TestWarnKeysLeave: the plan says which keys the state loses.
func TestWarnKeysLeave(t *testing.T) {
	here, elsewhere := bundles(t)
	for name, c := range map[string]struct {
		before, after *pki.Bundle
		want          string
	}{
		"two leave":   {here, elsewhere, "of these CAs: etcd, front-proxy."},
		"they return": {elsewhere, here, ""},
		"no change":   {elsewhere, elsewhere, ""},
	} {
		var diags diag.Diagnostics
		warnKeysLeave(c.before, c.after, &diags)
		if got := text(diags); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestPlanOfUnknownCA: the plan checks the stages of a rotation although a supplied CA is not known yet.
func TestPlanOfUnknownCA(t *testing.T) {
	first, _ := bundles(t)
	at := []*pki.Bundle{first}
	for generation := 1; generation <= 2; generation++ {
		at = append(at, rotated(t, at[generation-1], generation))
	}
	unknown := map[string]any{"certificate": tftypes.UnknownValue, "key_held_elsewhere": true}
	for name, c := range map[string]struct {
		to     int
		also   map[string]any
		member *pki.Bundle
		want   string // "" is accepted
	}{
		"a member that has not followed": {
			3, map[string]any{"etcd_ca": unknown}, at[0], "The plan ends a rotation that has not reached every machine",
		},
		"of another CA": {
			3, map[string]any{"front_proxy_ca": unknown}, at[0], "The plan ends a rotation that has not reached every machine",
		},
		"unknown encryption": {
			3,
			map[string]any{"encryption": tftypes.UnknownValue},
			at[0],
			"The plan ends a rotation that has not reached every machine",
		},
		"a member that has followed": {3, map[string]any{"etcd_ca": unknown}, at[2], ""},
		"no end":                     {2, map[string]any{"etcd_ca": unknown}, at[2], ""},
		"a stage is skipped":         {4, map[string]any{"etcd_ca": unknown}, at[2], "skips a stage"},
		"unknown numbers":            {-1, nil, at[0], ""},
	} {
		rotation := func(etcd any) map[string]any {
			return map[string]any{"kubernetes": 0, "etcd": etcd, "front_proxy": 0, "service_account": 0, "encryption": 0}
		}
		prior := with(bundleState(t, at[2]), map[string]any{"rotation": rotation(2), "deletion_protection": false})
		wanted := with(prior, c.also)
		if wanted["rotation"] = rotation(c.to); c.to < 0 {
			wanted["rotation"] = tftypes.UnknownValue
		}
		of := pkiBundleSchema()
		kind := of.Type().TerraformType(t.Context())
		raw := valueOf(t, kind, wanted)
		req := resource.ModifyPlanRequest{
			State: tfsdk.State{Schema: of, Raw: valueOf(t, kind, prior)}, Plan: tfsdk.Plan{Schema: of, Raw: raw},
			Config: tfsdk.Config{Schema: of, Raw: raw},
		}
		resp := resource.ModifyPlanResponse{Plan: req.Plan}
		r := newPKIBundleResource().(*pkiBundleResource)
		r.session = &session{sealKnown: true}
		r.ModifyPlan(t.Context(), req, &resp)
		diags := resp.Diagnostics
		if warned := strings.Contains(text(diags), "Last stage of a rotation"); warned != (c.to == 3) {
			t.Errorf("%s: warned %t", name, warned)
		}
		r.session.refuseLeftBehind(c.member, `etcd member "cp1"`, []pki.Part{pki.EtcdPart}, &diags)
		if output := text(diags); diags.HasError() != (c.want != "") || !strings.Contains(output, c.want) {
			t.Errorf("%s: %q, want %q", name, output, c.want)
		}
	}
}

// TestReplacedBundle: the plan refuses to replace a protected bundle, whose Create may come before the refused Delete.
// A new bundle with the same configuration is that of another cluster.
func TestReplacedBundle(t *testing.T) {
	here, _ := bundles(t)
	deletable := *here
	deletable.Deletable = true
	const kind = "kube_pki_bundle"
	p := newPlanner(t)
	of := p.schemas.ResourceSchemas[kind].ValueType()
	for name, c := range map[string]struct {
		bundle   *pki.Bundle
		config   any // its deletion_protection
		replaced bool
		want     string // "" is accepted
	}{
		"protected":                        {here, true, true, "PKI bundle is protected from deletion"},
		"protected by default":             {here, nil, true, "PKI bundle is protected from deletion"},
		"not protected from now on":        {here, false, true, "set deletion_protection = false"},
		"not protected":                    {&deletable, false, true, ""},
		"another one with the same config": {here, true, false, ""},
	} {
		state := bundleState(t, c.bundle)
		config := map[string]any{
			"cluster_name": state["cluster_name"], "rotation": state["rotation"], "deletion_protection": c.config,
		}
		plan := func(prior tftypes.Value, proposed map[string]any, private []byte) *tfprotov6.PlanResourceChangeResponse {
			resp, err := p.server.PlanResourceChange(t.Context(), &tfprotov6.PlanResourceChangeRequest{
				TypeName: kind, PriorState: dynamic(t, of, prior), ProposedNewState: dynamic(t, of, valueOf(t, of, proposed)),
				Config: dynamic(t, of, valueOf(t, of, config)), PriorPrivate: private,
			})
			if err != nil {
				t.Fatal(err)
			}
			return resp
		}
		kept := plan(valueOf(t, of, state), with(state, config), nil)
		private := kept.PlannedPrivate
		if !c.replaced {
			private = nil
		}
		output := textOfDiagnostics(kept.Diagnostics)
		if strings.Contains(output, "protected") {
			t.Errorf("%s: kept: %q", name, output)
		}
		output = textOfDiagnostics(plan(tftypes.NewValue(of, nil), config, private).Diagnostics)
		if strings.Contains(output, "protected") != (c.want != "") || !strings.Contains(output, c.want) {
			t.Errorf("%s: %q, want %q", name, output, c.want)
		}
	}
	var diags diag.Diagnostics
	pkiBundleModel{}.refuseDeletion(&diags)
	if output := text(diags); !strings.Contains(output, "deposed") || !strings.Contains(output, "terraform state rm") {
		t.Errorf("the deletion of a replaced bundle: %q", output)
	}
}
