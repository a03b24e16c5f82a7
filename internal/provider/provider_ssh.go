package provider

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

type sshModel struct {
	User           types.String  `tfsdk:"user"`
	Port           types.Int64   `tfsdk:"port"`
	PrivateKey     types.String  `tfsdk:"private_key"`
	Passphrase     types.String  `tfsdk:"passphrase"`
	Certificate    types.String  `tfsdk:"certificate"`
	Agent          types.Bool    `tfsdk:"agent"`
	KnownHosts     types.String  `tfsdk:"known_hosts"`
	ConnectTimeout types.String  `tfsdk:"connect_timeout"`
	Bastion        *bastionModel `tfsdk:"bastion"`
	Hosts          types.Map     `tfsdk:"hosts"`
}

type bastionModel struct {
	Address     types.String `tfsdk:"address"`
	Port        types.Int64  `tfsdk:"port"`
	User        types.String `tfsdk:"user"`
	PrivateKey  types.String `tfsdk:"private_key"`
	Passphrase  types.String `tfsdk:"passphrase"`
	Certificate types.String `tfsdk:"certificate"`
	HostKey     types.String `tfsdk:"host_key"`
}

type hostModel struct {
	Address types.String `tfsdk:"address"`
	Port    types.Int64  `tfsdk:"port"`
	User    types.String `tfsdk:"user"`
	HostKey types.String `tfsdk:"host_key"`
}

func sshSchema() schema.Attribute {
	attributes := credentialAttributes(func(own string) string { return own })
	attributes["agent"] = schema.BoolAttribute{
		Optional: true,
		MarkdownDescription: "Use the ssh-agent at `SSH_AUTH_SOCK`. Default: `true` if `private_key` is not set " +
			"and the variable is not empty.",
	}
	attributes["known_hosts"] = schema.StringAttribute{
		Optional: true,
		MarkdownDescription: "Text in `known_hosts` format. Default: the content of `~/.ssh/known_hosts`. A " +
			"machine whose key is neither in this text nor pinned in `hosts` is rejected; there is no trust on " +
			"first use.",
	}
	attributes["connect_timeout"] = schema.StringAttribute{
		Optional:            true,
		Validators:          []validator.String{durationValidator()},
		MarkdownDescription: "Timeout of a connection to one machine, such as `10s` (the default).",
	}
	bastion := credentialAttributes(func(string) string { return "Default: as in `ssh`." })
	bastion["address"] = schema.StringAttribute{Required: true, MarkdownDescription: "IP address or host name of " +
		"the jump host."}
	bastion["host_key"] = schema.StringAttribute{
		Optional: true,
		MarkdownDescription: "Host key of the jump host, such as `ssh-ed25519 AAAA…`. Default: the key in " +
			"`known_hosts`.",
	}
	attributes["bastion"] = schema.SingleNestedAttribute{
		Optional:   true,
		Attributes: bastion,
		MarkdownDescription: "Jump host through which all machines are reached. Default: none. Settings that are " +
			"not set here are inherited from `ssh`; a `certificate` is inherited only together with its " +
			"`private_key`.",
	}
	attributes["hosts"] = schema.MapNestedAttribute{
		Optional: true,
		Validators: []validator.Map{mapvalidator.KeysAre(checked("address", func(key string) error {
			if _, err := netip.ParseAddr(key); err != nil {
				return nil // no machine's address: it has no effect
			}
			return host.CheckAddressForm(key)
		}))},
		MarkdownDescription: "Settings that differ for individual machines, by the address that resources use for " +
			"them (`host.address`). Default: none. They apply to every resource that connects to the machine, as " +
			"its own machine or as a peer. A setting that is known only after the apply, such as the host key of " +
			"a new machine, delays only this machine: others are read and planned as usual. If the keys are not known " +
			"before the apply, such as addresses that a cloud assigns to new machines, nor is anything else of `hosts`. " +
			"Then the plan contacts no machine: it warns, and shows no drift.",
		NestedObject: schema.NestedAttributeObject{Attributes: overrideAttributes()},
	}
	return schema.SingleNestedAttribute{
		Optional:   true,
		Attributes: attributes,
		MarkdownDescription: "SSH settings. SSH is the provider's only connection: etcd and the Kubernetes API " +
			"are reached through it. Default: that of each setting. A change applies from the next plan on and " +
			"does not affect any machine.",
	}
}

// credentialAttributes describes how to log in to a server. standard converts the description
// of a default of the ssh block into that of the block at hand.
func credentialAttributes(standard func(own string) string) map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"user": schema.StringAttribute{
			Optional: true,
			MarkdownDescription: "Login user; a user other than `root` needs `sudo` without a password on the " +
				"machines. " + standard("Default `root`."),
		},
		"port": schema.Int64Attribute{
			Optional:            true,
			Validators:          []validator.Int64{int64validator.Between(1, 65535)},
			MarkdownDescription: "TCP port of sshd. " + standard("Default `22`."),
		},
		"private_key": schema.StringAttribute{
			Optional: true, Sensitive: true,
			MarkdownDescription: "Private key in PEM or OpenSSH format. " + standard("Default: none; the "+
				"ssh-agent is used."),
		},
		"passphrase": schema.StringAttribute{
			Optional: true, Sensitive: true,
			MarkdownDescription: "Passphrase of `private_key`. " + standard("Default: none."),
		},
		"certificate": schema.StringAttribute{
			Optional: true,
			MarkdownDescription: "SSH user certificate for `private_key`, the content of its `-cert.pub` file. " +
				standard("Default: none."),
		},
	}
}

func overrideAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"address": schema.StringAttribute{Optional: true, MarkdownDescription: "IP address or host name for SSH. " +
			"Default: the address that resources use."},
		"port": schema.Int64Attribute{
			Optional:            true,
			Validators:          []validator.Int64{int64validator.Between(1, 65535)},
			MarkdownDescription: "TCP port of sshd on this machine. Default: that of `ssh`.",
		},
		"user": schema.StringAttribute{Optional: true, MarkdownDescription: "Login user on this machine. " +
			"Default: that of `ssh`."},
		"host_key": schema.StringAttribute{Optional: true, MarkdownDescription: "Pinned host key of the machine, " +
			"such as `ssh-ed25519 AAAA…`. It takes precedence over `known_hosts`, except that a key marked " +
			"`@revoked` there is rejected. Default: no pinned key."},
	}
}

// decodeSSH converts the ssh block into the settings of package host, with defaults from the
// user's environment.
func decodeSSH(ctx context.Context, object types.Object) (host.Config, diag.Diagnostics) {
	var model sshModel
	if !object.IsNull() {
		if diags := object.As(ctx, &model, basetypes.ObjectAsOptions{}); diags.HasError() {
			return host.Config{}, diags
		}
	}
	timeout, _ := parseDuration(model.ConnectTimeout)
	config := host.Config{
		Credentials: host.Credentials{
			User:        model.User.ValueString(),
			Port:        int(model.Port.ValueInt64()),
			PrivateKey:  model.PrivateKey.ValueString(),
			Passphrase:  model.Passphrase.ValueString(),
			Certificate: model.Certificate.ValueString(),
		},
		KnownHosts:     model.KnownHosts.ValueString(),
		ConnectTimeout: timeout,
		Overrides:      map[string]host.Override{},
	}
	if model.KnownHosts.IsNull() {
		config.KnownHosts = userKnownHosts()
	}
	if model.Agent.ValueBool() || (model.Agent.IsNull() && config.PrivateKey == "") {
		config.Agent = os.Getenv("SSH_AUTH_SOCK")
	}
	if b := model.Bastion; b != nil {
		config.Bastion = &host.Bastion{
			Address: b.Address.ValueString(),
			HostKey: b.HostKey.ValueString(),
			Credentials: host.Credentials{
				User:        b.User.ValueString(),
				Port:        int(b.Port.ValueInt64()),
				PrivateKey:  b.PrivateKey.ValueString(),
				Passphrase:  b.Passphrase.ValueString(),
				Certificate: b.Certificate.ValueString(),
			},
		}
	}
	var diags diag.Diagnostics
	config.HostsPending = model.Hosts.IsUnknown()
	for address, settings := range model.Hosts.Elements() {
		config.Overrides[address] = decodeOverride(ctx, settings, &diags)
	}
	return config, diags
}

// sshKnown reports whether all settings are known, except hosts. An expression makes hosts unknown as a whole if one of
// its keys is: the address of a machine that the same apply makes.
func sshKnown(ctx context.Context, ssh types.Object) bool {
	for name, value := range ssh.Attributes() {
		if name != "hosts" && !elementsKnown(ctx, value) {
			return false
		}
	}
	return !ssh.IsUnknown()
}

// decodeOverride decodes the settings of one machine. If one of them is unknown, the machine
// cannot be reached yet.
func decodeOverride(ctx context.Context, settings attr.Value, diags *diag.Diagnostics) host.Override {
	object, ok := settings.(types.Object)
	if !ok || !elementsKnown(ctx, object) {
		return host.Override{Pending: true}
	}
	var h hostModel
	diags.Append(object.As(ctx, &h, basetypes.ObjectAsOptions{UnhandledNullAsEmpty: true})...)
	return host.Override{
		Address: h.Address.ValueString(),
		Port:    int(h.Port.ValueInt64()),
		User:    h.User.ValueString(),
		HostKey: h.HostKey.ValueString(),
	}
}

// userKnownHosts returns the contents of the user's known_hosts file, or "" if it cannot be
// read.
func userKnownHosts() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	text, err := os.ReadFile(filepath.Join(home, ".ssh", "known_hosts"))
	if err != nil {
		return ""
	}
	return string(text)
}
