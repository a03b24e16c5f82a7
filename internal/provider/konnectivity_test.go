package provider

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
)

// TestImportedKonnectivity: an import proposes what was configured if it fits the machine, and
// otherwise what the machine has, without defaults.
func TestImportedKonnectivity(t *testing.T) {
	path, port := "/opt/proxy-server", component.DefaultAgentPort
	standard := component.Konnectivity{Program: component.DefaultKonnectivityProgram, AgentPort: port}
	other := component.Konnectivity{Program: path, AgentPort: 9132}
	for _, c := range []struct {
		name     string
		recorded *konnectivityModel
		observed *component.Konnectivity
		want     *konnectivityModel
	}{
		{"none", nil, nil, nil},
		{"removed by hand", &konnectivityModel{}, nil, nil},
		{"defaults", &konnectivityModel{}, &standard, &konnectivityModel{}},
		{"explicit default", &konnectivityModel{AgentPort: &port}, &standard, &konnectivityModel{AgentPort: &port}},
		{"no record", nil, &standard, &konnectivityModel{}},
		{
			"other than recorded", &konnectivityModel{}, &other,
			&konnectivityModel{Program: &path, AgentPort: &other.AgentPort},
		},
	} {
		if got := observedKonnectivity(c.recorded, c.observed); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestAgentManifestFunction calls the function as the framework does.
func TestAgentManifestFunction(t *testing.T) {
	call := func(host string, port int64, image string) (string, *function.FuncError) {
		resp := function.RunResponse{Result: function.NewResultData(types.StringUnknown())}
		newKonnectivityAgentFunction().Run(context.Background(), function.RunRequest{
			Arguments: function.NewArgumentsData([]attr.Value{
				types.StringValue(host), types.Int64Value(port), types.StringValue(image),
			}),
		}, &resp)
		text, _ := resp.Result.Value().(types.String)
		return text.ValueString(), resp.Error
	}
	text, err := call("api.example.com", 8132, "example.com/proxy-agent:v0.36.0")
	if err != nil || !strings.Contains(text, `"--proxy-server-host=api.example.com"`) {
		t.Errorf("%v: %s", err, text)
	}
	if _, err := call("not a host", 8132, "a"); err == nil || !strings.Contains(err.Text, "\nNext step: ") {
		t.Errorf("a malformed host: %v", err)
	}
}
