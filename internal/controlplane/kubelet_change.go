package controlplane

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/kubelet"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// kubeletSteady is how long a kubelet must run to count as started, and kubeletTimeout limits the wait. The wait ends
// early after mostKubeletStarts starts: with the unit of the packages, systemd starts a kubelet that exits again after
// 10 s.
const (
	kubeletSteady     = 12 * time.Second
	kubeletTimeout    = time.Minute
	mostKubeletStarts = 3
)

// kubeletDrift describes how the machine's kubelet and its node differ from what is wanted.
func kubeletDrift(s Spec, f machine.Observed) []string {
	problems := append(programDrift(s, f), kubeconfigDrift(s, kubelet.ReadCredentials(f.Facts.Output))...)
	if changeCutOff(f.Facts) {
		problems = append(problems, "kubelet: a change of its program was cut off, and has not ended")
	}
	if kubelet.Read(f.Facts.Output).Cordoned { // whether or not the kubelet still follows
		problems = append(problems, "kubelet: its node accepts no Pods, because a change of it was cut off")
	}
	for i, text := range problems {
		problems[i] = s.Machine() + ": " + text
	}
	return problems
}

// kubeconfigDrift describes how what the kubelet has to use its API server differs from what is wanted.
func kubeconfigDrift(s Spec, c *kubelet.Credentials) []string {
	problems := c.Problems(s.Bundle)
	if other := c.ServerProblem(s.Bundle, s.LocalURL()); other != "" {
		problems = append(problems, other)
	}
	return problems
}

// changeCutOff reports whether a change of the kubelet's program has not ended.
func changeCutOff(facts host.Facts) bool {
	_, kept := facts.Files[kubelet.Former]
	return kept
}

// programDrift describes how the program of the machine's kubelet differs from the wanted one.
func programDrift(s Spec, f machine.Observed) []string {
	if !s.ManageKubelet {
		return nil
	}
	problems := kubelet.Drift(kubelet.Read(f.Facts.Output), s.Version)
	if reason := machine.FileProblem(f.Facts.Files, kubelet.File(s.Version)); reason != "" && len(problems) == 0 {
		problems = append(problems, kubelet.DropIn+" "+reason)
	}
	return problems
}

// checkKubelet returns an error before the first change if the kubelet could not follow. One that fails since a change
// was cut off is judged once a start of the components has taken that back: see changeProgram.
func checkKubelet(s Spec, f machine.Observed) error {
	active := kubelet.Read(f.Facts.Output).Active
	if changeCutOff(f.Facts) && (active == "activating" || active == "failed") {
		return nil
	}
	return checkProgram(s, f)
}

// checkProgram returns an error if the kubelet needs another program and cannot be given one.
func checkProgram(s Spec, f machine.Observed) error {
	if f.NodeMissing || len(programDrift(s, f)) == 0 { // one that is installed is of the version
		return nil
	}
	problems := kubelet.Problems(kubelet.Read(f.Facts.Output), s.Address, strconv.Itoa(s.APIPort()))
	if len(problems) == 0 {
		return nil
	}
	return &problem.Problem{
		Summary: "Control-plane replica not changed: its kubelet", Host: s.Machine(), Attribute: "manage_kubelet",
		Cause: strings.Join(problems, "; "), Unchanged: problem.Nothing, Next: "fix this, then apply again.",
	}
}

// installKubelet installs the program of the machine's kubelet, beside that of other versions.
func installKubelet(ctx context.Context, s Spec) error {
	if !s.ManageKubelet {
		return nil
	}
	if _, err := s.Host.Install(ctx, s.Source, []host.Artifact{kubelet.Artifact(s.Version)}); err != nil {
		return fmt.Errorf("install the kubelet %s on %s: %w", s.Version, s.Machine(), err)
	}
	return nil
}

// followKubelet gives the kubelet of the machine what follows from its replica, which serves by now: the credentials of
// the stage of a rotation, the port, and the version, because a kubelet must not be newer than its API server. It
// returns the status after that.
//
// A kubelet of another minor may run all static pods of its machine anew, at a time of its own, because it takes its
// pods for others (kubernetes/kubernetes#116080). So everything that counts is stopped before: the replica is drained,
// and the member of etcd on the machine has its turn among the members. Both are started again under the new kubelet,
// or under the old one if the new one does not run. Other Pods leave the node before.
func (r *Replicas) followKubelet(ctx context.Context, s Spec, now Status) (Status, error) {
	if current, err := kubeletCurrent(ctx, s); err != nil || current && !s.ManageKubelet {
		return now, err
	}
	f, err := machine.Observe(ctx, s.Host, s.Replica)
	if err != nil || len(kubeletDrift(s, f)) == 0 {
		return now, err
	}
	switch {
	case len(programDrift(s, f)) > 0:
		if f, err = reconnectKubelet(ctx, s, f); err == nil {
			err = r.changeProgram(ctx, s, f)
		}
	case changeCutOff(f.Facts):
		end := settleKubelet
		if !s.ManageKubelet { // it keeps the program that it has
			end = endChange
		}
		err = errors.Join(end(ctx, s), uncordon(ctx, s))
	case kubelet.Read(f.Facts.Output).Cordoned:
		err = uncordon(ctx, s)
	}
	if err == nil {
		err = renewKubelet(ctx, s, f)
	}
	if err != nil {
		return Status{}, err
	}
	return r.Read(ctx, s)
}

// kubeletCurrent reports whether the machine has no kubelet of the cluster, or one with the credentials of the stage
// that uses the port of its API server, and no change of its program was cut off, nor has left its node cordoned.
func kubeletCurrent(ctx context.Context, s Spec) (bool, error) {
	facts, err := s.Host.Observe(ctx, host.Query{
		Files: []string{kubelet.Former}, Script: kubelet.CredentialsReport() + kubelet.IsCordoned(),
	})
	if err != nil {
		return false, fmt.Errorf("observe the kubelet on %s: %w", s.Machine(), err)
	}
	renewed := len(kubeconfigDrift(s, kubelet.ReadCredentials(facts.Output))) == 0
	return renewed && !changeCutOff(facts) && !kubelet.Read(facts.Output).Cordoned, nil
}

// reconnectKubelet is renewKubelet for a kubelet that does not reach its API server, whose port has changed: Pods leave
// a node only if its kubelet hears of it. It returns the machine after that.
func reconnectKubelet(ctx context.Context, s Spec, f machine.Observed) (machine.Observed, error) {
	if kubelet.ReadCredentials(f.Facts.Output).ServerProblem(s.Bundle, s.LocalURL()) == "" {
		return f, nil
	}
	if err := renewKubelet(ctx, s, f); err != nil {
		return f, err
	}
	return machine.Observe(ctx, s.Host, s.Replica)
}

// renewKubelet gives the kubelet the credentials of the stage of a rotation, and the port of its API server, and
// restarts it. Containers keep running.
func renewKubelet(ctx context.Context, s Spec, f machine.Observed) error {
	c := kubelet.ReadCredentials(f.Facts.Output)
	if len(kubeconfigDrift(s, c)) == 0 {
		return nil
	}
	what := "the credentials of this stage of the rotation"
	if len(c.Problems(s.Bundle)) == 0 {
		what = "the port of its API server"
	}
	problem.Progress(ctx, "%s: the kubelet of node %s gets %s", s.Machine(), c.Node, what)
	err := changeCredentials(ctx, s, c)
	if err == nil {
		return nil
	}
	return &problem.Problem{
		Summary: "Kubelet not given " + what, Host: s.Machine(), Cause: err.Error(), Err: err,
		Unchanged: "the static pods and other containers, which run on.",
		Next:      "read the log of kubelet.service on the machine, then apply again, before the next stage of a rotation",
	}
}

func changeCredentials(ctx context.Context, s Spec, c *kubelet.Credentials) error {
	facts, err := s.Host.Observe(ctx, host.Query{Script: kubelet.Report()})
	if err != nil {
		return err
	}
	change, err := c.Change(s.Bundle, s.LocalURL(), time.Now())
	if err != nil {
		return err
	}
	if _, err := s.Host.Apply(ctx, change); err != nil {
		return err
	}
	if was := kubelet.Read(facts.Output).Active; was == "active" || was == "activating" { // nobody has stopped it
		if err := awaitKubelet(ctx, s, func(kubelet.State) bool { return true }); err != nil {
			return err
		}
	}
	_, err = s.Host.Run(ctx, host.Command{Script: kubelet.Renewed()})
	return err
}

// changeProgram gives the kubelet the program of the wanted version.
func (r *Replicas) changeProgram(ctx context.Context, s Spec, f machine.Observed) error {
	if err := checkProgram(s, f); err != nil {
		return err
	}
	if err := installKubelet(ctx, s); err != nil {
		return err
	}
	if _, err := s.Host.Run(ctx, host.Command{Script: kubelet.Try(s.Version)}); err != nil {
		return &problem.Problem{
			Summary: "Kubelet not changed to " + s.Version, Host: s.Machine(), Attribute: "version", Err: err,
			Cause:     "it does not take the arguments of the one that runs: " + err.Error(),
			Unchanged: "its kubelet; the components are at " + s.Version + ".",
			Next: "correct /var/lib/kubelet/kubeadm-flags.env or /etc/default/kubelet, restart kubelet.service, then " +
				"apply again.",
		}
	}
	return r.inTurn(ctx, s, func(ctx context.Context, member PausedMember) (err error) {
		defer func() { err = errors.Join(err, uncordon(ctx, s)) }()
		if changesMinor(kubelet.Read(f.Facts.Output).Version, s.Version) {
			if err := drainNode(ctx, s, f); err != nil {
				return err
			}
		}
		return r.changeKubelet(ctx, s, f, member)
	})
}

// inTurn calls change in the turn of the machine, whether or not it has a member of etcd: no other machine's node is
// drained meanwhile, by any process. It is refused after the change of another replica has failed, before Pods leave
// the node in vain.
func (r *Replicas) inTurn(ctx context.Context, s Spec, change func(context.Context, PausedMember) error) error {
	turn, err := r.changeLocks.acquireNode(ctx, s)
	if err != nil {
		return err
	}
	defer turn.release()
	ctx = turn.context(ctx)
	lock, err := r.changeLocks.acquire(ctx, s)
	if err != nil {
		return err
	}
	err = lock.checkEarlierFailure(s.Machine())
	lock.release()
	if err != nil {
		return err
	}
	if s.Store != nil {
		return s.Store.PauseMember(ctx, s.Address, change)
	}
	return change(ctx, noMember{})
}

// noMember is PausedMember for a machine without one.
type noMember struct{}

func (noMember) Stop(context.Context) error  { return nil }
func (noMember) Start(context.Context) error { return nil }

// changeKubelet stops the replica and the member, starts the kubelet with another program, and starts both again.
func (r *Replicas) changeKubelet(ctx context.Context, s Spec, f machine.Observed, member PausedMember) error {
	lock, _, err := r.drain(ctx, s, drainOptions{stops: true, duringMember: true, check: requireServing(s)})
	if err != nil {
		return err
	}
	succeeded := false
	defer func() { lock.finish(succeeded) }()
	ctx = lock.context(ctx)
	problem.Progress(ctx, "%s: stopping the static pods to start the kubelet %s", s.Machine(), s.Version)
	failed := stopForReturn(ctx, s)
	if failed == nil {
		failed = member.Stop(ctx)
	}
	if failed == nil {
		failed = startKubelet(ctx, s)
	}
	// What was stopped returns also if this is interrupted, as after Hold.
	returning, cancel := context.WithTimeout(context.WithoutCancel(ctx), returnTimeout)
	defer cancel()
	started := member.Start(returning)
	if started == nil {
		started = startAndRegister(returning, s, release.Components())
	}
	switch {
	case started != nil:
		return withRotationState(errors.Join(failed, started), rotationAfter(true))
	case failed != nil:
		return failed
	}
	succeeded = true
	problem.Progress(ctx, "%s: back in rotation with the kubelet %s", s.Machine(), s.Version)
	return nil
}

// startKubelet starts the kubelet with the program of the version, and with the former one if that does not run.
func startKubelet(ctx context.Context, s Spec) error {
	keep := host.Change{
		Dirs: []host.Dir{{Path: path.Dir(kubelet.DropIn), Mode: 0o755}}, Script: kubelet.Keep(),
	}
	change := host.Change{Files: []host.File{kubelet.File(s.Version)}, Script: kubelet.Start(s.Version)}
	for _, step := range []host.Change{keep, change} {
		if _, err := s.Host.Apply(ctx, step); err != nil {
			return fmt.Errorf("start the kubelet %s on %s: %w", s.Version, s.Machine(), err)
		}
	}
	return settleKubelet(ctx, s)
}

// settleKubelet waits until the kubelet runs with the program of the version, and ends the change then. If it does not
// stay up, it starts the former one.
func settleKubelet(ctx context.Context, s Spec) error {
	cause := awaitKubelet(ctx, s, func(now kubelet.State) bool { return len(kubelet.Drift(now, s.Version)) == 0 })
	if cause == nil {
		cause = endChange(ctx, s)
	}
	if !errors.Is(cause, errKubelet) {
		return cause // what is not settled yet is settled later: see Keep
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), kubeletTimeout)
	defer cancel()
	log, _ := s.Host.UnitLog(ctx, kubelet.Unit, 20)
	if _, err := s.Host.Run(ctx, host.Command{Script: kubelet.Back()}); err != nil {
		return errors.Join(cause, fmt.Errorf("start the former kubelet on %s again: %w", s.Machine(), err))
	}
	return &problem.Problem{
		Summary: "Kubelet not changed to " + s.Version, Host: s.Machine(), Attribute: "version", Err: cause,
		Cause:     cause.Error(),
		Unchanged: "its kubelet runs as before; the components are at " + s.Version + ", and in rotation.",
		Next: "correct its configuration and flags (/var/lib/kubelet/kubeadm-flags.env may have some that this version " +
			"does not know any more), then apply again.",
		Detail: log,
	}
}

// endChange ends a change of the kubelet's program, which it keeps.
func endChange(ctx context.Context, s Spec) error {
	_, err := s.Host.Run(ctx, host.Command{Script: kubelet.Stays()})
	return err
}

// errKubelet means that a kubelet does not run.
var errKubelet = errors.New("the kubelet does not stay up")

// awaitKubelet waits until the kubelet has run for a while, as it should.
func awaitKubelet(ctx context.Context, s Spec, should func(kubelet.State) bool) error {
	begun, steady, pid := time.Now(), time.Now(), 0
	for {
		facts, err := s.Host.Observe(ctx, host.Query{Script: kubelet.Report()})
		if err != nil {
			return err
		}
		now := kubelet.Read(facts.Output)
		runs := now.Active == "active" && now.PID != 0 && should(now)
		if !runs || now.PID != pid {
			steady, pid = time.Now(), now.PID
		}
		switch {
		case runs && time.Since(steady) >= kubeletSteady:
			return nil
		case time.Since(begun) >= kubeletTimeout || now.Restarts >= mostKubeletStarts && time.Since(begun) > kubeletSteady:
			return fmt.Errorf("%w: %s is %s, and was started %d times by systemd", errKubelet, kubelet.Unit, now.Active,
				now.Restarts)
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
