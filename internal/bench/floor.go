package bench

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
)

// units are the units of a control plane on one machine.
const units = "kube-endpoint-haproxy kube-endpoint-keepalived etcd kube-apiserver kube-controller-manager " +
	"kube-scheduler"

// floor measures the lower bound for every tool: it starts the same processes on the same
// machines, with certificates and configuration ready, by a script and all in parallel.
func (b *bench) floor(ctx context.Context, round int, took times) error {
	vars := map[string]string{"units": units, "cluster": b.initialCluster(), "round": strconv.Itoa(round)}
	if err := b.onEach(ctx, b.first(few), with(vars, emptyScript)); err != nil {
		return err
	}
	begun := time.Now()
	if err := b.onEach(ctx, b.first(few), "systemctl start --no-block "+units); err != nil {
		return err
	}
	serving, err := b.waitServing(ctx)
	if err != nil {
		return err
	}
	if err := b.waitWhole(ctx); err != nil {
		return err
	}
	took.add(times{
		floorServing: {serving.Sub(begun).Seconds()},
		floorWhole:   {time.Since(begun).Seconds()},
	})
	fmt.Fprintf(b.log, "floor: %.2f s, whole %.2f s\n", took[floorServing][0], took[floorWhole][0])
	return nil
}

func (b *bench) initialCluster() string {
	var members []string
	for _, m := range b.first(few) {
		members = append(members, fmt.Sprintf("%s=https://%s:2380", m.Name, m.Address))
	}
	return strings.Join(members, ",")
}

// waitServing waits until every API server is ready, and returns that time.
func (b *bench) waitServing(ctx context.Context) (time.Time, error) {
	group, ctx := errgroup.WithContext(ctx)
	for _, m := range b.first(few) {
		group.Go(func() error { return b.waitFor(ctx, fmt.Sprintf("https://%s:6443/readyz", m.Address)) })
	}
	err := group.Wait()
	return time.Now(), err
}

// waitWhole waits for the other components and the virtual IP: the end of an apply.
func (b *bench) waitWhole(ctx context.Context) error {
	if err := b.onEach(ctx, b.first(few), othersScript); err != nil {
		return err
	}
	return b.waitFor(ctx, fmt.Sprintf("https://%s:6443/readyz", b.work.VIP()))
}

// waitFor polls url until it answers with 200.
func (b *bench) waitFor(ctx context.Context, url string) error {
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{
		DialContext:       b.lab.DialContext,
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // only asks whether it is ready
	}}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 5*time.Minute, true,
		func(ctx context.Context) (bool, error) {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return false, err
			}
			response, err := client.Do(request)
			if err != nil {
				return false, nil //nolint:nilerr // it does not answer yet
			}
			return response.StatusCode == http.StatusOK, response.Body.Close()
		})
	if err != nil {
		return fmt.Errorf("wait for %s: %w", url, err)
	}
	return nil
}
