package etcd

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// running is a survey of members with these versions.
func running(cluster string, versions ...string) Survey {
	s := Survey{ClusterVersion: cluster}
	for i, version := range versions {
		name := string(rune('a' + i))
		s.Members = append(s.Members, Runs{Name: name, Address: "10.0.0." + name, Version: version, Healthy: version != ""})
	}
	return s
}

func TestMayUpgrade(t *testing.T) {
	for _, c := range []struct {
		name   string
		survey Survey
		target string
		want   []string // none: it may
	}{
		{"nobody", running(""), "3.6.16", nil},
		{"patch", running("3.6", "3.6.15", "3.6.15", "3.6.15"), "3.6.16", nil},
		{"patch back", running("3.6", "3.6.16", "3.6.16"), "3.6.15", nil},
		{"minor", running("3.5", "3.5.35", "3.5.35", "3.5.35"), "3.6.16", nil},
		{"minor under way", running("3.5", "3.6.16", "3.5.35", "3.5.35"), "3.6.16", nil},
		{"minor, nobody tells the agreed one", running("", "3.6.16", "3.5.35"), "3.6.16", nil},
		{"one does not answer", running("3.5", "3.5.35", ""), "3.6.16", nil},
		{"given up half-way", running("3.5", "3.6.16", "3.6.16", "3.5.35"), "3.5.35", nil},
		{"given up when all have it", running("3.6", "3.6.16", "3.6.16"), "3.5.35", []string{"agreed on it", "restore a snapshot"}},
		{"given up when all have it and the leader has not noticed", running("3.5", "3.6.16", "3.6.16"), "3.5.35", []string{"member a", "member b", "older"}},
		{"given up, nobody tells the agreed one", running("", "3.6.16", "3.5.35"), "3.5.35", []string{"member a", "older"}},
		{"one is too old for 3.6", running("3.5", "3.5.35", "3.5.25", "3.5.35"), "3.6.16", []string{"member b (10.0.0.b) runs 3.5.25", "3.5.26 or later"}},
		{"all broken rules are named", running("3.5", "3.5.20", "3.5.25", "3.5.35"), "3.6.16", []string{"member a", "member b"}},
		{"one is too old for 3.7", running("3.6", "3.6.16", "3.6.4"), "3.7.0", []string{"member b", "3.6.11 or later"}},
		{"a skipped minor", running("3.5", "3.5.35"), "3.7.0", []string{"3.6 first"}},
		{"a skipped minor, nobody tells", running("", "3.5.35"), "3.7.0", []string{"3.6 first"}},
		{"not agreed on the one before", running("3.5", "3.6.16", "3.6.16"), "3.7.0", []string{"agreed on 3.5 so far"}},
		{"malformed", running("3.5", "3.5.35"), "v3.6", []string{"malformed"}},
	} {
		err := MayUpgrade(c.survey, c.target)
		if (err == nil) != (len(c.want) == 0) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q lacks %q", c.name, err, want)
			}
		}
	}
}

func TestSurvey(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	f.create(specs, "cp1", "cp2", "cp3")
	f.calm(specs["cp1"])
	f.kill("cp2", true)
	hosts := map[string]*host.Host{}
	for _, s := range specs {
		hosts[s.Host.Address()] = s.Host
	}
	f.clusters = f.coordinator()
	done, err := until(f.context(), f.clusters.pace.Poll, f.clusters.pace.Serving, func() (bool, error) {
		got, err := f.clusters.Survey(f.context(), hosts, f.bundle)
		if err != nil || got.ClusterVersion == "" || len(got.Members) != 3 { // the first version is agreed on after the first election
			return false, nil
		}
		leaders := 0
		for _, m := range got.Members {
			if m.Leader {
				leaders++
			}
			if alive := m.Name != "cp2"; m.Healthy != alive || (m.Version == "3.6.16") != alive || (m.Trouble == "") != alive || m.Address != f.address(m.Name) {
				return false, nil
			}
		}
		return got.ClusterVersion == "3.6" && leaders == 1, nil
	})
	if !done || err != nil {
		got, again := f.clusters.Survey(f.context(), hosts, f.bundle)
		t.Fatalf("survey = %+v, %v (%v)", got, again, err)
	}
	f.kill("cp1", true)
	if _, err := f.clusters.Survey(f.context(), hosts, f.bundle); !errors.Is(err, errNoAnswer) {
		t.Errorf("survey without a quorum: %v", err)
	}
	ctx, cancel := context.WithCancel(f.context())
	cancel()
	if _, err := f.clusters.SaveSnapshot(ctx, hosts, f.bundle, "before"); err == nil {
		t.Error("a snapshot without a quorum")
	}
}
