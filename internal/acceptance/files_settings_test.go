package acceptance

import (
	"fmt"
	"strings"
	"testing"
)

// schedulerOverride is a scheduler configuration, the rest of which is an argument.
const schedulerOverride = `
resource "kube_control_plane_replica" "this" {
  extra_args = { scheduler = { config = "/etc/kubernetes/files/scheduler.yaml" } }
  files = { "scheduler.yaml" = { content = <<-EOT
    apiVersion: kubescheduler.config.k8s.io/v1
    kind: KubeSchedulerConfiguration
    percentageOfNodesToScore: 42
%s
  EOT
  } }
}
`

// schedulerConfigured: a configuration that switches the provider's settings off is refused, or warned of. One that
// keeps them restarts the schedulers, and nothing else.
func (s *filesStory) schedulerConfigured(t *testing.T) {
	const login, silent = "    clientConnection: { kubeconfig: /etc/kubernetes/scheduler.conf }",
		"    enableProfiling: false"
	before := processes(t, s.names...)
	override(t, s.w, fmt.Sprintf(schedulerOverride, silent))
	_, _, err := s.w.Plan(t.Context())
	if err == nil {
		t.Fatal("a scheduler without a kubeconfig is planned")
	}
	expectContains(t, unfolded(err.Error()),
		`file "scheduler.yaml": with it, kube-scheduler ignores the flag "kubeconfig"`,
		"set that to /etc/kubernetes/scheduler.conf")
	override(t, s.w, fmt.Sprintf(schedulerOverride, login))
	expectContains(t, plan(t, s.w), "Profiling of kube-scheduler is on", "set enableProfiling: false in the file")
	expectRestarted(t, before, nil)
	apply(t, s.w)
	s.onAll(t, askScheduler+askProfiles, "200")
	before = processes(t, s.names...)

	override(t, s.w, fmt.Sprintf(schedulerOverride, login+"\n"+silent))
	if text := plan(t, s.w); strings.Contains(text, "Profiling of kube-scheduler is on") {
		t.Errorf("a warning without a reason:\n%s", text)
	}
	apply(t, s.w)
	var must []string
	for _, name := range s.names {
		must = append(must, name+" kube-scheduler")
	}
	expectRestarted(t, before, must)
	// The running process says what it has read.
	s.onAll(t, askScheduler+`ask /configz | grep -io '"percentageOfNodesToScore":42' | tr A-Z a-z; rm -r $dir`,
		`"percentageofnodestoscore":42`)
	s.onAll(t, askScheduler+askProfiles, "404")
}

// askProfiles prints the status of the scheduler's answer to a request for its page of profiles.
const askProfiles = `ask /debug/pprof/ --output /dev/null --write-out '%{http_code}'; rm -r $dir`

// askScheduler is a shell function that asks the scheduler of the machine, as administrator.
const askScheduler = `dir=$(mktemp -d)
for each in certificate key; do
  grep -oE "client-$each-data\"?: *\"?[A-Za-z0-9+/=]+" /etc/kubernetes/admin.conf | grep -oE '[A-Za-z0-9+/=]{99,}' |
    base64 -d >$dir/$each
done
ask() { curl -ks --noproxy '*' --cert $dir/certificate --key $dir/key "https://127.0.0.1:10259$@"; }
`

// environmentOverride is a proxy for what the API server asks outside of the cluster, and an egress selector.
const environmentOverride = `
resource "kube_control_plane_replica" "this" {
  extra_args  = { apiserver = { egress-selector-config-file = "/etc/kubernetes/files/egress.yaml" } }
  environment = { apiserver = { HTTPS_PROXY = "http://10.97.0.200:3128", NO_PROXY = "10.97.0.0/24,127.0.0.1" } }
  files = { "egress.yaml" = { content = <<-EOT
    apiVersion: apiserver.k8s.io/v1beta1
    kind: EgressSelectorConfiguration
    egressSelections:
    - { name: cluster, connection: { proxyProtocol: Direct } }
  EOT
  } }
}
`

// proxies prints the variables of the running API server.
const proxies = "tr '\\0' '\\n' </proc/$(systemctl show --value -p MainPID kube-apiserver)/environ | grep _PROXY | sort"

// environmentSet sets variables of API servers. What is edited by hand on a machine, and runs there, is repaired.
func (s *filesStory) environmentSet(t *testing.T) {
	const wanted = "HTTPS_PROXY=http://10.97.0.200:3128\nNO_PROXY=10.97.0.0/24,127.0.0.1"
	before := processes(t, s.names...)
	override(t, s.w, environmentOverride)
	apply(t, s.w)
	var schedulers []string // the scheduler's configuration is removed
	for _, name := range s.names {
		schedulers = append(schedulers, name+" kube-scheduler")
	}
	expectRestarted(t, before, append(s.restarted(), schedulers...))
	s.onAll(t, proxies, wanted)
	s.onAll(t, "tr '\\0' '\\n' </proc/$(systemctl show --value --property=MainPID kube-apiserver)/cmdline | grep egress",
		"--egress-selector-config-file=/etc/kubernetes/files/egress.yaml")

	cp1 := shared.lab.Machine("cp1")
	onMachine(t, cp1, `cd /etc/systemd/system
sed -i 's|http://10.97.0.200:3128|http://10.97.0.201:3128|' kube-apiserver.service
systemctl daemon-reload
systemctl restart kube-apiserver`)
	if edited := onMachine(t, cp1, proxies); !strings.Contains(edited, "10.97.0.201") {
		t.Errorf("the API server of cp1 runs with\n%s", edited)
	}
	awaitRotation(t, "cp1")
	before = processes(t, s.names...)
	expectContains(t, plan(t, s.w), `kube-apiserver.service has the line "Environment=`,
		"HTTPS_PROXY=http://10.97.0.201:3128", "which was not written by the provider")
	apply(t, s.w)
	expectRestarted(t, before, []string{"cp1 kube-apiserver"})
	s.onAll(t, proxies, wanted)
}
