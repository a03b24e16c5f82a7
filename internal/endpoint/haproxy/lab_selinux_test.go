package haproxy

import (
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// debianPolicy installs SELinux's policy of Debian with tools that read it. The kernel of the lab does not
// enforce it.
const debianPolicy = `export DEBIAN_FRONTEND=noninteractive
apt-get install -y -q selinux-policy-default selinux-utils setools policycoreutils-python-utils >/tmp/apt.log 2>&1 ||
  { tail /tmp/apt.log; exit 1; }
sed -i 's/^SELINUXTYPE=.*/SELINUXTYPE=default/' /etc/selinux/config`

// TestSELinuxPolicyOnMachine: what the guide says of Debian's policy is what its own tools say, and labels of
// ports are recorded where the preflight reads them.
func TestSELinuxPolicyOnMachine(t *testing.T) {
	testrun.Long(t)
	f := newFixture(t)
	f.rebuiltAfter()
	f.shell("a", debianPolicy)
	const policy = " /etc/selinux/default/policy/policy.*"
	for command, want := range map[string]string{
		// Debian's policy does not know HAProxy and keepalived: they are not confined, and need no boolean.
		"seinfo -b" + policy + " | grep -c haproxy || true":               "0",
		"seinfo -t" + policy + " | grep -cE 'haproxy|keepalived' || true": "0",
		// systemd may execute the programs of /opt/kube.
		"sesearch -A -s init_t -t usr_t -c file -p execute" + policy + " | grep -c files_unconfined_type": "1",
		"seinfo -a files_unconfined_type -x" + policy + " | grep -cx '[[:space:]]*init_t'":                "1",
		// It knows bird, which may create sockets only in directories with this label.
		"sesearch -A -s bird_t -c sock_file -p create" + policy + " | cut -d ' ' -f 3": "bird_runtime_t:sock_file",
	} {
		if got := strings.TrimSpace(f.shell("a", command)); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
	for path, want := range map[string]string{
		endpointPath: "etc_t", keepalivedPath: "etc_t", askPath: "usr_t", "/opt/kube/etcd/3.6.0/etcd": "usr_t",
		"/usr/sbin/haproxy": "bin_t", "/usr/sbin/keepalived": "bin_t", "/usr/sbin/bird": "bird_exec_t",
		unitDir + haproxyUnit: "systemd_unit_t", "/var/lib/etcd": "var_lib_t", "/etc/kubernetes/pki/ca.key": "etc_t",
	} {
		got := f.shell("a", "matchpathcon -n -f /etc/selinux/default/contexts/files/file_contexts "+path)
		if !strings.Contains(got, ":"+want+":") {
			t.Errorf("%s has the context %s, want %s", path, strings.TrimSpace(got), want)
		}
	}
	f.shell("a", "semanage port -N -a -t http_port_t -p tcp 6443")
	const label = "portcon tcp 6443 system_u:object_r:http_port_t:s0"
	if got := f.shell("a", "cat /var/lib/selinux/*/active/ports.local"); !strings.Contains(got, "\n"+label+"\n") {
		t.Errorf("the labels of ports are recorded as\n%s", got)
	}
}
