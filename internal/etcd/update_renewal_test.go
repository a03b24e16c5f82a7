package etcd

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/etcdtest"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// expire replaces certificates of a member by those that have expired.
func (f *fleet) expire(name string, leaves ...pki.Leaf) {
	f.t.Helper()
	m := f.machine(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, leaf := range leaves {
		pair, err := f.bundle.Issue(leaf, time.Now().Add(-2*time.Minute), time.Minute)
		if err != nil {
			f.t.Fatal(err)
		}
		at := machine.CertificatePath(leaf)
		for at, text := range map[string]string{
			at: pair.Certificate, strings.TrimSuffix(at, ".crt") + ".key": pair.PrivateKey,
		} {
			file := m.files[at]
			file.Content = []byte(text)
			m.files[at] = file
			if err := os.WriteFile(m.at(at), file.Content, 0o600); err != nil {
				f.t.Fatal(err)
			}
		}
	}
}

// TestExpiredCertificates: a change that restarts the members waits for members that answer. If none does because all
// certificates have expired, these come first.
func TestExpiredCertificates(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	var err error
	f.bundle, err = pki.Generate(pki.Options{
		ClusterName: "prod", Algorithm: pki.ECDSAP256, Now: time.Now().AddDate(-3, 0, 0), Deletable: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	specs := f.specs(trio...)
	f.create(specs, trio...)
	f.calm(specs[trio[0]])
	for _, name := range trio {
		f.expire(name, machine.Leaves(name, f.address(name))...)
	}
	f.clusters = f.coordinator()
	first := specs[trio[0]]
	if _, err := f.clusters.of(first).view(f.context(), first); !errors.Is(err, client.ErrNoAnswer) {
		t.Fatalf("with expired certificates: %v", err)
	}
	for name, s := range specs {
		s.ExtraArgs = map[string]string{"max-txn-ops": "256"}
		specs[name] = s
	}
	for name, err := range together(t, specs, func(s Spec) error {
		status, err := f.clusters.Update(f.context(), s)
		if err == nil && (!status.Healthy || len(status.Drift) > 0) {
			err = fmt.Errorf("updated to %+v", status)
		}
		return err
	}, trio...) {
		if starts := f.machine(name).starts; err != nil || starts != 2 {
			t.Errorf("%s was started %d times, want twice: %v", name, starts, err)
		}
	}
}

// TestRenewsFirst: which members get their certificates before anything else is decided, and what their record says
// then: nothing of what is still to be done.
func TestRenewsFirst(t *testing.T) {
	cl, specs, machines := reimagedCluster(t)
	s := specs[trio[0]]
	s.Restore, s.Volume, s.DataDir = nil, nil, ""
	bundles := etcdtest.Lineage(t, s.Bundle, 1)
	member := memberOn(t, s)
	view := func(url string, healthy bool) *membership.View {
		return &membership.View{Members: []membership.Member{
			{ID: member.MemberID(), Name: s.Name, PeerURLs: []string{url}, Healthy: healthy, Version: s.Version},
		}}
	}
	changed := s
	changed.ExtraArgs, changed.Bundle = map[string]string{"max-txn-ops": "256"}, bundles[0]
	rotated, moved := changed, changed
	rotated.Bundle, moved.Runtime = bundles[1], machine.StaticPod
	later := time.Now().AddDate(2, 0, 0) // when all certificates have expired
	for name, c := range map[string]struct {
		s    Spec
		v    *membership.View
		now  time.Time
		want bool
	}{
		"no member answers":           {changed, nil, later, true},
		"this one does not":           {changed, view(s.PeerURL(), false), later, true},
		"this one answers":            {changed, view(s.PeerURL(), true), later, false},
		"it is not listed":            {changed, view("https://10.0.0.9:2380", false), later, false},
		"they are valid":              {changed, nil, time.Now(), false},
		"they are another CA's":       {rotated, nil, later, false},
		"another runtime":             {moved, nil, later, true},
		"nothing needs a restart":     {s, nil, later, false},
		"it has lost its record, too": {changed, nil, later, false},
	} {
		f := member
		if strings.HasPrefix(name, "it has lost") {
			f.Record = nil
		}
		r, err := machine.Repairs(c.s.Spec, f, c.v, c.now)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if name == "nothing needs a restart" {
			r.Restart = ""
		}
		on := machines[s.Host.Address()]
		on.changes = nil
		// The version changes too, which waits for a quorum before anything else.
		u := &updating{cl: cl, s: c.s, f: f, step: versionStep{From: "3.6.15", To: "3.6.16"}}
		done, err := u.renewFirst(t.Context(), c.v, r)
		if err != nil || done != c.want || len(on.changes) > 1 || (len(on.changes) == 1) != c.want {
			t.Errorf("%s: %v, %v, changes %+v", name, done, err, on.changes)
			continue
		}
		if !c.want {
			continue
		}
		files := on.changes[0].Files
		record := files[len(files)-1]
		was, err := machine.ReadRecord(string(record.Content))
		if err != nil || len(files) != 7 || record.Path != layout.RecordPath || was.Configured.ExtraArgs != nil {
			t.Errorf("%s: %d files, record %s, %v", name, len(files), record.Content, err)
		}
		if slices.ContainsFunc(files[:6], func(file host.File) bool {
			return path.Ext(file.Path) == ".key" && file.Owner != layout.User // of the process that runs
		}) {
			t.Errorf("%s: another owner in %+v", name, files)
		}
		if again, err := u.renewFirst(t.Context(), c.v, r); again || err != nil {
			t.Errorf("%s: written twice, %v", name, err)
		}
	}
}
