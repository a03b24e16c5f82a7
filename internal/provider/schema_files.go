package provider

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
)

// replicaFiles describes the files that flags of the components name.
func replicaFiles() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"files": schema.MapNestedAttribute{
			Optional: true,
			MarkdownDescription: "Files that flags in `extra_args` name, by name: admission and authorization configurations, kubeconfigs of webhooks, egress and tracing configurations, a scheduler's configuration. " +
				"Each is placed in `" + component.FilesDir + "` on the machine, and a flag refers to it as `" + component.FilesDir + "/NAME`. A flag that names a file of that directory that is not here is refused in the plan. " +
				fmt.Sprintf("Default: none. At most %d files of %d KiB. ", component.MaxConfigFiles, component.MaxConfigFileSize>>10) +
				"A change restarts the components whose flags name the file (a file that only other files name: its owner); for the API server the replica leaves rotation meanwhile, one replica at a time. " +
				"If a component does not start with a changed file, the previous files are restored. A file that is taken out of `files` is removed from the machine; other files in the directory are left alone.",
			NestedObject: schema.NestedAttributeObject{Attributes: fileAttributes()},
		},
		"file_digests": schema.MapAttribute{
			Computed: true, ElementType: types.StringType,
			MarkdownDescription: "SHA-256 of each file of `files`, by name. A changed `content_wo` shows here; the machine is compared with it.",
		},
	}
}

func fileAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"content": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "Text of the file. It is shown in plans and stored in the state: for a file with a key, a token or a password use `content_wo`. Default: none; exactly one of the two is set.",
		},
		"content_wo": schema.StringAttribute{
			Optional: true, Sensitive: true, WriteOnly: true,
			MarkdownDescription: "As `content`, and never in plans or the state (Terraform 1.11, OpenTofu 1.11 or later). Default: none. Only its digest is, in `file_digests`, so a changed content is a change without a version number. " +
				"The value must be the same each time it is evaluated: one that is issued anew each time is a change in every plan, and is refused in the apply.",
		},
		"mode": schema.StringAttribute{
			Optional:            true,
			Validators:          []validator.String{checked("mode", checkMode)},
			MarkdownDescription: "Permissions of the file: `0600`, `0640`, `0644`, `0400`, `0440` or `0444`. Default `0600`. Nobody but the owner can write it.",
		},
		"owner": schema.StringAttribute{
			Optional:   true,
			Validators: []validator.String{checked("owner", component.ValidateConfigFileOwner)},
			MarkdownDescription: "User that owns the file, and group of that name: `kube-apiserver`, `kube-controller-manager`, `kube-scheduler` or `root`. " +
				"Default: the component whose flags name the file; `kube-apiserver` if none does.",
		},
		"restart": schema.BoolAttribute{
			Optional: true,
			MarkdownDescription: "Whether a change of the file restarts the components that read it. Default `true`. `false` is for files that a running component loads again by itself: those of the API server's flags `authorization-config` and `authentication-config`, of `tls-sni-cert-key`, " +
				"and files that no flag names. For files of other flags it is refused. A file that a component cannot use is then noticed in its log only, until its next start fails.",
		},
	}
}

func checkMode(text string) error {
	_, err := component.ParseConfigFileMode(text)
	return err
}
