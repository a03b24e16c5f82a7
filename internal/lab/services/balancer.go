package services

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// Balancer is a balancer that the provider does not look after.
type Balancer struct {
	Name   string
	unit   string
	config func(targets map[string]string, path string) (file, text string)
}

// HAProxy checks its targets actively, as a cloud's balancer does. It can end the connections at an address that
// its machine has given up ("transparent").
var HAProxy = Balancer{"HAProxy", "haproxy", func(targets map[string]string, path string) (string, string) {
	return checking("transparent", "", targets, path)
}}

// HAProxyEndsTLS is HAProxy that decrypts what it passes on, with a certificate of its own (MakeCertificate).
var HAProxyEndsTLS = Balancer{"HAProxy that ends TLS", "haproxy", func(
	targets map[string]string, path string,
) (file, text string) {
	return checking("ssl crt "+certificatePath, "ssl", targets, path)
}}

const certificatePath = "/etc/haproxy/own.pem"

// checking returns the configuration of HAProxy with active checks, and with options of its socket and its servers.
func checking(bind, server string, targets map[string]string, path string) (file, text string) {
	text = "defaults\n mode tcp\n timeout connect 2s\n timeout client 1h\n timeout server 1h\n" +
		" retries 2\n option redispatch 1\n" +
		"listen api\n bind :::6443 v4v6 " + bind + "\n option httpchk GET " + path +
		"\n default-server " + server + " check check-ssl verify none inter 500ms fall 2 rise 2\n"
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		text += fmt.Sprintf(" server %s %s\n", name, targets[name])
	}
	return "/etc/haproxy/haproxy.cfg", text
}

// MakeCertificate makes the certificate of HAProxyEndsTLS.
func MakeCertificate(ctx context.Context, m *lab.Machine) error {
	_, err := run(ctx, m, "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=balancer -keyout "+certificatePath+
		" -out "+certificatePath+".crt 2>/dev/null\ncat "+certificatePath+".crt >>"+certificatePath)
	return err
}

// Nginx has no active checks: it would send requests to an API server that is not ready. So hooks tell it
// which replicas are in rotation (InstallPool).
var Nginx = Balancer{"nginx stream with hooks", "nginx", func(map[string]string, string) (string, string) {
	text := "load_module modules/ngx_stream_module.so;\nevents {}\nstream {\n upstream api {\n" +
		"  server 127.0.0.1:1 down;\n  include /etc/nginx/pool/*;\n }\n"
	return "/etc/nginx/nginx.conf", text + " server { listen 6443; proxy_pass api; proxy_connect_timeout 1s; " +
		"proxy_timeout 1h; }\n}\n"
}}

// HAProxyByHooks has no checks either: hooks add, drain and delete its servers while it runs (InstallServers). Its
// runtime API listens on a port of its machine, which the shell can connect to.
var HAProxyByHooks = Balancer{"HAProxy with hooks", "haproxy", func(
	targets map[string]string, _ string,
) (file, text string) {
	text = "global\n stats socket ipv4@" + runtimeAPI + " level admin\n" +
		"defaults\n mode tcp\n timeout connect 2s\n timeout client 1h\n timeout server 1h\n" +
		" retries 2\n option redispatch 1\n" +
		"frontend clients\n bind :::6443 v4v6\n default_backend api\nbackend api\n balance roundrobin\n"
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		text += fmt.Sprintf(" server %s %s\n", name, targets[name])
	}
	return "/etc/haproxy/haproxy.cfg", text
}}

const runtimeAPI = "127.0.0.1:9999"

// InstallBalancers installs HAProxy and nginx, and starts neither.
func InstallBalancers(ctx context.Context, m *lab.Machine) error {
	_, err := run(ctx, m, "apt-get install -y -q haproxy nginx-light libnginx-mod-stream >/dev/null 2>&1\n"+
		"systemctl disable --quiet --now haproxy nginx")
	return err
}

// Start starts the balancer with targets, name to address:port, that it checks at a path, and waits until it
// listens.
func (b Balancer) Start(ctx context.Context, m *lab.Machine, targets map[string]string, path string) error {
	file, text := b.config(targets, path)
	_, err := run(ctx, m, fmt.Sprintf("cat >%s <<'EOF'\n%sEOF\nsystemctl restart %s; until ss -Hlnt | grep -q :6443; do "+
		"sleep 0.05; done", file, text, b.unit))
	return err
}

// serversScript installs the other end of the hooks of HAProxyByHooks. It ends no session: the API server does, when it
// stops. A server is in rotation if it runs (operational state 2) and nothing is forced on it (administrative state 0:
// management guide, "show servers state").
const serversScript = `cat >/usr/local/bin/pool <<'EOF'
#!/bin/bash -e
read -r input
field() { printf '%s' "$input" | sed -E "s/.*\"$1\":\"?([^\",}]*).*/\1/"; }
ask() {
  exec 3<>/dev/tcp/127.0.0.1/9999
  echo "$1" >&3
  cat <&3
  exec 3>&-
}
exec 9>/run/pool.lock
flock 9
name=$(field name)
state=$(ask 'show servers state api' | awk -v name="$name" '$4 == name { print $6 " " $7 }')
expect() { # COMMAND: one that prints nothing if it succeeds
  answer=$(ask "$1")
  [ -z "$answer" ] || { echo "$1: $answer" >&2; exit 1; }
}
# Servers in maintenance are deleted as soon as nobody is connected to them any more.
ask 'show servers state api' | awk -v name="$name" '$2 == "api" && $7 == 1 && $4 != name { print $4 }' |
  while read -r left; do ask "del server api/$left" >/dev/null; done
case $(field action) in
register)
  if [ -n "$state" ]; then
    ask "set server api/$name addr $(field address) port $(field port)" >/dev/null
  else
    ask "add server api/$name $(field address):$(field port)" | grep -q registered
  fi
  expect "set server api/$name state ready"
  ;;
drain) [ -z "$state" ] || expect "set server api/$name state drain" ;;
deregister)
  [ -n "$state" ] || exit 0
  expect "set server api/$name state maint"
  ask "del server api/$name" >/dev/null
  ;;
status)
  if [ "$state" = '2 0' ]; then echo '{"in_rotation": true}'; exit; fi
  echo "{\"in_rotation\": false, \"reason\": \"state of the server: ${state:-none}\"}"
  ;;
esac
EOF
chmod +x /usr/local/bin/pool
`

// InstallServers installs what the hooks run on the machine of HAProxyByHooks.
func InstallServers(ctx context.Context, m *lab.Machine) error {
	_, err := run(ctx, m, serversScript)
	return err
}

// poolScript installs the other end of the hooks: a file for each target of nginx.
const poolScript = `mkdir -p /etc/nginx/pool
cat >/usr/local/bin/pool <<'EOF'
#!/bin/sh -e
read -r input
field() { printf '%s' "$input" | sed -E "s/.*\"$1\":\"?([^\",}]*).*/\1/"; }
exec 9>/run/pool.lock
flock 9
target=/etc/nginx/pool/$(field name)
case $(field action) in
register) echo "server $(field address):$(field port);" >"$target" ;;
drain | deregister) rm -f "$target" ;;
status)
  if [ -e "$target" ]; then echo '{"in_rotation": true}'; exit; fi
  echo '{"in_rotation": false, "reason": "not in the pool"}'
  exit
  ;;
esac
systemctl reload nginx
EOF
chmod +x /usr/local/bin/pool
`

// InstallPool installs what the hooks run on the machine of Nginx. in are the targets that are there already,
// name to address:port.
func InstallPool(ctx context.Context, m *lab.Machine, in map[string]string) error {
	script := poolScript
	for _, name := range slices.Sorted(maps.Keys(in)) {
		script += fmt.Sprintf("echo 'server %s;' >/etc/nginx/pool/%s\n", in[name], name)
	}
	_, err := run(ctx, m, script)
	return err
}

// AwaitPool returns how long it took until the pool of InstallPool has exactly these targets.
func AwaitPool(ctx context.Context, m *lab.Machine, names []string) (time.Duration, error) {
	return await(ctx, names, 100*time.Millisecond, func(ctx context.Context) ([]string, error) {
		out, err := run(ctx, m, "ls -A /etc/nginx/pool")
		return strings.Fields(out), err
	})
}

// PoolHooks returns the hooks that run the program of InstallPool or InstallServers by SSH.
func PoolHooks(l *lab.Lab, m *lab.Machine) map[string]any {
	command := []string{
		"ssh", "-i", l.PrivateKeyPath(), "-o", "UserKnownHostsFile=" + l.KnownHostsPath(), "-o", "BatchMode=yes",
		"root@" + m.Address.String(), "/usr/local/bin/pool",
	}
	return map[string]any{"register": command, "drain": command, "deregister": command, "status": command}
}
