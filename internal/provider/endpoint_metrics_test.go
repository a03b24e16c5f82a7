package provider

import (
	"context"
	"reflect"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
)

// TestImportedBalancerMetrics: an import proposes what gives the same, without the default port.
func TestImportedBalancerMetrics(t *testing.T) {
	ctx := context.Background()
	for name, c := range map[string]struct {
		metrics   *haproxy.Metrics
		directory string
	}{
		"none":            {nil, ""},
		"the exporter":    {&haproxy.Metrics{Address: "0.0.0.0", Port: haproxy.DefaultMetricsPort}, ""},
		"another port":    {&haproxy.Metrics{Address: "::", Port: 9000}, ""},
		"facts":           {nil, "/srv/facts"},
		"exporter, facts": {&haproxy.Metrics{Address: "::", Port: haproxy.DefaultMetricsPort}, "/srv/facts"},
	} {
		observed := observedBalancerMetrics(c.metrics, c.directory)
		object, diags := types.ObjectValueFrom(ctx, balancerMetricsTypes, observed)
		if diags.HasError() {
			t.Fatal(diags)
		}
		m := haproxyModel{Metrics: object}
		if got := m.metrics(ctx); !reflect.DeepEqual(got, c.metrics) || m.textfileDirectory() != c.directory {
			t.Errorf("%s: %+v and %q", name, got, m.textfileDirectory())
		}
		if observed != nil && observed.Port != nil && *observed.Port == haproxy.DefaultMetricsPort {
			t.Errorf("%s: the default port is set", name)
		}
	}
}
