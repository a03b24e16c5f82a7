package haproxy

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

const otherCluster = "fedcba9876543210fedcba9876543210"

// other is another cluster's endpoint on the same hosts.
func (f *fixture) other() Spec {
	s := f.spec
	s.ClusterID, s.ClusterName, s.Address = otherCluster, "other", "10.95.0.101"
	return s
}

// stepTwoEndpoints: two processes that see bare hosts do not both get them.
func stepTwoEndpoints(f *fixture) {
	specs := []Spec{f.spec, f.other()}
	failed := make([]error, len(specs))
	var both sync.WaitGroup
	for i, s := range specs {
		both.Go(func() { _, failed[i] = Create(f.ctx, s) })
	}
	both.Wait()
	won := slices.Index(failed, nil)
	if won < 0 || failed[1-won] == nil {
		f.Fatalf("%v", failed)
	}
	lost := failed[1-won]
	if !problem.Untouched(lost) || !strings.Contains(lost.Error(), "hosts belong to another endpoint") {
		f.Errorf("the other one: %v", lost)
	}
	if again, err := NewRegistrars(f.machine).Read(f.ctx, specs[won]); err != nil || len(again.Drift) > 0 {
		f.Errorf("the one that was created: %+v, %v", again, err)
	}
	if _, err := NewRegistrars(f.machine).Read(f.ctx, specs[1-won]); !errors.Is(err, endpoint.ErrGone) {
		f.Errorf("the refused one: %v", err)
	}
	f.must(Delete(f.ctx, specs[won], DeleteOptions{}))
	f.assertClean()
}

// stepOtherEndpoints: an endpoint keeps its hosts, and its rotation.
func stepOtherEndpoints(f *fixture) {
	before := f.read()
	wantErr := "the machine belongs to the endpoint " + labVIP + " of cluster lab (id " + testCluster + ")"
	sameAddress := f.other()
	sameAddress.Address = labVIP
	otherEndpoint := f.spec
	otherEndpoint.Address = "10.95.0.101"
	for what, s := range map[string]Spec{
		"another cluster": f.other(), "its address too": sameAddress,
		"another address": otherEndpoint,
	} {
		if _, err := Create(f.ctx, s); err == nil || !problem.Untouched(err) ||
			!strings.Contains(err.Error(), "b (10.95.0.12): "+wantErr) {
			f.Errorf("%s, created: %v", what, err)
		}
		if _, err := Update(f.ctx, s, s); err == nil || !problem.Untouched(err) || !strings.Contains(err.Error(), wantErr) {
			f.Errorf("%s, changed: %v", what, err)
		}
		var alone []string
		f.must(Delete(f.ctx, s, DeleteOptions{LeftAlone: func(why string) { alone = append(alone, why) }}))
		if len(alone) != 3 || !strings.Contains(alone[1], "b (10.95.0.12): "+wantErr+", left alone") {
			f.Errorf("%s, deleted: %q", what, alone)
		}
	}
	r := NewRegistrars(f.machine).For(f.other().Registration())
	for what, err := range map[string]error{
		"registered":   r.Register(f.ctx, "zz", "10.95.0.12:7443"),
		"deregistered": r.Deregister(f.ctx, "a"),
	} {
		if err == nil || !strings.Contains(err.Error(), "it belongs to another endpoint: "+wantErr) {
			f.Errorf("%s: %v", what, err)
		}
	}
	if _, err := r.runOnAll(f.ctx, backendCommand("drain", drainScript, server{Name: "a"}, 0)); !errors.Is(err, errOther) {
		f.Errorf("drained: %v", err)
	}
	if now := f.read(); len(now.Drift) > 0 || !maps.Equal(now.backends, before.backends) {
		f.Errorf("afterwards: %+v", now)
	}
}

// leavesOtherEndpointAlone: a host that belongs to another endpoint by now is not
// cleaned, and nothing is changed beside it.
func (f *fixture) leavesOtherEndpointAlone() {
	f.shell("c", "sed -i s/"+testCluster+"/"+otherCluster+"/ "+recordPath)
	got := f.read()
	if !slices.Contains(got.Drift, "c: the machine belongs to the endpoint "+labVIP+" of cluster lab (id "+otherCluster+
		")") {
		f.Errorf("drift %q", got.Drift)
	}
	if _, err := Update(f.ctx, f.spec, f.spec); err == nil || !problem.Untouched(err) {
		f.Errorf("changed: %v", err)
	}
	var alone []string
	f.must(Delete(f.ctx, f.spec, DeleteOptions{LeftAlone: func(why string) { alone = append(alone, why) }}))
	if len(alone) != 1 || !strings.HasPrefix(alone[0], "c (10.95.0.13): ") {
		f.Errorf("left alone: %q", alone)
	}
	if state := f.shell("c", "systemctl is-active "+haproxyUnit+" "+keepalivedUnit); strings.TrimSpace(
		state) != "active\nactive" {
		f.Errorf("on c: %q", state)
	}
	f.shell("c", "sed -i s/"+otherCluster+"/"+testCluster+"/ "+recordPath)
}
