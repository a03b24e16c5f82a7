package provider

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/mapplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// addressOf returns the address in a resource's host attribute. It is unknown if any part of
// the attribute is unknown.
func addressOf(machine types.Object) types.String {
	address, ok := machine.Attributes()["address"].(types.String)
	if machine.IsUnknown() || !ok {
		return types.StringUnknown()
	}
	return address
}

// hostSchema describes the machine that the resource is on. A different address is a different
// machine, so changing it replaces the resource.
func hostSchema(what string) schema.Attribute {
	return hostSchemaWith(what, "A change replaces the resource.", stringplanmodifier.RequiresReplace())
}

// memberHostSchema describes the machine of an etcd member.
func memberHostSchema() schema.Attribute {
	return hostSchemaWith("on which the member runs", "A change replaces the member. With `volume`, it moves the member "+
		"with its data instead.", replacedWithoutVolume())
}

func hostSchemaWith(what, change string, replaced planmodifier.String) schema.Attribute {
	return schema.SingleNestedAttribute{
		Required:            true,
		MarkdownDescription: "The machine " + what + ". The provider's `ssh` block configures the connection.",
		Attributes: map[string]schema.Attribute{
			"address": schema.StringAttribute{
				Required:      true,
				Validators:    []validator.String{ipValidator()},
				PlanModifiers: []planmodifier.String{replaced},
				MarkdownDescription: "IP address of the machine, at which its peers reach it: IPv4, or IPv6 in canonical " +
					"form (`fd00::11`). " + change,
			},
		},
	}
}

func bundleAttribute(use string) schema.Attribute {
	return schema.StringAttribute{
		Required: true, Sensitive: true,
		MarkdownDescription: "The `bundle` of the cluster's `kube_pki_bundle`, " + use + ". A change caused by a " +
			"rotation stage, a new cluster name or a new seal updates the resource in place; the bundle of " +
			"another cluster replaces it.",
	}
}

// earlyRenewalSchema describes how long before their expiry certificates are renewed.
func earlyRenewalSchema(effect string) schema.Attribute {
	return schema.StringAttribute{
		Optional:      true,
		PlanModifiers: []planmodifier.String{sameDuration{}},
		Validators:    []validator.String{durationValidator(), earlyRenewalValidator()},
		MarkdownDescription: "How long before its expiry a certificate is renewed, such as `720h`. Default: a " +
			"third of its lifetime, which is four months for one year. " + effect +
			" A change restarts nothing; certificates that become due are renewed in the same apply.",
	}
}

// sealedForSchema describes the recipients for which private keys are sealed.
func sealedForSchema() schema.Attribute {
	return schema.SetAttribute{
		Computed: true, ElementType: types.StringType,
		MarkdownDescription: "Recipients (`age1…`) for whom the private keys are sealed; empty if they are stored " +
			"unencrypted.",
	}
}

// driftSchema describes the attribute in which Read stores the differences on the machine. The
// plan shows them and the next apply repairs them. more is the resource's addition to the
// description.
func driftSchema(more string) schema.Attribute {
	return schema.ListAttribute{
		Computed:    true,
		ElementType: types.StringType,
		MarkdownDescription: strings.TrimSpace("Differences between the machines and the configuration of this " +
			"resource. Every refresh detects them; if there are any, the plan shows an update that repairs them. " + more),
	}
}

func machineIDSchema() schema.Attribute {
	return schema.StringAttribute{
		Computed:            true,
		MarkdownDescription: "The machine's `/etc/machine-id`. A different value means that the machine was rebuilt.",
	}
}

func digestSchema() schema.Attribute {
	return schema.StringAttribute{
		Computed:            true,
		MarkdownDescription: "SHA-256 of the configuration observed on the machine.",
	}
}

func expirySchema(what string) schema.Attribute {
	return schema.StringAttribute{
		Computed:            true,
		MarkdownDescription: "Earliest expiry of " + what + ", RFC 3339.",
	}
}

// collection is a list or a set.
type collection interface {
	attr.Value
	Elements() []attr.Value
	ElementsAs(ctx context.Context, target any, allowUnhandled bool) diag.Diagnostics
}

// stringsOf returns the strings of a list in their order, and those of a set sorted: Terraform
// does not keep the order of a set. Null and unknown are nil.
func stringsOf(ctx context.Context, values collection, diags *diag.Diagnostics) []string {
	var out []string
	if values.IsNull() || values.IsUnknown() {
		return nil
	}
	diags.Append(values.ElementsAs(ctx, &out, false)...)
	if _, unordered := values.(types.Set); unordered {
		slices.Sort(out)
	}
	return out
}

func stringMapOf(ctx context.Context, m types.Map, diags *diag.Diagnostics) map[string]string {
	var out map[string]string
	if !m.IsNull() && !m.IsUnknown() {
		diags.Append(m.ElementsAs(ctx, &out, false)...)
	}
	return out
}

// lineValue returns text from a machine in a form that is safe to show in a state or a plan.
func lineValue(text string) types.String { return types.StringValue(problem.Line(text)) }

// lineOrNull is lineValue, but returns null for an empty text.
func lineOrNull(text string) types.String { return orNull(problem.Line(text)) }

// stringList returns a list that is never null, so that an empty list has one form only.
func stringList(items []string) types.List {
	values := make([]attr.Value, len(items))
	for i, item := range items {
		values[i] = lineValue(item)
	}
	return types.ListValueMust(types.StringType, values)
}

// stringsOrNull is stringList, but returns null for no items.
func stringsOrNull(items []string) types.List {
	if len(items) == 0 {
		return types.ListNull(types.StringType)
	}
	return stringList(items)
}

// stringSet returns a set that is never null.
func stringSet(items []string) types.Set {
	return types.SetValueMust(types.StringType, stringList(items).Elements())
}

func stringMap(items map[string]string) types.Map {
	values := make(map[string]attr.Value, len(items))
	for name, item := range items {
		values[name] = lineValue(item)
	}
	return types.MapValueMust(types.StringType, values)
}

// timeString formats t as RFC 3339 in UTC. The zero time becomes null.
func timeString(t time.Time) types.String {
	if t.IsZero() {
		return types.StringNull()
	}
	return types.StringValue(t.UTC().Format(time.RFC3339))
}

// kept preserves a computed value across updates. Use it for values that never change once set.
func kept() []planmodifier.String {
	return []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
}

func keptString(description string) schema.Attribute {
	return schema.StringAttribute{Computed: true, PlanModifiers: kept(), MarkdownDescription: description}
}

func keptMap(description string) schema.Attribute {
	return schema.MapAttribute{
		Computed: true, ElementType: types.StringType,
		PlanModifiers:       []planmodifier.Map{mapplanmodifier.UseStateForUnknown()},
		MarkdownDescription: description,
	}
}

// allKnown reports whether every value is set and known.
func allKnown(values ...attr.Value) bool {
	for _, value := range values {
		if value.IsNull() || value.IsUnknown() {
			return false
		}
	}
	return true
}

// elementsKnown reports whether a value and all its elements are known. Null is known.
func elementsKnown(ctx context.Context, value attr.Value) bool {
	if value.IsNull() { // the type of an absent object's nested attribute is not known either
		return true
	}
	raw, err := value.ToTerraformValue(ctx)
	return err == nil && raw.IsFullyKnown()
}
