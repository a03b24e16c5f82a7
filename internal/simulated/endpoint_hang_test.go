package simulated

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/external"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/kubevip"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestEndpointWithHungMachine: while the machine of one replica hangs, an external endpoint is read and registers the
// others, and what asks that machine says so before its time has passed.
func TestEndpointWithHungMachine(t *testing.T) {
	fleet, p := planeOn(t, 1)
	machines := fleet.clusters[0].machines
	hung, healthy := machines[0], machines[1]
	atExternal := external.Spec{
		ClusterID: p.endpoint.ClusterID, Address: healthy.address, Targets: map[string]string{}, ProbeFrom: healthy.address,
	}
	names := map[string]string{}
	for _, m := range machines {
		names[m.address], atExternal.Targets[m.name] = m.name, m.address
	}
	ids := []string{atExternal.Registration().ID()}
	observer := targets.NewObserver(p.machine, func(ctx context.Context, address string) (targets.Replica, error) {
		_, err := p.replicas.Recorded(ctx, p.machine(address))
		return targets.Replica{Name: names[address], Port: 6443, ClusterID: p.endpoint.ClusterID, Endpoints: ids}, err
	})
	onExternal := external.New(observer)
	onKubeVIP := kubevip.New(observer, nil).For(kubevip.Spec{
		ClusterID: p.endpoint.ClusterID, Address: fleet.clusters[0].vip, Targets: atExternal.Targets,
	}.Registration())
	hang(t, hung)

	var all sync.WaitGroup
	read := func(what string, want error, f func(ctx context.Context) error) {
		all.Go(func() {
			err := inTime(t, 15*time.Second, f)
			if !errors.Is(err, want) || want != nil && !strings.Contains(err.Error(), hung.address) {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		})
	}
	read("an external endpoint", nil, func(ctx context.Context) error {
		status, err := onExternal.Read(ctx, atExternal)
		if err == nil && len(status.Drift) > 0 {
			return fmt.Errorf("drift: %q", status.Drift)
		}
		return err
	})
	read("another replica at an external endpoint", nil, func(ctx context.Context) error {
		return onExternal.For(atExternal.Registration()).Register(ctx, healthy.name, healthy.address+":6443")
	})
	read("the machines of an endpoint with agents", host.ErrNoAnswer, func(ctx context.Context) error {
		seen := onKubeVIP.ObserveMachines(ctx)
		if err := seen[healthy.name].Err; errors.Is(err, host.ErrNoAnswer) {
			t.Errorf("another machine was not asked: %v", err)
		}
		return seen[hung.name].Err
	})
	read("a replica at an endpoint with agents", host.ErrNoAnswer, func(ctx context.Context) error {
		_, err := onKubeVIP.Registered(ctx, hung.name, hung.address+":6443")
		if err != nil && !strings.Contains(err.Error(), host.HangRemedy) {
			t.Errorf("the next step is missing: %v", err)
		}
		return err
	})
	all.Wait()
}
