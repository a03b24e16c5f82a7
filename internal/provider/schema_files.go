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
			MarkdownDescription: "Files for flags in `extra_args`, by name: admission and authorization " +
				"configurations, kubeconfigs of webhooks, egress and tracing configurations, a scheduler's " +
				"configuration. Each is placed in `" + component.FilesDir + "` on the machine, and a flag refers to it as `" +
				component.FilesDir + "/NAME`. The plan refuses a flag that names a missing file of that directory. " +
				fmt.Sprintf("Default: none. At most %d files of %d KiB. ", component.MaxConfigFiles,
					component.MaxConfigFileSize>>10) +
				"A change restarts the components whose flags name the file (for a file that only other files " +
				"name: its owner); for the API server, the replica leaves rotation during the restart, one " +
				"replica at a time. If a component does not start with a changed file, the previous files are " +
				"restored. A file that is removed from `files` is removed from the machine; other files in the " +
				"directory are not changed.",
			NestedObject: schema.NestedAttributeObject{Attributes: fileAttributes()},
		},
		"file_digests": schema.MapAttribute{
			Computed: true, ElementType: types.StringType,
			MarkdownDescription: "SHA-256 of each file of `files`, by name. It shows a changed `content_wo`, and " +
				"the machine is compared with it.",
		},
	}
}

func fileAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"content": schema.StringAttribute{
			Optional: true,
			MarkdownDescription: "Content of the file. It is shown in plans and stored in the state: use " +
				"`content_wo` for a file with a key, a token or a password. Default: none; exactly one of the two " +
				"must be set.",
		},
		"content_wo": schema.StringAttribute{
			Optional: true, Sensitive: true, WriteOnly: true,
			MarkdownDescription: "Like `content`, but write-only: it is never in plans or the state (Terraform " +
				"1.11, OpenTofu 1.11 or later). Default: none. Only its digest is stored, in `file_digests`, so a " +
				"change is detected without a version number. The value must be the same at each evaluation: a " +
				"value that is generated each time is a change in every plan, and the apply refuses it.",
		},
		"mode": schema.StringAttribute{
			Optional:   true,
			Validators: []validator.String{checked("mode", checkMode)},
			MarkdownDescription: "Permissions of the file: `0600`, `0640`, `0644`, `0400`, `0440` or `0444`. " +
				"Default `0600`. Only the owner can write it.",
		},
		"owner": schema.StringAttribute{
			Optional:   true,
			Validators: []validator.String{checked("owner", component.ValidateConfigFileOwner)},
			MarkdownDescription: "Owner and group of the file: `kube-apiserver`, `kube-controller-manager`, " +
				"`kube-scheduler` or `root`. Default: the component whose flags name the file; `kube-apiserver` " +
				"if none does.",
		},
		"restart": schema.BoolAttribute{
			Optional: true,
			MarkdownDescription: "Whether a change of the file restarts the components that read it. Default " +
				"`true`. Use `false` for files that a running component reloads on its own: those of the API " +
				"server's flags `authorization-config` and `authentication-config`, of `tls-sni-cert-key`, and " +
				"files that no flag names. It is refused for files of other flags. A file that a component cannot " +
				"use is then reported only in its log, until its next start fails.",
		},
	}
}

func checkMode(text string) error {
	_, err := component.ParseConfigFileMode(text)
	return err
}
