package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
	etcdrelease "github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
)

func etcdMemberSchema(ctx context.Context) schema.Schema {
	attributes := etcdMemberArguments()
	for name, attribute := range etcdMemberComputed() {
		attributes[name] = attribute
	}
	attributes["timeouts"] = timeLimits(timeouts.Attributes(ctx, timeouts.Opts{
		Create: true, Read: true, Update: true, Delete: true,
		CreateDescription: "Default `1h`: installing, joining as a learner, catching up, promotion. A member of which nothing moves for a minute is given up sooner.",
		ReadDescription:   "Default `1m`.",
		UpdateDescription: "Default `1h`: members change one at a time, so the last one waits for all others.",
		DeleteDescription: "Default `10m`.",
	}))
	return schema.Schema{
		Version: 2,
		MarkdownDescription: "One etcd member on one machine. Members of a `for_each` make one cluster: those that are created together bootstrap it, " +
			"later ones join as learners and are promoted when they have caught up; a destroyed one hands over leadership, is removed through another member, " +
			"and then stops. No step is taken that would lose quorum.",
		Attributes: attributes,
	}
}

func etcdMemberArguments() map[string]schema.Attribute {
	replaced := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	return map[string]schema.Attribute{
		"name": schema.StringAttribute{
			Required: true, PlanModifiers: replaced,
			Validators:          []validator.String{checked("member name", etcd.ValidateName)},
			MarkdownDescription: "Name of the member, unique in its cluster. A change replaces the member.",
		},
		"host": hostSchema("on which the member runs"),
		"peers": schema.MapAttribute{
			Required: true, ElementType: types.StringType,
			MarkdownDescription: "Addresses of all machines of the cluster, this one included, by member name: where to look for the cluster. " +
				"A change never restarts a member. A member that the cluster lists and that is not named here, by its name at its address, shows up in `drift` of every member: add it, or remove it from the cluster.",
		},
		"pki":    bundleAttribute("from which the member's certificates are issued"),
		"signed": signedSchema(),
		"early_renewal": earlyRenewalSchema("A certificate that is due shows up in `drift`; the next apply renews it, and nothing restarts: " +
			"etcd reads its certificates at each handshake."),
		"version": schema.StringAttribute{
			Required:            true,
			Validators:          []validator.String{checked("etcd version", etcdrelease.ValidateVersion)},
			MarkdownDescription: "etcd version, such as `3.6.16`. A change restarts the members one at a time, the leader last. What the cluster, as it runs, does not allow is refused in the plan.",
		},
		"extra_args": schema.MapAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "Further flags of etcd, without dashes, such as `quota-backend-bytes`. They win over the defaults (gates in `feature-gates` are added to the provider's). " +
				"By default the quota is 8 GiB. A change restarts the members one at a time, the leader last.",
		},
		"resources": limitsSchema("etcd"),
		"snapshots": snapshotsSchema(),
		"upgrade_snapshots_kept": schema.Int64Attribute{
			Optional: true, Computed: true, Default: int64default.StaticInt64(etcd.DefaultSnapshotsKept),
			Validators: []validator.Int64{int64validator.Between(1, 1000)},
			MarkdownDescription: fmt.Sprintf("How many snapshots stay on the machine of those that are saved and verified there before an upgrade, of etcd or of Kubernetes (`snapshots.kept` is the number of scheduled ones). They are in `data_dir`-archive/upgrades, "+
				"and the oldest go first. Default `%d`. A change restarts nothing; the next snapshot removes what is too many.", etcd.DefaultSnapshotsKept),
		},
		"archives_kept": schema.Int64Attribute{
			Optional: true, Computed: true, Default: int64default.StaticInt64(etcd.DefaultArchivesKept),
			Validators: []validator.Int64{int64validator.Between(1, 1000)},
			MarkdownDescription: fmt.Sprintf("How many archives of `data_dir` stay on the machine (see `on_destroy`). Default `%d`. A new one removes the oldest beyond that; "+
				"of those with the snapshot of a last member, as many stay besides. A change touches nothing.", etcd.DefaultArchivesKept),
		},
		"data_dir": schema.StringAttribute{
			Optional: true, Computed: true, PlanModifiers: replaced,
			Default:             stringdefault.StaticString(etcd.DefaultDataDir),
			Validators:          []validator.String{checked("data directory", etcd.ValidateDataDir)},
			MarkdownDescription: "Directory of the member's data. Default `" + etcd.DefaultDataDir + "`. A change replaces the member.",
		},
		"on_destroy": schema.StringAttribute{
			Optional: true, Computed: true,
			Default:    stringdefault.StaticString(string(etcd.Archive)),
			Validators: []validator.String{stringvalidator.OneOf(string(etcd.Archive), string(etcd.Wipe))},
			MarkdownDescription: "What becomes of the data when the member is destroyed: `archive` (the default) renames it into `data_dir`-archive on the machine, " +
				"or into `data_dir`/archive where that is on a file system of its own, so that nothing is ever copied, and the last member leaves a snapshot there too " +
				"(without room for it, it stays); `wipe` removes it. A change touches nothing.",
		},
	}
}

func etcdMemberComputed() map[string]schema.Attribute {
	seen := func(description string) schema.StringAttribute {
		return schema.StringAttribute{Computed: true, MarkdownDescription: description}
	}
	return map[string]schema.Attribute{
		"id":                     seen("etcd's identifier of the member, hexadecimal."),
		"client_url":             seen("Where API servers reach the member."),
		"peer_url":               seen("Where the other members reach it."),
		"machine_id":             machineIDSchema(),
		"config_digest":          digestSchema(),
		"certificate_expires_at": expirySchema("the member's certificates"),
		"learner":                schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether the member is a learner, without a vote."},
		"drift": driftSchema("An alarm of etcd is listed too, and repaired where that is safe: `NOSPACE` by giving back free space, " +
			"`CORRUPT` by a new member in its place, with the data of the others."),
	}
}
