package acceptance

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestUpgradeUndone goes back to etcd 3.5 when all members run 3.6, and to the data of before:
// with the snapshot from before, by the guide's commands.
func TestUpgradeUndone(t *testing.T) {
	to := defaults(t)
	from := versions{minorBefore(t, 1).etcd, to.kubernetes}
	s := newUpgradeStory(t, from)
	client := credentialsOf(t, outputOf(t, s.w, "kubeconfig"))
	make := func(name string) {
		client.must(t, endpointURL, http.MethodPost, "/api/v1/namespaces",
			core.Namespace{ObjectMeta: meta.ObjectMeta{Name: name}}, nil)
	}
	make("before")
	before := s.snapshots(t) // of other tests
	s.choose(t, to)
	apply(t, s.w)
	make("after")
	saved := slices.DeleteFunc(s.snapshots(t), func(path string) bool { return slices.Contains(before, path) })
	if len(saved) != 1 {
		t.Fatalf("saved were %q, want one snapshot", saved)
	}
	holder, path, _ := strings.Cut(saved[0], ":")

	for _, name := range s.names {
		onMachine(t, shared.lab.Machine(name), documentedScript(t, "upgrading", 0))
	}
	onMachine(t, shared.lab.Machine(holder), strings.NewReplacer(
		"/var/lib/etcd-archive/upgrades/20261122T014110Z-etcd-3.5.35-to-3.6.16.db", path, "cp1", holder, "10.0.0.11",
		address(holder),
	).Replace(documentedScript(t, "upgrading", 1)))
	s.choose(t, from)
	newUser(t, s.w).typeCommands(t, inExample.Replace(documentedScript(t, "upgrading", 2)))
	expectEmptyPlan(t, s.w)
	expectServing(t, s.w, s.names, from.etcd, from.kubernetes)
	client.must(t, endpointURL, http.MethodGet, "/api/v1/namespaces/before", nil, nil)
	if code, text, err := client.call(t.Context(), endpointURL, http.MethodGet, "/api/v1/namespaces/after", nil,
		nil); err != nil || code != http.StatusNotFound {
		t.Errorf("what was written since is still there: HTTP %d, %v: %s", code, err, text)
	}
	s.over(t)
}
