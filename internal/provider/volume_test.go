package provider

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/volume"
)

// volumeWith returns the volume attribute with these values; all others are null.
func volumeWith(values map[string]attr.Value) types.Object {
	kinds := map[string]attr.Type{
		"device": types.StringType, "uuid": types.StringType, "mount_path": types.StringType, "fenced": types.BoolType,
	}
	all := map[string]attr.Value{
		"device": types.StringNull(), "uuid": types.StringNull(), "mount_path": types.StringValue("/srv/etcd"),
		"fenced": types.BoolNull(),
	}
	for name, value := range values {
		all[name] = value
	}
	return types.ObjectValueMust(kinds, all)
}

func TestVolumeOf(t *testing.T) {
	if volumeOf(types.ObjectNull(nil)) != nil || volumeOf(types.ObjectUnknown(nil)) != nil {
		t.Error("no volume is decoded as one")
	}
	fenced := volumeWith(map[string]attr.Value{"device": types.StringValue("/dev/sdb"), "fenced": types.BoolValue(true)})
	want := volume.Spec{Device: "/dev/sdb", MountPath: "/srv/etcd", Fenced: true}
	if got := volumeOf(fenced); *got != want {
		t.Errorf("decoded %+v, want %+v", *got, want)
	}
	if want.Fenced = false; *recordedVolume(fenced) != want {
		t.Error("that a machine was fenced concerns another one")
	}
}

func TestValidateVolume(t *testing.T) {
	device := types.StringValue("/dev/sdb")
	for name, c := range map[string]struct {
		values map[string]attr.Value
		data   types.String
		want   string
	}{
		"valid":                {map[string]attr.Value{"device": device}, types.StringValue("/srv/etcd/data"), ""},
		"device not known yet": {map[string]attr.Value{"device": types.StringUnknown()}, types.StringNull(), ""},
		"data not known yet":   {map[string]attr.Value{"device": device}, types.StringUnknown(), ""},
		"neither":              {nil, types.StringValue("/srv/etcd/data"), "exactly one of device and uuid"},
		"default data_dir": {
			map[string]attr.Value{"device": device}, types.StringNull(), "data_dir is /var/lib/etcd, which is not",
		},
	} {
		var diags diag.Diagnostics
		etcdMemberModel{Volume: volumeWith(c.values), DataDir: c.data}.validateVolume(&diags)
		text := ""
		for _, d := range diags {
			text += d.Summary() + ": " + d.Detail()
		}
		if !strings.Contains(text, c.want) || (text == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
}

func TestValidateArchived(t *testing.T) {
	none := types.ObjectNull(nil)
	restore := types.ObjectValueMust(map[string]attr.Type{"id": types.StringType},
		map[string]attr.Value{"id": types.StringValue("one")})
	archive, null, text := types.StringValue("/var/lib/etcd-archive"), types.StringNull(), types.StringValue
	for name, c := range map[string]struct {
		archived, data types.String
		restore        types.Object
		want           string
	}{
		"none":               {null, null, none, ""},
		"not known":          {types.StringUnknown(), null, none, ""},
		"valid":              {archive, null, none, ""},
		"an archive":         {text("/srv/etcd/archive/cp1-20260102T030405Z"), text("/srv/etcd"), none, ""},
		"the data directory": {text("/var/lib/etcd"), null, none, "is or has the data directory"},
		"the data itself":    {text("/srv/etcd/member"), text("/srv/etcd"), none, "is or has the data"},
		"above it":           {text("/srv/etcd"), text("/srv/etcd/data"), none, "is or has the data"},
		"no path":            {text("archive"), null, none, "not a clean absolute path"},
		"a command":          {text("/var/lib/a;reboot"), null, none, "has characters other than"},
		"with a restore":     {archive, null, restore, "a new cluster"},
	} {
		var diags diag.Diagnostics
		etcdMemberModel{Archived: c.archived, DataDir: c.data, Restore: c.restore}.validateArchived(&diags)
		got := ""
		for _, d := range diags {
			got += d.Summary() + ": " + d.Detail()
		}
		if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestPlanVolume: a plan says what moves, and a volume is not taken away from a member that stays.
func TestPlanVolume(t *testing.T) {
	at := func(address string, object types.Object) etcdMemberModel {
		host := types.ObjectValueMust(map[string]attr.Type{"address": types.StringType},
			map[string]attr.Value{"address": types.StringValue(address)})
		return etcdMemberModel{Name: types.StringValue("cp1"), Host: host, Volume: object}
	}
	has, none := volumeWith(nil), types.ObjectNull(volumeWith(nil).AttributeTypes(t.Context()))
	for name, c := range map[string]struct {
		before, after  etcdMemberModel
		says, replaces bool
	}{
		"stays":                      {at("10.0.0.11", has), at("10.0.0.11", has), false, false},
		"moves":                      {at("10.0.0.11", has), at("10.0.0.14", has), true, false},
		"has none":                   {at("10.0.0.11", none), at("10.0.0.14", none), false, false},
		"gets one":                   {at("10.0.0.11", none), at("10.0.0.11", has), false, false},
		"gets one elsewhere":         {at("10.0.0.11", none), at("10.0.0.14", has), false, false},
		"loses it":                   {at("10.0.0.11", has), at("10.0.0.11", none), false, true},
		"loses it, and is elsewhere": {at("10.0.0.11", has), at("10.0.0.14", none), false, true},
	} {
		resp := &resource.ModifyPlanResponse{}
		c.after.planVolume(c.before, resp)
		if (len(resp.Diagnostics) > 0) != c.says || (len(resp.RequiresReplace) > 0) != c.replaces {
			t.Errorf("%s: %v, replaced because of %v", name, resp.Diagnostics, resp.RequiresReplace)
		}
		if c.says && !strings.Contains(resp.Diagnostics[0].Detail(), "from 10.0.0.11 to 10.0.0.14") {
			t.Errorf("%s: %s", name, resp.Diagnostics[0].Detail())
		}
	}
}
