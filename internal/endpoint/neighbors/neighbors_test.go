package neighbors

import (
	"reflect"
	"strings"
	"testing"
	"unicode"
)

func TestParse(t *testing.T) {
	got := Parse("10.0.0.100 dev eth0 lladdr 02:00:00:00:00:01 REACHABLE\nfd00::100 dev eth0 FAILED\n" +
		"fd00::101 dev eth0 lladdr nonsense STALE\nnonsense lladdr 02:00:00:00:00:02\nfd00::102 lladdr\n" +
		"hardware 02:00:00:00:00:0A\nhardware 00:00:00:00:00:00\nhardware\nhardware a b\n")
	want := Answers{
		By:  map[string]string{"10.0.0.100": "02:00:00:00:00:01", "fd00::101": Unknown},
		Own: []string{"02:00:00:00:00:0a", "00:00:00:00:00:00"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	if got := Parse("device eth0\n"); len(got.By) > 0 || got.Own != nil {
		t.Errorf("without a probe: %+v", got)
	}
}

func TestStranger(t *testing.T) {
	asks := Answers{By: map[string]string{"10.0.0.100": "02:01", "10.0.0.101": "02:02"}, Own: []string{"02:00"}}
	another := Answers{Own: []string{"00:00", "02:02"}}
	for address, want := range map[string]string{"10.0.0.100": "02:01", "10.0.0.101": "", "10.0.0.102": ""} {
		if got := Stranger(address, asks, asks, another); got != want {
			t.Errorf("%s is on %q, want %q", address, got, want)
		}
	}
	if got := Stranger("10.0.0.101", asks, asks); got != "02:02" {
		t.Errorf("a machine that has not probed: %q", got)
	}
}

// FuzzParse verifies that what the network says about an address is addresses only.
func FuzzParse(f *testing.F) {
	f.Add("10.0.0.100 dev eth0 lladdr 02:00:00:00:00:01 REACHABLE\nfd00::100 dev eth0 FAILED\n")
	f.Add("$(id) lladdr 02:00:00:00:00:01\nfd00::100 lladdr \x1b[2J\nhardware \x1b[2J\n")
	f.Fuzz(func(t *testing.T, text string) {
		a := Parse(text)
		for ip, mac := range a.By {
			if strings.ContainsFunc(ip+mac, unicode.IsControl) {
				t.Errorf("%q is parsed as %q at %q", text, ip, mac)
			}
		}
		for _, mac := range a.Own {
			if strings.ContainsFunc(mac, unicode.IsControl) {
				t.Errorf("%q has its own %q", text, mac)
			}
		}
	})
}
