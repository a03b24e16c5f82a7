package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// signedModel is the model of the signed attribute: the certificates that an external signer
// issued for the requests of a kube_certificate_requests.
type signedModel struct {
	Keys         types.String `tfsdk:"keys"`
	Certificates types.Map    `tfsdk:"certificates"`
}

// signed is a decoded signed attribute, as far as it is known.
type signed struct {
	keys         map[string]string // by leaf; nil while unknown
	certificates map[string]string // by leaf, "" while unknown; nil while none is known
	known        bool              // whether all of it is known
	err          error             // why a machine was not asked for what is installed there
}

func signedSchema() schema.Attribute {
	return signedSchemaOf("A change installs the new certificates in place of the current ones, by the rules of a " +
		"renewal. The signer determines their validity; plans warn before they expire. Default: none; the certificates " +
		"installed on the machine stay in use, as after an import of the bundle from a machine.")
}

// signedSchemaOf describes signed of a resource, with what a change and its absence do there.
func signedSchemaOf(effect string) schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "Certificates signed by an external signer, for CAs of the bundle with an external " +
			"key (`key_held_elsewhere`). " + effect,
		Attributes: map[string]schema.Attribute{
			"keys": schema.StringAttribute{
				Required: true, Sensitive: true,
				MarkdownDescription: "The `keys` of the `kube_certificate_requests` whose requests were signed.",
			},
			"certificates": schema.MapAttribute{
				Required: true, ElementType: types.StringType,
				MarkdownDescription: "The certificates, PEM, by the names of `requests`: each is the signed " +
					"certificate, followed by its intermediates. Certificates of CAs whose key is in the bundle, " +
					"or that are not for this resource, are not used.",
			},
		},
	}
}

// readSigned decodes a signed attribute.
func (s *session) readSigned(ctx context.Context, value types.Object, diags *diag.Diagnostics) signed {
	if value.IsNull() {
		return signed{keys: map[string]string{}, certificates: map[string]string{}, known: true}
	}
	if value.IsUnknown() || s == nil || !s.sealKnown {
		return signed{}
	}
	var model signedModel
	diags.Append(value.As(ctx, &model, basetypes.ObjectAsOptions{})...)
	out := signed{known: elementsKnown(ctx, value)}
	if !model.Keys.IsUnknown() {
		keys, err := openKeys(model.Keys.ValueString(), s.seal)
		if err != nil {
			diags.AddAttributeError(attributePath("signed.keys"), "Private keys cannot be read",
				"Cause: "+err.Error()+"\nUnchanged: nothing was changed.\nNext step: use the keys attribute of a "+
					"kube_certificate_requests without changes.")
		}
		out.keys = keys
	}
	if !model.Certificates.IsUnknown() {
		out.certificates = map[string]string{}
		for name, element := range model.Certificates.Elements() {
			if text, ok := element.(types.String); ok && !text.IsNull() {
				out.certificates[name] = text.ValueString()
			}
		}
	}
	return out
}

// into adds the signed certificates to the bundle for leaves whose authority has an external
// key. It returns, for each leaf that fails, the error.
func (s signed) into(b *pki.Bundle, leaves []pki.Leaf, now time.Time) map[string]error {
	b.Signed = map[string]pki.KeyPair{}
	problems := map[string]error{}
	for _, leaf := range leaves {
		text, key := s.certificates[leaf.Name], s.keys[leaf.Name]
		if !b.External(leaf.Authority) || text == "" || key == "" {
			continue
		}
		if err := b.AddSigned(leaf, text, key, now); err != nil {
			problems[leaf.Name] = err
		}
	}
	return problems
}

// installedOnAny returns the pairs of one machine as installed does: those of the first one that
// has the most. It queries no machine if the bundle can issue all leaves.
func (s *session) installedOnAny(
	ctx context.Context, bundle *pki.Bundle, leaves []pki.Leaf, addresses []string,
) signed {
	external := func(l pki.Leaf) bool { return bundle.External(l.Authority) }
	if s == nil || s.pool == nil || !slices.ContainsFunc(leaves, external) {
		return signed{known: true}
	}
	ctx, cancel := context.WithTimeout(ctx, host.AnswerLimit(ctx, installedTimeout))
	defer cancel()
	observed := make([]signed, len(addresses))
	var asking sync.WaitGroup
	for i, address := range addresses {
		asking.Go(func() { observed[i] = s.installed(ctx, bundle, leaves, types.StringValue(address), time.Now()) })
	}
	asking.Wait()
	best := signed{known: true}
	for _, f := range observed {
		if len(f.certificates) > len(best.certificates) {
			best = f
		}
	}
	return best
}

// installedTimeout limits how long a data source or an action looks for certificates on the machines.
const installedTimeout = 10 * time.Second

// missing returns the leaves that need a signed certificate and have none.
func (s signed) missing(b *pki.Bundle, leaves []pki.Leaf) []pki.Leaf {
	return slices.DeleteFunc(slices.Clone(leaves), func(leaf pki.Leaf) bool {
		_, supplied := s.certificates[leaf.Name]
		return supplied || !b.External(leaf.Authority)
	})
}

// bundleWith returns the bundle of a pki attribute with the certificates signed for leaves.
// Each resource has a bundle of its own, so the pairs do not reach other resources. at is the
// resource's machine, if it has one. unread is why that was not asked for what is installed there.
func (s *session) bundleWith(ctx context.Context, value types.String, signed types.Object, leaves []pki.Leaf,
	at types.String, diags *diag.Diagnostics,
) (bundle *pki.Bundle, unread error) {
	if bundle = s.bundle(value, diags); bundle == nil {
		return nil, nil
	}
	texts := s.signedFor(ctx, bundle, signed, leaves, at, diags)
	texts.into(bundle, leaves, time.Now()) // checkSigned reports the errors
	return bundle, texts.err
}

// signedFor returns what was signed for leaves: the supplied pairs, or else those on the
// machine. A bundle that was imported from a machine does not have the keys of all authorities.
// Their existing certificates stay in use until a rotation. A machine that hangs has an error in time.
func (s *session) signedFor(ctx context.Context, bundle *pki.Bundle, value types.Object, leaves []pki.Leaf,
	at types.String, diags *diag.Diagnostics,
) signed {
	if !value.IsNull() {
		return s.readSigned(ctx, value, diags)
	}
	var out signed
	out.err = host.InTime(ctx, at.ValueString(), func(ctx context.Context) error {
		out = s.installed(ctx, bundle, leaves, at, time.Now())
		return out.err
	})
	return out
}

// installed returns the pairs on a machine that match leaves and that the bundle cannot issue
// itself. They are unknown if the machine does not answer.
func (s *session) installed(
	ctx context.Context, bundle *pki.Bundle, leaves []pki.Leaf, at types.String, now time.Time,
) signed {
	out := signed{keys: map[string]string{}, certificates: map[string]string{}, known: true}
	needed := slices.DeleteFunc(slices.Clone(leaves), func(leaf pki.Leaf) bool { return !bundle.External(leaf.Authority) })
	if len(needed) == 0 || s == nil || s.pool == nil || !allKnown(at) {
		return out
	}
	pairs, err := s.replicas.Installed(ctx, s.machine(at.ValueString()), needed)
	if err != nil {
		return signed{err: err}
	}
	for _, leaf := range needed {
		pair := pairs[leaf.Name]
		if _, err := pki.SignedPair(pair.Certificate, pair.PrivateKey); err == nil &&
			len(bundle.Check(leaf, pair.Certificate, now)) == 0 {
			out.certificates[leaf.Name], out.keys[leaf.Name] = pair.Certificate, pair.PrivateKey
		}
	}
	return out
}

// checkSigned rejects a bundle if a leaf cannot be obtained. Values that are not known yet (no
// bundle, no leaves, an unknown certificate, what is installed on a machine that cannot be
// reached or hangs) are skipped.
func (s *session) checkSigned(ctx context.Context, bundle *pki.Bundle, value types.Object, leaves []pki.Leaf,
	at types.String, now time.Time, diags *diag.Diagnostics,
) {
	if bundle == nil {
		return
	}
	texts := s.signedFor(ctx, bundle, value, leaves, at, diags)
	if texts.err != nil && !host.Unanswered(texts.err) { // of a machine that does not answer, Read warns
		addError(diags, attributePath("signed"), "Installed certificates not read", texts.err)
	}
	if texts.keys != nil {
		texts.refuseKeyless(bundle, leaves, diags)
	}
	if texts.certificates != nil {
		addMissing(texts.missing(bundle, leaves), value.IsNull(), diags)
	}
	problems := texts.into(bundle, leaves, now)
	for _, leaf := range leaves {
		pair, ok := bundle.Signed[leaf.Name]
		if err := problems[leaf.Name]; err != nil {
			addUnusable(leaf, err.Error(), diags)
		}
		if !ok {
			continue
		}
		if wrong := bundle.Check(leaf, pair.Certificate, now); len(wrong) > 0 {
			addUnusable(leaf, strings.Join(wrong, "; "), diags)
		}
	}
}

// refuseKeyless reports certificates that would be used (see into) and have no key: the keys belong to other requests.
func (s signed) refuseKeyless(bundle *pki.Bundle, leaves []pki.Leaf, diags *diag.Diagnostics) {
	for _, leaf := range leaves {
		name := leaf.Name
		_, supplied := s.certificates[name]
		if _, ok := s.keys[name]; supplied && !ok && bundle.External(leaf.Authority) {
			diags.AddAttributeError(attributePath("signed.certificates").AtMapKey(name), "Certificate without a key",
				fmt.Sprintf("Cause: keys contains no key for %q; it contains: %s\nUnchanged: nothing was "+
					"changed.\nNext step: use certificates and keys of the same kube_certificate_requests, each "+
					"by its name in requests.",
					name, strings.Join(slices.Sorted(maps.Keys(s.keys)), ", ")))
		}
	}
}

// addMissing reports leaves that need a signed certificate and have none. Without the signed attribute, there may be no
// signer: a bundle that was imported from a machine lacks keys that no machine has.
func addMissing(leaves []pki.Leaf, unset bool, diags *diag.Diagnostics) {
	if len(leaves) == 0 {
		return
	}
	var names, requests []string
	var authorities []pki.Authority
	for _, leaf := range leaves {
		names = append(names, fmt.Sprintf("%s (%s CA)", leaf.Name, leaf.Authority))
		requests = append(requests, fmt.Sprintf("requests[%q]", leaf.Name))
		authorities = append(authorities, leaf.Authority)
	}
	next := "sign " + strings.Join(requests, ", ") + " of a kube_certificate_requests, and set signed = { keys = …, " +
		"certificates = { … } }."
	if unset {
		next = "if a signer has the key, " + next + " " + rotateInstead(authorities)
	}
	diags.AddAttributeError(attributePath("signed"), "Signed certificates are missing",
		"Cause: the key of the CA is external, and there is no signed certificate for: "+strings.Join(names, ", ")+
			"\nUnchanged: nothing was changed.\nNext step: "+next)
}

// rotateInstead is the remedy where nobody has the keys of authorities.
func rotateInstead(authorities []pki.Authority) string {
	var settings []string
	for _, authority := range authorities {
		settings = append(settings, "rotation."+pki.Part(authority).Attribute())
	}
	slices.Sort(settings)
	return "If nobody has it, rotate the CA (" + strings.Join(slices.Compact(settings), ", ") + "), as the guide " +
		"Rotating CAs and keys says: the bundle has the key of the new one."
}

func addUnusable(leaf pki.Leaf, cause string, diags *diag.Diagnostics) {
	diags.AddAttributeError(attributePath("signed.certificates").AtMapKey(leaf.Name), "Signed certificate cannot "+
		"be used",
		fmt.Sprintf("Cause: %s\nUnchanged: nothing was changed.\nNext step: sign requests[%q] again with the %s "+
			"CA, with exactly the names of the request, for %s.",
			cause, leaf.Name, leaf.Authority, strings.Join(leaf.Usage.Names(), " and ")))
}

// warnExpiring reports which of the externally signed certificates are due for renewal. Only
// the signer can renew them, so they are not reported as drift. Without the signed attribute, they are those that a
// machine has, and there may be no signer (see addMissing).
func warnExpiring(bundle *pki.Bundle, value types.Object, early types.String, now time.Time, diags *diag.Diagnostics) {
	if bundle == nil {
		return
	}
	before, _ := parseDuration(early)
	var words []string
	var authorities []pki.Authority
	for _, name := range slices.Sorted(maps.Keys(bundle.Signed)) {
		info, err := pki.Inspect(bundle.Signed[name].Certificate)
		if err == nil && now.Before(info.NotAfter) && info.Due(before, now) {
			words = append(words, fmt.Sprintf("%s expires on %s", name, info.NotAfter.UTC().Format(time.DateOnly)))
			authorities = append(authorities, issuersOf(bundle, info)...)
		}
	}
	if len(words) == 0 {
		return
	}
	next := "sign their requests again and apply."
	if value.IsNull() {
		next = "if a signer has the key of the CA, sign their requests of a kube_certificate_requests, and set signed. " +
			rotateInstead(authorities)
	}
	diags.AddAttributeWarning(attributePath("signed"), "Signed certificates expire soon",
		strings.Join(words, "; ")+".\nNext step: "+next)
}

// issuersOf returns the authorities with an external key that a certificate names as its issuer.
func issuersOf(bundle *pki.Bundle, certificate pki.Info) []pki.Authority {
	return slices.DeleteFunc(bundle.Externals(), func(authority pki.Authority) bool {
		ca, err := pki.Inspect(bundle.Signing(authority))
		return err != nil || ca.Subject != certificate.Issuer
	})
}

// signedChanged reports whether the signed pairs differ, or may differ, between two values.
// Sealing the same keys in another way is no difference.
func (s *session) signedChanged(ctx context.Context, before, after types.Object) bool {
	if before.Equal(after) {
		return false
	}
	var ignored diag.Diagnostics
	b, a := s.readSigned(ctx, before, &ignored), s.readSigned(ctx, after, &ignored)
	return ignored.HasError() || !b.known || !a.known || !maps.Equal(b.certificates, a.certificates) ||
		!maps.Equal(b.keys, a.keys)
}

// openKeys decodes what closeKeys encoded. Its errors do not quote the contents.
func openKeys(text string, seal *pki.Seal) (map[string]string, error) {
	var keys map[string]string
	if err := json.Unmarshal([]byte(text), &keys); err != nil || keys == nil {
		return nil, errors.New("it is not a JSON object of private keys by name")
	}
	for name, key := range keys {
		opened, err := seal.Open(key)
		if err != nil {
			return nil, fmt.Errorf("key of %s: %w", name, err)
		}
		keys[name] = opened
	}
	return keys, nil
}

// closeKeys encodes keys by name as JSON, each of them sealed.
func closeKeys(keys map[string]string, seal *pki.Seal) (string, error) {
	closed := map[string]string{}
	for name, key := range keys {
		text, err := seal.Close(key)
		if err != nil {
			return "", fmt.Errorf("key of %s: %w", name, err)
		}
		closed[name] = text
	}
	text, err := json.Marshal(closed)
	return string(text), err
}
