package acceptance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/lab/services"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
	"github.com/kubequorum/terraform-provider-kube/internal/supplied"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// installKubeVIP puts kube-vip onto machines, as users do.
func installKubeVIP(t *testing.T, names ...string) {
	t.Helper()
	program := testrun.Supplied(t, supplied.KubeVIP)
	for _, name := range names {
		if err := services.InstallKubeVIP(t.Context(), shared.lab.Machine(name), program); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { // or it was rebuilt
			_, _ = shared.lab.Machine(name).Run(context.WithoutCancel(t.Context()), "rm -f "+services.KubeVIPPath)
		})
	}
}

// holders returns the machines that have the virtual IP.
func holders(t *testing.T, names ...string) []string {
	t.Helper()
	return holdersOf(t, vip, names)
}

// holdersOf returns the machines that have an address.
func holdersOf(t *testing.T, address string, names []string) []string {
	t.Helper()
	var all []string
	for _, name := range names {
		if onMachine(t, shared.lab.Machine(name), "ip -o address show to "+address) != "" {
			all = append(all, name)
		}
	}
	return all
}

// holder returns the one machine that has the virtual IP.
func holder(t *testing.T, names ...string) *lab.Machine {
	t.Helper()
	all := holders(t, names...)
	if len(all) != 1 {
		t.Fatalf("the address is on %v", all)
	}
	return shared.lab.Machine(all[0])
}

func writeKubeVIP(t *testing.T, w *workspace.Workspace, names ...string) {
	t.Helper()
	if err := w.WriteJSON("z.auto.tfvars.json", map[string]any{
		"machines": addresses(names), "endpoint_address": vip,
	}); err != nil {
		t.Fatal(err)
	}
}

// moved returns the criteria for clients of an address that moves between machines. New connections always find
// a machine that has it.
func moved() load.Criteria { return unnoticed().Excusing(load.Moved(60)...) }

// TestKubeVIPEndpointByBGP is the life of a control plane at an address that kube-vip announces from its machines.
func TestKubeVIPEndpointByBGP(t *testing.T) {
	announced{
		example: "examples/kube-vip-bgp-endpoint", argument: "kube_vip.peers", deadFor: 5 * time.Second,
		install: installKubeVIP,
	}.life(t)
}

// rightsScript requests with the certificate of kube-vip.
const rightsScript = `set -e; cd "$(mktemp -d)"; trap 'rm -rf "$PWD"' EXIT
field() { sed -n "s/^[ -]*$1: //p" /etc/kubernetes/kube-vip-endpoint.conf | base64 -d; }
field certificate-authority-data >ca; field client-certificate-data >crt; field client-key-data >key
as() { curl -s --cacert ca --cert crt --key key -o body -w "%%{http_code} " "$@"; }
api=https://%[1]s:6443; leases=$api/apis/coordination.k8s.io/v1/namespaces/kube-system/leases
as $leases/kube-vip-%[2]s
as $leases
as $leases/kube-controller-manager
as -X DELETE $leases/kube-vip-%[2]s
as -X POST -H 'Content-Type: application/json' -d '{"metadata":{"name":"x"}}' $leases
as $api/api/v1/namespaces/kube-system/secrets
as $api/api/v1/nodes
as -X PATCH -H 'Content-Type: application/merge-patch+json' -d '{}' $leases/kube-vip-%[2]s
`

// deleteLeaseScript deletes the Lease as an administrator, and waits until nobody has the address.
const deleteLeaseScript = `set -e; cd "$(mktemp -d)"; trap 'rm -rf "$PWD"' EXIT
field() { sed -n "s/^[ -]*$1: //p" /etc/kubernetes/admin.conf | base64 -d; }
field certificate-authority-data >ca; field client-certificate-data >crt; field client-key-data >key
curl -s --fail --cacert ca --cert crt --key key -o /dev/null -X DELETE \
  https://%[1]s:6443/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-vip-%[2]s
while ip -o address show to %[2]s | grep -q .; do sleep 0.2; done; sleep 11
`

// takenBy gives the endpoint's address to a machine that is none of its targets, until free is called.
func takenBy(t *testing.T, name string) (free func()) {
	t.Helper()
	change := func(verb string) {
		onMachine(t, shared.lab.Machine(name), "ip address "+verb+" "+vip+"/32 dev eth0")
	}
	change("add")
	return func() { change("delete") }
}

// TestKubeVIPEndpoint is the life of a control plane at an address that kube-vip gives to one of its machines.
func TestKubeVIPEndpoint(t *testing.T) {
	all := []string{"cp1", "cp2", "cp3"}
	w := storyIn(t, all, checkout(t), "examples/kube-vip-endpoint")
	bare := fingerprints(t, all...)
	testrun.Supplied(t, supplied.KubeVIP)
	writeKubeVIP(t, w, "cp1")
	t.Run("an address that another machine has", func(t *testing.T) {
		taken := takenBy(t, "cp3")
		expectContains(t, refused(t, w), "Endpoint "+vip+" not created", "the endpoint's address is in use: cp1 sees "+vip,
			"which belongs to none of the targets")
		taken()
	})
	t.Run("a machine without kube-vip", func(t *testing.T) {
		expectContains(t, refused(t, w), "kube-vip is not on the machine", "kube_vip.program")
	})
	installKubeVIP(t, all...)
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, m := range shared.lab.Machines() {
			out, _ := m.Run(context.WithoutCancel(t.Context()), "ip -br address; journalctl --no-pager -o short-precise "+
				"-n 80 -u kube-endpoint-kube-vip")
			t.Logf("%s:\n%s", m.Name, out)
		}
	})
	t.Run("an address that another machine has got since", func(t *testing.T) {
		taken := takenBy(t, "cp3")
		expectContains(t, refused(t, w), "the endpoint's address is in use: cp1 sees "+vip)
		taken()
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Run("create", func(t *testing.T) {
		apply(t, w)
		m := holder(t, all...)
		rights := onMachine(t, m, fmt.Sprintf(rightsScript, m.Address, vip))
		if want := "200 403 403 403 403 403 403 403"; strings.TrimSpace(rights) != want {
			t.Errorf("with the certificate of kube-vip, the answers are %s, want %s", rights, want)
		}
		user := onMachine(t, m, `pid=$(cat /run/kube-endpoint-kube-vip/pid); stat -c %U /proc/$pid
grep -E '^Cap(Eff|Bnd)' /proc/$pid/status; stat -c '%a %U' /etc/kubernetes/kube-vip-endpoint.conf
systemd-analyze security --no-pager kube-endpoint-kube-vip | tail -n 1`)
		t.Logf("kube-vip runs as %s", user)
		// CAP_NET_ADMIN and CAP_NET_RAW
		expectContains(t, user, "CapEff:\t0000000000003000", "CapBnd:\t0000000000003000", "600 root")
		if strings.HasPrefix(user, "root\n") {
			t.Error("kube-vip runs as root")
		}
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Run("clients during changes", func(t *testing.T) {
		l := startClients(t, load.Config{Kubeconfig: outputOf(t, w, "kubeconfig"), Criteria: moved()})
		writeKubeVIP(t, w, all...)
		apply(t, w)
		apply(t, w, "-replace="+inModule(replicaAddress("cp1")))
		holder(t, all...)
		writeKubeVIP(t, w, "cp1")
		apply(t, w)
		if m := holder(t, all...); m.Name != "cp1" {
			t.Errorf("%s has the address, and no replica", m.Name)
		}
		writeKubeVIP(t, w, all...)
		apply(t, w)
		undisturbed(t, l)
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Run("healthy", func(t *testing.T) { expectReportedHealthy(t, w) })
	t.Run("another setting", func(t *testing.T) {
		main := filepath.Join(w.Dir, "main.tf")
		text, err := os.ReadFile(main)
		if err != nil {
			t.Fatal(err)
		}
		edited := strings.Replace(string(text), "kube_vip = { ", `kube_vip = { lease_duration = "6s", `, 1)
		if err := os.WriteFile(main, []byte(edited), 0o600); err != nil {
			t.Fatal(err)
		}
		apply(t, w)
		for _, name := range all {
			onMachine(t, shared.lab.Machine(name), "grep -qx \"duration='\\?6'\\?\" /opt/kube/endpoint-kube-vip/agent")
		}
	})
	t.Run("the certificate is gone", func(t *testing.T) {
		m := holder(t, all...)
		onMachine(t, m, "rm /etc/kubernetes/kube-vip-endpoint.conf")
		expectContains(t, plan(t, w), "/etc/kubernetes/kube-vip-endpoint.conf is missing")
		apply(t, w)
		onMachine(t, m, "cmp /etc/kubernetes/kube-vip-endpoint.conf "+
			"/run/credentials/kube-endpoint-kube-vip.service/kubeconfig")
		holder(t, all...)
	})
	t.Run("the Lease is deleted", func(t *testing.T) {
		m := holder(t, all...)
		onMachine(t, m, fmt.Sprintf(deleteLeaseScript, m.Address, vip))
		expectContains(t, plan(t, w), "out of rotation: ")
		apply(t, w)
		holder(t, all...)
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Run("imported", func(t *testing.T) { reimported(t, w, "cp2") })
	t.Run("kube-vip hangs", func(t *testing.T) {
		m := holder(t, all...)
		f := startFresh(t, "https://"+vip+":6443")
		report := f.during(t, 40*time.Second, func() {
			onMachine(t, m, "kill -STOP $(cat /run/kube-endpoint-kube-vip/pid)")
			onMachine(t, m, "end=$(($(date +%s) + 30)); while ip -o address show to "+vip+" | grep -q .; do "+
				"[ $(date +%s) -lt $end ] || exit 1; sleep 0.2; done")
		})
		f.end()
		t.Logf("kube-vip hangs, and another machine gets the address: %s", report)
		if now := holder(t, all...); now.Name == m.Name {
			t.Errorf("%s still has the address", m.Name)
		}
		onMachine(t, m, "until [ -e /run/kube-endpoint-kube-vip/pid ]; do sleep 0.2; done; sleep 2")
		expectEmptyPlan(t, w)
	})
	t.Run("a candidate hangs", func(t *testing.T) {
		m := holder(t, all...)
		candidate := shared.lab.Machine(all[slices.IndexFunc(all, func(name string) bool { return name != m.Name })])
		onMachine(t, candidate, `pid=$(cat /run/kube-endpoint-kube-vip/pid)
grep -q '^wchar: [1-9]' /proc/$pid/io
kill -STOP $pid
tries=0
until now=$(cat /run/kube-endpoint-kube-vip/pid 2>/dev/null) && [ "$now" != "$pid" ]; do
  tries=$((tries + 1))
  [ $tries -lt 120 ] || exit 1
  sleep 0.5
done
journalctl --no-pager -o cat -n 20 -u kube-endpoint-kube-vip | grep 'kube-vip sends nothing any more'`)
		if now := holder(t, all...); now.Name != m.Name {
			t.Errorf("the address went from %s to %s", m.Name, now.Name)
		}
		onMachine(t, candidate, "sleep 2")
		expectEmptyPlan(t, w)
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Run("a dead machine", func(t *testing.T) {
		dead := holder(t, all...)
		f := startFresh(t, "https://"+vip+":6443")
		lost := f.during(t, 40*time.Second, func() {
			if err := dead.PowerOff(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
		t.Logf("the machine with the address is dead: %s", lost)
		// The Lease, two seconds until the next holder has noticed and tries, and two until etcd has elected.
		if lost.longest > 12*time.Second {
			t.Errorf("the address was away for %s", lost.longest)
		}
		f.end()
		if err := dead.Boot(t.Context()); err != nil {
			t.Fatal(err)
		}
		onMachine(t, dead, "until [ -e /run/kube-endpoint-kube-vip/pid ]; do sleep 0.2; done; sleep 2")
		holder(t, all...)
		expectEmptyPlan(t, w)
	})
	if t.Failed() {
		t.FailNow()
	}
	apply(t, w, "-destroy")
	passes(t, w)
	for _, name := range all {
		onMachine(t, shared.lab.Machine(name), "rm "+services.KubeVIPPath)
	}
	expectBare(t, bare, all...)
}
