package acceptance

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// onVolumes puts the members of the example on volumes. It names the member whose former machine is gone.
const onVolumes = `
resource "kube_etcd_member" "this" {
  data_dir = "/var/lib/etcd-volume/etcd"
  volume = {
    device     = "/dev/etcd-volume"
    mount_path = "/var/lib/etcd-volume"
    fenced     = each.key == %q
  }
}
`

const (
	memberVolume = "/dev/etcd-volume"
	volumeSize   = 2000 << 20 // of which little is used
)

// volumeStory is a control plane whose members have volumes.
type volumeStory struct {
	w       *workspace.Workspace
	volumes map[string]lab.Volume // by member
	at      map[string]string     // the machine of each member
}

// TestMoveVolume moves members with their volumes: to another machine from one that runs, in the two applies of the
// guide, and to a machine that was made anew at the same address. Both keep their IDs, all writes and their votes. The
// cluster's list of members changes by the peer URL only, and etcd is not restarted on any other machine.
func TestMoveVolume(t *testing.T) {
	all := []string{"cp1", "cp2", "cp3", "cp4"}
	names := all[:3]
	w := newStory(t, all...)
	bare := fingerprints(t, all...)
	scan := newSecretScan(t, w)
	s := &volumeStory{w: w, volumes: map[string]lab.Volume{}, at: map[string]string{}}
	for _, name := range names {
		s.make(t, name)
		s.attach(t, name, name)
	}
	choose(t, w, names...)
	override(t, w, fmt.Sprintf(onVolumes, ""))
	apply(t, w)
	members := observed(t, w).Etcd.Members
	for _, name := range names {
		if members[name].Volume != "/var/lib/etcd-volume" {
			t.Errorf("observed %s as %+v", name, members[name])
		}
	}
	kubectl := credentialsOf(t, outputOf(t, w, "kubeconfig"))
	kubectl.must(t, endpointURL, "POST", configMaps, configMap("before"), nil)
	kubectl.must(t, endpointURL, "POST", "/api/v1/namespaces/default/secrets", newSecret("moves"), nil)
	keys := placesOn(t, all, nil)

	t.Run("from a machine that runs", func(t *testing.T) { s.movesFromLiving(t, bare) })
	if t.Failed() {
		t.FailNow()
	}
	t.Run("to a machine that was made anew", func(t *testing.T) { s.movesToRebuilt(t) })
	if t.Failed() {
		t.FailNow()
	}
	kubectl.must(t, endpointURL, "GET", configMaps+"/before", nil, nil)
	expectHealthy(t, w, names)
	keys["cp3 keys"], keys["cp4 keys"] = nil, keys["cp3 keys"] // what belongs to a machine moves too
	if now := placesOn(t, all, nil); !maps.EqualFunc(now, keys, slices.Equal) {
		t.Errorf("private keys are in %q, want %q", now, keys)
	}
	scan.collectBundle(t, s.at["cp1"], s.at["cp2"], s.at["cp3"])
	scan.expectUnseen(t, "a Secret", secretText)
	scan.expectNothing(t, ".tfstate", "→ tfstate", "→ tfplan") // plans contain the state, and changes of it
	apply(t, w, "-destroy")
	expectBare(t, bare, all...)
	for _, name := range names {
		m := shared.lab.Machine(s.at[name])
		text := onMachine(t, m, "mount -o ro "+memberVolume+" /mnt; cat /mnt/kube-etcd-member.json; "+
			"ls -d /mnt/etcd-archive/*/member; umount /mnt")
		expectContains(t, text, `"state": "removed"`, fmt.Sprintf(`"name": %q`, name))
	}
}

// make makes a volume, which is removed with the test.
func (s *volumeStory) make(t *testing.T, name string) {
	t.Helper()
	v, err := lab.NewVolume(t.Context(), filepath.Join(t.TempDir(), name), volumeSize)
	if err != nil {
		t.Fatal(err)
	}
	s.volumes[name] = v
	t.Cleanup(func() {
		if m := shared.lab.Machine(s.at[name]); m != nil {
			_, _ = m.Run(context.WithoutCancel(t.Context()), "systemctl stop etcd etcd-volume; rm -f "+memberVolume)
		}
		if err := v.Remove(); err != nil {
			t.Error(err)
		}
	})
}

// attach gives a machine the volume of a member.
func (s *volumeStory) attach(t *testing.T, name, to string) {
	t.Helper()
	if err := s.volumes[name].Attach(t.Context(), shared.lab.Machine(to), memberVolume); err != nil {
		t.Fatal(err)
	}
	s.at[name] = to
}

// listed returns the members as the cluster lists them: their IDs and peer URLs.
func listed(t *testing.T, on string) string {
	t.Helper()
	return onMachine(t, shared.lab.Machine(on), `pki=/etc/kubernetes/pki/etcd
/opt/kube/etcd/*/etcdctl --endpoints=https://127.0.0.1:2379 --cacert=$pki/ca.crt --cert=$pki/healthcheck-client.crt \
  --key=$pki/healthcheck-client.key member list | cut -d , -f 1-4 | sort`)
}

func (s *volumeStory) movesFromLiving(t *testing.T, bare map[string][]string) {
	t.Helper()
	before, running := listed(t, "cp1"), processes(t, "cp1", "cp2")
	id := textOf(valuesOf(t, s.w, memberAddress("cp3")), "id")
	place(t, s.w, map[string]string{"cp1": address("cp1"), "cp2": address("cp2"), "cp3": address("cp4")})
	text := plan(t, s.w)
	expectContains(t, text, `etcd member "cp3" moves with its volume`,
		`kube_etcd_member.this["cp3"] will be updated in-place`)
	expectContains(t, refused(t, s.w, "-target="+memberAddress("cp3")), "is not attached to the machine",
		"the member is stopped, and its volume is unmounted on "+address("cp3"))
	if err := s.volumes["cp3"].Detach(t.Context(), shared.lab.Machine("cp3"), memberVolume); err != nil {
		t.Fatal(err)
	}
	s.attach(t, "cp3", "cp4")
	apply(t, s.w)
	s.expectMoved(t, id, "cp3", strings.ReplaceAll(before, address("cp3")+":", address("cp4")+":"))
	expectRestarted(t, running, nil)
	expectBare(t, bare, "cp3")
}

// movesToRebuilt makes the machine of cp2 anew. Its disk is attached to the new one.
func (s *volumeStory) movesToRebuilt(t *testing.T) {
	t.Helper()
	before, running := listed(t, "cp1"), processes(t, "cp1", "cp4")
	id := textOf(valuesOf(t, s.w, memberAddress("cp2")), "id")
	if err := shared.lab.Machine("cp2").Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	trustNewHostKeys(t, s.w)
	s.attach(t, "cp2", "cp2")
	expectContains(t, plan(t, s.w), "the volume "+memberVolume+" is not mounted at /var/lib/etcd-volume")
	expectContains(t, refused(t, s.w), "does not answer, so it may still write to it", "set volume.fenced = true")
	override(t, s.w, fmt.Sprintf(onVolumes, "cp2"))
	apply(t, s.w)
	s.expectMoved(t, id, "cp2", before)
	expectRestarted(t, running, nil)
	override(t, s.w, fmt.Sprintf(onVolumes, ""))
	apply(t, s.w)
}

// expectMoved expects that a member has its ID, and that the cluster lists exactly these members.
func (s *volumeStory) expectMoved(t *testing.T, id, name, want string) {
	t.Helper()
	if now := textOf(valuesOf(t, s.w, memberAddress(name)), "id"); now != id {
		t.Errorf("member %s was %s and is %s", name, id, now)
	}
	if now := listed(t, "cp1"); now != want {
		t.Errorf("the cluster lists\n%swant\n%s", now, want)
	}
	for _, on := range []string{"cp1", s.at[name]} {
		if now := listed(t, on); now != want {
			t.Errorf("%s lists\n%swant\n%s", on, now, want)
		}
	}
}
