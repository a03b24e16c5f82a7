package acceptance

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

const (
	apiName   = "api.kube.test"
	tsigName  = "api-key"
	recordTTL = 5 * time.Second
)

// nameServersScript installs BIND on a machine: the primary server of the zone kube.test, a secondary
// one on port 5353, and a resolver that caches, on port 5354 and for the machine itself. They have one
// address, of either family.
const nameServersScript = `apt-get install -y -q bind9 bind9-dnsutils curl >/dev/null 2>&1
systemctl disable --quiet --now named
cd /etc/bind
tsig-keygen %[1]s >key
tsig-keygen powerless >powerless
chown bind key powerless
mkdir -p /var/lib/bind/primary /var/lib/bind/secondary /var/lib/bind/resolver
cat >/var/lib/bind/primary/zone <<'EOF'
$TTL 5
@ IN SOA ns1 admin 1 60 10 3600 1
  IN NS ns1
ns1 IN %[5]s %[2]s
taken IN A 192.0.2.9
EOF
chown -R bind /var/lib/bind
cat >primary.conf <<'EOF'
include "/etc/bind/key";
include "/etc/bind/powerless";
options {
  directory "/var/lib/bind/primary"; pid-file none; session-keyfile none; recursion no; dnssec-validation no;
  %[3]s { %[2]s; }; %[4]s { none; }; notify explicit; also-notify { %[2]s port 5353; };
};
zone "kube.test" {
  type primary; file "zone"; allow-transfer { any; };
  update-policy { grant %[1]s name api.kube.test. A AAAA; grant %[1]s name taken.kube.test. A AAAA; };
};
EOF
cat >secondary.conf <<'EOF'
options {
  directory "/var/lib/bind/secondary"; pid-file none; session-keyfile none; recursion no; dnssec-validation no;
  %[3]s port 5353 { %[2]s; }; %[4]s { none; };
};
zone "kube.test" { type secondary; file "zone"; primaries { %[2]s; }; min-refresh-time 1; };
EOF
cat >resolver.conf <<'EOF'
options {
  directory "/var/lib/bind/resolver"; pid-file none; session-keyfile none; recursion yes; dnssec-validation no;
  allow-query { any; }; allow-recursion { any; }; %[3]s port 5354 { %[2]s; }; listen-on { 127.0.0.1; };
  listen-on-v6 { none; };
  // These clients have one address, and ask for one name: by default, BIND drops most of them while it asks.
  clients-per-query 0; max-clients-per-query 0;
};
zone "kube.test" { type forward; forward only; forwarders { %[2]s port 5353; }; };
EOF
for server in primary secondary resolver; do
  named-checkconf $server.conf
  systemd-run --quiet --unit=named-$server /usr/sbin/named -f -u bind -c /etc/bind/$server.conf
done
for port in 53 5353 5354; do
  until dig +short +time=1 +tries=1 -p $port @%[2]s ns1.kube.test %[5]s | grep -qx %[2]s; do sleep 0.1; done
done
echo nameserver 127.0.0.1 >/etc/resolv.conf
sed -n 's/.*secret "\(.*\)";/\1/p' key powerless
`

// nameServers are the name servers of the zone kube.test on one machine.
type nameServers struct {
	*lab.Machine
	secret, powerless string // of the key that may change the name, and of one that may not
	record            string // the type of its address records
}

func startNameServers(t *testing.T, m *lab.Machine) nameServers {
	t.Helper()
	n := nameServers{Machine: m, record: "A"}
	own, other := "listen-on", "listen-on-v6"
	if m.Address.Is6() {
		n.record, own, other = "AAAA", other, own
	}
	script := fmt.Sprintf(nameServersScript, tsigName, m.Address, own, other, n.record)
	if m.Address.Is6() { // the resolver listens on both
		const local = "listen-on { 127.0.0.1; };"
		script = strings.Replace(script, local+"\n  listen-on-v6 { none; };", local, 1)
	}
	secrets := strings.Fields(onMachine(t, m, script))
	if len(secrets) != 2 {
		t.Fatalf("there are %d secrets", len(secrets))
	}
	n.secret, n.powerless = secrets[0], secrets[1]
	return n
}

// at returns the address of one of the servers.
func (n nameServers) at(port int) string {
	return net.JoinHostPort(n.Address.String(), strconv.Itoa(port))
}

// addresses returns the addresses that a server on one of the ports has for the name, sorted.
func (n nameServers) addresses(t *testing.T, port int) []string {
	t.Helper()
	answer := onMachine(t, n.Machine, fmt.Sprintf("dig +short +tries=2 -p %d @%s %s %s", port, n.Address, apiName,
		n.record))
	out := strings.Fields(answer)
	slices.Sort(out)
	return out
}

// expect fails unless both authoritative servers have the addresses of the machines.
func (n nameServers) expect(t *testing.T, names ...string) {
	t.Helper()
	var want []string
	for _, name := range names {
		want = append(want, address(name))
	}
	for _, port := range []int{53, 5353} {
		if got := n.addresses(t, port); !slices.Equal(got, want) {
			t.Errorf("the server on port %d has %v, want %v", port, got, want)
		}
	}
}

// await returns how long it took until the name has exactly the addresses of the machines, at the
// resolver that clients use.
func (n nameServers) await(t *testing.T, names ...string) time.Duration {
	t.Helper()
	var want []string
	for _, name := range names {
		want = append(want, address(name))
	}
	begun := time.Now()
	for !slices.Equal(n.addresses(t, 5354), want) {
		if time.Since(begun) > time.Minute {
			t.Fatalf("the name has %v, want %v", n.addresses(t, 5354), want)
		}
		time.Sleep(100 * time.Millisecond)
	}
	return time.Since(begun)
}

// dialer returns the dial function of a client whose resolver caches. What takes longer than a second
// is in the output of the test.
func (n nameServers) dialer(t *testing.T) load.Dial {
	t.Helper()
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, n.at(5354))
	}}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		name, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		begun := time.Now()
		addresses, err := resolver.LookupHost(ctx, name)
		if took := time.Since(begun); took > time.Second {
			fmt.Fprintf(t.Output(), "resolved %v after %s, %v\n", addresses, took, err)
		}
		for _, at := range addresses {
			var c net.Conn
			begun = time.Now()
			c, err = (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, network, net.JoinHostPort(at, port))
			if took := time.Since(begun); took > time.Second {
				fmt.Fprintf(t.Output(), "dialled %s after %s, %v\n", at, took, err)
			}
			if err == nil {
				return c, nil
			}
		}
		return nil, err
	}
}

// write writes the variables of the example.
func (n nameServers) write(t *testing.T, w *workspace.Workspace, change map[string]any, names ...string) {
	t.Helper()
	server := n.Address.String()
	values := map[string]any{
		"machines": addresses(names), "endpoint_name": apiName, "zone": "kube.test", "name_server": server,
		"name_servers": []string{server, n.at(5353)}, "ttl": recordTTL.String(),
		"tsig_key": tsigName, "tsig_secret": n.secret,
	}
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
  sleep 0.1
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
	t.Run("an API server that stops", func(t *testing.T) { dnsStoppedServer(t, w, n) })
	t.Run("a dead machine", func(t *testing.T) { dnsDeadMachine(t, w, n) })
	t.Run("a new key", func(t *testing.T) {
		onMachine(t, n.Machine, "cd /etc/bind && tsig-keygen "+tsigName+" >key && systemctl restart named-primary && "+
			"until dig +short +time=1 +tries=1 @"+n.Address.String()+" ns1.kube.test | grep -q .; do sleep 0.1; done")
		n.secret = strings.TrimSpace(onMachine(t, n.Machine, `sed -n 's/.*secret "\(.*\)";/\1/p' /etc/bind/key`))
		n.write(t, w, nil, "cp1", "cp2", "cp3")
		expectContains(t, plan(t, w), "/etc/kube-endpoint-dns/key: content differs", "3 to change")
		apply(t, w)
		state, err := w.Run(t.Context(), "state", "pull")
		if err != nil || strings.Contains(state, n.secret) {
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
			map[string]any{"tsig_key": "powerless", "tsig_secret": n.powerless},
			[]string{"the server refuses the request", "update-policy"},
		},
		"a server that does not know the key": {
			map[string]any{"name_server": n.at(5354)}, []string{"signature: BADKEY", "dns.server"},
		},
		"a secondary server that does not answer": {
			map[string]any{"name_servers": []string{n.at(5399)}},
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
		Kubeconfig: outputOf(t, w, "kubeconfig"), Criteria: unnoticed(), Dial: n.dialer(t),
	})
	onMachine(t, n.Machine, fmt.Sprintf(curlScript, apiName))
	n.write(t, w, nil, "cp1", "cp2", "cp3")
	apply(t, w)
	n.expect(t, "cp1", "cp2", "cp3")
	apply(t, w, "-replace="+inModule(replicaAddress("cp2")))
	n.expect(t, "cp1", "cp2", "cp3")
	n.write(t, w, map[string]any{"ttl": "4s"}, "cp1", "cp2", "cp3")
	apply(t, w)
	if ttl := onMachine(t, n.Machine, "dig +noall +answer @"+n.Address.String()+" "+apiName+" | awk '{ print $2 }' | "+
		"sort -u"); ttl != "4\n" {
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

// dnsDeadMachine: the survivors remove the record of a dead machine, which puts it back when it is
// alive.
func dnsDeadMachine(t *testing.T, w *workspace.Workspace, n nameServers) {
	dead := shared.lab.Machine("cp3")
	if err := dead.PowerOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	took := n.await(t, "cp1", "cp2")
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
