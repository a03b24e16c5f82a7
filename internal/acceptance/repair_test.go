package acceptance

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// damage is a change to one machine that bypasses the provider.
type damage struct {
	machine   string
	script    string
	fragments []string // expected in the plan
	restart   []string // the only units that the repair has to restart
}

// repair is damage that one plan shows and one apply repairs.
type repair struct {
	name    string
	damages []damage
	may     []string // "MACHINE UNIT" that may end on its own meanwhile
}

// ctl is etcdctl on a machine.
var ctl = `etcdctl() { /opt/kube/etcd/` + pinned("etcd") + `/etcdctl --endpoints=https://127.0.0.1:2379 ` +
	`--cacert=/etc/kubernetes/pki/etcd/ca.crt ` +
	`--cert=/etc/kubernetes/pki/etcd/healthcheck-client.crt --key=/etc/kubernetes/pki/etcd/healthcheck-client.key "$@"; }
`

// A controller-manager or scheduler exits if it cannot renew its lease. For that it needs the
// API server of its machine, which needs the etcd member there.
var stoppedUnits = repair{
	name: "stopped units",
	damages: []damage{
		{"cp1", `systemctl stop etcd`, []string{`"cp1: etcd.service is inactive, wanted active"`}, []string{"etcd"}},
		{
			"cp2", `systemctl stop kube-scheduler kube-endpoint-haproxy`,
			[]string{
				`cp2 (10.97.0.12): kube-scheduler: kube-scheduler.service is inactive`,
				`cp2: kube-endpoint-haproxy.service is inactive`,
			},
			[]string{"kube-scheduler", "kube-endpoint-haproxy"},
		},
		{
			"cp3", `systemctl stop kube-apiserver`,
			[]string{`cp3 (10.97.0.13): kube-apiserver: kube-apiserver.service is inactive`},
			[]string{"kube-apiserver"},
		},
	},
	may: []string{
		"cp1 kube-apiserver", "cp1 kube-controller-manager", "cp1 kube-scheduler", "cp3 kube-controller-manager",
		"cp3 kube-scheduler",
	},
}

var editedUnits = repair{
	name: "edited units",
	damages: []damage{
		{
			"cp1", `sed -i s/--watch-progress-notify-interval=5s/--watch-progress-notify-interval=7s/ ` +
				`/etc/systemd/system/etcd.service; systemctl daemon-reload; systemctl restart etcd`,
			[]string{`"cp1: flag --watch-progress-notify-interval is "7s", wanted "5s""`},
			// The replica is paused with its member.
			[]string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"},
		},
		{
			"cp2", `sed -i s/--profiling=false/--profiling=true/ /etc/systemd/system/kube-apiserver.service; ` +
				`systemctl daemon-reload; systemctl restart kube-apiserver`,
			[]string{`cp2 (10.97.0.12): kube-apiserver: flag --profiling is "true", wanted "false"`},
			[]string{"kube-apiserver"},
		},
		{ // with a drop-in
			"cp3", `mkdir -p /etc/systemd/system/kube-controller-manager.service.d; printf '[Service]\nNice=5\n' ` +
				`>/etc/systemd/system/kube-controller-manager.service.d/by-hand.conf; systemctl daemon-reload; ` +
				`systemctl restart kube-controller-manager`,
			[]string{`cp3 (10.97.0.13): kube-controller-manager: its definition is changed by files in ` +
				`/etc/systemd/system/kube-controller-manager.service.d`},
			[]string{"kube-controller-manager"},
		},
		{ // edited but not restarted since: no restart is needed
			"cp3", `sed -i s/--profiling=false/--profiling=true/ /etc/systemd/system/kube-scheduler.service; ` +
				`sed -i s/^RestartSec=1/RestartSec=9/ /etc/systemd/system/etcd.service`,
			[]string{
				`cp3 (10.97.0.13): kube-scheduler: flag --profiling is "true", wanted "false"`,
				`cp3: /etc/systemd/system/etcd.service has the line "RestartSec=9"`,
			},
			nil,
		},
	},
	may: []string{"cp2 kube-controller-manager", "cp2 kube-scheduler"},
}

// Processes reload their serving certificates. HAProxy and keepalived reload their files.
var editedFiles = repair{
	name: "certificates, kubeconfigs and the endpoint's files",
	damages: []damage{
		{
			"cp1", `rm /etc/kubernetes/pki/etcd/server.crt; sed -i 's/advert_int 0.25/advert_int 2/' /etc/keepalived/kube.conf`,
			[]string{
				`cp1: certificate /etc/kubernetes/pki/etcd/server.crt is missing`,
				`cp1: /etc/keepalived/kube.conf: found "advert_int 2", wanted "advert_int 0.25"`,
			},
			nil,
		},
		{
			"cp2", `rm /etc/kubernetes/pki/apiserver.crt; sed -i 's/timeout client 24h/timeout client 1m/' ` +
				`/etc/haproxy/kube/10-endpoint.cfg`,
			[]string{
				`cp2 (10.97.0.12): /etc/kubernetes/pki/apiserver.crt is missing`,
				`cp2: /etc/haproxy/kube/10-endpoint.cfg: found "timeout client 1m", wanted "timeout client 24h"`,
			},
			nil,
		},
		{
			"cp3", `sed -i s/10.97.0.13:6443/10.97.0.99:6443/ /etc/kubernetes/controller-manager.conf
sed -i '/server cp1 /d; s/server cp2 [^#]*/&weight 7 /' /etc/haproxy/kube/20-backends.cfg
systemctl reload kube-endpoint-haproxy`,
			[]string{
				`cp3 (10.97.0.13): /etc/kubernetes/controller-manager.conf: server is https://10.97.0.99:6443, wanted ` +
					`https://10.97.0.13:6443`,
				`cp3: not registered`,
				`cp3: /etc/haproxy/kube/20-backends.cfg: found "server cp2 10.97.0.12:6443 tcp-ut 5s weight 7 # registered`,
			},
			[]string{"kube-controller-manager"},
		},
	},
}

var removedMember = repair{
	name: "a member removed by hand",
	damages: []damage{
		{"cp1", ctl + `etcdctl member remove $(etcdctl member list | awk -F', ' '$3 == "cp3" { print $1 }')`, nil, nil},
		{
			"cp3", `true`,
			[]string{`"cp3: the cluster no longer lists this member, but its machine still has its files"`},
			[]string{"etcd"},
		},
	},
	may: []string{"cp3 kube-apiserver", "cp3 kube-controller-manager", "cp3 kube-scheduler"},
}

var emptiedData = repair{
	name: "an emptied data directory",
	damages: []damage{
		{
			"cp2", `systemctl stop etcd; rm -rf /var/lib/etcd/*`,
			[]string{`"cp2: data directory /var/lib/etcd has no data of a member"`},
			[]string{"etcd"},
		},
	},
	may: []string{"cp2 kube-apiserver", "cp2 kube-controller-manager", "cp2 kube-scheduler"},
}

// TestRepair damages the machines of one control plane in every known way. The plan describes
// the damage, one apply repairs it, and nothing else is disturbed.
func TestRepair(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	w := newStory(t, names...)
	bare := fingerprints(t, names...)
	apply(t, w)
	for _, r := range []repair{stoppedUnits, editedUnits, editedFiles, removedMember, emptiedData} {
		t.Run(r.name, func(t *testing.T) { r.run(t, w, names) })
		if t.Failed() {
			t.FailNow()
		}
	}
	t.Run("replicas left out of rotation", func(t *testing.T) { repairLeftOut(t, w, names) })
	t.Run("a rebuilt machine", func(t *testing.T) { repairRebuilt(t, w) })
	expectHealthy(t, w, names)
	useAPI(t, w)
	apply(t, w, "-destroy")
	expectBare(t, bare, names...)
}

func (r repair) run(t *testing.T, w *workspace.Workspace, names []string) {
	var fragments, must []string
	for _, d := range r.damages {
		onMachine(t, shared.lab.Machine(d.machine), d.script)
		fragments = append(fragments, d.fragments...)
		for _, unit := range d.restart {
			must = append(must, d.machine+" "+unit)
		}
	}
	before := processes(t, names...)
	expectContains(t, plan(t, w), fragments...)
	apply(t, w)
	expectRestarted(t, before, must, r.may...)
}

// repairLeftOut leaves two replicas out of rotation, as an interrupted change does: by a power
// failure (cp3), or while its etcd member restarts (cp2). The change of the third replica,
// which has to be drained first, brings them back.
func repairLeftOut(t *testing.T, w *workspace.Workspace, names []string) {
	const drain = "/opt/kube/endpoint/ask /run/kube-endpoint/haproxy.sock 'set server kube-apiserver/%s state drain'"
	for _, name := range names {
		onMachine(t, shared.lab.Machine(name), fmt.Sprintf(drain+"\n"+drain, "cp2", "cp3"))
	}
	onMachine(t, shared.lab.Machine("cp2"),
		"touch /run/kube-replica.paused; systemctl stop kube-apiserver kube-controller-manager kube-scheduler")
	onMachine(t, shared.lab.Machine("cp1"), ": >/run/kube-apiserver/started") // it serves, and has to be restarted
	before := processes(t, names...)
	expectContains(t, plan(t, w), `cp1: out of rotation: DRAIN`,
		`cp1 (10.97.0.11): kube-apiserver: it was started with another`)
	apply(t, w, `-target=kube_control_plane_replica.this["cp1"]`)
	expectEmptyPlan(t, w)
	expectRestarted(t, before, []string{
		"cp1 kube-apiserver", "cp2 kube-apiserver", "cp2 kube-controller-manager",
		"cp2 kube-scheduler",
	},
		"cp1 kube-controller-manager", "cp1 kube-scheduler")
}

// repairRebuilt gives cp1 an empty disk, another machine ID and another host key.
func repairRebuilt(t *testing.T, w *workspace.Workspace) {
	m := shared.lab.Machine("cp1")
	if err := m.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := processes(t, "cp2", "cp3")
	_, _, err := w.Plan(t.Context())
	if err == nil {
		t.Fatal("a machine with another host key was let pass")
	}
	expectContains(t, unfolded(err.Error()), "Host key changed", "the machine was rebuilt",
		fmt.Sprintf(`ssh = { hosts = { "%s" = { host_key = "%s" } } }`, m.Address, strings.TrimSpace(hostKey(t, m))))
	trustNewHostKeys(t, w)
	expectContains(t, plan(t, w),
		`"cp1: machine rebuilt: it has neither the unit nor the data of the member, but the cluster lists the member"`,
		`Control-plane replica "cp1" is gone`, `the machine is reachable and holds nothing of it`,
		`"cp1: the endpoint is not set up there"`)
	apply(t, w)
	expectRestarted(t, before, nil)
}
