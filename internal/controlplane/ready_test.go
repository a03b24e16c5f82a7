package controlplane

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

func TestCrashLooping(t *testing.T) {
	units := func(active string, restarts int) map[string]host.UnitState {
		return map[string]host.UnitState{
			unit.Name(release.ControllerManager): {Active: active, Restarts: restarts, Result: "exit-code"},
		}
	}
	for _, c := range []struct {
		name   string
		before int
		now    map[string]host.UnitState
		want   string
	}{
		{"runs", 0, units("active", 0), ""},
		{"restarted twice while its API server started", 0, units("activating", 2), ""},
		{"restarts again and again", 0, units("activating", 3), release.ControllerManager},
		{"restarted often, long ago", 7, units("active", 7), ""},
		{"failed for good", 0, units("failed", 0), release.ControllerManager},
	} {
		if component, _ := crashLooping(units("active", c.before), c.now); component != c.want {
			t.Errorf("%s: %q, want %q", c.name, component, c.want)
		}
	}
}

func TestChangeLocks(t *testing.T) {
	var locks changeLocks
	of := func(cluster, name string) Spec {
		s := calm(t)
		s.Name, s.Bundle = name, &pki.Bundle{ClusterID: cluster, ClusterName: cluster}
		return s
	}
	first, err := locks.acquire(t.Context(), of("prod", "cp1"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := locks.acquire(t.Context(), of("stage", "cp1"))
	if err != nil {
		t.Fatal(err)
	}
	other.release(true)
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := locks.acquire(short, of("prod", "cp2")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("two replicas have the lock at once: %v", err)
	}
	first.release(false)

	second, err := locks.acquire(t.Context(), of("prod", "cp2"))
	if err != nil {
		t.Fatal(err)
	}
	if err := second.checkEarlierFailure("cp2"); !strings.Contains(cptest.Text(err),
		`the change of replica "cp1" failed`) {
		t.Errorf("changed after a failed one: %v", err)
	}
	second.release(true)
	again, err := locks.acquire(t.Context(), of("prod", "cp1"))
	if err != nil || again.checkEarlierFailure("cp1") != nil {
		t.Errorf("the failed replica itself cannot be repaired: %v", err)
	}
	again.release(true)
	last, err := locks.acquire(t.Context(), of("prod", "cp2"))
	if err != nil || last.checkEarlierFailure("cp2") != nil {
		t.Errorf("refused after the repair: %v", err)
	}
	last.release(true)
}

// unreachable returns a machine on which no process listens.
func unreachable(t *testing.T) Spec {
	t.Helper()
	s := testSpec(t)
	s.Address = "127.0.0.1"
	s.Host = testHost(t, host.Config{
		Credentials: host.Credentials{Port: 1}, KnownHosts: "", ConnectTimeout: time.Second,
	}, s.Address)
	return s
}

func TestDeleteOfAnUnreachableReplica(t *testing.T) {
	for _, c := range []struct {
		name      string
		options   DeleteOptions
		protected bool
		registrar *recordingRegistrar
		want      string
		calls     []string
	}{
		{
			"kept",
			DeleteOptions{},
			true, &recordingRegistrar{},
			`add "127.0.0.1" to abandon_unreachable_hosts of the provider`,
			[]string{"drain for delete", "deregister"},
		},
		{
			"kept, its balancer unreachable too",
			DeleteOptions{},
			false, &recordingRegistrar{fail: host.ErrUnreachable},
			`add "127.0.0.1" to abandon_unreachable_hosts of the provider`,
			[]string{"drain for delete"},
		},
		{
			"abandoned",
			DeleteOptions{Abandon: host.AbandonedAt("127.0.0.1")},
			true, &recordingRegistrar{}, "",
			[]string{"drain for delete", "deregister"},
		},
		{
			"abandoned together with its balancers",
			DeleteOptions{Abandon: host.AbandonedAt("127.0.0.1")},
			false,
			&recordingRegistrar{fail: host.ErrUnreachable}, "",
			[]string{"drain for delete"},
		},
		// It is unknown whether another replica serves.
		{
			"protected, its balancers unreachable",
			DeleteOptions{Abandon: host.AbandonedAt("127.0.0.1")},
			true,
			&recordingRegistrar{fail: host.ErrUnreachable}, "unreachable",
			[]string{"drain for delete"},
		},
		// A machine that cannot be reached through SSH may still serve.
		{
			"protected, and the last that serves",
			DeleteOptions{Abandon: host.AbandonedAt("127.0.0.1")},
			true,
			&recordingRegistrar{last: true}, "set deletion_protection = false on the kube_pki_bundle, apply, then destroy",
			[]string{"drain for delete"},
		},
		{
			"the last that serves",
			DeleteOptions{Abandon: host.AbandonedAt("127.0.0.1")},
			false,
			&recordingRegistrar{last: true}, "",
			[]string{"drain for delete", "deregister"},
		},
		{
			"still registered",
			DeleteOptions{Abandon: host.AbandonedAt("127.0.0.1")},
			false,
			&recordingRegistrar{fail: errors.New("lb1 refuses")}, "lb1 refuses",
			[]string{"drain for delete"},
		},
		{
			"another one abandoned",
			DeleteOptions{Abandon: host.AbandonedAt("127.0.0.2")},
			true, &recordingRegistrar{},
			"not deleted",
			[]string{"drain for delete", "deregister"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := unreachable(t)
			bundle := *s.Bundle
			bundle.Deletable = !c.protected
			s.Bundle, s.Registrar = &bundle, c.registrar
			c.registrar.members = map[string]string{"cp1": s.ServingAddress()}
			err := NewReplicas(nil).Delete(t.Context(), s, c.options)
			if (c.want == "") != (err == nil) || !strings.Contains(cptest.Text(err), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if calls := c.registrar.take(); !slices.Equal(calls, c.calls) {
				t.Errorf("calls %q", calls)
			}
		})
	}
}

func TestReadOfAnUnreachableReplica(t *testing.T) {
	s := unreachable(t)
	s.Registrar = &recordingRegistrar{}
	if _, err := NewReplicas(nil).Read(t.Context(), s); !errors.Is(err, host.ErrUnreachable) || errors.Is(err, ErrGone) {
		t.Errorf("read: %v", err)
	}
}

func TestSpecValidate(t *testing.T) {
	for _, c := range []struct {
		alter func(*Spec)
		want  string
	}{
		{func(*Spec) {}, ""},
		{func(s *Spec) { s.Name = "CP1" }, "malformed replica name"},
		{func(s *Spec) { s.Port = 443 }, "not between 1024 and 65535"},
		{func(s *Spec) { s.Port = 10257 }, "controller-manager's"},
		{func(s *Spec) { s.Address = "10.0.0.12" }, "leads to another address: 10.0.0.11"},
		{func(s *Spec) { s.EndpointHost = "" }, "the endpoint has no address"},
		{func(s *Spec) { s.Version = "1.34" }, "malformed Kubernetes version"},
		{func(s *Spec) { s.ClusterDomain = "cluster.local." }, "malformed cluster domain"},
		{func(s *Spec) { s.EtcdURLs = nil }, "no etcd URL"},
		{func(s *Spec) { s.ServiceCIDRs = nil }, "no service range"},
		{func(s *Spec) { s.Bundle = nil }, "no PKI bundle"},
		{
			func(s *Spec) { s.Bundle = cptest.External(s.Bundle) },
			`the kubernetes authority is held elsewhere, and no signed certificate is given for "apiserver"`,
		},
		{func(s *Spec) { s.Bundle = signedElsewhere(t, *s) }, ""},
		{func(s *Spec) {
			s.Bundle = signedElsewhere(t, *s)
			delete(s.Bundle.Signed, "terraform-provider-kube")
		}, `no signed certificate is given for "terraform-provider-kube"`},
		{func(s *Spec) {
			bundle := *s.Bundle
			bundle.ServiceAccount.PrivateKey = ""
			s.Bundle = &bundle
		}, "lacks the service-account keys"},
		{func(s *Spec) { s.ExtraArgs = cptest.Args(release.APIServer, "secure-port", "1") }, "cannot be set"},
	} {
		s := testSpec(t)
		c.alter(&s)
		if err := s.Validate(); (c.want == "") != (err == nil) || !strings.Contains(cptest.Text(err), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
