package provider

import (
	"cmp"
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/defaults"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// TestArgumentsSayWhatAChangeDoes checks the arguments of every resource. Each description
// states the effect of a change, or that of an enclosing or nested argument does. An argument
// that replaces the resource states so itself, and no other does. An argument with a default
// names it, and a duration shows an example.
func TestArgumentsSayWhatAChangeDoes(t *testing.T) {
	for _, make := range (&kubeProvider{}).Resources(t.Context()) {
		var name resource.MetadataResponse
		var made resource.SchemaResponse
		make().Metadata(t.Context(), resource.MetadataRequest{ProviderTypeName: "kube"}, &name)
		make().Schema(t.Context(), resource.SchemaRequest{}, &made)
		for _, a := range argumentsIn(name.TypeName, false, made.Schema.Attributes) {
			for _, failure := range a.problems(t.Context()) {
				t.Errorf("%s %s\n\tit says: %s", a.at, failure, a.text())
			}
		}
	}
}

// argument is an optional or required argument of a configuration.
type argument struct {
	schema.Attribute
	at      string // path of names
	covered bool   // an enclosing argument, or all nested ones, state the effect of a change
}

// argumentsIn returns the arguments among attributes by name, including all nested ones.
func argumentsIn(at string, covered bool, attributes map[string]schema.Attribute) []argument {
	var out []argument
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		a := argument{attributes[name], at + "." + name, covered}
		if !a.IsOptional() && !a.IsRequired() {
			continue
		}
		nested, ok := a.Attribute.(schema.SingleNestedAttribute)
		if !ok {
			out = append(out, a)
			continue
		}
		within := argumentsIn(a.at, covered || a.saysChange(), nested.Attributes)
		a.covered = a.covered || !slices.ContainsFunc(within, func(of argument) bool {
			return !of.covered && !of.saysChange()
		})
		out = append(append(out, a), within...)
	}
	return out
}

var (
	change      = regexp.MustCompile(`\bA change\b`)
	replacement = regexp.MustCompile(`\bA change replaces the \w+`)
	duration    = regexp.MustCompile("`[0-9]+(ms|s|m|h)`")
)

func (a argument) saysChange() bool { return change.MatchString(a.text()) }

// text returns the argument's description. The library of the timeouts does not write Markdown.
func (a argument) text() string { return cmp.Or(a.GetMarkdownDescription(), a.GetDescription()) }

// problems returns what its description lacks, or contains by mistake.
func (a argument) problems(ctx context.Context) []string {
	text := a.text()
	var out []string
	if !a.covered && !a.saysChange() {
		out = append(out, "does not say what a change does")
	}
	if says := replacement.MatchString(text); says != a.replaces(ctx) {
		out = append(out, "is to say that a change replaces the resource if, and only if, it does")
	}
	if value := a.standard(ctx); value != nil && !strings.Contains(text, "`"+spelled(value)+"`") {
		out = append(out, "does not name its default, "+spelled(value))
	}
	if a.isDuration(ctx) && !duration.MatchString(text) {
		out = append(out, "is a duration and does not show one")
	}
	return out
}

// replaces reports whether every change of it plans a replacement.
func (a argument) replaces(ctx context.Context) bool {
	var words []string
	switch a := a.Attribute.(type) {
	case schema.StringAttribute:
		words = describedBy(ctx, a.PlanModifiers)
	case schema.ListAttribute:
		words = describedBy(ctx, a.PlanModifiers)
	case schema.SetAttribute:
		words = describedBy(ctx, a.PlanModifiers)
	case schema.Int64Attribute:
		words = describedBy(ctx, a.PlanModifiers)
	case schema.MapAttribute:
		words = describedBy(ctx, a.PlanModifiers)
	case schema.BoolAttribute:
		words = describedBy(ctx, a.PlanModifiers)
	}
	return slices.ContainsFunc(words, func(of string) bool { return strings.Contains(of, "destroy and recreate") })
}

func describedBy[M planmodifier.Describer](ctx context.Context, modifiers []M) []string {
	words := make([]string, len(modifiers))
	for i, modifier := range modifiers {
		words[i] = modifier.Description(ctx)
	}
	return words
}

// standard returns the default in the schema, or nil if there is none. The default of a nested
// attribute is that of its arguments.
func (a argument) standard(ctx context.Context) attr.Value {
	switch a := a.Attribute.(type) {
	case schema.StringAttribute:
		if a.Default != nil {
			var is defaults.StringResponse
			a.Default.DefaultString(ctx, defaults.StringRequest{}, &is)
			return is.PlanValue
		}
	case schema.Int64Attribute:
		if a.Default != nil {
			var is defaults.Int64Response
			a.Default.DefaultInt64(ctx, defaults.Int64Request{}, &is)
			return is.PlanValue
		}
	case schema.BoolAttribute:
		if a.Default != nil {
			var is defaults.BoolResponse
			a.Default.DefaultBool(ctx, defaults.BoolRequest{}, &is)
			return is.PlanValue
		}
	case schema.ListAttribute:
		if a.Default != nil {
			var is defaults.ListResponse
			a.Default.DefaultList(ctx, defaults.ListRequest{}, &is)
			return is.PlanValue
		}
	case schema.SetAttribute:
		if a.Default != nil {
			var is defaults.SetResponse
			a.Default.DefaultSet(ctx, defaults.SetRequest{}, &is)
			return is.PlanValue
		}
	}
	return nil
}

// spelled formats a value as descriptions do: text without quotes.
func spelled(value attr.Value) string {
	if text, ok := value.(types.String); ok {
		return text.ValueString()
	}
	return value.String()
}

func (a argument) isDuration(ctx context.Context) bool {
	text, ok := a.Attribute.(schema.StringAttribute)
	return ok && slices.ContainsFunc(text.Validators, func(v validator.String) bool {
		return v.Description(ctx) == durationValidator().Description(ctx)
	})
}
