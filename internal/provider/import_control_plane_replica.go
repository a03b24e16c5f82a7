package provider

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
)

func (r *replicaResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = addressIdentity("IP address of the machine, on which its API server listens.")
}

// ImportState reads the replica from its machine.
func (r *replicaResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	machine := r.machineFor(ctx, req, &resp.Diagnostics)
	if machine == nil {
		return
	}
	ctx, cancel := operation(ctx, importTime, "kube_control_plane_replica", machine.Address())
	defer cancel()
	found, err := r.session.replicas.Import(ctx, machine, func(text json.RawMessage) (string, error) {
		registration, err := registrationIn(text)
		return registration.Address, err
	})
	if err != nil {
		addError(&resp.Diagnostics, path.Empty(), "Control-plane replica not imported", err)
		return
	}
	i := importer{ctx, resp}
	i.set("id", found.Name)
	i.set("name", found.Name)
	i.set("host.address", machine.Address())
	i.registration(found.Registration)
	i.set("etcd", found.EtcdURLs)
	i.set("version", found.Version)
	i.set("port", int64(found.Port))
	i.set("service_cidrs", found.ServiceCIDRs)
	i.set("pod_cidrs", found.PodCIDRs)
	i.set("cluster_domain", found.ClusterDomain)
	i.set("extra_sans", found.ExtraSANs)
	i.set("early_renewal", durationText(found.EarlyRenewal))
	i.set("admin_conf", !found.NoAdminConf)
	i.extraArgs(found)
	given := settingsOfReplica(found)
	i.set("audit", given.Audit)
	i.set("authentication", given.Authentication)
	i.set("resources", given.Resources)
	i.set("supplementary_groups", given.Groups)
	i.files(found, given.Files)
	i.keepCluster(found.ClusterID)
	identify(ctx, resp.Identity, addressValue(machine), &resp.Diagnostics)
}

// registration sets where a replica is registered.
func (i importer) registration(text json.RawMessage) {
	registration, err := registrationIn(text)
	if err != nil {
		return // Import has already rejected it
	}
	object, diags := registrationObject(i.ctx, registration)
	i.resp.Diagnostics.Append(diags...)
	i.set("endpoint", object)
}

// registrationIn decodes the text that registrationText encoded.
func registrationIn(text json.RawMessage) (endpoint.Registration, error) {
	var registration endpoint.Registration
	if len(text) == 0 {
		return registration, errors.New("there is none")
	}
	if err := json.Unmarshal(text, &registration); err != nil || registration.Address == "" {
		return registration, errors.New("it is not a registration of an endpoint")
	}
	return registration, nil
}

func registrationObject(ctx context.Context, r endpoint.Registration) (types.Object, diag.Diagnostics) {
	return types.ObjectValueFrom(ctx, registrationTypes, registrationModel{
		Address:      types.StringValue(r.Address),
		Port:         types.Int64Value(int64(r.Port)),
		Hosts:        stringMap(r.Hosts),
		DrainTimeout: durationText(r.DrainTimeout),
		VerifyCA:     types.BoolValue(r.VerifyCA),
		ClusterID:    stringOrNull(r.ClusterID),
	})
}
