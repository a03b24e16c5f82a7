package etcd

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// TestStored reads page after page, at one revision, from any member that answers.
func TestStored(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	f.create(specs, "cp2")
	f.machine("cp1").lost = true
	c := f.client(specs["cp2"])
	put := func(key, value string) {
		if err := c.put("cp2", key, value); err != nil {
			t.Fatal(err)
		}
	}
	const prefix, n = "/registry/secrets/", 2*client.PageKeys + 1
	for i := range n {
		put(fmt.Sprintf("%s%05d", prefix, i), fmt.Sprint("value", i))
	}
	put("/registry/secrets", "before")
	put("/registry/secrets0", "after")
	read := func(prefix string, during func(i int)) map[string]int {
		t.Helper()
		seen := map[string]int{}
		var order []string
		err := f.clusters.ReadKeys(f.context(), specs["cp1"].Peers, f.bundle, prefix, func(key string, value []byte) {
			during(len(order))
			seen[key], order = len(value), append(order, key)
		})
		if err != nil || !slices.IsSorted(order) || len(seen) != len(order) {
			t.Fatalf("%d keys, %d of them once, in order %v: %v", len(order), len(seen), slices.IsSorted(order), err)
		}
		return seen
	}
	seen := read(prefix, func(i int) {
		if i == 3 { // changes behind and before the current page are not visible
			put(prefix+"00000-new", "new")
			put(prefix+"00700-new", "new")
		}
	})
	if len(seen) != n || seen[prefix+"00000"] != len("value0") {
		t.Errorf("%d keys below the prefix, want %d", len(seen), n)
	}
	if seen = read("", func(int) {}); len(seen) != n+4 {
		t.Errorf("%d keys in all, want %d", len(seen), n+4)
	}
	if seen = read("/nothing/", func(int) {}); len(seen) != 0 {
		t.Errorf("keys where there are none: %v", seen)
	}
	// More than one answer may contain.
	for i := range client.MaxPage>>20 + 4 {
		put(fmt.Sprintf("/large/%02d", i), strings.Repeat("x", 1<<20))
	}
	if seen = read("/large/", func(int) {}); len(seen) != client.MaxPage>>20+4 {
		t.Errorf("%d large keys", len(seen))
	}
	f.kill("cp2", false)
	err := f.clusters.ReadKeys(f.context(), specs["cp1"].Peers, f.bundle, prefix, func(string, []byte) {})
	if !errors.Is(err, client.ErrNoAnswer) || !problem.Untouched(err) {
		t.Errorf("nobody answers: %v", err)
	}
}

// TestAPIServersBelowAnyPrefix verifies that the registrations of API servers are found and removed below each prefix,
// and nothing else.
func TestAPIServersBelowAnyPrefix(t *testing.T) {
	t.Parallel()
	f := newSmallFleet(t)
	specs := f.specs("cp1")
	f.create(specs, "cp1")
	c := f.client(specs["cp1"])
	kept := []string{"/app/masterleases", "/registry/pods/masterleases/a", "compact_rev_key"}
	for _, prefix := range []string{"/prod/k8s/", "/registry/"} {
		for _, key := range []string{
			"configmaps/kube-system/a", "namespaces/default", "services/specs/default/kubernetes",
		} {
			kept = append(kept, prefix+key)
		}
	}
	registered := []string{
		"/prod/k8s/masterleases/10.9.0.1", "/prod/k8s/masterleases/10.9.0.2", client.MasterLeases + "10.9.0.1",
		client.MasterLeases + "fd00::3",
	}
	for _, key := range slices.Concat(kept, registered) {
		if err := c.put("cp1", key, "value"); err != nil {
			t.Fatal(err)
		}
	}
	before := c.keys("cp1")
	v := f.view(specs["cp1"])
	servers := func() []string {
		t.Helper()
		servers, err := c.clients.APIServers(f.context(), &v)
		if err != nil {
			t.Fatal(err)
		}
		return servers
	}
	if got := servers(); !slices.Equal(got, []string{"10.9.0.1", "fd00::3", "10.9.0.2"}) {
		t.Errorf("the API servers are %q", got)
	}
	if err := c.clients.ForgetAPIServers(f.context(), f.address("cp1")); err != nil {
		t.Fatal(err)
	}
	if got := servers(); len(got) > 0 {
		t.Errorf("after their removal, the API servers are %q", got)
	}
	for _, key := range registered {
		delete(before, key)
	}
	if after := c.keys("cp1"); !maps.Equal(after, before) {
		t.Errorf("the keys are %v, want %v", after, before)
	}
	if err := c.put("cp1", "/prod/k8s/masterleases/$(id)", ""); err != nil {
		t.Fatal(err)
	}
	if got, err := c.clients.APIServers(f.context(), &v); err == nil || !strings.Contains(err.Error(),
		`"/prod/k8s/masterleases/" contains "$(id)"`) {
		t.Errorf("a key that is not an address: %q, %v", got, err)
	}
}
