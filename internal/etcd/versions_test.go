package etcd

import (
	"context"
	"errors"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/poll"
)

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
	done, err := poll.Until(f.context(), f.clusters.pace.Poll, f.clusters.pace.StallTimeout, func() (bool, error) {
		got, err := f.clusters.Survey(f.context(), hosts, f.bundle)
		// the first cluster version is set after the first election
		if err != nil || got.ClusterVersion == "" || len(got.Members) != 3 {
			return false, nil
		}
		leaders := 0
		for _, m := range got.Members {
			if m.Leader {
				leaders++
			}
			if alive := m.Name != "cp2"; m.Healthy != alive || (m.Version == "3.6.16") != alive || (m.Trouble == "") != alive ||
				m.Address != f.address(m.Name) {
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
	if _, err := f.clusters.Survey(f.context(), hosts, f.bundle); !errors.Is(err, client.ErrNoAnswer) {
		t.Errorf("survey without a quorum: %v", err)
	}
	ctx, cancel := context.WithCancel(f.context())
	cancel()
	if _, err := f.clusters.SaveSnapshot(ctx, hosts, f.bundle, "before"); err == nil {
		t.Error("a snapshot without a quorum")
	}
}
