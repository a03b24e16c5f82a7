package provider

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// settings are the logging, the admission of clients, the resource limits and the file access
// of a replica, and its proxy server (resource limits alone for a member), as a configuration writes them. Null is
// nil. They are stored as JSON in the records on the machines, so that an import can
// distinguish null from empty or a default and can restore the formatting of YAML.
type settings[R any] struct {
	Audit          *auditModel          `json:"audit,omitempty"`
	Authentication *authenticationModel `json:"authentication,omitempty"`
	Resources      *R                   `json:"resources,omitempty"`
	Groups         []string             `json:"supplementary_groups,omitzero"` // null is nil, sorted

	Files        map[string]fileSettings `json:"files,omitzero"` // null is nil
	Konnectivity *konnectivityModel      `json:"konnectivity,omitempty"`
	// Repeated are the flags that are configured in repeated_args, sorted, by component.
	Repeated map[string][]string `json:"repeated_args,omitempty"`
}

type auditModel struct {
	Enabled    *bool   `tfsdk:"enabled" json:"enabled,omitempty"`
	Policy     *string `tfsdk:"policy" json:"policy,omitempty"`
	MaxAgeDays *int    `tfsdk:"max_age_days" json:"max_age_days,omitempty"`
	MaxBackups *int    `tfsdk:"max_backups" json:"max_backups,omitempty"`
	MaxSizeMB  *int    `tfsdk:"max_size_mb" json:"max_size_mb,omitempty"`
}

type authenticationModel struct {
	JWT            *string  `tfsdk:"jwt" json:"jwt,omitempty"`
	AnonymousPaths []string `tfsdk:"anonymous_paths" json:"anonymous_paths,omitzero"` // null is nil, sorted
}

type resourcesModel struct {
	APIServer         *limitsModel `tfsdk:"apiserver" json:"apiserver,omitempty"`
	ControllerManager *limitsModel `tfsdk:"controller_manager" json:"controller_manager,omitempty"`
	Scheduler         *limitsModel `tfsdk:"scheduler" json:"scheduler,omitempty"`
}

type limitsModel struct {
	MemoryHigh *string `tfsdk:"memory_high" json:"memory_high,omitempty"`
	MemoryMax  *string `tfsdk:"memory_max" json:"memory_max,omitempty"`
	CPUQuota   *string `tfsdk:"cpu_quota" json:"cpu_quota,omitempty"`
	MemoryMin  *string `tfsdk:"memory_min" json:"memory_min,omitempty"`
	CPUWeight  *int    `tfsdk:"cpu_weight" json:"cpu_weight,omitempty"`
	IOWeight   *int    `tfsdk:"io_weight" json:"io_weight,omitempty"`
}

// decodeObject decodes an object into its model. Null and unknown objects return nil, and what is null or unknown
// within is the zero value where the model cannot have nil: a configuration is validated before its defaults are set.
func decodeObject[M any](ctx context.Context, object types.Object) *M {
	var out *M
	diags := object.As(ctx, &out, basetypes.ObjectAsOptions{UnhandledNullAsEmpty: true, UnhandledUnknownAsEmpty: true})
	if diags.HasError() {
		panic("provider: the model does not match its schema: " + diags[0].Detail()) // tests decode every model
	}
	return out
}

func (m *auditModel) audit() component.Audit {
	if m == nil {
		return component.Audit{}
	}
	return component.Audit{
		Off: m.Enabled != nil && !*m.Enabled, Policy: orZero(m.Policy),
		MaxAgeDays: orZero(m.MaxAgeDays), MaxBackups: orZero(m.MaxBackups), MaxSizeMB: orZero(m.MaxSizeMB),
	}
}

func (m *authenticationModel) authentication() component.Authentication {
	if m == nil {
		return component.Authentication{}
	}
	return component.Authentication{JWT: orZero(m.JWT), AnonymousPaths: m.AnonymousPaths}
}

// limits returns the limits of every component, or nil if none are set.
func (m *resourcesModel) limits() map[string]component.Limits {
	if m == nil {
		return nil
	}
	return map[string]component.Limits{
		release.APIServer:         component.Limits(m.APIServer.limits()),
		release.ControllerManager: component.Limits(m.ControllerManager.limits()),
		release.Scheduler:         component.Limits(m.Scheduler.limits()),
	}
}

func (m *limitsModel) limits() systemd.Limits {
	if m == nil {
		return systemd.Limits{}
	}
	return systemd.Limits{
		MemoryHigh: orZero(m.MemoryHigh), MemoryMax: orZero(m.MemoryMax), CPUQuota: orZero(m.CPUQuota),
		MemoryMin: orZero(m.MemoryMin), CPUWeight: orZero(m.CPUWeight), IOWeight: orZero(m.IOWeight),
	}
}

// orZero returns the value that p points to, or the zero value.
func orZero[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// text encodes s for the records. It returns nil if s is empty.
func (s settings[R]) text() json.RawMessage {
	if s.Audit == nil && s.Authentication == nil && s.Resources == nil && s.Groups == nil && s.Files == nil &&
		s.Konnectivity == nil && len(s.Repeated) == 0 {
		return nil
	}
	if s.Authentication != nil {
		slices.Sort(s.Authentication.AnonymousPaths)
	}
	slices.Sort(s.Groups)
	text, err := json.Marshal(s)
	if err != nil {
		panic("provider: encode settings: " + err.Error())
	}
	return text
}

func (m replicaModel) settings(ctx context.Context) json.RawMessage {
	return settings[resourcesModel]{
		decodeObject[auditModel](ctx, m.Audit), decodeObject[authenticationModel](ctx, m.Authentication),
		decodeObject[resourcesModel](ctx, m.Resources), m.groups(ctx), m.fileSettings(ctx),
		decodeObject[konnectivityModel](ctx, m.Konnectivity), m.repeatedFlags(ctx),
	}.text()
}

func (m etcdMemberModel) settings(ctx context.Context) json.RawMessage {
	return settings[limitsModel]{Resources: decodeObject[limitsModel](ctx, m.Resources)}.text()
}
