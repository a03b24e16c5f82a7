package haproxy

import (
	"maps"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestRenderKonnectivity: agents have a port of their own, at each address, with every target behind it.
func TestRenderKonnectivity(t *testing.T) {
	s := threeHosts()
	before := renderHAProxy(s)
	s.Konnectivity = &Konnectivity{Port: 8132}
	got, own := strings.CutPrefix(renderHAProxy(s), before)
	if !own {
		t.Fatalf("the sections of the API changed:\n%s", renderHAProxy(s))
	}
	const want = `
frontend konnectivity
    bind 10.0.0.100:8132 transparent
    default_backend konnectivity

backend konnectivity
    balance roundrobin
    option tcp-check
    default-server check no-check-ssl inter 1s fastinter 500ms fall 2 rise 1
    server cp1 10.0.0.11:8132 tcp-ut 5s
    server cp2 10.0.0.12:8132 tcp-ut 5s
    server cp3 10.0.0.13:8132 tcp-ut 5s
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	s.Address6, s.Konnectivity.Targets = "fd00::100", map[string]string{"r1": "fd00::21"}
	got = renderHAProxy(s)
	for _, line := range []string{"    bind [fd00::100]:8132 transparent\n", "    server r1 [fd00::21]:8132 tcp-ut 5s\n"} {
		if !strings.Contains(got, line) || strings.Contains(got, "server cp1") {
			t.Errorf("no %q, or other servers, in\n%s", line, got)
		}
	}
}

func TestValidateKonnectivity(t *testing.T) {
	for _, c := range []struct {
		k    Konnectivity
		want string
	}{
		{Konnectivity{Port: 8132}, ""},
		{Konnectivity{Port: 8132, Targets: map[string]string{"a": "10.0.0.1"}}, ""},
		{Konnectivity{Port: 6443}, "is that of the API"},
		{Konnectivity{Port: 80}, "not between"},
		{Konnectivity{Port: 8132, Targets: map[string]string{}}, "no targets"},
		{Konnectivity{Port: 8132, Targets: map[string]string{"a": "name"}}, "is not an IP address"},
		{Konnectivity{Port: 8132, Targets: map[string]string{"a b": "10.0.0.1"}}, "letters"},
	} {
		err := ValidateKonnectivity(&c.k, 6443)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.k, err, c.want)
		}
	}
}

// TestImportKonnectivity: the port of agents is read from what was rendered, beside the virtual IPs.
func TestImportKonnectivity(t *testing.T) {
	for _, c := range []struct {
		name   string
		k      *Konnectivity
		edited string
	}{
		{"none", nil, ""},
		{"hosts", &Konnectivity{Port: 8132}, ""},
		{"targets", &Konnectivity{Port: 9132, Targets: map[string]string{"r1": "10.0.0.21"}}, ""},
		{"edited", &Konnectivity{Port: 8132}, "10.0.0.11:8132"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := threeHosts()
			s.Konnectivity = c.k
			text := renderHAProxy(s)
			if c.edited != "" {
				text = strings.Replace(text, c.edited, "10.0.0.11:9", 1)
			}
			facts := host.Facts{Files: map[string]host.FileState{
				endpointPath: {Content: text}, keepalivedPath: {Content: renderKeepalived(s, "cp1", "eth0")},
				recordPath: {Content: recordText(s)},
			}}
			own, err := rendered(s.Hosts["cp1"], facts)
			if c.edited != "" {
				if err == nil {
					t.Error("an edited target is imported")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := own.konnectivity.withHosts(s.addresses())
			if (got == nil) != (c.k == nil) ||
				got != nil && (got.Port != c.k.Port || !maps.Equal(got.Targets, c.k.Targets)) {
				t.Errorf("got %+v, want %+v", got, c.k)
			}
			if len(own.others) > 0 || own.vip.Port() != 6443 {
				t.Errorf("the API is at %v and %v", own.vip, own.others)
			}
		})
	}
}
