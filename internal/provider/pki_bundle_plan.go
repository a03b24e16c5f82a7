package provider

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// ModifyPlan simulates the rotation. Stages that are not allowed are rejected in the plan, and
// values that a stage does not change stay known.
func (r *pkiBundleResource) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	var plan, state pkiBundleModel
	if req.Plan.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
		state.refuseDeletion(&resp.Diagnostics)
		return
	}
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() || r.session == nil {
		return
	}
	plan.SealedFor = r.session.sealedFor()
	if req.State.Raw.IsNull() {
		r.session.plannedBundles.creates(req.Config.Raw)
		plan.refuseReplacement(isSet(ctx, req.Private, protectedKey, &resp.Diagnostics), &resp.Diagnostics)
	} else {
		resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
		r.session.plannedBundles.keeps(state.ID.ValueString(), req.Config.Raw)
		if now := state.protected(); now != isSet(ctx, req.Private, protectedKey, &resp.Diagnostics) {
			resp.Diagnostics.Append(resp.Private.SetKey(ctx, protectedKey, strconv.AppendBool(nil, now))...)
		}
	}
	switch {
	case !r.session.sealKnown || !elementsKnown(ctx, plan.Rotation) || !elementsKnown(ctx, plan.Encryption):
		r.planStages(ctx, plan, r.session.prior(state.Bundle), &resp.Diagnostics)
		plan.forget()
	case req.State.Raw.IsNull():
		r.planNew(ctx, plan, &resp.Diagnostics)
	default:
		r.planChange(ctx, &plan, state, req.Config, &resp.Diagnostics)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, plan)...)
}

// protectedKey is the private-state key that records, in the plan of a bundle in the state, whether it is protected. To
// replace a bundle, Terraform then plans a new one with that private state, which a bundle of its own does not have.
const protectedKey = "protected"

// planNew rejects a new bundle that starts in the middle of a rotation.
func (r *pkiBundleResource) planNew(ctx context.Context, plan pkiBundleModel, diags *diag.Diagnostics) {
	for part, generation := range plan.generations(ctx, diags) {
		if err := pki.ValidateBeginning(part, generation); err != nil {
			addInvalid(diags, attributePath("rotation").AtName(part.Attribute()), "Rotation not possible", err)
		}
	}
	plan.encryption(ctx, diags)
	r.warnUnsealed(diags)
}

// planChange plans an update of an existing bundle.
func (r *pkiBundleResource) planChange(
	ctx context.Context, plan *pkiBundleModel, state pkiBundleModel, config tfsdk.Config, diags *diag.Diagnostics,
) {
	before := r.session.bundle(state.Bundle, diags)
	if diags.HasError() {
		return
	}
	for _, words := range before.Expiring(leafLife, r.now()) {
		diags.AddWarning("Certificate authority expires soon", words+", and no certificate that it issues is "+
			"valid longer.\nNext step: rotate it (rotation), one stage at a time.")
	}
	keys, known := r.keysOf(ctx, config, diags)
	if !known || diags.HasError() {
		r.planStages(ctx, *plan, before, diags)
		plan.forget()
		return
	}
	after := r.turn(ctx, *plan, keys, before, diags)
	if diags.HasError() {
		return
	}
	resealed := !plan.SealedFor.Equal(state.SealedFor)
	plan.changes(before, after)
	if resealed || plan.Bundle.IsUnknown() {
		plan.Bundle = types.StringUnknown()
		r.warnUnsealed(diags)
	} else {
		plan.Bundle = planText(state.Bundle, before, after, diags)
	}
	r.session.rotationEnds.planned(before, after)
	warnLastStage(before.Generations(), after.Generations(), diags)
	warnKeysLeave(before, after, diags)
}

// planStages plans the stages of rotations alone, where the bundle is only known in the apply: a supplied CA or key is
// not known yet.
func (r *pkiBundleResource) planStages(
	ctx context.Context, plan pkiBundleModel, before *pki.Bundle, diags *diag.Diagnostics,
) {
	if before == nil || !elementsKnown(ctx, plan.Rotation) {
		return
	}
	generations := plan.generations(ctx, diags)
	if refuseStages(before, generations, diags); diags.HasError() {
		return
	}
	r.session.rotationEnds.plannedStages(before, generations, before.External(pki.Kubernetes))
	warnLastStage(before.Generations(), generations, diags)
}

// refuseStages rejects generations to which a bundle cannot go.
func refuseStages(before *pki.Bundle, generations map[pki.Part]int, diags *diag.Diagnostics) {
	for part, to := range generations {
		if err := pki.ValidateRotation(part, before.Generation(part), to); err != nil {
			addInvalid(diags, attributePath("rotation").AtName(part.Attribute()), "Rotation not possible", err)
		}
	}
}

// warnKeysLeave warns of keys that the state loses, which may be nowhere else.
func warnKeysLeave(before, after *pki.Bundle, diags *diag.Diagnostics) {
	var leaving []string
	for _, authority := range []pki.Authority{pki.Kubernetes, pki.Etcd, pki.FrontProxy} {
		if after.External(authority) && !before.External(authority) {
			leaving = append(leaving, string(authority))
		}
	}
	if len(leaving) == 0 {
		return
	}
	diags.AddWarning("Key of a CA leaves the state", fmt.Sprintf("After this apply, only your signer can issue "+
		"certificates of these CAs: %s.\nNext step: make sure that the signer has the key. If the kubernetes CA is one of "+
		"them, apply with -target of kube_certificate_requests first, sign its requests, and set signed.",
		strings.Join(leaving, ", ")))
}

// planText returns the text of a bundle whose keys do not change, but perhaps its name or its
// protection. It is known in the plan, and so is its effect on all other resources.
func planText(text types.String, before, after *pki.Bundle, diags *diag.Diagnostics) types.String {
	changed := text.ValueString()
	var err error
	if before.Deletable != after.Deletable {
		if changed, err = pki.SetDeletionProtection(changed, !after.Deletable); err != nil {
			addError(diags, attributePath("deletion_protection"), "PKI bundle not changed", err)
		}
	}
	if before.Renamed(after) {
		if changed, err = pki.Rename(changed, after.ClusterName); err != nil {
			addError(diags, attributePath("cluster_name"), "PKI bundle not changed", err)
		}
	}
	return types.StringValue(changed)
}

// leafLife is the usual validity of a certificate. An authority that expires earlier shortens
// it.
const leafLife = 365 * 24 * time.Hour

// keysOf returns the configuration, which contains write-only keys, and whether the keys and
// certificates that the user supplies are known.
func (r *pkiBundleResource) keysOf(
	ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics,
) (pkiBundleModel, bool) {
	var keys pkiBundleModel
	diags.Append(config.Get(ctx, &keys)...)
	known := elementsKnown(ctx, keys.ServiceAccount)
	for _, place := range keys.authorities() {
		known = known && elementsKnown(ctx, place.value)
	}
	return keys, known
}

// turn returns the bundle after the change.
func (r *pkiBundleResource) turn(
	ctx context.Context, plan, keys pkiBundleModel, before *pki.Bundle, diags *diag.Diagnostics,
) *pki.Bundle {
	generations := plan.generations(ctx, diags)
	supplied := plan.supplied(ctx, keys, r.session.seal, diags)
	if diags.HasError() {
		return nil
	}
	if refuseStages(before, generations, diags); diags.HasError() {
		return nil
	}
	options := plan.options(r.now())
	after, err := before.Rotate(generations, supplied, options)
	if err != nil {
		addInvalid(diags, attributePath("rotation"), "Rotation not possible", err)
		return nil
	}
	if err := after.Conflict(supplied); err != nil {
		addInvalid(diags, attributePath("rotation"), "Rotation needed", err)
		return nil
	}
	for _, name := range after.WithoutIssuers(supplied) {
		diags.AddAttributeWarning(attributePath(keys.authorities()[name].attribute), "Issuers of a CA are not used",
			fmt.Sprintf("The bundle has the %s CA without issuers, as after an import from a machine. They are part of the "+
				"CA, so those behind its certificate are not distributed.\nNext step: remove them from certificate, or rotate "+
				"the CA to one with a new key.", name))
	}
	if after, err = after.WithKeys(supplied); err != nil {
		addInvalid(diags, attributePath("ca"), "Invalid key of a CA", err)
		return nil
	}
	after.ClusterName, after.Algorithm, after.Deletable = options.ClusterName, options.Algorithm, options.Deletable
	return after
}

func (m pkiBundleModel) options(now time.Time) pki.Options {
	validity, _ := parseDuration(m.Validity)
	return pki.Options{
		ClusterName: m.ClusterName.ValueString(),
		Algorithm:   pki.Algorithm(m.KeyAlgorithm.ValueString()),
		Validity:    validity,
		Now:         now,
		Deletable:   !m.Protection.IsNull() && !m.Protection.ValueBool(),
	}
}

// changes plans the values that are known before the change of the bundle is applied. Keys are
// generated during the apply, so a value with a new key is only known after it.
func (m *pkiBundleModel) changes(before, after *pki.Bundle) {
	if before.Same(after, pki.Parts()...) && before.Algorithm == after.Algorithm {
		return
	}
	if err := m.fill(after); err != nil {
		m.forget()
		return
	}
	m.Bundle = types.StringUnknown()
	for part, value := range map[pki.Part]*types.String{
		pki.KubernetesPart: &m.CACertificate, pki.EtcdPart: &m.EtcdCACertificate,
		pki.FrontProxyPart: &m.FrontProxyCACertificate, pki.ServiceAccountPart: &m.ServiceAccountPublicKey,
	} {
		if g := after.Generation(part); g > before.Generation(part) && pki.StageOf(g) == pki.Introduced {
			*value = types.StringUnknown()
		}
	}
}

// forget plans that everything except the identity is known after the apply.
func (m *pkiBundleModel) forget() {
	m.Bundle, m.CACertificate, m.EtcdCACertificate = types.StringUnknown(), types.StringUnknown(), types.StringUnknown()
	m.FrontProxyCACertificate, m.ServiceAccountPublicKey = types.StringUnknown(), types.StringUnknown()
	m.Fingerprints, m.ExpiresAt, m.Stages = types.MapUnknown(types.StringType), types.MapUnknown(types.StringType),
		types.MapUnknown(types.StringType)
}

func (r *pkiBundleResource) warnUnsealed(diags *diag.Diagnostics) {
	if r.session.seal == nil {
		diags.AddWarning("Private keys are stored unencrypted",
			"The provider has no seal: everyone who can read the state or a plan file can read the CA keys of the "+
				"cluster.\nNext step: set seal on the provider, or restrict access to the state to administrators "+
				"of the cluster.")
	}
}

// warnLastStage warns what is rejected once the last stage of a rotation is applied, or its first one is taken back. A
// rotation that goes back may have adopted what is withdrawn then.
func warnLastStage(before, after map[pki.Part]int, diags *diag.Diagnostics) {
	var lost, withdrawn []string
	for part, words := range map[pki.Part]string{
		pki.EtcdPart:           "client certificates of the %s etcd CA, such as those of a monitoring system",
		pki.KubernetesPart:     "kubeconfigs and kubelets with certificates of the %s Kubernetes CA",
		pki.ServiceAccountPart: "service-account tokens signed with the %s key",
	} {
		switch from, to := before[part], after[part]; {
		case pki.StageOf(to) != pki.Steady || from == to:
		case to > from:
			lost = append(lost, fmt.Sprintf(words, "previous"))
		default:
			withdrawn = append(withdrawn, fmt.Sprintf(words, "withdrawn"))
		}
	}
	slices.Sort(lost)
	slices.Sort(withdrawn)
	if len(lost) > 0 {
		diags.AddWarning("Last stage of a rotation", fmt.Sprintf("After this apply, the following are rejected: %s.\n"+
			"Next step: apply after all of them have been replaced.", strings.Join(lost, "; ")))
	}
	if len(withdrawn) > 0 {
		diags.AddWarning("Rotation withdrawn", fmt.Sprintf("After this apply, the following are rejected, if the rotation "+
			"had its second stage: %s.\nNext step: apply after all of them have been replaced.",
			strings.Join(withdrawn, "; ")))
	}
}
