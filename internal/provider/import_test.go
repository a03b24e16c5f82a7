package provider

import (
	"context"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

func TestDurationText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		10 * time.Second: "10s", time.Minute: "1m", 90 * time.Second: "1m30s", time.Hour: "1h", 87600 * time.Hour: "87600h",
		time.Hour + time.Second: "1h0m1s", 90 * time.Minute: "1h30m", 1500 * time.Millisecond: "1.5s",
	} {
		got := durationText(d).ValueString()
		if back, err := time.ParseDuration(got); got != want || back != d || err != nil {
			t.Errorf("%v is written %q, want %q (read back as %v, %v)", d, got, want, back, err)
		}
	}
	if !durationText(0).IsNull() {
		t.Error("no duration is not null")
	}
}

func TestSameDuration(t *testing.T) {
	null := types.StringNull()
	for _, c := range []struct{ state, config, plan, want types.String }{
		{types.StringValue("1m30s"), types.StringValue("90s"), types.StringValue("90s"), types.StringValue("1m30s")},
		{types.StringValue("1m30s"), types.StringValue("91s"), types.StringValue("91s"), types.StringValue("91s")},
		{null, types.StringValue("90s"), types.StringValue("90s"), types.StringValue("90s")},
		{types.StringValue("10s"), null, types.StringValue("10s"), types.StringValue("10s")}, // the default decides
		{types.StringValue("90s"), types.StringUnknown(), types.StringUnknown(), types.StringUnknown()},
	} {
		resp := planmodifier.StringResponse{PlanValue: c.plan}
		sameDuration{}.PlanModifyString(t.Context(), planmodifier.StringRequest{
			StateValue: c.state, ConfigValue: c.config,
			PlanValue: c.plan,
		}, &resp)
		if !resp.PlanValue.Equal(c.want) {
			t.Errorf("from %s to %s is planned %s, want %s", c.state, c.config, resp.PlanValue, c.want)
		}
	}
}

// TestImportOfContent: an import that is given the content of a file does not print its keys.
func TestImportOfContent(t *testing.T) {
	b, _ := bundles(t)
	content := bundleText(t, b).ValueString()
	for name, id := range map[string]string{
		"JSON": content, "several lines": b.CA.PrivateKey, "a long line": strings.Repeat("k", 4096) + content,
		"no such file": "/absent/" + strings.Repeat("p", 40),
	} {
		var resp resource.ImportStateResponse
		req := resource.ImportStateRequest{ID: backupPrefix + id}
		bundle := newPKIBundleResource().(*pkiBundleResource)
		bundle.session = &session{sealKnown: true}
		bundle.imported(t.Context(), req, &resp.Diagnostics)
		kubeconfig := newKubeconfigResource().(*kubeconfigResource)
		kubeconfig.session = bundle.session
		kubeconfig.imported(t.Context(), req, &resp.Diagnostics)
		output := text(resp.Diagnostics)
		if resp.Diagnostics.ErrorsCount() != 2 || strings.Contains(output, "PRIVATE KEY") {
			t.Errorf("%s: %d errors, want 2 without a key", name, resp.Diagnostics.ErrorsCount())
		}
		if isPath := strings.HasPrefix(id, "/"); strings.Count(output, "not the content") != 2 && !isPath ||
			isPath && strings.Count(output, strconv.Quote(id)+": no such file") != 2 {
			t.Errorf("%s: other errors", name)
		}
	}
}

// TestImportFromContent: the content of a file is no address, and is not printed.
func TestImportFromContent(t *testing.T) {
	b, _ := bundles(t)
	for id, shown := range map[string]bool{"cp1.example.com": true, bundleText(t, b).ValueString(): false} {
		var diags diag.Diagnostics
		importedFrom(t.Context(), resource.ImportStateRequest{ID: id}, &diags)
		if output := text(diags); diags.ErrorsCount() != 1 || strings.Contains(output, "PRIVATE KEY") ||
			strings.Contains(output, `"cp1.example.com" is not the IP address`) != shown {
			t.Errorf("%d errors, want 1 without a key", diags.ErrorsCount())
		}
	}
}

// TestTakeWithoutGroups: the kubeconfig of a user without groups has an empty set of them, as in a configuration.
func TestTakeWithoutGroups(t *testing.T) {
	b, _ := bundles(t)
	pair, err := b.Issue(pki.User("ann"), time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	var m kubeconfigResourceModel
	var diags diag.Diagnostics
	m.take("text", pki.Access{Client: pair}, &diags)
	if diags.HasError() || !m.Groups.Equal(stringSet(nil)) {
		t.Errorf("groups are %s, %v", m.Groups, diags)
	}
}

// noted is a private state in which an import stored a cluster.
type noted string

func (n noted) GetKey(context.Context, string) ([]byte, diag.Diagnostics) {
	if n == "" {
		return nil, nil
	}
	return []byte(`"` + n + `"`), nil
}

// TestRecall checks that an imported resource gets the bundle of its cluster and no other, and
// that a resource with a bundle keeps it.
func TestRecall(t *testing.T) {
	s := &session{}
	s.bundles.keep("a", "bundle of a", "CA of a")
	s.bundles.keep("b", "bundle of b", "CA of b")
	for _, c := range []struct {
		name    string
		private noted
		before  types.String
		want    types.String
		warns   int
	}{
		{"imported", "b", types.StringNull(), types.StringValue("bundle of b"), 0},
		{"of a cluster whose bundle is not here", "c", types.StringNull(), types.StringNull(), 1},
		{"not imported", "", types.StringValue("its own"), types.StringValue("its own"), 0},
		{"imported, and given one since", "b", types.StringValue("its own"), types.StringValue("its own"), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var diags diag.Diagnostics
			got := c.before
			known := s.restoreBundle(t.Context(), &got, c.private, "it", &diags)
			if !got.Equal(c.want) || known == c.want.IsNull() || diags.WarningsCount() != c.warns || diags.HasError() {
				t.Errorf("pki is %s (%v), want %s; %v", got, known, c.want, diags)
			}
		})
	}
	if got := s.bundles.ofAuthority("CA of b"); got.ValueString() != "bundle of b" {
		t.Errorf("the bundle of an authority is %s", got)
	}
	if got := s.bundles.ofAuthority("CA of c"); !got.IsNull() {
		t.Errorf("the bundle of an unknown authority is %s", got)
	}
}

// TestRefuseStranger checks that an imported resource rejects the bundle of another cluster.
func TestRefuseStranger(t *testing.T) {
	for _, c := range []struct {
		name    string
		private noted
		before  types.String
		refused bool
	}{
		{"its own", "a", types.StringNull(), false},
		{"another's", "b", types.StringNull(), true},
		{"not imported", "", types.StringNull(), false},
		{"given one since: a replacement", "b", types.StringValue("a bundle"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var diags diag.Diagnostics
			(&session{}).refuseOtherCluster(t.Context(), c.before, &pki.Bundle{ClusterID: "a"}, c.private, &diags)
			if diags.HasError() != c.refused {
				t.Errorf("refused: %v", diags)
			}
		})
	}
}

// recipient is a public key of age.
const recipient = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"

// TestSetSnapshots checks that an import reads the settings of the configuration.
func TestSetSnapshots(t *testing.T) {
	schema := etcdMemberSchema(t.Context())
	for name, want := range map[string]*snapshot.Settings{
		"none":       nil,
		"everything": {Schedule: "daily", Kept: 7, Upload: "cp \"$SNAPSHOT\" /b/\n", EnvironmentFile: "/etc/b.env"},
		"little":     {Schedule: "hourly", Kept: 24},
		"a bucket": {Schedule: "hourly", Kept: 24, S3: &snapshot.S3{
			Endpoint: "https://s3.example.com", Region: "eu-central-1", Bucket: "backups", Prefix: "etcd/prod",
			CredentialsFile: "/etc/s3", CACertificate: "a certificate", Recipients: []string{recipient}, Kept: 0,
			ObjectLock: &snapshot.ObjectLock{Mode: "compliance", Days: 30},
		}},
		"a plain bucket": {Schedule: "hourly", Kept: 24, S3: &snapshot.S3{
			Endpoint: "https://s3.example.com", Bucket: "backups", CredentialsFile: "/etc/s3", Kept: 7,
		}},
	} {
		resp := &resource.ImportStateResponse{State: tfsdk.State{
			Schema: schema,
			Raw:    tftypes.NewValue(schema.Type().TerraformType(t.Context()), nil),
		}}
		importer{t.Context(), resp}.set("name", "cp1")
		importer{t.Context(), resp}.setSnapshots(want)
		var model etcdMemberModel
		resp.Diagnostics.Append(resp.State.Get(t.Context(), &model)...)
		if got := snapshotsOf(model.Snapshots); resp.Diagnostics.HasError() || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v (%v)", name, got, want, resp.Diagnostics)
		}
		upload, _ := model.Snapshots.Attributes()["upload"].(types.String)
		if want != nil && upload.IsNull() != (want.Upload == "") {
			t.Errorf("%s: upload is %s", name, upload)
		}
	}
}

// TestRegistrationNamed: of a replica's endpoints, the one is imported that the import names. Two kinds may have one
// address while one takes over, and a machine may be a balancer of an endpoint at which its replica is not registered.
func TestRegistrationNamed(t *testing.T) {
	at := func(kind endpoint.Kind, address string, additional ...endpoint.Registration) endpoint.Registration {
		return endpoint.Registration{Kind: kind, Address: address, Additional: additional}
	}
	two := at("", "10.0.0.100", at(endpoint.External, "api.example.com"))
	outside := at(endpoint.External, "10.0.0.101")
	takesOver := at(endpoint.External, "fd00::100", at(endpoint.HAProxy, "fd00::100"),
		at(endpoint.DNS, "api.example.com"))
	for _, c := range []struct {
		recorded     endpoint.Registration
		wanted, want string // "" for a balancer of it on the machine
		refused      bool
	}{
		{two, "", "haproxy 10.0.0.100", false},
		{two, "10.0.0.100", "haproxy 10.0.0.100", false},
		{two, "api.example.com", "external api.example.com", false},
		{two, "external:api.example.com", "external api.example.com", false},
		{two, "elsewhere.example.com", "", false},
		{two, "external:10.0.0.100", "", false},
		{outside, "10.0.0.100", "", false},
		{outside, "haproxy:10.0.0.101", "", false},
		{outside, "", "external 10.0.0.101", false},
		{takesOver, "external:fd00::100", "external fd00::100", false},
		{takesOver, "haproxy:fd00::100", "haproxy fd00::100", false},
		{takesOver, "dns:", "dns api.example.com", false},
		{takesOver, "fd00::100", "", true},
		{takesOver, "", "", true},
		{endpoint.Registration{}, "10.0.0.100", "", false},
	} {
		got, there, err := registrationNamed("10.0.0.11", c.recorded, wantedIn(c.wanted))
		if there && err == nil && (got.ID() != c.want || len(got.Additional) > 0) || (err != nil) != c.refused ||
			there != (c.want != "" || c.refused) {
			t.Errorf("%q of %v: got %s, %t, %v, want %q", c.wanted, c.recorded.IDs(), got.ID(), there, err, c.want)
		}
		if err != nil && !strings.Contains(err.Error(), "10.0.0.11/haproxy:fd00::100") {
			t.Errorf("the remedy does not name the IDs: %v", err)
		}
	}
	unread := errors.New("nothing is there")
	err := otherEndpoint("10.0.0.11", outside, wantedIn("haproxy:10.0.0.100"), unread)
	for _, want := range []string{
		"external 10.0.0.101, not haproxy 10.0.0.100", "nothing is there", "machines of haproxy",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
