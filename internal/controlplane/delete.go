package controlplane

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Delete drains and deregisters the replica, then stops it and cleans the machine.
func (r *Replicas) Delete(ctx context.Context, s Spec, o DeleteOptions) error {
	rt := systemd{}
	f, err := observe(ctx, s, rt)
	if errors.Is(err, host.ErrUnreachable) {
		return abandon(ctx, s, o, err)
	}
	if err != nil {
		return err
	}
	if err := r.withdraw(ctx, s, rt); err != nil {
		return err
	}
	if f.record.ClusterID != "" && f.record.ClusterID != s.Bundle.ClusterID {
		problem.Progress(ctx, "%s: holds a replica of another cluster now, left alone", s.machine())
		return nil
	}
	problem.Progress(ctx, "%s: stopping the components", s.machine())
	if _, err := s.Host.Run(ctx, host.Command{Script: rt.stop() + cleanScript(s, rt)}); err != nil {
		return fmt.Errorf("clean replica %s: %w", s.machine(), err)
	}
	return nil
}

// withdraw takes the replica out of the endpoint. It keeps the turn until the
// balancers have forgotten it, so that the next one to leave is judged by
// those that are left.
func (r *Replicas) withdraw(ctx context.Context, s Spec, rt runtime) error {
	return r.patiently(ctx, s, func() error {
		turn, err := r.turns.take(ctx, s.Bundle.ClusterID, s.Name)
		if err != nil {
			return err
		}
		defer turn.end(true)
		if serves(ctx, s, rt) {
			problem.Progress(ctx, "%s: draining", s.machine())
			if err := drain(ctx, s, true); err != nil {
				return err
			}
		}
		if err := s.Registrar.Deregister(ctx, s.Name); err != nil {
			return fmt.Errorf("deregister replica %s: %w", s.machine(), err)
		}
		return nil
	})
}

// abandon does for a machine that cannot be reached what the others can do.
// There is nothing to drain: a machine that is down serves no one. A balancer
// that cannot be reached either (often it is on the same machine) is no
// obstacle; one that refuses is.
func abandon(ctx context.Context, s Spec, o DeleteOptions, unreachable error) error {
	err := s.Registrar.Deregister(ctx, s.Name)
	if err != nil && !errors.Is(err, host.ErrUnreachable) {
		return fmt.Errorf("deregister replica %s: %w", s.machine(), err)
	}
	if o.Abandon.Covers(s.Host.Address(), unreachable) {
		problem.Progress(ctx, "%s: unreachable, left as it is", s.machine())
		return nil
	}
	return &problem.Problem{
		Summary:   "control-plane replica not deleted",
		Host:      s.machine(),
		Cause:     unreachable.Error(),
		Unchanged: "the machine; the replica is no longer registered with any balancer that can be reached.",
		Next:      "make the machine reachable and apply again, or, if it is gone for good, " + host.AbandonRemedy(s.Host.Address()) + ".",
		Err:       errors.Join(unreachable, err),
	}
}

// cleanScript removes what a replica has put onto a machine, and nothing that
// etcd or a kubelet there need. The audit log stays, as root's: it is evidence, and
// who gets the user's number next shall not read it. It may be repeated.
func cleanScript(s Spec, rt runtime) string {
	var definitions []string
	for _, c := range components(s, rt) {
		definitions = append(definitions, rt.definition(c).Path)
	}
	return host.Discard(definitions...) + `systemctl daemon-reload
` + host.Discard(ownFiles(s)...) + `if [ ! -e ` + etcdUnit + ` ]; then ` + host.Discard(etcdCA) + `fi
if [ ! -e ` + kubeletConf + ` ]; then ` + host.Discard(caCert) + `fi
rm -f ` + pausedPath + `
rm -rf ` + installRoot + `/kubernetes
if [ -d ` + auditLogDir + ` ]; then chown -hR root:root ` + auditLogDir + `; fi
for dir in ` + strings.Join([]string{etcdDir, pkiDir, kubernetesDir, installRoot, auditLogDir}, " ") + `; do
  if [ -d "$dir" ]; then rmdir --ignore-fail-on-non-empty "$dir"; fi
done
for user in ` + strings.Join(Components(), " ") + `; do
  if id -u "$user" >/dev/null 2>&1; then userdel "$user"; fi
  if getent group "$user" >/dev/null; then groupdel "$user"; fi
done
`
}
