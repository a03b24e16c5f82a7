package acceptance

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// TestRestore loses etcd in two ways, and one apply restores it: from a snapshot, when all
// data is gone, and from the only survivor of three, and then from what commands fetch with a token. An informer that
// was started before converges to what the cluster contains. Secrets are afterwards where they were before, and nowhere
// else.
func TestRestore(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	w := newStory(t, names...)
	bare := fingerprints(t, names...)
	scan := newSecretScan(t, w)
	for _, name := range names {
		onMachineWith(t, name, "TOKEN="+fetchToken+"\n", "umask 077; cat >"+fetchEnvironment)
	}
	apply(t, w)
	places := placesOn(t, names, map[string]string{"token": fetchToken})
	s := &restoreStory{w: w, names: names, client: credentialsOf(t, outputOf(t, w, "kubeconfig"))}
	s.watch(t, outputOf(t, w, "kubeconfig"))
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"everything is lost", s.everything},
		{"quorum is lost", s.quorum},
		{"a snapshot is fetched", s.fetched},
	} {
		if t.Run(test.name, test.run); t.Failed() {
			t.FailNow()
		}
	}
	if now := placesOn(t, names, map[string]string{"token": fetchToken}); !maps.EqualFunc(places, now, slices.Equal) ||
		!slices.Equal(now["cp1 token"], []string{fetchEnvironment}) {
		t.Errorf("secrets are in %q, and were in %q", now, places)
	}
	scan.collectBundle(t, names...)
	scan.expectUnseen(t, "the token", fetchToken)
	scan.expectNothing(t, ".tfstate", "→ tfstate", "→ tfplan") // plans contain the state, and changes of it
	for _, name := range names {
		onMachine(t, shared.lab.Machine(name), "rm -f /root/snapshot.db "+fetchEnvironment)
	}
	before := processes(t, names...)
	override(t, w, "")
	apply(t, w)
	expectRestarted(t, before, nil)
	apply(t, w, "-destroy")
	expectBare(t, bare, names...)
}

// restoreStory is a control plane whose etcd is lost, and a client that watches it.
type restoreStory struct {
	w      *workspace.Workspace
	names  []string
	client credentials
	store  cache.Store
}

// watch starts an informer of the ConfigMaps in the namespace default.
func (s *restoreStory) watch(t *testing.T, kubeconfig string) {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(kubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	config.APIPath, config.GroupVersion = "/api", &core.SchemeGroupVersion
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	api, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(api, "configmaps", meta.NamespaceDefault, fields.Everything()),
		ObjectType:    &core.ConfigMap{}, Handler: cache.ResourceEventHandlerFuncs{},
	})
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go informer.RunWithContext(ctx)
	s.store = store
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("the informer has not listed the ConfigMaps")
	}
}

const configMaps = "/api/v1/namespaces/default/configmaps"

func (s *restoreStory) put(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		s.client.must(t, endpointURL, http.MethodPost, configMaps, configMap(name), nil)
	}
}

func configMap(name string) core.ConfigMap {
	return core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: name}}
}

func (s *restoreStory) remove(t *testing.T, name string) {
	t.Helper()
	s.client.must(t, endpointURL, http.MethodDelete, configMaps+"/"+name, nil, nil)
}

// stored returns the ConfigMaps with their versions, as the API server lists them.
func (s *restoreStory) stored(t *testing.T) map[string]string {
	t.Helper()
	var list core.ConfigMapList
	s.client.must(t, endpointURL, http.MethodGet, configMaps, nil, &list)
	all := map[string]string{}
	for _, item := range list.Items {
		all[item.Name] = item.ResourceVersion
	}
	return all
}

// watched returns what the informer has.
func (s *restoreStory) watched() map[string]string {
	all := map[string]string{}
	for _, item := range s.store.List() {
		if m, ok := item.(*core.ConfigMap); ok {
			all[m.Name] = m.ResourceVersion
		}
	}
	return all
}

// converges waits until the informer has what the cluster has, which includes want.
func (s *restoreStory) converges(t *testing.T, want ...string) {
	t.Helper()
	began := time.Now()
	for {
		stored, watched := s.stored(t), s.watched()
		if maps.Equal(stored, watched) {
			t.Logf("the informer has converged after %.1f s", time.Since(began).Seconds())
			if got := testObjects(stored); !slices.Equal(got, want) {
				t.Errorf("the cluster has %q, want %q", got, want)
			}
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("the informer has %v, and the cluster %v", watched, stored)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// testObjects returns the names of the ConfigMaps that this test makes.
func testObjects(stored map[string]string) []string {
	names := slices.Sorted(maps.Keys(stored))
	return slices.DeleteFunc(names, func(name string) bool { return name == "kube-root-ca.crt" })
}

// request writes the restore of all members.
func (s *restoreStory) request(t *testing.T, arguments string) {
	t.Helper()
	override(t, s.w, fmt.Sprintf("resource \"kube_etcd_member\" \"this\" {\n  restore = { %s }\n}\n", arguments))
}

// lose makes members lose their data.
func (s *restoreStory) lose(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		onMachine(t, shared.lab.Machine(name),
			"systemctl kill -s KILL etcd; systemctl stop etcd; rm -rf /var/lib/etcd/member")
	}
}

// everything loses all data, and restores a snapshot.
func (s *restoreStory) everything(t *testing.T) {
	s.put(t, "kept", "removed-later")
	onMachine(t, shared.lab.Machine("cp1"), ctl+"etcdctl snapshot save /root/snapshot.db 2>/dev/null")
	s.put(t, "written-later")
	s.remove(t, "removed-later")
	s.converges(t, "kept", "written-later")

	s.request(t, `id = "first", snapshot = "/root/snapshot.db"`)
	expectContains(t, planRefused(t, s.w), "the cluster serves", "its leader is")
	s.lose(t, s.names...)
	expectContains(t, plan(t, s.w), "etcd will be restored", "/root/snapshot.db", "It is on cp1", "up to revision",
		"is lost")
	began := time.Now()
	apply(t, s.w)
	t.Logf("restored, with all replicas, in %.1f s", time.Since(began).Seconds())
	s.converges(t, "kept", "removed-later")
	s.serves(t)
}

// quorum loses two of three members, and continues with the third.
func (s *restoreStory) quorum(t *testing.T) {
	s.put(t, "late")
	s.lose(t, "cp1", "cp2")
	s.request(t, `id = "second", member = "cp1"`)
	expectContains(t, plan(t, s.w), "etcd will be restored", "SURVIVOR", `Member cp3 still has data, up to its revision`)
	s.request(t, `id = "second", member = "cp3"`)
	began := time.Now()
	apply(t, s.w)
	t.Logf("recovered, with all replicas, in %.1f s", time.Since(began).Seconds())
	s.converges(t, "kept", "late", "removed-later")
	s.serves(t)
}

// What commands that fetch a snapshot need, and where it is on machines.
const (
	fetchToken       = "fetch-token-6e1c04d9a7f2"
	fetchEnvironment = "/root/restore.env"
)

// fetched loses all data again, and restores what commands bring that have a token in their environment. Terraform and
// the provider log everything.
func (s *restoreStory) fetched(t *testing.T) {
	s.lose(t, s.names...)
	s.request(t, `id = "third", environment_file = "`+fetchEnvironment+`", fetch = "case $TOKEN in fetch-token-*) `+
		`cp /root/snapshot.db $SNAPSHOT ;; *) echo no token >&2; exit 1 ;; esac"`)
	s.w.Log = filepath.Join(s.w.Dir, "trace.log")
	applySaved(t, s.w, "fetched.plan")
	s.w.Log = ""
	s.converges(t, "kept", "removed-later")
	s.serves(t)
}

// serves checks that every part works, and that the same configuration changes nothing.
func (s *restoreStory) serves(t *testing.T) {
	t.Helper()
	expectEmptyPlan(t, s.w)
	expectHealthy(t, s.w, s.names)
	s.put(t, "probe")
	s.remove(t, "probe")
	s.converges(t, testObjects(s.stored(t))...)
	for _, name := range s.names {
		if got := onMachine(t, shared.lab.Machine(name), ctl+"etcdctl get /registry/masterleases/ --prefix --keys-only | "+
			"sed '/^$/d' | sort | tr '\\n' ' '"); strings.Count(got, "/") != 3*len(s.names) {
			t.Errorf("the API servers that are registered according to %s: %s", name, got)
		}
	}
}

// planRefused runs a plan that has to fail and returns its diagnostics on one line.
func planRefused(t *testing.T, w *workspace.Workspace) string {
	t.Helper()
	_, _, err := w.Plan(t.Context())
	if err == nil {
		t.Fatal("the plan was not refused")
	}
	return unfolded(err.Error())
}
