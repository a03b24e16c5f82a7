package provider

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// backupPrefix is the prefix of the ID of an import from a backup.
const backupPrefix = "file:"

// ImportState reads a bundle from a backup, or assembles it from a machine's files.
func (r *pkiBundleResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	if !r.ready(&resp.Diagnostics) {
		return
	}
	bundle := r.imported(ctx, req, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	i := importer{ctx, resp}
	i.set("cluster_name", bundle.ClusterName)
	i.set("key_algorithm", string(bundle.Algorithm))
	i.set("ca_validity", durationText(bundle.Validity()))
	i.set("deletion_protection", bundle.DeletionProtected())
	i.set("rotation", rotationOf(bundle))
	i.encryption(bundle.NewestEncryption())
	var model pkiBundleModel
	resp.Diagnostics.Append(resp.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	r.store(ctx, &model, bundle, &resp.State, &resp.Diagnostics)
	warnKeyless(bundle, &resp.Diagnostics)
	r.warnUnsealed(&resp.Diagnostics)
}

// imported returns the bundle that the ID names.
func (r *pkiBundleResource) imported(
	ctx context.Context, req resource.ImportStateRequest, diags *diag.Diagnostics,
) *pki.Bundle {
	file, backup := strings.CutPrefix(req.ID, backupPrefix)
	if backup {
		bundle, err := r.fromBackup(file)
		if err != nil {
			addError(diags, path.Empty(), "PKI bundle not imported", err)
		}
		return bundle
	}
	address, member, _ := strings.Cut(req.ID, ",")
	req.ID = address
	machine := r.machineFor(ctx, req, diags)
	var etcd *host.Host
	if member != "" {
		etcd = r.machineFor(ctx, resource.ImportStateRequest{ID: member}, diags)
	}
	if diags.HasError() {
		return nil
	}
	ctx, cancel := operation(ctx, importTime, "kube_pki_bundle", machine.Address())
	defer cancel()
	bundle, err := r.session.replicas.ImportBundle(ctx, machine, etcd)
	if err != nil {
		addError(diags, path.Empty(), "PKI bundle not imported", err)
	}
	return bundle
}

func (r *pkiBundleResource) fromBackup(file string) (*pki.Bundle, error) {
	text, err := readNamed(file)
	if err != nil {
		return nil, fmt.Errorf("read the backup of a bundle: %w", err)
	}
	bundle, err := pki.Parse(strings.TrimSpace(text), r.session.seal)
	if err != nil {
		return nil, &problem.Problem{
			Summary: "PKI bundle not imported", Cause: file + ": " + err.Error(), Unchanged: problem.Nothing, Err: err,
			Next: "use the value of a bundle attribute, and add the identity that opens it to the provider's seal.",
		}
	}
	return bundle, nil
}

// readNamed reads a file with secrets that the user names. Its errors do not quote a content that is given instead of
// the path.
func readNamed(file string) (string, error) {
	if err := pki.ValidateSecretFile(file); err != nil {
		return "", err
	}
	text, err := os.ReadFile(file)
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		err = fmt.Errorf("%s %s: %w", at.Op, problem.Quote(file), at.Err)
	}
	return string(text), err
}

func rotationOf(b *pki.Bundle) rotationModel {
	number := func(p pki.Part) types.Int64 { return types.Int64Value(int64(b.Generation(p))) }
	return rotationModel{
		Kubernetes: number(pki.KubernetesPart), Etcd: number(pki.EtcdPart), FrontProxy: number(pki.FrontProxyPart),
		ServiceAccount: number(pki.ServiceAccountPart), Encryption: number(pki.EncryptionPart),
	}
}

func (i importer) encryption(e pki.Encryption) {
	if e.Kind == pki.Plain {
		return
	}
	model := encryptionModel{Provider: types.StringValue(string(e.Kind)), Resources: stringSet(e.Resources)}
	if e.Kind == pki.KMS {
		model.KMS = &kmsModel{
			Name: types.StringValue(e.Name), Endpoint: types.StringValue(e.Endpoint),
			Timeout: types.StringValue(e.Timeout),
		}
	}
	i.set("encryption", model)
}

// warnKeyless explains the consequences if the key of an authority is not available.
func warnKeyless(b *pki.Bundle, diags *diag.Diagnostics) {
	var words []string
	for _, name := range b.Externals() {
		words = append(words, string(name))
	}
	if len(words) > 0 {
		diags.AddWarning("CA keys not imported",
			"No machine has the private keys of these CAs: "+strings.Join(words, ", ")+". Certificates that they "+
				"have issued stay in use, but they cannot be renewed or issued for another machine.\nNext step: "+
				"import the bundle from a backup instead (file:PATH), if there is one. Otherwise rotate these CAs "+
				"(rotation, three stages): the bundle has the keys of the new CAs.")
	}
}
