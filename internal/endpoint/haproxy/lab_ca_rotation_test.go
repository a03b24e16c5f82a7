package haproxy

import (
	"encoding/pem"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// replicas are those of stepCreate.
func (f *fixture) replicas() map[string]string {
	all := map[string]string{}
	for _, name := range names(f.spec.Hosts) {
		all[name] = f.replicaAddress(name)
	}
	return all
}

// stepAuthorities takes the cluster from one authority to the next and on to an
// intermediate one, one replica at a time, while clients ask. What is accepted is
// for the real HAProxy to say: each replica comes to it as a new one, and is in
// rotation only when a check has passed.
func stepAuthorities(f *fixture) {
	company, err := pki.Generate(pki.Options{ClusterName: "company", Now: time.Now()})
	f.must(err)
	stages := []*pki.Bundle{f.bundle}
	for generation := 1; generation <= 6; generation++ {
		next := pki.Next{}
		if generation == 4 {
			next.Authorities = map[pki.Authority]pki.KeyPair{pki.Kubernetes: subordinate(f.T, company.CA,
				"kubernetes-of-company")}
		}
		stages = append(stages, rotated(f.T, stages[generation-1], generation, next))
	}
	f.ca = []byte(stages[1].Roots(pki.Kubernetes) + stages[6].Roots(pki.Kubernetes)) // of clients that know all
	tr := startTraffic(f.url(), f.ca, 5*time.Second)
	leaf := func(stage int) pki.KeyPair { return servingPair(f.T, stages[stage]) }

	f.serve("b", leaf(2)) // the next one's, to balancers that know only the first
	f.refusesTrust(stages[3], `"kubernetes"`, "a", "c")
	f.trust(stages[1])
	f.serve("a", leaf(0))
	f.serve("b", leaf(2))
	f.serve("c", withoutChain(leaf(2)))
	f.refusesTrust(stages[3], `"kubernetes"`, "a")
	f.serve("a", leaf(2))
	f.trust(stages[3])
	f.serve("a", leaf(2))
	f.serve("b", leaf(3))
	f.trust(stages[2]) // back by one, and forth again
	f.trust(stages[3])

	f.serve("b", leaf(5)) // an intermediate one's, to balancers that know only the second
	f.trust(stages[4])
	f.serve("b", withoutChain(leaf(5)))
	f.refusesTrust(stages[6], `"kubernetes-2"`, "a", "c")
	f.serve("a", leaf(5))
	f.serve("c", leaf(6))
	f.trust(stages[6])
	f.serve("a", leaf(5)) // with the way from the second, whom nobody knows any more
	f.serve("b", leaf(6))
	f.serve("c", withoutChain(leaf(6)))
	if _, failed := tr.end(f.T); failed > 0 {
		f.Errorf("%d requests failed", failed)
	}
	f.bundle = stages[6]
	f.skipsTheDead(stages[5])
}

// withoutChain is a pair of whom nobody has told its authority.
func withoutChain(pair pki.KeyPair) pki.KeyPair {
	leaf, _ := pem.Decode([]byte(pair.Certificate))
	pair.Certificate = string(pem.EncodeToMemory(leaf))
	return pair
}

// serve gives a replica another certificate: HAProxy, which sees it again, must
// find it healthy.
func (f *fixture) serve(name string, pair pki.KeyPair) {
	f.Helper()
	f.must(f.registrar.Deregister(f.ctx, name))
	_, err := f.spec.Hosts[name].Apply(f.ctx, host.Change{Files: []host.File{
		{Path: standInPair, Content: []byte(pair.Certificate + pair.PrivateKey), Mode: 0o600},
	}})
	f.must(err)
	f.must(f.registrar.Register(f.ctx, name, f.replicaAddress(name)))
}

// trust gives the balancers the authorities of a stage.
func (f *fixture) trust(b *pki.Bundle) {
	f.Helper()
	wanted := f.spec
	wanted.CACertificate = b.Roots(pki.Kubernetes)
	got, err := Update(f.ctx, f.spec, wanted)
	f.must(err)
	if len(got.Drift) > 0 {
		f.Errorf("drift after another trust: %q", got.Drift)
	}
	f.spec = wanted
}

// refusesTrust: the authorities of a stage would leave replicas unverified, all
// those named and no other.
func (f *fixture) refusesTrust(b *pki.Bundle, signer string, unverified ...string) {
	f.Helper()
	wanted := f.spec
	wanted.CACertificate = b.Roots(pki.Kubernetes)
	for what, act := range map[string]func() error{
		"update": func() error { _, err := Update(f.ctx, f.spec, wanted); return err },
		"create": func() error { _, err := Create(f.ctx, wanted); return err },
	} {
		err := act()
		if err == nil || !problem.Untouched(err) || strings.Count(err.Error(), "its certificate is signed by "+
			signer) != len(unverified) {
			f.Fatalf("%s: %v", what, err)
		}
		for _, name := range unverified {
			if !strings.Contains(err.Error(), name+" ("+f.replicaAddress(name)+"): ") {
				f.Errorf("%s does not name %s: %v", what, name, err)
			}
		}
	}
	if got := f.read(); len(got.Drift) > 0 {
		f.Errorf("drift after a refusal: %q", got.Drift)
	}
}

// skipsTheDead: a replica that is down keeps no trust.
func (f *fixture) skipsTheDead(b *pki.Bundle) {
	f.Helper()
	f.shell("a", "systemctl stop stand-in")
	f.eventually("a down", 10*time.Second, func(observed) bool {
		differences, err := f.registered("a")
		return err == nil && len(differences) == len(f.spec.Hosts) // to every balancer
	})
	f.trust(b)
	f.trust(f.bundle) // takes away again what a may still show
	f.shell("a", "systemctl start stand-in")
	f.must(f.registrar.Register(f.ctx, "a", f.replicaAddress("a")))
}
