package bench

import (
	"context"
	"fmt"
	"slices"
)

// The first apply, and what it is compared with.
const (
	applied      = "terraform apply, from nothing"
	planned      = "terraform plan, nothing to do"
	emptyPlan    = "terraform plan of terraform_data"
	floorServing = "floor until all API servers are ready"
	floorWhole   = "floor until everything is ready and the virtual IP answers"
)

// controlPlane measures the first apply, plans, memory, and the day-2 operations. Each round
// measures everything once, so that a computer that becomes slower or faster meanwhile changes
// a figure and its reference alike.
func (b *bench) controlPlane(ctx context.Context) ([]Result, error) {
	peak := 0.0
	all, err := b.inRounds(rounds, func(round int) (times, error) {
		took, memory, err := b.controlPlaneRound(ctx, round)
		peak = max(peak, memory)
		return took, err
	})
	if len(all) == 0 {
		return nil, err
	}
	return slices.Concat([]Result{
		measured("floor: processes started by a script, until all API servers are ready", all[floorServing], "s"),
		measured("floor: the same, until everything is ready and the virtual IP answers", all[floorWhole], "s"),
		ratio("terraform apply, three replicas, packages and programs present, against the first floor", all[applied],
			all[floorServing], 1.5, "s"),
		ratioTo("terraform apply, three replicas, packages and programs present, against the second floor", all[applied],
			all[floorWhole], "s"),
		difference(planned, all[planned], all[emptyPlan], 1, "s"),
		figure("peak memory of the provider", peak, "MiB"),
	}, compareDayTwo(all)), err
}

// controlPlaneRound measures a control plane on new machines: with Terraform, then the same
// steps by hand, then the floor. It returns the peak memory of the provider too, in MiB.
func (b *bench) controlPlaneRound(ctx context.Context, round int) (times, float64, error) {
	took := times{}
	if err := b.renew(ctx); err != nil {
		return nil, 0, err
	}
	memory := watch(b.work.ProviderPath())
	err := b.firstApply(ctx, took)
	peak := memory.stop()
	if err != nil {
		return nil, 0, err
	}
	for _, measure := range []func(context.Context, int, times) error{b.dayTwo, b.byHand, b.floor} {
		if err := measure(ctx, round, took); err != nil {
			return nil, 0, err
		}
	}
	return took, peak, nil
}

// firstApply measures the apply of the whole control plane on bare machines that have the
// programs and packages, and plans without changes.
func (b *bench) firstApply(ctx context.Context, took times) error {
	if err := b.want(few, map[string]string{}); err != nil {
		return err
	}
	if err := b.prepare(ctx, b.first(few), newer); err != nil {
		return err
	}
	trivial, err := b.trivial(ctx, 1)
	if err != nil {
		return err
	}
	for _, m := range []struct {
		name string
		act  func() error
	}{
		{applied, func() error { _, err := b.work.Apply(ctx, b.log); return err }},
		{planned, func() error { _, err := b.planned(ctx, b.work); return err }},
		{emptyPlan, func() error { _, err := b.planned(ctx, trivial); return err }},
	} {
		seconds, err := timed(m.act)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		fmt.Fprintf(b.log, "%s: %.2f s\n", m.name, seconds)
		took[m.name] = append(took[m.name], seconds)
	}
	return nil
}
