package haproxy

import (
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestRenderMetrics: the exporter is a frontend of its own, and changes no other section.
func TestRenderMetrics(t *testing.T) {
	s := threeHosts()
	s.Konnectivity = &Konnectivity{Port: 8132}
	before := renderHAProxy(s)
	for address, bind := range map[string]string{"0.0.0.0": "    bind 0.0.0.0:8405\n", "::": "    bind :::8405 v4v6\n"} {
		s.Metrics = &Metrics{Address: address, Port: 8405}
		got, own := strings.CutPrefix(renderHAProxy(s), before)
		if !own || !strings.HasPrefix(got, metricsHeading+bind) ||
			!strings.Contains(got, "http-request use-service prometheus-exporter if { path /metrics }\n") {
			t.Errorf("%s: rendered\n%s", address, got)
		}
	}
}

func TestValidateMetrics(t *testing.T) {
	tunnel := &Konnectivity{Port: 8132}
	for _, c := range []struct {
		m    Metrics
		want string
	}{
		{Metrics{"0.0.0.0", 8405}, ""},
		{Metrics{"::", 65535}, ""},
		{Metrics{"::", 1024}, ""},
		{Metrics{"10.0.0.11", 8405}, "not one of"},
		{Metrics{"", 8405}, "not one of"},
		{Metrics{"0.0.0.0", 1023}, "not between"},
		{Metrics{"0.0.0.0", 65536}, "not between"},
		{Metrics{"0.0.0.0", 6443}, "that of the API"},
		{Metrics{"0.0.0.0", 8132}, "that of konnectivity"},
	} {
		err := ValidateMetrics(&c.m, 6443, tunnel)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.m, err, c.want)
		}
	}
	if err := ValidateMetrics(nil, 6443, nil); err != nil {
		t.Errorf("without metrics: %v", err)
	}
}

// TestImportMetrics: the exporter is read from what was rendered, whatever else there is.
func TestImportMetrics(t *testing.T) {
	for _, c := range []struct {
		name    string
		m       *Metrics
		tunnel  *Konnectivity
		edit    [2]string
		refused bool
	}{
		{"none", nil, nil, [2]string{}, false},
		{"none beside agents", nil, &Konnectivity{Port: 8132}, [2]string{}, false},
		{"IPv4", &Metrics{"0.0.0.0", 8405}, nil, [2]string{}, false},
		{"IPv6 beside agents", &Metrics{"::", 9000}, &Konnectivity{Port: 8132}, [2]string{}, false},
		{"another address", &Metrics{"0.0.0.0", 8405}, nil, [2]string{"0.0.0.0:8405", "10.0.0.11:8405"}, true},
		{"no port", &Metrics{"0.0.0.0", 8405}, nil, [2]string{"0.0.0.0:8405", "0.0.0.0"}, true},
		{"a command", &Metrics{"0.0.0.0", 8405}, nil, [2]string{"0.0.0.0:8405", "$(reboot):8405"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := threeHosts()
			s.Metrics, s.Konnectivity = c.m, c.tunnel
			text := renderHAProxy(s)
			if c.edit[0] != "" {
				text = strings.Replace(text, c.edit[0], c.edit[1], 1)
			}
			own, err := rendered(s.Hosts["cp1"], host.Facts{Files: map[string]host.FileState{
				endpointPath: {Content: text}, keepalivedPath: {Content: renderKeepalived(s, "cp1", "eth0")},
				recordPath: {Content: recordText(s)},
			}})
			if (err != nil) != c.refused {
				t.Fatalf("refused: %v", err)
			}
			if err != nil {
				return
			}
			got := own.imported().Metrics
			if (got == nil) != (c.m == nil) || got != nil && *got != *c.m {
				t.Errorf("got %+v, want %+v", got, c.m)
			}
			if (own.konnectivity == nil) != (c.tunnel == nil) {
				t.Errorf("agents: %+v", own.konnectivity)
			}
		})
	}
}

// TestMetricsPort: a port that another program has is refused; HAProxy's own is not.
func TestMetricsPort(t *testing.T) {
	s := threeHosts()
	taken := balancer{facts: host.Facts{Listeners: map[int]host.Listener{
		8405: {Addresses: []string{"127.0.0.1"}, Process: "other"},
	}}}
	if got := metricsPortProblem(s, taken); got != "" {
		t.Errorf("without metrics: %q", got)
	}
	s.Metrics = &Metrics{"0.0.0.0", 8405}
	if got := metricsPortProblem(s, taken); !strings.Contains(got, "other listens on port 8405") {
		t.Errorf("taken: %q", got)
	}
	if got := metricsPortProblem(s, balancer{}); got != "" {
		t.Errorf("free: %q", got)
	}
	own := balancer{facts: host.Facts{
		Listeners: map[int]host.Listener{8405: {Addresses: []string{"0.0.0.0"}, Process: "haproxy"}},
		Units:     map[string]host.UnitState{haproxyUnit: {Active: "active"}},
	}}
	if got := metricsPortProblem(s, own); got != "" {
		t.Errorf("its own: %q", got)
	}
	own.facts.Units = nil
	if got := metricsPortProblem(s, own); got == "" {
		t.Error("the port of another HAProxy is not refused")
	}
}
