package provider

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/drill"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// drillKind is the type name of the action and of the resource.
const drillKind = "kube_etcd_restore_drill"

// drillTime limits a drill. Its machine ends it after an hour by itself.
const drillTime = 75 * time.Minute

// drillModel has the arguments of a restore drill.
type drillModel struct {
	PKI             types.String `tfsdk:"pki"`
	Peers           types.Map    `tfsdk:"peers"`
	Member          types.String `tfsdk:"member"`
	Snapshot        types.String `tfsdk:"snapshot"`
	Fetch           types.String `tfsdk:"fetch"`
	EnvironmentFile types.String `tfsdk:"environment_file"`
	IdentityFile    types.String `tfsdk:"identity_file"`
}

// Descriptions of the arguments, which the action and the resource share.
const (
	drillAbout = "On the machine of one member, the newest snapshot is verified and restored in a directory of its own, " +
		"and served by an etcd and an API server of the installed versions, in a network namespace in which there is " +
		"nothing else. Every Secret is read with the present keys, objects are counted by resource and compared with " +
		"the live cluster, and a token of a service account is verified. The drill gets what the live processes leave of " +
		"processors and disks, at most half of the free memory, and no space that etcd needs. Afterwards, nothing of it is " +
		"left on the machine but a record of the result, which `kube_control_plane`, `kube_production_readiness` and the " +
		"facts for node_exporter show. A drill that fails is an error"
	drillMember = "Name of the member on whose machine the drill runs. The machine must have a replica too. Default: a " +
		"machine whose member has a bucket (`snapshots.s3`), otherwise that with the newest snapshot; with `fetch`, the " +
		"first by name; with `snapshot`, the first that has the file."
	drillSnapshot = "Absolute path of a snapshot on the machine. Conflicts with `fetch`. Default: the newest one in the " +
		"bucket of the member (`snapshots.s3`), fetched with the variables of `snapshots.environment_file`, or without a " +
		"bucket, the newest one on the machine, which does not prove that uploaded ones can be fetched."
	drillFetch = "Commands that fetch the newest snapshot to the path in their variable `SNAPSHOT`: the counterpart of " +
		"`snapshots.upload`. They run with `/bin/sh -eu` as root, for at most an hour, with the variables of " +
		"`environment_file`. Put secrets there. Default: none."
	drillEnvironment = "Absolute path of a file on the machine with variables for `fetch`, one `NAME=value` per line. " +
		"Default: none."
	drillIdentity = "Path of a file with an age identity, on the computer that runs Terraform, for a bucket whose " +
		"snapshots are encrypted (`snapshots.s3.recipients`). It is sent to the machine for the time of the fetch, in " +
		"memory, and is in no state or plan. Default: none."
)

// validateDrill refuses arguments that exclude each other.
func (m drillModel) validateDrill(diags *diag.Diagnostics) {
	set := func(v types.String) bool { return !v.IsNull() }
	refuse := func(attribute, cause string) {
		addInvalid(diags, path.Root(attribute), "Invalid restore drill", errors.New(cause))
	}
	switch {
	case set(m.Snapshot) && set(m.Fetch):
		refuse("fetch", "snapshot and fetch exclude each other: the drill restores one snapshot")
	case set(m.EnvironmentFile) && !set(m.Fetch) && !m.Fetch.IsUnknown():
		refuse("environment_file", "environment_file is for fetch, which is not set: a snapshot in the bucket is fetched "+
			"with the snapshots.environment_file of the member")
	case set(m.IdentityFile) && (set(m.Snapshot) || set(m.Fetch)):
		refuse("identity_file", "identity_file is for the bucket of the member: snapshot and fetch bring what is not "+
			"encrypted")
	}
}

// specs returns the drills from which one is chosen.
func (m drillModel) specs(ctx context.Context, s *session, diags *diag.Diagnostics) []drill.Spec {
	bundle, peers := s.mustBundle(m.PKI, diags), stringMapOf(ctx, m.Peers, diags)
	source := drill.Source{
		Snapshot: m.Snapshot.ValueString(), Fetch: m.Fetch.ValueString(), EnvironmentFile: m.EnvironmentFile.ValueString(),
	}
	if file := m.IdentityFile.ValueString(); file != "" {
		text, err := readNamed(file)
		if err != nil {
			addInvalid(diags, path.Root("identity_file"), "Invalid restore drill", err)
		}
		source.Identity = text
	}
	if diags.HasError() {
		return nil
	}
	var all []drill.Spec
	for name, address := range peers {
		if err := machine.ValidatePeers(name, address, peers); err != nil {
			addInvalid(diags, path.Root("peers"), "Invalid restore drill", err)
			return nil
		}
		if wanted := m.Member.ValueString(); wanted == "" || wanted == name {
			all = append(all, drill.Spec{Member: name, Host: s.machine(address), Bundle: bundle, Source: source})
		}
	}
	if len(all) == 0 {
		addInvalid(diags, path.Root("peers"), "Invalid restore drill", errors.New("peers has no such member"))
	}
	return all
}

// run runs the drill on the machine that fits best.
func (m drillModel) run(ctx context.Context, s *session, diags *diag.Diagnostics) snapshot.Drill {
	specs := m.specs(ctx, s, diags)
	if diags.HasError() {
		return snapshot.Drill{}
	}
	chosen, err := drill.Choose(ctx, specs)
	if err != nil {
		addError(diags, path.Root("peers"), "Restore drill failed", &problem.Problem{
			Summary: "Restore drill failed", Cause: err.Error(), Err: err, Unchanged: problem.Nothing,
			Next: "choose a member whose machine has a replica and can be reached, and a source of the snapshot, then try again",
		})
		return snapshot.Drill{}
	}
	result, err := drill.Run(ctx, chosen)
	if len(result.Uncounted) > 0 {
		diags.AddWarning("Custom resources not counted", "The restore drill has neither counted nor compared the objects of "+
			"these resources, because only a conversion webhook of the cluster can read what is stored of them: "+
			strings.Join(result.Uncounted, ", ")+". Their data is restored with the rest. A drill counts them when all of "+
			"their objects are stored in the version that the API server prefers.")
	}
	if err != nil {
		addError(diags, path.Root("peers"), "Restore drill failed", err)
	}
	return result
}

// validateIdentityFile accepts a path. The attribute is not sensitive, so a plan shows it.
func validateIdentityFile(file string) error {
	if strings.TrimSpace(file) == "" {
		return errors.New("identity_file is empty")
	}
	return pki.ValidateSecretFile(file)
}
