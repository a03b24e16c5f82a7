package controlplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/client"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/runtime"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

const (
	// readyTimeout is kubeadm's timeout for a control-plane component.
	readyTimeout = 4 * time.Minute
	// returnTimeout limits the start of a replica and its return to rotation. It includes what balancers need to find out
	// that it is ready, one endpoint after the other.
	returnTimeout = readyTimeout + 5*time.Minute
	pollInterval  = 150 * time.Millisecond
	watchInterval = 2 * time.Second
	// loopRestarts is how often a component may exit before it counts as crash-looping. Once or
	// twice is normal while etcd or the API server are starting.
	loopRestarts = 3
	logLines     = 15
)

// errNotReady means that a component did not become ready.
var errNotReady = errors.New("not ready")

// awaitReady waits until the API server is ready, then starts the components in d.restart and waits for them. apply has
// already restarted the API server if that was needed.
func awaitReady(ctx context.Context, s Spec, d changes) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	w := readinessWait{reasons: map[string]string{}, notStarted: map[string]bool{}}
	for _, name := range d.restart {
		if name != release.APIServer && name != component.KonnectivityServer {
			w.notStarted[name] = true
		}
	}
	group, groupCtx := errgroup.WithContext(ctx)
	watchCtx, stopWatching := context.WithCancel(groupCtx)
	serving := make(chan struct{})
	var waits sync.WaitGroup
	for _, c := range component.Of(s.Replica) {
		waits.Add(1)
		group.Go(func() error {
			defer waits.Done()
			switch {
			case c.Name == release.APIServer:
				return w.awaitAPIServer(groupCtx, s, c, serving)
			case c.StartsFirst:
				return w.poll(groupCtx, s, c)
			}
			return w.startAndAwait(groupCtx, s, c, d, serving)
		})
	}
	group.Go(func() error { return w.watch(watchCtx, s) })
	waits.Wait()
	stopWatching()
	if err := group.Wait(); err != nil {
		return w.explain(ctx, s, err)
	}
	return nil
}

// readinessWait contains the last state of the components that are being waited for.
type readinessWait struct {
	mu         sync.Mutex
	reasons    map[string]string // component → why it is not ready
	notStarted map[string]bool   // components that are not started yet; their state is ignored
	lacking    []string          // components whose static pod has no container
}

// setLacking records which of the states are those of a static pod without a container, at the end of a wait one that
// its kubelet has refused or cannot start.
func (w *readinessWait) setLacking(by runtime.Runtime, states map[string]host.UnitState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lacking = nil
	for name, state := range states {
		if !by.OnMachine() && state.Active == "activating" &&
			(state.Sub == "start" || state.Sub == runtime.WithoutContainer) {
			w.lacking = append(w.lacking, name)
		}
	}
}

// markStarted records that a component was started.
func (w *readinessWait) markStarted(component string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.notStarted, component)
}

// unbegun returns the components that are not started yet.
func (w *readinessWait) unbegun() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.notStarted))
}

func (w *readinessWait) setReason(component, reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if reason == client.Healthy {
		delete(w.reasons, component)
		return
	}
	w.reasons[component] = reason
}

// awaitAPIServer waits for the API server, and ensures the administrators' rights.
func (w *readinessWait) awaitAPIServer(
	ctx context.Context, s Spec, c component.Component, serving chan<- struct{},
) error {
	if err := w.poll(ctx, s, c); err != nil {
		return err
	}
	close(serving)
	return s.client().EnsureBindings(ctx)
}

// startAndAwait restarts one of the other components if needed, and waits for it.
func (w *readinessWait) startAndAwait(
	ctx context.Context, s Spec, c component.Component, d changes, serving <-chan struct{},
) error {
	select {
	case <-serving:
	case <-ctx.Done():
		return ctx.Err()
	}
	if d.restarts(c.Name) {
		problem.Progress(ctx, "%s: starting %s", s.Machine(), c.Name)
		start := host.Change{Script: d.start(runtime.Of(s.Replica), c.Name)}
		if definition, later := d.deferredUnits[c.Name]; later {
			start.Files = []host.File{definition}
		}
		if _, err := s.Host.Apply(ctx, start); err != nil {
			return fmt.Errorf("start %s on %s: %w", c.Name, s.Machine(), err)
		}
		w.markStarted(c.Name)
	}
	return w.poll(ctx, s, c)
}

// poll probes c until it is ready.
func (w *readinessWait) poll(ctx context.Context, s Spec, c component.Component) error {
	prober, err := s.client().Prober(c)
	if err != nil {
		return err
	}
	defer prober.Close()
	return wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		reason := prober.Health(ctx)
		if ctx.Err() != nil {
			return false, ctx.Err() // the reason would only be the cancellation
		}
		w.setReason(c.Name, reason)
		if reason == client.Healthy {
			problem.Progress(ctx, "%s: %s is ready", s.Machine(), c.Name)
		}
		return reason == client.Healthy, nil
	})
}

// watch returns an error when a component fails for good. It ignores failed
// observations.
func (w *readinessWait) watch(ctx context.Context, s Spec) error {
	by, query, before := runtime.Of(s.Replica), host.Query{}, map[string]host.UnitState{}
	by.AddStates(&query, component.Names()...)
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		unbegun := w.unbegun() // first: one of them may be started meanwhile
		facts, err := s.Host.Observe(ctx, query)
		if err != nil {
			continue
		}
		now := map[string]host.UnitState{}
		for _, name := range component.Names() {
			if slices.Contains(unbegun, name) {
				continue
			}
			now[name] = by.State(facts, name)
			if _, seen := before[name]; !seen {
				before[name] = now[name]
			}
		}
		w.setLacking(by, now)
		if name, reason := crashLooping(before, now); name != "" {
			w.setReason(name, reason)
			return fmt.Errorf("%s %s: %w", name, reason, errNotReady)
		}
	}
}

// crashLooping returns the component that has failed permanently since before, and why. The states are by
// component.
func crashLooping(before, now map[string]host.UnitState) (failing, reason string) {
	for _, name := range component.Names() {
		state := now[name]
		restarts := state.Restarts - before[name].Restarts
		switch {
		case restarts >= loopRestarts:
			return name, fmt.Sprintf("ended %d times after its start", restarts)
		case state.Active == "failed":
			return name, "failed (" + state.Result + ")"
		}
	}
	return "", ""
}

// explain describes the failure of a component with its last state and the end of its log.
func (w *readinessWait) explain(ctx context.Context, s Spec, err error) error {
	if errors.Is(err, context.Canceled) && errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("wait for replica %s: %w", s.Machine(), err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.reasons) == 0 {
		return err // no component has failed
	}
	names := slices.Sorted(maps.Keys(w.reasons))
	if _, ok := w.reasons[release.APIServer]; ok {
		names = slices.DeleteFunc(names, needsAPIServer)
	}
	var causes []string
	for _, name := range names {
		cause := name + " " + w.reasons[name]
		if slices.Contains(w.lacking, name) {
			cause += ", and has no container: the kubelet may have refused its manifest, or cannot start it, and says why in " +
				"its log (journalctl -u kubelet)"
		}
		causes = append(causes, cause)
	}
	return &problem.Problem{
		Summary: "Control-plane replica is not ready",
		Host:    s.Machine(),
		Cause:   strings.Join(causes, "; "),
		Next:    "fix the cause that the log below shows and apply again.",
		Detail:  logs(ctx, s, names),
		Err:     errors.Join(errNotReady, err),
	}
}

// needsAPIServer reports whether a component cannot be ready without the API server.
func needsAPIServer(name string) bool {
	return name == release.ControllerManager || name == release.Scheduler
}

// logs returns the last lines of each component's journal. It has its own deadline, because it
// is needed most when the caller's has passed.
func logs(ctx context.Context, s Spec, components []string) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	var b strings.Builder
	by := runtime.Of(s.Replica)
	for _, name := range components {
		text, err := by.Log(ctx, s.Host, name, logLines)
		if err != nil {
			text = "the log could not be read: " + err.Error()
		}
		b.WriteString("--- last lines of " + by.Unit(name) + "\n" + strings.TrimRight(text, "\n") + "\n")
	}
	return b.String()
}
