package controlplane

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// ctlStore reads etcd with etcdctl on the machine. The provider's own store uses etcd's
// protocol.
type ctlStore struct{ *stage }

func (c ctlStore) ctl(ctx context.Context, arguments string, input []byte) (string, error) {
	script := "/opt/kube/etcd/" + etcdVersion + "/etcdctl --endpoints=" + c.spec.EtcdURLs[0] + " --cacert=" +
		component.EtcdCA + " --cert=" + component.EtcdDir + "/server.crt --key=" + component.EtcdDir + "/server.key " +
		arguments
	if input != nil {
		script = "echo " + base64.StdEncoding.EncodeToString(input) + " | base64 -d | " + script
	}
	return c.spec.Host.Run(ctx, host.Command{Script: host.Script(script)})
}

func (c ctlStore) PauseMember(
	ctx context.Context, _ string, do func(context.Context, PausedMember) error,
) error {
	return do(ctx, noMember{}) // the stage's member is a unit
}

func (c ctlStore) Scan(ctx context.Context, prefix string, see func(string, []byte)) error {
	out, err := c.ctl(ctx, "get --prefix --write-out=json "+prefix, nil)
	if err != nil {
		return err
	}
	var answer struct {
		Kvs []struct{ Key, Value []byte }
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		return err
	}
	for _, kv := range answer.Kvs {
		see(string(kv.Key), kv.Value)
	}
	return nil
}

func (c ctlStore) Versions(context.Context) (map[string]string, error) {
	return map[string]string{"cp1": etcdVersion}, nil
}

func (c ctlStore) Save(ctx context.Context, label string) (string, error) {
	path := "/var/lib/" + label + ".db"
	if _, err := c.ctl(ctx, "snapshot save "+path, nil); err != nil {
		return "", err
	}
	_, err := c.ctl(ctx, "endpoint status", nil)
	return c.spec.Host.Address() + ":" + path, err
}

func (st *stage) rotated(b *pki.Bundle, part pki.Part, generation int, next pki.Next) *pki.Bundle {
	st.Helper()
	bundle, err := b.Rotate(map[pki.Part]int{part: generation}, next,
		pki.Options{Now: time.Now(), Algorithm: b.Algorithm, Validity: 2 * 365 * 24 * time.Hour})
	if err != nil {
		st.Fatal(err)
	}
	return bundle
}

// goes moves the replica to a generation of one part.
func (st *stage) goes(part pki.Part, generation int, next pki.Next) {
	st.Helper()
	st.spec.Bundle = st.rotated(st.spec.Bundle, part, generation, next)
	start := time.Now()
	status, err := st.replicas.Update(st.ctx, st.spec)
	st.Logf("%s at %d in %s", part, generation, time.Since(start).Round(100*time.Millisecond))
	st.steady(status, err)
	st.registrar.take()
}

// kept is an object that a client wrote once and reads repeatedly.
const (
	keptPath = "/api/v1/namespaces/default/secrets/kept"
	keptKey  = "/registry/secrets/default/kept"
	keptText = "known to nobody"
)

// encryptsWhatWasPlain: a Secret changes from plain text to ciphertext and is readable at every
// stage, even if a plain one appears again before the last stage.
func (st *stage) encryptsWhatWasPlain() {
	store := ctlStore{st}
	st.spec.Store = store
	web := st.as(st.spec.Bundle)
	body := `{"metadata":{"name":"kept"},"stringData":{"text":"` + keptText + `"}}`
	if status, text := send(st, web, http.MethodPost, strings.TrimSuffix(keptPath, "/kept"),
		body); status != http.StatusCreated {
		st.Fatalf("%d %s", status, text)
	}
	next := pki.Next{Encryption: pki.Encryption{Kind: pki.Secretbox, Resources: []string{"secrets"}}}
	plain := st.stored(store)
	for _, c := range []struct {
		generation int
		encrypted  bool
	}{{1, false}, {2, true}, {3, true}} {
		if c.generation == 3 {
			if _, err := store.ctl(st.ctx, "put "+keptKey, plain); err != nil {
				st.Fatal(err)
			}
		}
		before := st.pids()
		st.goes(pki.EncryptionPart, c.generation, next)
		// controller-manager may restart by itself: its API server was away for as long as its
		// lease lasts.
		if restarted := st.restarted(before); !slices.Contains(restarted, release.APIServer) {
			st.Errorf("restarted %q", restarted)
		}
		value := string(st.stored(store))
		if encrypted := strings.HasPrefix(value, "k8s:enc:secretbox:v1:key2:"); encrypted != c.encrypted ||
			strings.Contains(value, keptText) == encrypted {
			st.Errorf("at generation %d etcd holds %q", c.generation, value)
		}
		if status, text := fetch(st, web, keptPath); status != http.StatusOK ||
			!strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(keptText))) {
			st.Errorf("at generation %d it reads %d %s", c.generation, status, text)
		}
	}
	left, err := findStaleObjects(st.ctx, st.spec)
	if err != nil || len(left) > 0 {
		st.Errorf("left in the clear: %v, %v", left, err)
	}
}

// stored returns the Secret's value in etcd.
func (st *stage) stored(store Store) (value []byte) {
	st.Helper()
	err := store.Scan(st.ctx, keptKey, func(_ string, v []byte) { value = v })
	if err != nil || value == nil {
		st.Fatalf("etcd holds %q, %v", value, err)
	}
	return value
}

// rotatesTheAuthority: a kubeconfig of the first authority works until the last stage.
func (st *stage) rotatesTheAuthority() {
	old := st.spec.Bundle
	for generation := 1; generation <= 3; generation++ {
		st.goes(pki.KubernetesPart, generation, pki.Next{})
		accepted := generation < 3
		st.within("the old kubeconfig", func() (int, bool) {
			status, _ := fetch(st, st.as(old), keptPath)
			return status, (status == http.StatusOK) == accepted
		})
		if status, text := fetch(st, st.as(st.spec.Bundle), keptPath); status != http.StatusOK {
			st.Errorf("the kubeconfig of generation %d: %d %s", generation, status, text)
		}
	}
}

// isSeenByOthers: another replica observes this machine before it moves to a stage, and does
// not drop an etcd authority that etcd depends on.
func (st *stage) isSeenByOthers() {
	others := func() replicaStatus {
		st.Helper()
		another := st.spec
		another.Name = "cp2"
		seen, err := st.replicas.otherReplicas(st.ctx, another)
		if err != nil || len(seen) != 1 || seen[0].name != "cp1" {
			st.Fatalf("%+v, %v", seen, err)
		}
		return seen[0]
	}
	if seen := others(); seen.unknown != nil || !maps.Equal(seen.generations, st.spec.Bundle.Generations()) {
		st.Errorf("stands at %+v", seen)
	}
	at, err := st.replicas.EtcdTrust(st.ctx, st.spec.Host.Address())
	if err != nil || at.Generation != 0 || at.Roots != st.spec.Bundle.Anchors(pki.Etcd) || at.Certificate == "" {
		st.Errorf("trust of etcd: %+v, %v", at, err)
	}

	st.run("cp -p " + component.EtcdClientCA + " " + component.EtcdClientCA + ".kept; echo >>" + component.EtcdClientCA)
	if seen := others(); !strings.Contains(cptest.Text(seen.unknown),
		"kube-apiserver was started with another "+component.EtcdClientCA) {
		st.Errorf("a file that nothing runs with: %+v", seen)
	}
	if _, err := st.replicas.EtcdTrust(st.ctx, st.spec.Host.Address()); err == nil {
		st.Error("trust of etcd without evidence")
	}
	st.run("mv " + component.EtcdClientCA + ".kept " + component.EtcdClientCA)

	f, err := machine.Observe(st.ctx, st.spec.Host, st.spec.Replica)
	if err != nil {
		st.Fatal(err)
	}
	ahead := st.spec
	for generation := 1; generation <= 3; generation++ {
		ahead.Bundle = st.rotated(ahead.Bundle, pki.EtcdPart, generation, pki.Next{})
		err := checkEtcdTrust(st.ctx, ahead, f)
		if refused := strings.Contains(cptest.Text(err), `serves a certificate of "etcd-ca"`); refused != (generation == 3) ||
			refused != (err != nil) {
			st.Errorf("etcd at %d, while the member is at 0: %v", generation, err)
		}
	}
}

// within waits for a condition that follows a change: the API server reloads its client
// authorities by itself.
func (st *stage) within(what string, f func() (int, bool)) {
	st.Helper()
	for deadline := time.Now().Add(90 * time.Second); ; time.Sleep(pollInterval) {
		seen, ok := f()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			st.Fatalf("%s: %d", what, seen)
		}
	}
}

// as returns a client with an administrator kubeconfig of the bundle.
func (st *stage) as(b *pki.Bundle) *http.Client {
	st.Helper()
	pair, err := b.Issue(component.Admin(), time.Now(), time.Hour)
	if err != nil {
		st.Fatal(err)
	}
	certificate, err := tls.X509KeyPair([]byte(pair.Certificate), []byte(pair.PrivateKey))
	if err != nil {
		st.Fatal(err)
	}
	return st.httpsClient(b, certificate)
}
