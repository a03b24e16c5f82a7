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

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	etcdrelease "github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
)

func etcdMemberSchema(ctx context.Context) schema.Schema {
	attributes := etcdMemberArguments()
	for name, attribute := range etcdMemberComputed() {
		attributes[name] = attribute
	}
	attributes["timeouts"] = timeLimits(timeouts.Attributes(ctx, timeouts.Opts{
		Create: true, Read: true, Update: true, Delete: true,
		CreateDescription: "Default `1h`, which includes installation, joining as a learner, catching up and " +
			"promotion. A member without progress for a minute fails earlier.",
		ReadDescription:   "Default `1m`.",
		UpdateDescription: "Default `1h`: members change one at a time, so the last one waits for all others.",
		DeleteDescription: "Default `10m`.",
	}))
	return schema.Schema{
		Version: 2,
		MarkdownDescription: "One etcd member on one machine. Members of a `for_each` form one cluster: members " +
			"that are created together bootstrap it, later members join as learners and are promoted when they " +
			"have caught up; a destroyed member hands over leadership, is removed through another member, and " +
			"then stops. The provider refuses every step that would lose quorum.",
		Attributes: attributes,
	}
}

func etcdMemberArguments() map[string]schema.Attribute {
	replaced := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	return map[string]schema.Attribute{
		"name": schema.StringAttribute{
			Required: true, PlanModifiers: replaced,
			Validators:          []validator.String{checked("member name", machine.ValidateName)},
			MarkdownDescription: "Unique DNS name of the member, at most 64 characters. A change replaces the member.",
		},
		"host":     memberHostSchema(),
		"endpoint": memberEndpointSchema(), "additional_endpoints": memberAdditionalSchema(),
		"peers": schema.MapAttribute{
			Required: true, ElementType: types.StringType,
			MarkdownDescription: "Addresses of all machines of the cluster, including this one, by member name. " +
				"The provider discovers the cluster through them. A change never restarts a member. If the " +
				"cluster lists a member that is not in `peers` with its name and address, `drift` of every member " +
				"reports it: add it, or remove it from the cluster.",
		},
		"pki":    bundleAttribute("from which the member's certificates are issued"),
		"signed": signedSchema(),
		"early_renewal": earlyRenewalSchema("A certificate that is due is listed in `drift`, and the next apply " +
			"renews it without a restart: etcd reads its certificates at each handshake."),
		"version": schema.StringAttribute{
			Required:   true,
			Validators: []validator.String{checked("etcd version", etcdrelease.ValidateVersion)},
			MarkdownDescription: "etcd version, such as `3.6.16`. A change restarts the members one at a time, " +
				"the leader last. An older minor version, at most one, is a downgrade of the cluster: see the guide " +
				"Upgrading. The plan refuses a version that the running cluster does not allow.",
		},
		"runtime": runtimeSchema(), "image": imageSchema(), "patch": patchSchema(), "install_kubelet": installKubeletSchema(),
		"extra_args": schema.MapAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "Additional flags of etcd, without dashes, such as `quota-backend-bytes`. They " +
				"take precedence over the defaults (gates in `feature-gates` are added to the provider's). The " +
				"default quota is 8 GiB. A change restarts the members one at a time, the leader last.",
		},
		"environment": environmentSchema(environmentUse + "Names that begin with `ETCD_` are refused: they are flags, see " +
			"`extra_args`. Default: none. A change restarts the members one at a time, the leader last."),
		"resources": limitsSchema("etcd"),
		"metrics":   memberMetricsSchema(),
		"liveness_probe": livenessSchema("A member that has failed eight probes in a row is restarted, if all " +
			"other members are healthy and no other member or API server of the cluster was restarted within four " +
			"minutes."),
		"snapshots":   snapshotsSchema(),
		"maintenance": memberMaintenanceSchema(),
		"restore":     restoreSchema(),
		"upgrade_snapshots_kept": schema.Int64Attribute{
			Optional: true, Computed: true, Default: int64default.StaticInt64(snapshot.DefaultKept),
			Validators: []validator.Int64{int64validator.Between(1, 1000)},
			MarkdownDescription: fmt.Sprintf("Number of upgrade snapshots kept on the machine, 1–1000 (`snapshots.kept` "+
				"is the number of scheduled ones). They are saved and verified there before an upgrade of etcd or "+
				"Kubernetes, in `data_dir`-archive/upgrades, and the oldest are removed first. Default `%d`. A "+
				"change restarts nothing; the next snapshot removes the surplus ones.", snapshot.DefaultKept),
		},
		"archives_kept": schema.Int64Attribute{
			Optional: true, Computed: true, Default: int64default.StaticInt64(machine.DefaultArchivesKept),
			Validators: []validator.Int64{int64validator.Between(1, 1000)},
			MarkdownDescription: fmt.Sprintf("Number of archives of `data_dir` kept on the machine, 1–1000 (see "+
				"`on_destroy`). Default `%d`. A new archive removes the oldest surplus ones; the same number of "+
				"archives with the final snapshot of a last member is kept in addition. A change affects nothing "+
				"on the machine.", machine.DefaultArchivesKept),
		},
		"data_dir": schema.StringAttribute{
			Optional: true, Computed: true, PlanModifiers: replaced,
			Default:    stringdefault.StaticString(layout.DefaultDataDir),
			Validators: []validator.String{checked("data directory", machine.ValidateDataDir)},
			MarkdownDescription: "Data directory of the member. Default `" + layout.DefaultDataDir +
				"`. With `volume`, it must be below `volume.mount_path`. A change replaces the member.",
		},
		"archived_data_dir": archivedSchema(),
		"volume":            volumeSchema(),
		"on_destroy": schema.StringAttribute{
			Optional: true, Computed: true,
			Default:    stringdefault.StaticString(string(machine.Archive)),
			Validators: []validator.String{stringvalidator.OneOf(string(machine.Archive), string(machine.Wipe))},
			MarkdownDescription: "What happens to the data when the member is destroyed: `archive` (the default) " +
				"renames it into `data_dir`-archive on the machine, or into `data_dir`/archive if `data_dir` is a " +
				"separate file system, so that data is never copied; the last member also saves a final snapshot " +
				"there (without enough space for it, the destroy is refused); `wipe` removes the data, but not " +
				"that of a cluster that a restore has given up. A change affects nothing on the machine.",
		},
	}
}

func etcdMemberComputed() map[string]schema.Attribute {
	seen := func(description string) schema.StringAttribute {
		return schema.StringAttribute{Computed: true, MarkdownDescription: description}
	}
	return map[string]schema.Attribute{
		"id":         seen("Member ID in etcd, hexadecimal."),
		"client_url": seen("URL at which API servers reach the member."),
		"peer_url":   seen("URL at which the other members reach it."),
		"machine_id": seen("`/etc/machine-id` of the machine on which the member ran last. It stays while a machine " +
			"without the member has its address, and changes when the member runs on another machine."),
		"config_digest":          digestSchema(),
		"certificate_expires_at": expirySchema("the member's certificates"),
		"learner": schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether the member " +
			"is a learner, which has no vote."},
		"drift": driftSchema("Alarms of etcd are listed too, and repaired if that is safe: `NOSPACE` by " +
			"defragmentation, `CORRUPT` by replacing the member, which gets the data of the other members."),
	}
}
