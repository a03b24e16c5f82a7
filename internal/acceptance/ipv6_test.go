package acceptance

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/lab/services"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

var subnet6 = netip.MustParsePrefix("fd00:96::/64")

// otherLab runs a test on machines of their own, which exist as long as the test runs. Its clients
// dial from that lab's network.
func otherLab(t *testing.T, cfg lab.Config) *lab.Lab {
	t.Helper()
	machines(t)
	cfg.Log = t.Output()
	l, destroy, err := lab.New(t.Context(), cfg)
	before := shared
	t.Cleanup(func() {
		shared = before
		if err := destroy(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	shared.lab, shared.dial = l, l.DialContext
	return l
}

// sixLab are machines without IPv4.
func sixLab(names ...string) lab.Config {
	return lab.Config{
		Name: "acceptance-six", Subnet: netip.MustParsePrefix("10.96.0.0/24"), Subnet6: subnet6, IPv6Only: true,
		Machines: names,
	}
}

// ranges6 are address ranges of a control plane whose machines have IPv6 only.
var ranges6 = map[string]any{
	"service_cidrs": []string{"fd00:10:96::/112"}, "pod_cidrs": []string{"fd00:10:244::/56"},
}

// TestIPv6Only is the life of a control plane on machines without IPv4: created with one machine,
// scaled to three and back, changed below clients, imported and destroyed.
func TestIPv6Only(t *testing.T) {
	all := []string{"cp1", "cp2", "cp3"}
	otherLab(t, sixLab(all...))
	bare := fingerprints(t, all...)
	w := newStory(t, "cp1")
	t.Run("refused in the plan", func(t *testing.T) { refuses6(t, w) })
	if err := w.WriteJSON("ranges.auto.tfvars.json", ranges6); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"create", func(t *testing.T) { create6(t, w) }},
		{"from 1 to 3", func(t *testing.T) { scale6(t, w, all, "cp1") }},
		{"import", func(t *testing.T) { import6(t, w, all) }},
		{"a change below clients", func(t *testing.T) {
			l := startLoad(t, outputOf(t, w, "kubeconfig"), all...)
			if err := w.WriteJSON("change.auto.tfvars.json", map[string]any{
				"apiserver_extra_args": map[string]string{"v": "2"}, "etcd_extra_args": map[string]string{"max-txn-ops": "256"},
			}); err != nil {
				t.Fatal(err)
			}
			apply(t, w)
			undisturbed(t, l)
			expectHealthy(t, w, all)
		}},
		{"a dead machine", func(t *testing.T) { failover6(t, w, all) }},
		{"without the first machine", func(t *testing.T) {
			scale6(t, w, []string{"cp3"}, "cp3")
			expectBare(t, bare, "cp1", "cp2")
		}},
	} {
		if !t.Run(step.name, step.run) {
			t.FailNow()
		}
	}
	apply(t, w, "-destroy")
	expectBare(t, bare, all...)
}

// refuses6: the default range of Services is IPv4, which no API server with an IPv6 address accepts,
// and an address has one form.
func refuses6(t *testing.T, w *workspace.Workspace) {
	expectContains(t, refused(t, w), `service range 10.96.0.0/12`, address("cp1")+" is IPv6", "service_cidrs")
	ranges := []string{
		`-var=service_cidrs=["fd00:10:96::/112"]`, `-var=pod_cidrs=["fd00:10:244::/56"]`,
	}
	upper := strings.ToUpper(address("cp1"))
	expectContains(t, refused(t, w, append(ranges, fmt.Sprintf("-var=machines={cp1=%q}", upper))...),
		fmt.Sprintf("%q is not in canonical form: use %q", upper, address("cp1")))
	long := strings.Replace(w.VIP(), "::", ":0::", 1)
	expectContains(t, refused(t, w, append(ranges, "-var=endpoint_address="+long)...),
		fmt.Sprintf("%q is not in canonical form: use %q", long, w.VIP()))
}

func create6(t *testing.T, w *workspace.Workspace) {
	apply(t, w)
	expectHealthy(t, w, []string{"cp1"})
	useAPI(t, w)
	admin := "--kubeconfig=" + writeFile(t, w, "admin.conf", outputOf(t, w, "kubeconfig"))
	ip := kubectl(t, w, admin, "get", "service", "kubernetes", "-o", "jsonpath={.spec.clusterIP}")
	if ip != "fd00:10:96::1" {
		t.Errorf("the Service kubernetes has %s", ip)
	}
	expectServed(t, w.VIP(), w.VIP(), address("cp1"), "fd00:10:96::1")
	url := textOf(valuesOf(t, w, `kube_etcd_member.this["cp1"]`), "client_url")
	if url != "https://["+address("cp1")+"]:2379" {
		t.Errorf("the client URL is %s", url)
	}
}

// scale6 changes the machines. Processes on the machine that stays are not restarted.
func scale6(t *testing.T, w *workspace.Workspace, names []string, stays string) {
	before := processes(t, stays)
	choose(t, w, names...)
	apply(t, w)
	expectHealthy(t, w, names)
	expectRestarted(t, before, nil)
}

// import6 removes everything from the state, and imports it with the same result.
func import6(t *testing.T, w *workspace.Workspace, names []string) {
	i := &importing{
		w: w, names: names, backup: filepath.Join(t.TempDir(), "bundle"),
		kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), before: observeMachines(t, names...),
	}
	write(t, i.backup, textOf(valuesOf(t, w, "kube_pki_bundle.this"), "bundle"))
	write(t, i.kubeconfig, outputOf(t, w, "kubeconfig"))
	i.byBlocks(t)
}

// failover6 cuts the power of the machine that has the virtual IP.
func failover6(t *testing.T, w *workspace.Workspace, names []string) {
	holder := observed(t, w).VirtualIP.Holder
	if !slices.Contains(names, holder) {
		t.Fatalf("%q has the virtual IP", holder)
	}
	dead := shared.lab.Machine(holder)
	begun := time.Now()
	if err := dead.PowerOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually6(t, func() bool { return len(servedBy(t, w.VIP())) > 0 })
	t.Logf("another machine answered after %s", time.Since(begun).Round(10*time.Millisecond))
	expectContains(t, unreachablePlan(t, w), dead.Address.String())
	if err := dead.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitRotation(t, names...)
	expectEmptyPlan(t, w)
}

// unreachablePlan returns the output of a plan on one line. It is empty except for warnings.
func unreachablePlan(t *testing.T, w *workspace.Workspace) string {
	t.Helper()
	text, _, err := w.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return unfolded(text)
}

func eventually6(t *testing.T, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !condition(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nobody answers")
		}
	}
}

// servedBy returns the names in the certificate that is shown at an address; none if nobody answers.
func servedBy(t *testing.T, at string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	raw, err := shared.lab.DialContext(ctx, "tcp", net.JoinHostPort(at, "6443"))
	if err != nil {
		return nil
	}
	defer raw.Close()
	conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the certificate is the result
	if conn.HandshakeContext(ctx) != nil {
		return nil
	}
	leaf := conn.ConnectionState().PeerCertificates[0]
	names := slices.Clone(leaf.DNSNames)
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}

// expectServed expects names in the certificate that is shown at an address.
func expectServed(t *testing.T, at string, names ...string) {
	t.Helper()
	got := servedBy(t, at)
	for _, name := range names {
		if !slices.Contains(got, name) {
			t.Errorf("the certificate at %s has %v, and not %s", at, got, name)
		}
	}
}

// networkModule gives the module ranges6.
const networkModule = `module "control_plane" {
  network = { service_cidrs = ["fd00:10:96::/112"], pod_cidrs = ["fd00:10:244::/56"] }
}
`

// TestIPv6Endpoints is a control plane on machines without IPv4 at a DNS name, whose records are AAAA,
// and one behind a balancer that others look after.
func TestIPv6Endpoints(t *testing.T) {
	otherLab(t, sixLab("cp1", "cp2", "cp3"))
	last := shared.lab.Machine("cp3")
	n := startNameServers(t, last)
	for _, name := range []string{"cp1", "cp2"} {
		onMachine(t, shared.lab.Machine(name), "apt-get install -y -q bind9-dnsutils >/dev/null 2>&1")
	}
	bare := fingerprints(t, "cp1", "cp2")
	t.Run("dns", func(t *testing.T) {
		w := storyIn(t, []string{"cp1", "cp2"}, checkout(t), "examples/dns-endpoint")
		override(t, w, networkModule)
		n.write(t, w, nil, "cp1", "cp2")
		apply(t, w)
		n.expect(t, "cp1", "cp2")
		onMachine(t, last, "curl -s -k --fail --max-time 5 -o /dev/null https://"+services.APIName+":6443/readyz")
		m := shared.lab.Machine("cp2")
		onMachine(t, m, "systemctl stop kube-apiserver")
		t.Logf("a stopped API server is not answered any more after %s", n.await(t, "cp1"))
		onMachine(t, m, "systemctl start kube-apiserver")
		t.Logf("it is answered again after %s", n.await(t, "cp1", "cp2"))
		expectEmptyPlan(t, w)
		apply(t, w, "-destroy")
		n.expect(t)
		expectBare(t, bare, "cp1", "cp2")
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Run("external", func(t *testing.T) {
		onMachine(t, last, "apt-get install -y -q haproxy curl >/dev/null 2>&1; systemctl disable --quiet --now haproxy")
		w := storyIn(t, []string{"cp1", "cp2"}, checkout(t), "examples/external-balancer")
		override(t, w, networkModule)
		writeExternal(t, w, last.Address.String(), nil, "cp1", "cp2")
		startBalancer(t, services.HAProxy, last, targetsOn("cp1", "cp2"), "/readyz")
		apply(t, w)
		backend, err := w.Run(t.Context(), "output", "-json", "backend")
		if err != nil || !strings.Contains(backend, "["+address("cp2")+"]:6443") {
			t.Errorf("backend is %s, %v", backend, err)
		}
		expectServed(t, last.Address.String(), last.Address.String(), "fd00:10:96::1")
		apply(t, w, "-replace="+inModule(replicaAddress("cp2")))
		apply(t, w, "-destroy")
		expectBare(t, bare, "cp1", "cp2")
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Run("kube_vip", func(t *testing.T) { kubeVIP6(t, last, bare) })
}

// kubeVIP6: a holder of an IPv6 address that is not ready gives it to the other machine, which answers from.
func kubeVIP6(t *testing.T, from *lab.Machine, bare map[string][]string) {
	names := []string{"cp1", "cp2"}
	installKubeVIP(t, names...)
	w := storyIn(t, names, checkout(t), "examples/kube-vip-endpoint")
	override(t, w, networkModule)
	variables := map[string]any{"machines": addresses(names), "endpoint_address": w.VIP6()}
	if err := w.WriteJSON("z.auto.tfvars.json", variables); err != nil {
		t.Fatal(err)
	}
	apply(t, w)
	held := func() []string { return holdersOf(t, w.VIP6(), names) }
	ask := "curl -s -k --fail --max-time 5 -o /dev/null 'https://[" + w.VIP6() + "]:6443/readyz'"
	onMachine(t, from, ask)
	before := held()
	if len(before) != 1 {
		t.Fatalf("%v have the address", before)
	}
	expectServed(t, w.VIP6(), w.VIP6())
	onMachine(t, shared.lab.Machine(before[0]), "systemctl stop kube-apiserver")
	await(t, "the other machine has no address", func() bool {
		now := held()
		return len(now) == 1 && now[0] != before[0]
	})
	onMachine(t, from, "for i in $(seq 50); do "+ask+" && exit; sleep 0.1; done; exit 1")
	onMachine(t, shared.lab.Machine(before[0]), "systemctl start kube-apiserver")
	await(t, "the plan is not empty again", func() bool {
		_, changes, err := w.Plan(t.Context())
		return err == nil && !changes
	})
	apply(t, w, "-destroy")
	for _, name := range names {
		onMachine(t, shared.lab.Machine(name), "rm "+services.KubeVIPPath)
	}
	expectBare(t, bare, names...)
}

// TestDualStack is a control plane with two families on machines that have both: clients of both
// notice nothing of its changes, and Services get addresses of both.
func TestDualStack(t *testing.T) {
	all := []string{"cp1", "cp2", "cp3"}
	otherLab(t, lab.Config{
		Name: "acceptance-dual", Subnet: netip.MustParsePrefix("10.96.0.0/24"), Subnet6: subnet6, Machines: all,
	})
	bare := fingerprints(t, all...)
	w := storyIn(t, all, checkout(t), "examples/dual-stack")
	variables := map[string]any{"machines": addresses(all), "endpoint_address6": w.VIP6()}
	if err := w.WriteJSON("terraform.tfvars.json", variables); err != nil {
		t.Fatal(err)
	}
	t.Run("the example's own test", func(t *testing.T) {
		passes(t, w)
		expectBare(t, bare, all...)
	})
	for _, step := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"create with ranges of one family", func(t *testing.T) {
			apply(t, w, `-var=service_cidrs=["10.96.0.0/12"]`, `-var=pod_cidrs=["10.244.0.0/16"]`)
		}},
		{"changes below clients of both families", func(t *testing.T) { changeBoth(t, w) }},
		{"both addresses of all in the certificates", func(t *testing.T) {
			for _, at := range append([]string{w.VIP(), w.VIP6()}, address("cp1"), address("cp2"), address("cp3")) {
				expectServed(t, at, w.VIP(), w.VIP6(), "10.96.0.1", "fd00:10:96::1")
			}
		}},
		{"further addresses", func(t *testing.T) { furtherAddresses(t, w) }},
		{"Services", func(t *testing.T) { createServices(t, w) }},
	} {
		if !t.Run(step.name, step.run) {
			t.FailNow()
		}
	}
	apply(t, w, "-destroy")
	expectBare(t, bare, all...)
}

// furtherAddresses adds a virtual IP of each family, which the certificates have and an import reads back.
func furtherAddresses(t *testing.T, w *workspace.Workspace) {
	further := []string{
		netip.MustParseAddr(w.VIP()).Next().String(), netip.MustParseAddr(w.VIP6()).Next().String(),
	}
	override(t, w, fmt.Sprintf(`
module "control_plane" {
  endpoint = {
    address              = var.endpoint_address
    address6             = var.endpoint_address6
    additional_addresses = [%q, %q]
  }
}
`, further[0], further[1]))
	apply(t, w)
	for _, at := range further {
		expectServed(t, at, append([]string{w.VIP(), w.VIP6()}, further...)...)
	}
	const to = "module.control_plane.kube_control_plane_endpoint.this"
	for _, args := range [][]string{
		{"state", "rm", to},
		{"import", "-input=false", "-no-color", to, address("cp2")},
	} {
		if _, err := w.Run(t.Context(), args...); err != nil {
			t.Fatal(err)
		}
	}
	expectEmptyPlan(t, w)
}

// createServices creates a Service of each policy, with the API at its IPv6 address.
func createServices(t *testing.T, w *workspace.Workspace) {
	admin := "--kubeconfig=" + writeFile(t, w, "admin6.conf", outputOf(t, w, "kubeconfig6"))
	ranges := []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("fd00:10:96::/112")}
	for _, c := range []struct {
		name, policy string
		want         []bool // of IPv6, in order
	}{
		{"one", "SingleStack", []bool{false}},
		{"both", "RequireDualStack", []bool{false, true}},
	} {
		manifest := writeFile(t, w, c.name+".yaml", fmt.Sprintf(
			"{apiVersion: v1, kind: Service, metadata: {name: %s}, spec: {ipFamilyPolicy: %s, ports: [{port: 80}]}}",
			c.name, c.policy))
		kubectl(t, w, admin, "create", "-f", manifest)
		var ips []string
		text := kubectl(t, w, admin, "get", "service", c.name, "-o", "jsonpath={.spec.clusterIPs}")
		if err := json.Unmarshal([]byte(text), &ips); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		var got []bool
		for _, ip := range ips {
			address := netip.MustParseAddr(ip)
			got = append(got, address.Is6())
			if !slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(address) }) {
				t.Errorf("Service %s has %s", c.name, ip)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("Service %s has %v", c.name, ips)
		}
	}
	// kube-controller-manager allocates a range of each family for a Node.
	node := writeFile(t, w, "node.yaml", "{apiVersion: v1, kind: Node, metadata: {name: worker}}")
	kubectl(t, w, admin, "create", "-f", node)
	var pods string
	eventually6(t, func() bool {
		pods = kubectl(t, w, admin, "get", "node", "worker", "-o", "jsonpath={.spec.podCIDRs}")
		return pods != ""
	})
	if pods != `["10.244.0.0/24","fd00:10:244::/64"]` {
		t.Errorf("the Node has %s", pods)
	}
	kubectl(t, w, admin, "delete", "node", "worker")
}

// changeBoth adds the second ranges, which restarts all API servers one after the other, and replaces
// a replica. The clients of each family send half as much as those of other tests, together as much.
func changeBoth(t *testing.T, w *workspace.Workspace) {
	half := unnoticed()
	half.Rate, half.Watches = half.Rate/2, half.Watches/2
	var families []*clients
	for _, output := range []string{"kubeconfig", "kubeconfig6"} {
		families = append(families, startClients(t, load.Config{Kubeconfig: outputOf(t, w, output), Criteria: half}))
	}
	apply(t, w)
	apply(t, w, "-replace="+inModule(replicaAddress("cp2")))
	for _, l := range families {
		undisturbed(t, l)
	}
}
