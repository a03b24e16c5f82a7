package controlplane

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/nodebootstrap"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// standInObjects keeps the objects of an API server in memory. before runs before each change.
type standInObjects struct {
	all     map[string]map[string]any
	before  func()
	applied []string
	forced  []string
	deleted []string
}

func (s *standInObjects) Get(_ context.Context, o nodebootstrap.Object) (map[string]any, error) {
	return s.all[o.Label()], nil
}

func (s *standInObjects) Apply(_ context.Context, o nodebootstrap.Object, force bool) error {
	s.before()
	s.applied = append(s.applied, o.Label())
	if force {
		s.forced = append(s.forced, o.Label())
	}
	s.put(o, nodebootstrap.FieldManager)
	return nil
}

func (s *standInObjects) Delete(_ context.Context, o nodebootstrap.Object, _ string) error {
	s.before()
	s.deleted = append(s.deleted, o.Label())
	delete(s.all, o.Label())
	return nil
}

// kubeadmHas sets the text of kubeadm-config, as kubeadm manages it.
func (s *standInObjects) kubeadmHas(t *testing.T, objects []nodebootstrap.Object, text string) nodebootstrap.Object {
	t.Helper()
	for _, o := range objects {
		if o.Label() == "ConfigMap kube-system/kubeadm-config" {
			o.Fields = map[string]any{"data": map[string]any{"ClusterConfiguration": text}}
			s.put(o, "kubeadm")
			return o
		}
	}
	t.Fatal("there is no kubeadm-config")
	return nodebootstrap.Object{}
}

// put sets an object with the fields of its manifest, owned by a manager.
func (s *standInObjects) put(o nodebootstrap.Object, manager string) {
	object := o.Manifest()
	metadata, _ := object["metadata"].(map[string]any)
	metadata["managedFields"] = []any{map[string]any{
		"manager": manager, "fieldsV1": map[string]any{"f:data": map[string]any{}},
	}}
	s.all[o.Label()] = object
}

// alsoManagedBy adds a manager to an object.
func (s *standInObjects) alsoManagedBy(o nodebootstrap.Object, manager string) {
	metadata, _ := s.all[o.Label()]["metadata"].(map[string]any)
	fields, _ := metadata["managedFields"].([]any)
	metadata["managedFields"] = append(fields, map[string]any{
		"manager": manager, "fieldsV1": map[string]any{"f:data": map[string]any{}},
	})
}

// joined returns the settings of a cluster, and its objects as the provider has applied them.
func joined(t *testing.T) (nodebootstrap.Settings, *standInObjects, []nodebootstrap.Object) {
	t.Helper()
	bundle, err := pki.Generate(pki.Options{ClusterName: "lab"})
	if err != nil {
		t.Fatal(err)
	}
	settings := nodebootstrap.Settings{
		Bundle: bundle, Host: "10.0.0.100", Port: 6443, Version: "1.36.3", ClusterDomain: "cluster.local",
		ServiceCIDRs: []string{"10.96.0.0/12"},
	}
	objects, err := nodebootstrap.Objects(settings)
	if err != nil {
		t.Fatal(err)
	}
	s := &standInObjects{all: map[string]map[string]any{}, before: func() {}}
	for _, o := range objects {
		s.put(o, nodebootstrap.FieldManager)
	}
	return settings, s, objects
}

func observedIn(t *testing.T, s *standInObjects, settings nodebootstrap.Settings) []existing {
	t.Helper()
	current, err := observeObjects(t.Context(), s, settings)
	if err != nil {
		t.Fatal(err)
	}
	return current
}

// TestSupersededObjects: a Create of the same objects begins while a Delete deletes them, which then leaves the rest.
func TestSupersededObjects(t *testing.T) {
	for begun := range 3 {
		settings, s, _ := joined(t)
		asked := 0
		superseded := func() bool { asked++; return asked > begun }
		_, err := deleteObjects(t.Context(), s, observedIn(t, s, settings), superseded)
		if !errors.Is(err, errSuperseded) || len(s.deleted) != begun {
			t.Errorf("begun before deletion %d: deleted %v: %v", begun, s.deleted, err)
		}
	}
	settings, s, objects := joined(t)
	s.put(objects[0], "kubectl")
	kept, err := deleteObjects(t.Context(), s, observedIn(t, s, settings), func() bool { return false })
	if err != nil || len(s.deleted) != len(objects)-1 || len(kept) != 1 {
		t.Errorf("never: deleted %v, kept %v: %v", s.deleted, kept, err)
	}
}

// TestDeletedMeanwhile: a Create finds everything as wanted, and the Delete of the renamed resource deletes an object
// before it asks again. The Create applies that one, and forces nothing that somebody else has made meanwhile.
func TestDeletedMeanwhile(t *testing.T) {
	settings, s, objects := joined(t)
	current := observedIn(t, s, settings)
	first, foreign, last := objects[0], objects[1], objects[len(objects)-1]
	delete(s.all, first.Label())
	s.put(foreign, "kubectl")
	delete(s.all, last.Label())
	after, err := applyObjects(t.Context(), s, settings, current)
	if err != nil || len(s.applied) != 2 || s.applied[0] != first.Label() || s.applied[1] != last.Label() ||
		len(s.forced) > 0 {
		t.Errorf("applied %v, forced %v: %v", s.applied, s.forced, err)
	}
	if drift := objectDrift(after); len(drift) != 1 { // the foreign one
		t.Errorf("drift %v", drift)
	}
}

// TestDeletedForEver: somebody deletes each object as soon as it is applied. The apply ends, and reports the drift.
func TestDeletedForEver(t *testing.T) {
	settings, s, objects := joined(t)
	clear(s.all)
	s.before = func() { clear(s.all) }
	after, err := applyObjects(t.Context(), s, settings, observedIn(t, s, settings))
	if err != nil || len(objectDrift(after)) == 0 || len(s.applied) > 2*len(objects) {
		t.Errorf("applied %d times, drift %v: %v", len(s.applied), objectDrift(after), err)
	}
}

// TestAdoptedConfiguration: kubeadm-config keeps what kubeadm has written beside the provider's fields. What is kept is
// no drift, and one that cannot be kept is refused before the first change.
func TestAdoptedConfiguration(t *testing.T) {
	const header = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.35.1\n"
	settings, s, objects := joined(t)
	config := s.kubeadmHas(t, objects, header+"etcd: {external: {caFile: /ca.crt}}\n")
	without := observedIn(t, s, settings)
	err := NodeBootstrap{Settings: settings}.checkAdoption(without)
	if err == nil || !slices.Contains(objectDrift(without),
		config.Label()+": ClusterConfiguration: etcd is set, but is not wanted") {
		t.Errorf("without adopt: %v, %v", objectDrift(without), err)
	}
	settings.Adopt = true
	current := observedIn(t, s, settings)
	for _, difference := range objectDrift(current) {
		if strings.Contains(difference, "etcd") {
			t.Errorf("what is kept is drift: %s", difference)
		}
	}
	if err := (NodeBootstrap{Settings: settings}).checkAdoption(current); err != nil {
		t.Fatal(err)
	}
	after, err := applyObjects(t.Context(), s, settings, current)
	if err != nil || !slices.Equal(s.applied, []string{config.Label()}) || len(objectDrift(after)) > 0 {
		t.Errorf("applied %v, drift %v: %v", s.applied, objectDrift(after), err)
	}
	data, _ := s.all[config.Label()]["data"].(map[string]any)
	if text, _ := data["ClusterConfiguration"].(string); !strings.Contains(text, "caFile: /ca.crt") ||
		!strings.Contains(text, "kubernetesVersion: v1.36.3") {
		t.Errorf("kubeadm-config is\n%s", text)
	}

	s.kubeadmHas(t, objects, header+"kind: Pod\n")
	current = observedIn(t, s, settings)
	err = NodeBootstrap{Settings: settings}.checkAdoption(current)
	if !problem.Untouched(err) || !strings.Contains(err.Error(), config.Label()+": ClusterConfiguration cannot be kept") {
		t.Errorf("a text that cannot be kept: %v", err)
	}
	if drift := objectDrift(current); len(drift) != 2 || !strings.Contains(drift[0], "cannot be kept") {
		t.Errorf("a text that cannot be kept is the drift %v", drift)
	}
}

// TestAdoptedBefore: kubeadm and the provider manage kubeadm-config, as after a destroy of a resource with adopt. One
// that is created without adopt does not remove what kubeadm has set. Only an update does, whose plan has shown that.
func TestAdoptedBefore(t *testing.T) {
	settings, s, objects := joined(t)
	config := s.kubeadmHas(t, objects, "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n"+
		"kubernetesVersion: v1.35.1\netcd: {external: {caFile: /ca.crt}}\n")
	settings.Adopt = true
	if _, err := applyObjects(t.Context(), s, settings, observedIn(t, s, settings)); err != nil {
		t.Fatal(err)
	}
	s.alsoManagedBy(config, "kubeadm")
	settings.Adopt = false
	current := observedIn(t, s, settings)
	err := NodeBootstrap{Settings: settings}.checkAdoption(current)
	if !problem.Untouched(err) || !strings.Contains(err.Error(), "etcd is set, but is not wanted") ||
		!strings.Contains(err.Error(), config.Label()+", managed by kubeadm too") ||
		strings.Contains(err.Error(), "is missing") {
		t.Errorf("created without adopt: %v", err)
	}
	if err := (NodeBootstrap{Settings: settings, Overwrites: true}).checkAdoption(current); err != nil {
		t.Errorf("adopt is taken back: %v", err)
	}
	settings.Adopt = true
	if err := (NodeBootstrap{Settings: settings}).checkAdoption(observedIn(t, s, settings)); err != nil {
		t.Errorf("created with adopt: %v", err)
	}

	settings, s, _ = joined(t)
	s.alsoManagedBy(config, "kubectl-label")
	settings.Version = "1.36.4"
	if err := (NodeBootstrap{Settings: settings}).checkAdoption(observedIn(t, s, settings)); err != nil {
		t.Errorf("another version in a text of the provider: %v", err)
	}
	s.put(config, nodebootstrap.FieldManager)
	if err := (NodeBootstrap{Settings: settings}).checkAdoption(observedIn(t, s, settings)); err != nil {
		t.Errorf("fields of the provider alone: %v", err)
	}
}

// TestUnknownReplicaVersion: while the version of a replica is unknown, workers get no higher minor than kubeadm-config
// has. It may serve, even if it does not answer.
func TestUnknownReplicaVersion(t *testing.T) {
	s := unreachable(t)
	replicas := NewReplicas(func(string) *host.Host { return s.Host })
	registrar := &recordingRegistrar{members: map[string]string{"cp2": "127.0.0.1:6443"}}
	settings, api, objects := joined(t)
	unseen, err := replicas.checkNotNewer(t.Context(), NodeBootstrap{Settings: settings, Registrar: registrar})
	if err != nil || len(unseen) != 1 {
		t.Fatalf("of a machine that does not answer: %v, %v", unseen, err)
	}
	for _, test := range []struct {
		has     string // the version in kubeadm-config
		unseen  []replicaStatus
		refused bool
	}{
		{"v1.35.9", unseen, true},
		{"v1.35.9", nil, false},
		{"v1.36.0", unseen, false},
		{"v1.36.3", unseen, false},
		{"v1.37.0", unseen, false},
		{"", unseen, false},
		{"v1.35.9", []replicaStatus{{name: "cp2", address: "10.0.0.12", unknown: errForeign, foreign: true}}, true},
		{"v1.35.9", []replicaStatus{{name: "cp2", address: "10.0.0.12"}}, true},
	} {
		api.kubeadmHas(t, objects, "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n"+
			"kubernetesVersion: "+test.has+"\n")
		err := checkRaise(settings.Version, observedIn(t, api, settings), test.unseen)
		if (err != nil) != test.refused || err != nil && (!problem.Untouched(err) ||
			!strings.Contains(err.Error(), "replica cp2 (") || strings.Contains(err.Error(), "nil") ||
			!strings.Contains(err.Error(), "v1.35.9")) {
			t.Errorf("from %q, unknown %v: %v", test.has, test.unseen, err)
		}
	}
}

// TestAdoptedDiscovery: what lets everybody read cluster-info is deleted when workers get a file, also if kubeadm has
// created it, with adopt. Without that, or in a destroy, what others manage stays.
func TestAdoptedDiscovery(t *testing.T) {
	for name, c := range map[string]struct {
		managers       []string
		adopt, deletes bool
	}{
		"the provider's":       {[]string{nodebootstrap.FieldManager}, false, true},
		"kubeadm's":            {[]string{"kubeadm"}, false, false},
		"kubeadm's, adopted":   {[]string{"kubeadm"}, true, true},
		"of both":              {[]string{"kubeadm", nodebootstrap.FieldManager}, false, false},
		"of both, adopted":     {[]string{"kubeadm", nodebootstrap.FieldManager}, true, true},
		"there is none, adopt": {nil, true, false},
	} {
		settings, s, _ := joined(t)
		settings.DiscoveryByFile, settings.Adopt = true, c.adopt
		left := nodebootstrap.Unwanted(settings)
		for _, o := range left {
			s.put(o, "")
			var fields []any
			for _, manager := range c.managers {
				fields = append(fields, map[string]any{
					"manager": manager, "fieldsV1": map[string]any{"f:data": map[string]any{}},
				})
			}
			metadata, _ := s.all[o.Label()]["metadata"].(map[string]any)
			if metadata["managedFields"] = fields; fields == nil {
				delete(s.all, o.Label())
			}
		}
		want := 0
		if c.deletes {
			want = len(left)
		}
		current := observedIn(t, s, settings)
		if drift := objectDrift(current); len(drift) != want {
			t.Errorf("%s: drift %q", name, drift)
		}
		after, err := applyObjects(t.Context(), s, settings, current)
		if err != nil || len(s.deleted) != want || len(objectDrift(after)) > 0 {
			t.Errorf("%s: deleted %q, drift %q: %v", name, s.deleted, objectDrift(after), err)
		}
	}
	settings, s, _ := joined(t)
	settings.DiscoveryByFile, settings.Adopt = true, true
	for _, o := range nodebootstrap.Unwanted(settings) {
		s.put(o, "kubeadm")
	}
	_, err := deleteObjects(t.Context(), s, observedIn(t, s, settings), func() bool { return false })
	if err != nil || slices.ContainsFunc(s.deleted, func(label string) bool {
		return strings.Contains(label, "bootstrap-signer-clusterinfo")
	}) {
		t.Errorf("a destroy deletes %q: %v", s.deleted, err)
	}
}
