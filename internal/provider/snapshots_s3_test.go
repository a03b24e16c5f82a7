package provider

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
)

// memberWithStore returns a member whose snapshots go to a bucket.
func memberWithStore(t *testing.T, s snapshot.S3) etcdMemberModel {
	t.Helper()
	schema := etcdMemberSchema(t.Context())
	resp := &resource.ImportStateResponse{State: tfsdk.State{
		Schema: schema, Raw: tftypes.NewValue(schema.Type().TerraformType(t.Context()), nil),
	}}
	importer{t.Context(), resp}.set("name", "cp1")
	importer{t.Context(), resp}.setSnapshots(&snapshot.Settings{Schedule: "hourly", Kept: 24, S3: &s})
	var model etcdMemberModel
	resp.Diagnostics.Append(resp.State.Get(t.Context(), &model)...)
	if resp.Diagnostics.HasError() {
		t.Fatal(resp.Diagnostics)
	}
	return model
}

// TestStoreTogether checks what only several arguments of snapshots.s3 show together.
func TestStoreTogether(t *testing.T) {
	good := snapshot.S3{Endpoint: "https://s3.example.com", Bucket: "backups", CredentialsFile: "/etc/s3", Kept: 1}
	for what, c := range map[string]struct {
		change  func(*snapshot.S3)
		invalid string
		warned  bool
	}{
		"readable":  {func(*snapshot.S3) {}, "", true},
		"encrypted": {func(s *snapshot.S3) { s.Recipients = []string{recipient} }, "", false},
		"http":      {func(s *snapshot.S3) { s.Endpoint = "http://10.0.0.5:9000" }, "use https, or encrypt", true},
		"http encrypted": {func(s *snapshot.S3) {
			s.Endpoint, s.Recipients = "http://10.0.0.5:9000", []string{recipient}
		}, "", false},
	} {
		s := good
		c.change(&s)
		model := memberWithStore(t, s)
		var invalid, warned diag.Diagnostics
		model.validateStore(t.Context(), &invalid)
		model.warnReadableSnapshots(&warned)
		if invalid.HasError() != (c.invalid != "") ||
			invalid.HasError() && !strings.Contains(invalid[0].Detail(), c.invalid) {
			t.Errorf("%s: %v", what, invalid)
		}
		if (warned.WarningsCount() == 1) != c.warned || warned.HasError() {
			t.Errorf("%s: %v", what, warned)
		}
	}
}

// TestStoreUnknown decides nothing while a part of snapshots.s3 is unknown.
func TestStoreUnknown(t *testing.T) {
	model := memberWithStore(t, snapshot.S3{Endpoint: "http://10.0.0.5", Bucket: "backups", CredentialsFile: "/etc/s3"})
	values := model.Snapshots.Attributes()
	store := values["s3"].(types.Object)
	parts := store.Attributes()
	parts["recipients"] = types.SetValueMust(types.StringType, []attr.Value{types.StringUnknown()})
	values["s3"] = types.ObjectValueMust(store.AttributeTypes(t.Context()), parts)
	model.Snapshots = types.ObjectValueMust(model.Snapshots.AttributeTypes(t.Context()), values)
	var diags diag.Diagnostics
	model.validateStore(t.Context(), &diags)
	model.warnReadableSnapshots(&diags)
	if len(diags) > 0 {
		t.Errorf("said: %v", diags)
	}
}
