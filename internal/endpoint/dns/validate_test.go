package dns

import (
	"fmt"
	"strings"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
)

func testSpec() Spec {
	return Spec{
		ClusterID: "abc", Address: "api.example.com", Targets: map[string]string{"cp1": "10.0.0.11", "cp2": "10.0.0.12"},
		Zone: endpoint.Zone{
			Name: "example.com", Server: "10.0.0.53:53", TTL: 5 * time.Second, TSIGKey: "api-key",
			CheckInterval: time.Second, CheckThreshold: 3,
		},
	}
}

// TestValidate: what a configuration, or a machine's record, must not contain.
func TestValidate(t *testing.T) {
	if err := Validate(testSpec().Registration()); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		change func(*Spec)
		want   string
	}{
		"an address":         {func(s *Spec) { s.Address = "10.0.0.100" }, "not a DNS name"},
		"a shell command":    {func(s *Spec) { s.Address = "$(reboot).example.com" }, "not a DNS name"},
		"upper case":         {func(s *Spec) { s.Address = "API.example.com" }, "lower case"},
		"other zone":         {func(s *Spec) { s.Address = "api.example.org" }, "not in the zone"},
		"part of a label":    {func(s *Spec) { s.Address = "apiexample.com" }, "not in the zone"},
		"no target":          {func(s *Spec) { s.Targets = nil }, "at least one target"},
		"families":           {func(s *Spec) { s.Targets["cp2"] = "fd00::12" }, "of one family"},
		"server":             {func(s *Spec) { s.Zone.Server = "ns.example.com:53" }, "not IP:port"},
		"name server":        {func(s *Spec) { s.Zone.NameServers = []string{"10.0.0.53"} }, "not IP:port"},
		"zone":               {func(s *Spec) { s.Zone.Name = "example.com\nserver 10.0.0.1" }, "not a DNS name"},
		"key":                {func(s *Spec) { s.Zone.TSIGKey = `k" { ` }, "name of a key"},
		"no time to live":    {func(s *Spec) { s.Zone.TTL = 0 }, "time to live"},
		"long time to live":  {func(s *Spec) { s.Zone.TTL = time.Hour }, "time to live"},
		"parts of a second":  {func(s *Spec) { s.Zone.TTL = 1500 * time.Millisecond }, "time to live"},
		"interval":           {func(s *Spec) { s.Zone.CheckInterval = time.Millisecond }, "interval"},
		"threshold":          {func(s *Spec) { s.Zone.CheckThreshold = 0 }, "threshold"},
		"port":               {func(s *Spec) { s.Port = 70000 }, "port"},
		"probed from a name": {func(s *Spec) { s.ProbeFrom = "operator" }, "operator"},
	} {
		t.Run(name, func(t *testing.T) {
			s := testSpec()
			c.change(&s)
			if err := Validate(s.Registration()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Validate gives %v, want %q", err, c.want)
			}
		})
	}
	if err := Validate(endpoint.Registration{Kind: endpoint.DNS, Address: "api.example.com"}); err == nil {
		t.Error("a registration without a zone is accepted")
	}
}

func TestServerAddress(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.53": "10.0.0.53:53", "10.0.0.53:5353": "10.0.0.53:5353", "fd00::53": "[fd00::53]:53",
		"[fd00::53]:5353": "[fd00::53]:5353", "ns.example.com": "", "10.0.0.53:0": "", "": "",
	} {
		got, err := ServerAddress(text)
		if (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
		if err == nil && WithoutDefaultPort(got) != text {
			t.Errorf("%q is imported as %q", text, WithoutDefaultPort(got))
		}
	}
}

// TestKey: a key is checked, and its secret is never printed.
func TestKey(t *testing.T) {
	good := Key{Algorithm: "hmac-sha256", Secret: "c2VjcmV0LXNlY3JldC1zZWNyZXQ="}
	if err := ValidateKey("api-key", good); err != nil {
		t.Error(err)
	}
	for name, k := range map[string]Key{
		"key\"":  good,
		"api":    {Algorithm: "hmac-sha256", Secret: "not base64!"},
		"api.k2": {Algorithm: "hmac-sha256", Secret: "c2hvcnQ="},
	} {
		if err := ValidateKey(name, k); err == nil || strings.Contains(err.Error(), k.Secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if text := fmt.Sprintf("%v %+v %#v %s", good, good, good, good); strings.Contains(text, good.Secret) {
		t.Errorf("the secret is printed: %s", text)
	}
}

// TestLimits: the ends of each range are valid, and what lies beyond is not.
func TestLimits(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*endpoint.Zone)
		valid  bool
	}{
		"shortest time to live": {func(z *endpoint.Zone) { z.TTL = time.Second }, true},
		"longest time to live":  {func(z *endpoint.Zone) { z.TTL = time.Minute }, true},
		"longer":                {func(z *endpoint.Zone) { z.TTL = 61 * time.Second }, false},
		"shortest interval":     {func(z *endpoint.Zone) { z.CheckInterval = 500 * time.Millisecond }, true},
		"longest interval":      {func(z *endpoint.Zone) { z.CheckInterval = time.Minute }, true},
		"longer interval":       {func(z *endpoint.Zone) { z.CheckInterval = time.Minute + time.Second }, false},
		"one check":             {func(z *endpoint.Zone) { z.CheckThreshold = 1 }, true},
		"a hundred checks":      {func(z *endpoint.Zone) { z.CheckThreshold = 100 }, true},
		"more checks":           {func(z *endpoint.Zone) { z.CheckThreshold = 101 }, false},
	} {
		zone := testSpec().Zone
		c.change(&zone)
		if err := ValidateZone(zone); (err == nil) != c.valid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFamilyOf: the type of a target's record.
func TestFamilyOf(t *testing.T) {
	for address, want := range map[string]uint16{
		"10.0.0.11": miekg.TypeA, "fd00::11": miekg.TypeAAAA, "cp1": miekg.TypeA,
	} {
		if got := familyOf(address); got != want {
			t.Errorf("%s: %d, want %d", address, got, want)
		}
	}
	s := testSpec()
	s.Targets = map[string]string{"cp1": "fd00::11", "cp2": "fd00::12"}
	if err := Validate(s.Registration()); err != nil {
		t.Error(err)
	}
}
