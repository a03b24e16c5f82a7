package provider

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
)

func (r *replicaResource) IdentitySchema(
	_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse,
) {
	resp.IdentitySchema = addressIdentity("IP address of the machine, on which its API server listens.")
}

// ImportState reads the replica from its machine.
func (r *replicaResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	machine := r.machineFor(ctx, req, &resp.Diagnostics)
	if machine == nil {
		return
	}
	ctx, cancel := operation(ctx, importTime, "kube_control_plane_replica", machine.Address())
	defer cancel()
	observed, err := r.session.replicas.Import(ctx, machine, readEndpoints)
	if err != nil {
		addError(&resp.Diagnostics, path.Empty(), "Control-plane replica not imported", err)
		return
	}
	warnInherited(&resp.Diagnostics, "Replica "+observed.Name, observed.Added)
	i := importer{ctx, resp}
	i.set("id", observed.Name)
	i.set("name", observed.Name)
	i.set("host.address", machine.Address())
	i.registration(observed.Registration)
	i.set("etcd", observed.EtcdURLs)
	i.set("version", observed.Version)
	i.set("port", int64(observed.Port))
	if observed.ListenAll {
		i.set("listen", listenAll)
	}
	i.set("service_cidrs", observed.ServiceCIDRs)
	i.set("pod_cidrs", observed.PodCIDRs)
	i.set("cluster_domain", observed.ClusterDomain)
	i.set("extra_sans", observed.ExtraSANs)
	i.set("early_renewal", durationText(observed.EarlyRenewal))
	i.set("admin_conf", !observed.NoAdminConf)
	i.set("liveness_probe", observed.LivenessProbe || observed.Runtime == component.StaticPod)
	i.set("runtime", stringOrNull(observed.Runtime))
	i.set("extra_volumes", observedVolumes(observed.ExtraVolumes))
	i.set("patches", observedPatches(observed.Patches))
	i.set("image_repository", stringOrNull(observed.ImageRepository))
	if observed.ManageKubelet {
		i.set("manage_kubelet", true)
	}
	if observed.VerifyKubelets {
		i.set("verify_kubelets", true)
	}
	if observed.MetricsAddress != "" || observed.TextfileDirectory != "" {
		i.set("metrics.address", stringOrNull(observed.MetricsAddress))
		i.set("metrics.textfile_directory", stringOrNull(observed.TextfileDirectory))
	}
	i.extraArgs(observed)
	supplied := settingsOfReplica(observed)
	i.set("audit", supplied.Audit)
	i.set("authentication", supplied.Authentication)
	i.set("resources", supplied.Resources)
	i.set("environment", observedEnvironment(observed.Environment))
	i.set("supplementary_groups", supplied.Groups)
	i.set("konnectivity", supplied.Konnectivity)
	i.files(observed, supplied.Files)
	i.keepCluster(observed.ClusterID)
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
	if len(registration.Additional) == 0 {
		return
	}
	var additional []types.Object
	for _, r := range registration.Additional {
		object, diags := registrationObject(i.ctx, r)
		i.resp.Diagnostics.Append(diags...)
		additional = append(additional, object)
	}
	i.set("additional_endpoints", additional)
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
	if err := registration.ValidateAdditional(); err != nil {
		return registration, err
	}
	for _, each := range registration.All() {
		if err := validateRegistration(each); err != nil {
			return registration, err
		}
	}
	return registration, nil
}

func registrationObject(ctx context.Context, r endpoint.Registration) (types.Object, diag.Diagnostics) {
	var diags diag.Diagnostics
	object, more := types.ObjectValueFrom(ctx, registrationTypes, registrationModel{
		Address:      types.StringValue(r.Address),
		Address6:     stringOrNull(r.Address6),
		Further:      stringsOrNull(r.Further),
		Port:         types.Int64Value(int64(r.Port)),
		Hosts:        stringMap(r.Hosts),
		DrainTimeout: durationText(r.DrainTimeout),
		VerifyCA:     types.BoolValue(r.VerifyCA),
		ClusterID:    stringOrNull(r.ClusterID),

		Kind:          stringOrNull(string(r.Kind)),
		TargetPort:    intOrNull(r.TargetPort),
		DetectionTime: durationText(r.DetectionTime),
		HealthyTime:   durationText(r.HealthyTime),
		ProbeFrom:     stringOrNull(r.ProbeFrom),
		Hooks:         types.ObjectNull(hooksTypes), // no machine has them
		Zone:          zoneObject(ctx, r.Zone, &diags),
		BGP:           announcementObject(ctx, r.BGP, &diags),
		KubeVIP:       electionObject(ctx, r.KubeVIP, &diags),
	})
	diags.Append(more...)
	return object, diags
}
