package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
)

// The arguments extra_args and repeated_args of a replica. A map in Terraform has elements of
// one type, so flags with one value and flags that repeat are two arguments. Beyond this file
// they are one map of flags (see component.Repeated).

// extraArgsComponents maps each attribute of extra_args and repeated_args to its component.
var extraArgsComponents = map[string]string{
	"apiserver":          "kube-apiserver",
	"controller_manager": "kube-controller-manager",
	"scheduler":          "kube-scheduler",
}

// extraArgs returns the flags of each component, those that repeat included.
func (m replicaModel) extraArgs(ctx context.Context, diags *diag.Diagnostics) map[string]map[string]string {
	out := map[string]map[string]string{}
	for attribute, name := range extraArgsComponents {
		if args, ok := m.ExtraArgs.Attributes()[attribute].(types.Map); ok {
			out[name] = stringMapOf(ctx, args, diags)
		}
		for flag, values := range m.repeatedArgs(ctx, attribute, diags) {
			if out[name] == nil {
				out[name] = map[string]string{}
			}
			out[name][flag] = component.Repeated(values...)
		}
	}
	return out
}

// repeatedArgs returns the flags of a component that repeat.
func (m replicaModel) repeatedArgs(ctx context.Context, attribute string, diags *diag.Diagnostics) map[string][]string {
	var out map[string][]string
	if args, ok := m.RepeatedArgs.Attributes()[attribute].(types.Map); ok && !args.IsNull() && elementsKnown(ctx, args) {
		diags.Append(args.ElementsAs(ctx, &out, false)...)
	}
	return out
}

// repeatedFlags returns the names of the flags in repeated_args, by component.
func (m replicaModel) repeatedFlags(ctx context.Context) map[string][]string {
	var ignored diag.Diagnostics // decoding for the machine reports the same diagnostics
	out := map[string][]string{}
	for attribute, name := range extraArgsComponents {
		if flags := m.repeatedArgs(ctx, attribute, &ignored); len(flags) > 0 {
			out[name] = slices.Sorted(maps.Keys(flags))
		}
	}
	return out
}

// validateArgs checks extra_args and repeated_args, as far as their values are known.
func (m replicaModel) validateArgs(ctx context.Context, diags *diag.Diagnostics) {
	for attribute, name := range extraArgsComponents {
		args, _ := m.ExtraArgs.Attributes()[attribute].(types.Map)
		lists, _ := m.RepeatedArgs.Attributes()[attribute].(types.Map)
		if !elementsKnown(ctx, args) || !elementsKnown(ctx, lists) || m.ExtraArgs.IsUnknown() || m.RepeatedArgs.IsUnknown() {
			continue
		}
		extra, repeated := stringMapOf(ctx, args, diags), m.repeatedArgs(ctx, attribute, diags)
		if err := errors.Join(oneValueEach(name, extra), component.ValidateExtraArgs(name, m.Version.ValueString(),
			extra)); err != nil {
			addInvalid(diags, path.Root("extra_args").AtName(attribute), "Invalid extra arguments", err)
		}
		if err := validateRepeated(name, m.Version.ValueString(), extra, repeated); err != nil {
			addInvalid(diags, path.Root("repeated_args").AtName(attribute), "Invalid repeated arguments", err)
		}
	}
}

// oneValueEach refuses several values in one.
func oneValueEach(name string, extra map[string]string) error {
	for _, flag := range slices.Sorted(maps.Keys(extra)) {
		if len(component.Values(extra[flag])) > 1 {
			return fmt.Errorf("%s: the value of flag %q has several lines; put a flag that repeats into repeated_args", name,
				flag)
		}
	}
	return nil
}

func validateRepeated(name, version string, extra map[string]string, repeated map[string][]string) error {
	if err := component.ValidateRepeatedArgs(name, repeated); err != nil {
		return err
	}
	joined := map[string]string{}
	for flag, values := range repeated {
		if _, twice := extra[flag]; twice {
			return fmt.Errorf("%s: flag %q is also in extra_args; remove it there", name, flag)
		}
		for _, value := range values {
			if strings.ContainsAny(value, "\n") {
				return fmt.Errorf("%s: a value of flag %q has several lines", name, flag)
			}
		}
		joined[flag] = component.Repeated(values...)
	}
	return component.ValidateExtraArgs(name, version, joined)
}

// importedArgs splits the flags that an import has found: those that repeat, and those that the
// record has in repeated_args.
func importedArgs(
	observed controlplane.Imported) (extra map[string]map[string]string, repeated map[string]map[string][]string,
) {
	lists := recorded[resourcesModel](observed.Settings).Repeated
	extra, repeated = map[string]map[string]string{}, map[string]map[string][]string{}
	for name, flags := range observed.ExtraArgs {
		extra[name] = maps.Clone(flags)
		for flag, text := range flags {
			values := component.Values(text)
			if len(values) == 1 && !slices.Contains(lists[name], flag) {
				continue
			}
			if repeated[name] == nil {
				repeated[name] = map[string][]string{}
			}
			repeated[name][flag] = values
			delete(extra[name], flag)
		}
		if len(extra[name]) == 0 && repeated[name] != nil {
			extra[name] = nil
		}
	}
	// extra_args with any component has all of them, null or not.
	if len(extra) < len(extraArgsComponents) && !slices.ContainsFunc(slices.Collect(maps.Values(extra)),
		func(flags map[string]string) bool { return flags != nil }) {
		extra = nil
	}
	return extra, repeated
}

// extraArgs sets extra_args and repeated_args for each component. If no component has any, the
// attribute is null.
func (i importer) extraArgs(observed controlplane.Imported) {
	extra, repeated := importedArgs(observed)
	if len(extra) > 0 {
		i.set("extra_args", componentArgs(types.StringType, func(name string) (types.Map, bool) {
			return stringMap(extra[name]), extra[name] != nil
		}))
	}
	lists := types.ListType{ElemType: types.StringType}
	if len(repeated) > 0 {
		i.set("repeated_args", componentArgs(lists, func(name string) (types.Map, bool) {
			values := map[string]attr.Value{}
			for flag, of := range repeated[name] {
				values[flag] = stringList(of)
			}
			return types.MapValueMust(lists, values), repeated[name] != nil
		}))
	}
}

// componentArgs returns an object with the flags of each component; null if it has none.
func componentArgs(element attr.Type, of func(component string) (types.Map, bool)) types.Object {
	kinds, values := map[string]attr.Type{}, map[string]attr.Value{}
	for attribute, name := range extraArgsComponents {
		kinds[attribute], values[attribute] = types.MapType{ElemType: element}, types.MapNull(element)
		if args, ok := of(name); ok {
			values[attribute] = args
		}
	}
	return types.ObjectValueMust(kinds, values)
}
