package soak

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// site is a control plane as users run it: examples/control-plane on the first machines of the
// lab.
type site struct {
	env       *Env
	work      *workspace.Workspace
	variables map[string]any
	dial      load.Dial // of clients; nil: as usual
	cut       time.Time // when a machine last lost its power
}

// newSite creates a control plane of three machines.
func newSite(ctx context.Context, e *Env) (*site, error) { return newSiteWith(ctx, e, nil) }

// newSiteWith creates one with additional variables of the example.
func newSiteWith(ctx context.Context, e *Env, variables map[string]any) (*site, error) {
	s, err := openSite(ctx, e, variables)
	if err != nil {
		return nil, err
	}
	return s, s.resize(ctx, len(machineNames))
}

// openSite returns one before its first apply.
func openSite(ctx context.Context, e *Env, variables map[string]any) (*site, error) {
	root, err := build.Checkout()
	if err != nil {
		return nil, err
	}
	w, err := workspace.Open(ctx, e.Lab, e.Dir, "")
	if err != nil {
		return nil, err
	}
	if err := w.MakeFrom(ctx, os.DirFS(filepath.Join(root, "examples", "control-plane")), e.Log); err != nil {
		return nil, err
	}
	s := &site{env: e, work: w, variables: map[string]any{"drain_timeout": "5s"}}
	maps.Copy(s.variables, variables)
	return s, nil
}

// resize scales it to the first n machines.
func (s *site) resize(ctx context.Context, n int) error {
	return s.set(ctx, "machines", s.env.controlPlane(n).variable())
}

// set changes a variable of the example and applies.
func (s *site) set(ctx context.Context, variable string, value any) error {
	if err := s.assign(variable, value); err != nil {
		return err
	}
	return s.apply(ctx)
}

func (s *site) assign(variable string, value any) error {
	s.variables[variable] = value
	return s.write()
}

func (s *site) write() error { return s.work.WriteJSON(variablesFile, s.variables) }

func (s *site) apply(ctx context.Context, args ...string) error {
	_, err := s.work.Apply(ctx, s.env.Log, args...)
	return err
}

// checkConverged returns why the control plane differs from its configuration, or nil.
func (s *site) checkConverged(ctx context.Context) error {
	text, changes, err := s.work.Plan(ctx)
	if err == nil && changes {
		err = fmt.Errorf("the plan is not empty:\n%s", text)
	}
	return err
}

// load starts clients with the rate and the excuses of c.
func (s *site) load(ctx context.Context, c load.Criteria) (*load.Load, error) {
	kubeconfig, err := s.work.Run(ctx, "output", "-raw", "kubeconfig")
	if err != nil {
		return nil, err
	}
	credentials, err := etcdCredentials(ctx, s.machine(machineNames[0]))
	if err != nil {
		return nil, err
	}
	return load.Start(ctx, load.Config{
		Kubeconfig: kubeconfig,
		Etcd:       &load.Etcd{Endpoints: s.members, TLS: credentials},
		Criteria:   c,
		Dial:       s.dial,
	})
}

// members returns the client URLs of every machine that may have a member. The direct writer asks
// them which members there are.
func (s *site) members() []string {
	var urls []string
	for _, m := range s.env.Lab.Machines() {
		urls = append(urls, fmt.Sprintf("https://%s:2379", m.Address))
	}
	return urls
}

// etcdCredentials returns the health check's credentials, which are on every member's machine.
func etcdCredentials(ctx context.Context, m *lab.Machine) (*tls.Config, error) {
	var pem [3]string
	for i, name := range []string{"ca.crt", "healthcheck-client.crt", "healthcheck-client.key"} {
		text, err := m.Run(ctx, "cat /etc/kubernetes/pki/etcd/"+name)
		if err != nil {
			return nil, fmt.Errorf("read etcd's credentials: %w", err)
		}
		pem[i] = text
	}
	pair, err := tls.X509KeyPair([]byte(pem[1]), []byte(pem[2]))
	if err != nil {
		return nil, fmt.Errorf("read etcd's credentials: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(pem[0])) {
		return nil, errors.New("read etcd's credentials: the authority is no certificate")
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{pair}}, nil
}

// three returns the machines that every site has.
func (s *site) three() fleet { return s.env.Lab.Machines()[:len(machineNames)] }

func (s *site) machine(name string) *lab.Machine { return s.env.Lab.Machine(name) }

// holder returns the machine with the virtual IP.
func (s *site) holder(ctx context.Context) (*lab.Machine, error) {
	for _, m := range s.env.Lab.Machines() {
		out, err := m.Run(ctx, "ip -o address show to "+s.work.VIP())
		if err != nil {
			return nil, err
		}
		if strings.TrimSpace(out) != "" {
			return m, nil
		}
	}
	return nil, errors.New("no machine holds the virtual IP")
}

// starts describes when each component on the machines was last started.
func (s *site) starts(ctx context.Context, machines fleet) (string, error) {
	printed, err := machines.each(ctx,
		"systemctl show --property=Id,MainPID,ExecMainStartTimestampMonotonic etcd kube-apiserver "+
			"kube-controller-manager kube-scheduler kube-endpoint-haproxy kube-endpoint-keepalived")
	return fmt.Sprint(printed), err
}

// applyQuietly applies without log output.
func (s *site) applyQuietly(ctx context.Context, args ...string) error {
	_, err := s.work.Apply(ctx, io.Discard, args...)
	return err
}
