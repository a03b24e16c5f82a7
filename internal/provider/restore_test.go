package provider

import (
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
)

// restoreWith returns the restore attribute with these values; all others are null.
func restoreWith(values map[string]attr.Value) types.Object {
	kinds := map[string]attr.Type{
		"revision_bump": types.Int64Type, "accept_older": types.BoolType, "accept_other_ca": types.BoolType,
	}
	all := map[string]attr.Value{
		"revision_bump": types.Int64Null(), "accept_older": types.BoolNull(), "accept_other_ca": types.BoolNull(),
	}
	for _, name := range append([]string{"id", "environment_file", "identity_file"}, restoreSources...) {
		kinds[name], all[name] = types.StringType, types.StringNull()
	}
	for name, value := range values {
		all[name] = value
	}
	return types.ObjectValueMust(kinds, all)
}

func TestRestoreOf(t *testing.T) {
	if restoreOf(types.ObjectNull(nil)) != nil || restoreOf(types.ObjectUnknown(nil)) != nil {
		t.Error("no restore is decoded as one")
	}
	text := types.StringValue
	for _, c := range []struct {
		values map[string]attr.Value
		want   machine.Restore
	}{
		{
			map[string]attr.Value{"id": text("a"), "member": text("cp1"), "accept_older": types.BoolValue(true)},
			machine.Restore{ID: "a", Member: "cp1", AcceptOlder: true, Bump: machine.BumpAutomatically},
		},
		{
			map[string]attr.Value{"id": text("b"), "fetch": text("get"), "environment_file": text("/e")},
			machine.Restore{ID: "b", Fetch: "get", EnvironmentFile: "/e", Bump: machine.BumpAutomatically},
		},
		{
			map[string]attr.Value{
				"id": text("c"), "file": text("x"), "revision_bump": types.Int64Value(0), "accept_other_ca": types.BoolValue(true),
			},
			machine.Restore{ID: "c", File: "x", AcceptOtherCA: true},
		},
		{
			map[string]attr.Value{"id": text("d"), "bucket": text("newest"), "identity_file": text("/i")},
			machine.Restore{ID: "d", Bucket: machine.NewestInBucket, IdentityFile: "/i", Bump: machine.BumpAutomatically},
		},
	} {
		if got := restoreOf(restoreWith(c.values)); !reflect.DeepEqual(*got, c.want) {
			t.Errorf("decoded %+v, want %+v", *got, c.want)
		}
	}
}

func TestValidateRestore(t *testing.T) {
	text := types.StringValue
	for _, c := range []struct {
		name, want string
		values     map[string]attr.Value
		bucket     attr.Value // snapshots.s3; nil: snapshots are not set
	}{
		{name: "one source", values: map[string]attr.Value{"member": text("cp1")}},
		{name: "a source that is not known yet", values: map[string]attr.Value{"snapshot": types.StringUnknown()}},
		{name: "no source", want: "it has 0 sources"},
		{
			name: "two sources", want: "it has 2 sources",
			values: map[string]attr.Value{"member": text("cp1"), "file": text("x")},
		},
		{
			name: "an environment file without commands", want: "environment_file is for fetch only",
			values: map[string]attr.Value{"file": text("x"), "environment_file": text("/e")},
		},
		{
			name: "an identity without a bucket", want: "identity_file is for bucket only",
			values: map[string]attr.Value{"file": text("x"), "identity_file": text("/i")},
		},
		{name: "a bucket", values: map[string]attr.Value{"bucket": text("newest")}, bucket: text("there is one")},
		{
			name: "a bucket that is not known yet", values: map[string]attr.Value{"bucket": text("newest")},
			bucket: types.StringUnknown(),
		},
		{
			name: "no bucket", want: "the member has no bucket", values: map[string]attr.Value{"bucket": text("newest")},
			bucket: types.StringNull(),
		},
		{
			name: "no scheduled snapshots", want: "the member has no bucket",
			values: map[string]attr.Value{"bucket": text("newest")},
		},
		{
			name: "an older snapshot", want: "accept_older is for member only",
			values: map[string]attr.Value{"file": text("x"), "accept_older": types.BoolValue(true)},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var diags diag.Diagnostics
			snapshots := types.ObjectNull(nil)
			if c.bucket != nil {
				kinds := map[string]attr.Type{"s3": types.StringType}
				snapshots = types.ObjectValueMust(kinds, map[string]attr.Value{"s3": c.bucket})
			}
			validateRestore(restoreWith(c.values), snapshots, &diags)
			var texts []string
			for _, d := range diags {
				texts = append(texts, d.Detail())
			}
			if all := strings.Join(texts, "\n"); diags.HasError() != (c.want != "") || !strings.Contains(all, c.want) {
				t.Errorf("reported %q, want %q", all, c.want)
			}
		})
	}
	for name, valid := range map[string]bool{
		"newest": true, "20260102T030405Z-cp1.db": true, "": false, "latest": false, "20260102T030405Z-cp1.db.age": false,
		"20261302T030405Z-cp1.db": false, "-name": false,
	} {
		if (validateStored(name) == nil) != valid {
			t.Errorf("%q is judged wrongly", name)
		}
	}
	for file, valid := range map[string]bool{"/root/s.db": true, "s.db": false, "/root/a b": false, "": false} {
		if (validateMachinePath(file) == nil) != valid {
			t.Errorf("%q is judged wrongly", file)
		}
	}
}

// TestRestoreDue: only another id is a request. Everything else of a restore may change.
func TestRestoreDue(t *testing.T) {
	of := func(id, member string) etcdMemberModel {
		if id == "" {
			return etcdMemberModel{Restore: types.ObjectNull(nil)}
		}
		return etcdMemberModel{Restore: restoreWith(map[string]attr.Value{
			"id": types.StringValue(id), "member": types.StringValue(member),
		})}
	}
	for _, c := range []struct {
		before, after etcdMemberModel
		want          bool
	}{
		{of("", ""), of("", ""), false},
		{of("", ""), of("a", "cp1"), true},
		{of("a", "cp1"), of("a", "cp1"), false},
		{of("a", "cp1"), of("a", "cp2"), false},
		{of("a", "cp1"), of("b", "cp1"), true},
		{of("a", "cp1"), of("", ""), false},
		{etcdMemberModel{}, of("a", "cp1"), true},
	} {
		if got := c.after.restoreDue(c.before); got != c.want {
			t.Errorf("from %s to %s: %t", c.before.Restore, c.after.Restore, got)
		}
	}
}

// TestRestoreWarnsOnce: a restore concerns all members, and the plan warns of it once.
func TestRestoreWarnsOnce(t *testing.T) {
	var r restores
	if !r.first("a/1") || r.first("a/1") || !r.first("a/2") || !r.first("b/1") {
		t.Error("each restore is shown once")
	}
}
