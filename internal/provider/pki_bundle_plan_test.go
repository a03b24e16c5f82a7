package provider

import (
	"strings"
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
		parts := map[pki.Part]int{pki.KubernetesPart: n + 1, pki.EtcdPart: n + 1, pki.ServiceAccountPart: n + 1}
		b, err = b.Rotate(parts, pki.Next{}, pki.Options{Now: time.Now(), Validity: time.Hour})
	}
	if err != nil {
		t.Fatal(err)
	}
	var last diag.Diagnostics
	(&pkiBundleResource{}).warnLastStage(at[2], at[3], &last)
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
