package soak

import (
	"errors"
	"testing"
)

func TestParseServed(t *testing.T) {
	const status = `[{"Endpoint":"https://127.0.0.1:2379","Status":` +
		`{"header":{"cluster_id":17931110193459215573,"member_id":7},"leader":7}}]`
	for out, want := range map[string]served{
		"": {}, status + "\n\nlinearizable\n": {17931110193459215573, true}, status + "\n\n": {17931110193459215573, false},
	} {
		if got, err := parseServed(out); err != nil || got != want {
			t.Errorf("%q is read as %+v, %v", out, got, err)
		}
	}
	for _, out := range []string{"soon", "[]"} {
		if got, err := parseServed(out); err == nil {
			t.Errorf("%q is read as %+v", out, got)
		}
	}
}

func TestClusterNotServing(t *testing.T) {
	for _, c := range []struct {
		name         string
		cluster      uint64
		answers      map[string]served
		other, alive bool
	}{
		{"all", 1, map[string]served{"a": {1, true}, "b": {1, true}}, false, true},
		{"the first look", 0, map[string]served{"a": {1, true}, "b": {}}, false, true},
		{"one restarts", 1, map[string]served{"a": {1, true}, "b": {1, false}, "c": {}}, false, true},
		{"no quorum", 1, map[string]served{"a": {1, false}}, false, false},
		{"nobody", 1, map[string]served{"a": {}}, false, false},
		{"another one", 1, map[string]served{"a": {2, true}}, true, false},
		{"a second one", 0, map[string]served{"a": {1, true}, "b": {2, true}}, true, false},
	} {
		err := checkCluster(c.cluster, c.answers)
		if (err == nil) != c.alive || errors.Is(err, errOtherCluster) != c.other {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
