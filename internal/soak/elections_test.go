package soak

import (
	"testing"
	"time"
)

func TestParseElections(t *testing.T) {
	cut := time.UnixMicro(1_700_000_000_500_000)
	for text, want := range map[string]elections{
		"":                            {},
		"address 1700000001.310000\n": {address: 810 * time.Millisecond},
		"etcd 1700000001.750000\n":    {etcd: 1250 * time.Millisecond},
		"address 1700000001.310000\netcd 1700000001.750000\n":    {810 * time.Millisecond, 1250 * time.Millisecond},
		"address 1700000000.400000\naddress 1700000001.310000\n": {address: 810 * time.Millisecond},
		"etcd 1700000000.500000\n":                               {},
		"address 1700000003.000000\naddress 1700000001.310000\n": {address: 810 * time.Millisecond},
	} {
		got, err := parseElections(cut, text)
		got.address, got.etcd = got.address.Round(time.Millisecond), got.etcd.Round(time.Millisecond)
		if err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"address soon\n", "leader 1700000001.310000\n"} {
		if got, err := parseElections(cut, text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
	for _, c := range []struct{ a, b, want time.Duration }{{0, 0, 0}, {0, 2, 2}, {1, 0, 1}, {1, 2, 1}, {3, 2, 2}} {
		if got := earlier(c.a, c.b); got != c.want {
			t.Errorf("earlier(%d, %d) = %d", c.a, c.b, got)
		}
	}
}
