package haproxy

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// TestHandOverOnMachines: an endpoint takes its address over from a machine that serves the cluster there, when
// that has given it up, and from no other, and gives it up itself. This computer is that machine.
func TestHandOverOnMachines(t *testing.T) {
	testrun.Long(t)
	f := newFixture(t)
	f.spec.InstallPackages, f.spec.HandOver = true, Prepare
	f.installStandIns()
	f.spec.Authorities = f.bundle.Known(pki.Kubernetes)
	f.operator("address", "add", labVIP+"/32", "dev", "bridge")
	released := false
	release := func() {
		if !released {
			f.operator("address", "delete", labVIP+"/32", "dev", "bridge")
		}
		released = true
	}
	defer release()

	refuse := func(why string, err error) {
		t.Helper()
		if err == nil || !problem.Untouched(err) || !strings.Contains(err.Error(), why) {
			t.Fatalf("got %v, want %q", err, why)
		}
	}
	create := func() error { _, err := Create(f.ctx, f.spec); return err }
	refuse("does not answer with a certificate", create())
	served := f.serveAt(labVIP, servingPair(t, bundles(t)[0]))
	refuse("not of this cluster's authority", create())
	served.present(servingPair(t, f.bundle))
	refuse("does not name the address", create())
	f.assertClean()

	served.present(f.pairFor(labVIP))
	f.timed("create", create)
	f.must(onHosts(names(f.spec.Hosts), func(name string) error {
		return f.registrar.Register(f.ctx, name, f.replicaAddress(name))
	}))
	for _, unit := range []string{haproxyUnit, keepalivedUnit} {
		f.shell("a", "systemctl restart "+unit)
	}
	f.nobodyHas("before it was to take it")
	f.eventually("without drift", 10*time.Second, func(got observed) bool { return len(got.Drift) == 0 })
	imported, err := Import(f.ctx, f.spec.Hosts["b"], f.machine)
	if err != nil || imported.HandOver != Prepare {
		t.Errorf("imported %+v, %v", imported, err)
	}
	update := func(step string) error {
		before := f.spec
		f.spec.HandOver = step
		_, err := Update(f.ctx, before, f.spec)
		if err != nil {
			f.spec = before
		}
		return err
	}
	refuse(labVIP+" is in use: ", update(""))

	f.timed("take", func() error { return update(Take) })
	f.nobodyHas("although another machine still had it")
	f.shell("b", "echo 0 >"+waitingPath+"; systemctl restart "+watchUnit) // as after a boot
	f.nobodyHas("when its watcher started again")
	imported, err = Import(f.ctx, f.spec.Hosts["b"], f.machine)
	if err != nil || imported.HandOver != Take {
		t.Errorf("imported %+v, %v", imported, err)
	}
	release()
	begun := time.Now()
	for f.askedFresh() != nil && time.Since(begun) < 10*time.Second {
		time.Sleep(20 * time.Millisecond)
	}
	f.must(f.askedFresh())
	t.Logf("answered by the endpoint %s after the other machine gave the address up", time.Since(begun))
	holder := f.read().holder
	refuse("clients would lose the API", update(Prepare))
	f.eventually("with two others that can take over", time.Minute, func(got observed) bool {
		return got.holder == holder && f.waitingOn() == 0 && len(got.Drift) == 0
	})

	f.operator("address", "add", labVIP+"/32", "dev", "bridge")
	refuse("is on two machines", update(""))
	f.operator("address", "delete", labVIP+"/32", "dev", "bridge")
	f.timed("the end", func() error { return update("") })
	if got := f.read(); got.holder != holder || len(got.Drift) > 0 {
		t.Errorf("the address was on %s, and now: %+v", holder, got)
	}

	f.timed("release", func() error { return update(Release) })
	f.nobodyHas("after it was released")
	for _, unit := range []string{haproxyUnit, keepalivedUnit} {
		f.shell(holder, "systemctl restart "+unit)
	}
	f.nobodyHas("after a restart")
	f.eventually("without drift", 10*time.Second, func(got observed) bool { return len(got.Drift) == 0 })
	f.timed("back", func() error { return update("") })
	f.must(onHosts(names(f.spec.Hosts), func(name string) error { return f.registrar.Deregister(f.ctx, name) }))
	f.must(Delete(f.ctx, f.spec, DeleteOptions{}))
	f.assertClean()
}

// TestHandOverInterrupted: a step that is cut off at any remote command is completed when it is repeated.
func TestHandOverInterrupted(t *testing.T) {
	testrun.Long(t)
	c := &lab.Interruptions{}
	f := newFixtureAround(t, c.Around)
	f.spec.InstallPackages = true
	f.installStandIns()
	f.spec.Authorities = f.bundle.Known(pki.Kubernetes)
	f.must(errOf(Create(f.ctx, f.spec)))
	f.must(onHosts(names(f.spec.Hosts), func(name string) error {
		return f.registrar.Register(f.ctx, name, f.replicaAddress(name))
	}))
	step := func(to string) {
		t.Helper()
		before := f.spec
		f.spec.HandOver = to
		cuts, err := c.During(f.ctx, func(ctx context.Context) error { return errOf(Update(ctx, before, f.spec)) })
		f.must(err)
		f.Logf("%q: cut off at %d commands: %s", to, len(cuts), strings.Join(cuts, ", "))
		f.eventually("without drift", 20*time.Second, func(got observed) bool { return len(got.Drift) == 0 })
	}
	step(Release)
	f.nobodyHas("after it was released")
	step(Prepare)
	step(Take)
	f.eventually("taken", time.Minute, func(got observed) bool { return got.holder != "" && f.waitingOn() == 0 })
	holder := f.read().holder
	step("")
	if got := f.read().holder; got != holder {
		t.Errorf("%s had the address, and now %q", holder, got)
	}
	f.must(onHosts(names(f.spec.Hosts), func(name string) error { return f.registrar.Deregister(f.ctx, name) }))
	f.must(Delete(f.ctx, f.spec, DeleteOptions{}))
	f.assertClean()
}

func errOf(_ endpoint.Status, err error) error { return err }

// nobodyHas: for some seconds, no host has the address.
func (f *fixture) nobodyHas(when string) {
	f.Helper()
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if got := f.read(); got.holder != "" {
			f.Fatalf("%s took the address %s", got.holder, when)
		}
	}
}

// waitingOn returns how many hosts could not take the address.
func (f *fixture) waitingOn() int {
	f.Helper()
	waiting := 0
	for _, name := range names(f.spec.Hosts) {
		waiting += strings.Count(f.shell(name, "cat "+waitingPath), "1")
	}
	return waiting
}

// askedFresh requests the endpoint once, with a connection of its own.
func (f *fixture) askedFresh() error {
	answer, err := client(f.ca, true, 250*time.Millisecond).Get(f.url())
	if err == nil {
		_ = answer.Body.Close()
	}
	return err
}

// pairFor is what an API server has that is registered at an address.
func (f *fixture) pairFor(address string) pki.KeyPair {
	f.Helper()
	pair, err := f.bundle.Issue(pki.APIServer(pki.APIServerNames{
		NodeName: "cp1", ClusterDomain: "cluster.local", Advertise: "10.0.0.11", Endpoint: address,
	}), time.Now(), 24*time.Hour)
	f.must(err)
	return pair
}

// servedHere is a server of this process that presents a certificate.
type servedHere struct {
	f    *fixture
	pair atomic.Pointer[tls.Certificate]
}

func (s *servedHere) present(pair pki.KeyPair) {
	s.f.Helper()
	served, err := tls.X509KeyPair([]byte(pair.Certificate), []byte(pair.PrivateKey))
	s.f.must(err)
	s.pair.Store(&served)
}

// serveAt serves the address in the lab's network until the test ends.
func (f *fixture) serveAt(address string, pair pki.KeyPair) *servedHere {
	f.Helper()
	s := &servedHere{f: f}
	s.present(pair)
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "6443"))
	f.must(err)
	server := &http.Server{
		ReadHeaderTimeout: time.Second, ErrorLog: log.New(io.Discard, "", 0),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }),
		TLSConfig: &tls.Config{
			MinVersion:     tls.VersionTLS12,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.pair.Load(), nil },
		},
	}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	f.Cleanup(func() { _ = server.Close() })
	return s
}
