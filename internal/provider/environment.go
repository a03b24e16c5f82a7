package provider

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

const environmentUse = "Environment variables, such as `HTTPS_PROXY`, `NO_PROXY` or `GODEBUG`. Their values are no " +
	"secrets: every user of the machine can read them, and they are in the state. "

// environmentSchema describes the variables of one unit.
func environmentSchema(description string) schema.Attribute {
	return schema.MapAttribute{Optional: true, ElementType: types.StringType, MarkdownDescription: description}
}

// replicaEnvironmentSchema describes the variables of the components of a replica.
func replicaEnvironmentSchema() schema.Attribute {
	components := map[string]schema.Attribute{}
	for attribute, name := range extraArgsComponents {
		components[attribute] = environmentSchema("Variables of " + name + ". Default: none.")
	}
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: environmentUse + "`GOMEMLIMIT` takes precedence over that of `resources`. Default: none. A " +
			"change restarts the component; for the API server, the replica leaves rotation during the restart, one " +
			"replica at a time.",
		Attributes: components,
	}
}

// environment returns the variables of each component that has some.
func (m replicaModel) environment(ctx context.Context, diags *diag.Diagnostics) map[string]map[string]string {
	out := map[string]map[string]string{}
	for attribute, name := range extraArgsComponents {
		if variables, ok := m.Environment.Attributes()[attribute].(types.Map); ok && len(variables.Elements()) > 0 {
			out[name] = stringMapOf(ctx, variables, diags)
		}
	}
	return out
}

// environmentModel is the attribute environment of a replica.
type environmentModel struct {
	APIServer         map[string]string `tfsdk:"apiserver"`
	ControllerManager map[string]string `tfsdk:"controller_manager"`
	Scheduler         map[string]string `tfsdk:"scheduler"`
}

// observedEnvironment returns the variables as an argument, nil if there are none.
func observedEnvironment(observed map[string]map[string]string) *environmentModel {
	if len(observed) == 0 {
		return nil
	}
	return &environmentModel{
		observed[release.APIServer], observed[release.ControllerManager], observed[release.Scheduler],
	}
}

// errNoVariables refuses what an import could not tell from no argument.
var errNoVariables = errors.New("it is empty: set a variable, or remove the argument")

// validateEnvironment checks the variables of the components, as far as they are known.
func (m replicaModel) validateEnvironment(ctx context.Context, diags *diag.Diagnostics) {
	at := path.Root("environment")
	if m.Environment.IsNull() || m.Environment.IsUnknown() {
		return
	}
	set := false
	for _, attribute := range slices.Sorted(maps.Keys(extraArgsComponents)) {
		variables, ok := m.Environment.Attributes()[attribute].(types.Map)
		if ok && !variables.IsNull() {
			set = true
			validateVariables(ctx, variables, systemd.ValidateEnvironment, at.AtName(attribute), diags)
		}
	}
	if !set {
		addInvalid(diags, at, "Invalid environment", errNoVariables)
	}
}

// validateEnvironment checks the variables of a member, as far as they are known.
func (m etcdMemberModel) validateEnvironment(ctx context.Context, diags *diag.Diagnostics) {
	validateVariables(ctx, m.Environment, machine.ValidateEnvironment, path.Root("environment"), diags)
}

func validateVariables(
	ctx context.Context, variables types.Map, validate func(map[string]string) error, at path.Path,
	diags *diag.Diagnostics,
) {
	if variables.IsNull() || !elementsKnown(ctx, variables) {
		return
	}
	err, values := errNoVariables, stringMapOf(ctx, variables, diags)
	if len(values) > 0 {
		err = validate(values)
	}
	if proxy := systemd.ProxyWithoutExceptions(values); proxy != "" {
		diags.AddAttributeWarning(at, "Proxy without exceptions", proxy+" is set, and NO_PROXY is not: requests to etcd, "+
			"to other machines of the control plane and to nodes go through the proxy too.\nNext step: list in NO_PROXY the "+
			"networks of the machines, of Services and of Pods, and .svc.")
	}
	if err != nil {
		addInvalid(diags, at, "Invalid environment", err)
	}
}
