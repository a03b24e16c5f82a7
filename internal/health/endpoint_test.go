package health

import (
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
)

func TestWhere(t *testing.T) {
	for name, c := range map[string]struct {
		others, holds []string
		targets       *targets.Health
		want          string
	}{
		"one address":          {nil, []string{"10.0.0.100"}, nil, "10.0.0.100 on cp1"},
		"one address, nowhere": {nil, nil, nil, "10.0.0.100 on no observed balancer"},
		"two addresses on one balancer": {
			[]string{"fd00::100"}, []string{"10.0.0.100", "fd00::100"}, nil, "10.0.0.100 and fd00::100 on cp1",
		},
		"only one of two addresses": {
			[]string{"fd00::100"}, []string{"10.0.0.100"}, nil, "10.0.0.100 and fd00::100 on no observed balancer",
		},
		"without balancers":              {nil, nil, &targets.Health{}, "10.0.0.100 answers"},
		"without balancers, no response": {nil, nil, &targets.Health{Silence: "refused"}, "10.0.0.100 does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			e := Endpoint{
				Health: haproxy.Health{
					Address: "10.0.0.100", Others: c.others,
					Balancers: map[string]haproxy.Balancer{"cp1": {Holds: c.holds}, "cp2": {}},
				},
				Targets: c.targets,
			}
			if got := e.where(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
