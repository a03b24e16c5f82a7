package acceptance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/lab/services"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// recordTTL is the time to live of the records.
const recordTTL = 5 * time.Second

// nameServers are the name servers of a test.
type nameServers struct{ services.NameServers }

func startNameServers(t *testing.T, m *lab.Machine) nameServers {
	t.Helper()
	n, err := services.StartNameServers(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return nameServers{n}
}

// addresses returns the addresses that a server on one of the ports has for the name, sorted.
func (n nameServers) addresses(t *testing.T, port int) []string {
	t.Helper()
	all, err := n.Addresses(t.Context(), port)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

// expect fails unless both authoritative servers have the addresses of the machines.
func (n nameServers) expect(t *testing.T, names ...string) {
	t.Helper()
	want := addressList(names)
	for _, port := range []int{services.PrimaryPort, services.SecondaryPort} {
		if got := n.addresses(t, port); !slices.Equal(got, want) {
			t.Errorf("the server on port %d has %v, want %v", port, got, want)
		}
	}
}

// await returns how long it took until the name has exactly the addresses of the machines, at the
// resolver that clients use.
func (n nameServers) await(t *testing.T, names ...string) time.Duration {
	t.Helper()
	took, err := n.Await(t.Context(), addressList(names))
	if err != nil {
		t.Fatal(err)
	}
	return took
}

// write writes the variables of the example.
func (n nameServers) write(t *testing.T, w *workspace.Workspace, change map[string]any, names ...string) {
	t.Helper()
	values := n.Variables(recordTTL)
	values["machines"] = addresses(names)
	for name, value := range change {
		values[name] = value
	}
	if err := w.WriteJSON("z.auto.tfvars.json", values); err != nil {
		t.Fatal(err)
	}
}

// curlScript sends requests as a program that resolves the name for each of them.
const curlScript = `rm -f /run/curl.log
systemd-run --quiet --unit=curl-loop sh -c 'while :; do
  curl -s -k -o /dev/null -w "%%{http_code} %%{errormsg}\n" --max-time 10 https://%s:6443/readyz >>/run/curl.log
  sleep 0.5
done'`

// TestDNSEndpoint is the life of a control plane at a name of BIND, with clients that cache.
func TestDNSEndpoint(t *testing.T) {
	w := storyIn(t, []string{"cp1", "cp2", "cp3", "cp4"}, checkout(t), "examples/dns-endpoint")
	t.Cleanup(func() {
		for _, name := range []string{"cp3", "cp4"} { // BIND, and the packages that the agent installed
			if err := shared.lab.Machine(name).Rebuild(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		}
	})
	n := startNameServers(t, shared.lab.Machine("cp4"))
	for _, name := range []string{"cp1", "cp2"} {
		onMachine(t, shared.lab.Machine(name), "apt-get install -y -q bind9-dnsutils >/dev/null 2>&1")
	}
	bare := fingerprints(t, "cp1", "cp2")

	t.Run("bad input", func(t *testing.T) { dnsBadInput(t, w, n) })
	t.Run("create", func(t *testing.T) {
		n.write(t, w, nil, "cp1")
		apply(t, w)
		n.expect(t, "cp1")
		expectContains(t, refused(t, w, "-replace="+inModule(replicaAddress("cp1"))), "replaces all control-plane replicas")
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Run("clients during changes", func(t *testing.T) { dnsRollingChange(t, w, n) })
	if t.Failed() {
		t.FailNow()
	}
	t.Run("healthy", func(t *testing.T) { expectReportedHealthy(t, w) })
	t.Run("an API server that stops", func(t *testing.T) { dnsStoppedServer(t, w, n) })
	t.Run("an address of somebody else", func(t *testing.T) { dnsStranger(t, w, n) })
	t.Run("a dead machine", func(t *testing.T) { dnsDeadMachine(t, w, n) })
	t.Run("imported", func(t *testing.T) { reimported(t, w, "cp2") })
	t.Run("a new key", func(t *testing.T) {
		onMachine(t, n.Machine, "cd /etc/bind && tsig-keygen "+services.TSIGName+" >key && systemctl restart named-primary "+
			"&& "+"until dig +short +time=1 +tries=1 @"+n.Address.String()+" ns1.kube.test | grep -q .; do sleep 0.1; done")
		n.Secret = strings.TrimSpace(onMachine(t, n.Machine, `sed -n 's/.*secret "\(.*\)";/\1/p' /etc/bind/key`))
		n.write(t, w, nil, "cp1", "cp2", "cp3")
		expectContains(t, plan(t, w), "/etc/kube-endpoint-dns/key: content differs", "3 to change")
		apply(t, w)
		state, err := w.Run(t.Context(), "state", "pull")
		if err != nil || strings.Contains(state, n.Secret) {
			t.Errorf("the secret is in the state, %v", err)
		}
	})
	if t.Failed() {
		t.FailNow()
	}
	n.write(t, w, nil, "cp1")
	apply(t, w)
	n.expect(t, "cp1")
	onMachine(t, shared.lab.Machine("cp3"),
		"! command -v nsupdate || { echo the packages of the agent are left; exit 1; }")
	apply(t, w, "-destroy")
	passes(t, w)
	n.expect(t)
	expectBare(t, bare, "cp1", "cp2")
}

// dnsBadInput: each mistake is refused with what to do, and leaves the zone as it was.
func dnsBadInput(t *testing.T, w *workspace.Workspace, n nameServers) {
	for name, c := range map[string]struct {
		change map[string]any
		want   []string
	}{
		"a wrong secret": {
			map[string]any{"tsig_secret": "d3Jvbmctd3Jvbmctd3Jvbmctd3Jvbmc="},
			[]string{"the server does not accept the key's signature: BADSIG", "tsig_keys of the provider"},
		},
		"an unknown key": {
			map[string]any{"tsig_key": "other-key"}, []string{"signature: BADKEY"},
		},
		"a key that may not change the name": {
			map[string]any{"tsig_key": "powerless", "tsig_secret": n.Powerless},
			[]string{"the server refuses the request", "update-policy"},
		},
		"a server that does not know the key": {
			map[string]any{"name_server": n.At(services.ResolverPort)}, []string{"signature: BADKEY", "dns.server"},
		},
		"a secondary server that does not answer": {
			map[string]any{"name_servers": []string{n.At(5399)}},
			[]string{"name servers do not have the update yet", ":5399", "dns.name_servers"},
		},
		"a name that somebody else has": {
			map[string]any{"endpoint_name": "taken.kube.test"},
			[]string{"the name has addresses that are not those of the endpoint's targets: 192.0.2.9"},
		},
		"a name of another zone": {
			map[string]any{"endpoint_name": "api.example.com"}, []string{`"api.example.com" is not in the zone "kube.test"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n.write(t, w, c.change, "cp1")
			expectContains(t, refused(t, w), c.want...)
			n.expect(t)
		})
	}
}

// dnsRollingChange changes the control plane while clients work: client-go with kept and new
// connections, and curl.
func dnsRollingChange(t *testing.T, w *workspace.Workspace, n nameServers) {
	l := startClients(t, load.Config{
		Kubeconfig: outputOf(t, w, "kubeconfig"), Criteria: unnoticed(), Dial: n.Dial(t.Output()),
	})
	onMachine(t, n.Machine, fmt.Sprintf(curlScript, services.APIName))
	n.write(t, w, nil, "cp1", "cp2", "cp3")
	apply(t, w)
	n.expect(t, "cp1", "cp2", "cp3")
	apply(t, w, "-replace="+inModule(replicaAddress("cp2")))
	n.expect(t, "cp1", "cp2", "cp3")
	n.write(t, w, map[string]any{"ttl": "4s"}, "cp1", "cp2", "cp3")
	apply(t, w)
	ask := "dig +noall +answer @" + n.Address.String() + " " + services.APIName
	if ttl := onMachine(t, n.Machine, ask+" | awk '{ print $2 }' | sort -u"); ttl != "4\n" {
		t.Errorf("the time to live is %q", ttl)
	}
	n.write(t, w, nil, "cp1")
	apply(t, w)
	n.expect(t, "cp1")
	n.write(t, w, nil, "cp1", "cp2", "cp3")
	apply(t, w)
	undisturbed(t, l)
	counts := onMachine(t, n.Machine, "systemctl stop curl-loop; sort /run/curl.log | uniq -c")
	t.Log("curl:", counts)
	if len(strings.Split(strings.TrimSpace(counts), "\n")) != 1 || !strings.Contains(counts, " 200") {
		t.Errorf("requests by curl failed:\n%s", counts)
	}
}

// dnsStoppedServer: the agent takes the record of a replica that is not ready, and puts it back.
func dnsStoppedServer(t *testing.T, w *workspace.Workspace, n nameServers) {
	m := shared.lab.Machine("cp2")
	onMachine(t, m, "systemctl stop kube-apiserver")
	t.Logf("a stopped API server is not answered any more after %s", n.await(t, "cp1", "cp3"))
	expectContains(t, plan(t, w), "not ready: ")
	onMachine(t, m, "systemctl start kube-apiserver")
	t.Logf("it is answered again after %s", n.await(t, "cp1", "cp2", "cp3"))
	expectEmptyPlan(t, w)
	onMachine(t, m, "rm /etc/kube-endpoint-dns/registered && systemctl stop kube-endpoint-dns.timer")
	expectContains(t, plan(t, w), "its DNS agent does not add its record", "kube-endpoint-dns.timer does not run")
	apply(t, w)
}

// dnsStranger: the agents leave a record alone that is not a target's, and it is drift.
func dnsStranger(t *testing.T, w *workspace.Workspace, n nameServers) {
	const stranger = "192.0.2.66"
	update := func(change string) {
		onMachine(t, shared.lab.Machine("cp1"), fmt.Sprintf("printf 'server %s\\nzone %s.\\nupdate %s\\nsend\\n' | "+
			"nsupdate -v -k /etc/kube-endpoint-dns/key", n.Address, services.Zone, change))
	}
	expect := func(all ...string) {
		t.Helper()
		if _, err := n.Await(t.Context(), all); err != nil {
			t.Fatal(err)
		}
	}
	update(fmt.Sprintf("add %s. 4 IN A %s", services.APIName, stranger))
	m := shared.lab.Machine("cp2")
	onMachine(t, m, "systemctl stop kube-apiserver")
	expect(address("cp1"), address("cp3"), stranger)
	expectContains(t, plan(t, w), "the name has the address "+stranger+", which is not that of a target")
	update(fmt.Sprintf("delete %s. IN A %s", services.APIName, stranger))
	onMachine(t, m, "systemctl start kube-apiserver")
	expect(address("cp1"), address("cp2"), address("cp3"))
	expectEmptyPlan(t, w)
}

// dnsDeadMachine: the survivors remove the record of a dead machine, which puts it back when it is
// alive.
func dnsDeadMachine(t *testing.T, w *workspace.Workspace, n nameServers) {
	dead := shared.lab.Machine("cp3")
	took := dies(t, dead, func() { n.await(t, "cp1", "cp2") })
	t.Logf("a dead machine is not answered any more after %s", took)
	if took > 30*time.Second {
		t.Errorf("a dead machine was answered for %s", took)
	}
	if err := dead.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("after its boot, it is answered again after %s", n.await(t, "cp1", "cp2", "cp3"))
	expectEmptyPlan(t, w)
}
