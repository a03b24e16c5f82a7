package services

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
)

// What the name servers have.
const (
	Zone     = "kube.test"
	APIName  = "api.kube.test" // the name that the key may change
	TSIGName = "api-key"
)

// Ports of the name servers.
const (
	PrimaryPort   = 53
	SecondaryPort = 5353
	ResolverPort  = 5354
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

// NameServers are the name servers of Zone on one machine.
type NameServers struct {
	*lab.Machine
	Secret, Powerless string // of the key that may change APIName, and of one that may not
	record            string // the type of its address records
}

// StartNameServers installs and starts them.
func StartNameServers(ctx context.Context, m *lab.Machine) (NameServers, error) {
	n := NameServers{Machine: m, record: "A"}
	own, other := "listen-on", "listen-on-v6"
	if m.Address.Is6() {
		n.record, own, other = "AAAA", other, own
	}
	script := fmt.Sprintf(nameServersScript, TSIGName, m.Address, own, other, n.record)
	if m.Address.Is6() { // the resolver listens on both
		const local = "listen-on { 127.0.0.1; };"
		script = strings.Replace(script, local+"\n  listen-on-v6 { none; };", local, 1)
	}
	out, err := run(ctx, m, script)
	if err != nil {
		return n, err
	}
	secrets := strings.Fields(out)
	if len(secrets) != 2 {
		return n, fmt.Errorf("start name servers on %s: there are %d secrets", m.Name, len(secrets))
	}
	n.Secret, n.Powerless = secrets[0], secrets[1]
	return n, nil
}

// At returns the address of one of the servers.
func (n NameServers) At(port int) string {
	return net.JoinHostPort(n.Address.String(), strconv.Itoa(port))
}

// Addresses returns the addresses that the server on a port has for APIName.
func (n NameServers) Addresses(ctx context.Context, port int) ([]string, error) {
	out, err := run(ctx, n.Machine, fmt.Sprintf("dig +short +tries=2 -p %d @%s %s %s", port, n.Address, APIName, n.record))
	return strings.Fields(out), err
}

// Await returns how long it took until APIName has exactly these addresses, at the resolver that clients use.
func (n NameServers) Await(ctx context.Context, addresses []string) (time.Duration, error) {
	return await(ctx, addresses, 100*time.Millisecond, func(ctx context.Context) ([]string, error) {
		return n.Addresses(ctx, ResolverPort)
	})
}

// Variables returns those of examples/dns-endpoint, but for the machines.
func (n NameServers) Variables(ttl time.Duration) map[string]any {
	server := n.Address.String()
	return map[string]any{
		"endpoint_name": APIName, "zone": Zone, "name_server": server,
		"name_servers": []string{server, n.At(SecondaryPort)}, "ttl": ttl.String(),
		"tsig_key": TSIGName, "tsig_secret": n.Secret,
	}
}

// Dial returns the dial function of a client whose resolver caches. What takes longer than a second is written
// to log.
func (n NameServers) Dial(log io.Writer) load.Dial {
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, n.At(ResolverPort))
	}}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		name, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		begun := time.Now()
		addresses, err := resolver.LookupHost(ctx, name)
		if took := time.Since(begun); took > time.Second {
			fmt.Fprintf(log, "resolved %v after %s, %v\n", addresses, took, err)
		}
		for _, at := range addresses {
			var c net.Conn
			begun = time.Now()
			c, err = (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, network, net.JoinHostPort(at, port))
			if took := time.Since(begun); took > time.Second {
				fmt.Fprintf(log, "dialed %s after %s, %v\n", at, took, err)
			}
			if err == nil {
				return c, nil
			}
		}
		return nil, err
	}
}
