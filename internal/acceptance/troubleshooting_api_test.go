package acceptance

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// longest returns the first line of showLatency: what an API server has waited for longest, in the mean, and how many
// seconds.
func (s symptoms) longest(t *testing.T) (line string, seconds float64) {
	t.Helper()
	line, _, _ = strings.Cut(s.typed(t, showLatency), "\n")
	if _, err := fmt.Sscanf(line, "%f s", &seconds); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return line, seconds
}

// manyRequests: clients send more than an API server handles at once.
func (s symptoms) manyRequests(t *testing.T) {
	kubectl(t, s.w, s.admin, "create", "clusterrolebinding", "short", "--clusterrole=view", "--user=short")
	stop := alarms{names: []string{"cp1"}}.requests(t, s.short, 120, http.MethodGet,
		"/api/v1/namespaces/kube-system/configmaps")
	defer stop()
	awaitFor(t, 4*time.Minute, "the requests do not wait for each other", func() bool {
		line, _ := s.longest(t)
		return strings.Contains(line, "apiserver_flowcontrol_request_wait_duration_seconds") &&
			strings.Contains(line, `flow_schema="global-default"`)
	})
	stop()
	override(t, s.w, smallQuota) // with the default limits
	s.repaired(t)
	if line, _ := s.longest(t); strings.Contains(line, "flowcontrol") {
		t.Errorf("with the default limits, this is still first: %s", line)
	}
	kubectl(t, s.w, s.admin, "delete", "clusterrolebinding", "short")
}

// slowEtcd: the disk of a member is slow, and with it the API server on the same machine.
func (s symptoms) slowEtcd(t *testing.T) {
	m := shared.lab.Machine("cp1")
	onMachine(t, m, "systemctl restart kube-apiserver") // means are those since its start
	awaitRotation(t, s.names...)
	t.Cleanup(func() { _ = m.SlowDisk(0) })
	if err := m.SlowDisk(2); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	for n := 0; ; n++ {
		kubectl(t, s.w, s.admin, "--server="+servers("cp1")[0], "create", "configmap", fmt.Sprintf("waits-%d", n),
			"--namespace=default")
		line, seconds := s.longest(t)
		if strings.Contains(line, "etcd_request_duration_seconds") && seconds >= 0.1 {
			break
		}
		if time.Since(begun) > 3*time.Minute {
			t.Fatalf("etcd is not what an API server waits for: %s", line)
		}
	}
	if err := m.SlowDisk(0); err != nil {
		t.Fatal(err)
	}
	awaitRotation(t, s.names...)
}

// slowWebhook: a webhook that nobody answers.
func (s symptoms) slowWebhook(t *testing.T) {
	silent, err := net.Listen("tcp", net.JoinHostPort(operatorAddress(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	hook := writeFile(t, s.w, "webhook.yaml", `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: slow}
webhooks:
  - name: slow.example.com
    clientConfig: {url: "https://`+silent.Addr().String()+`/"}
    rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
    failurePolicy: Ignore
    timeoutSeconds: 2
    sideEffects: None
    admissionReviewVersions: [v1]
`)
	kubectl(t, s.w, s.admin, "create", "--filename="+hook)
	server := "--server=https://" + address("cp1") + ":6443"
	await(t, "the webhook is not called", func() bool {
		begin := time.Now()
		kubectl(t, s.w, s.admin, server, "create", "configmap", "slow-"+strings.ToLower(time.Now().Format("150405.000")),
			"--namespace=default")
		return time.Since(begin) >= 2*time.Second
	})
	first, _, _ := strings.Cut(s.typed(t, showLatency), "\n")
	expectContains(t, first, "apiserver_admission_webhook_admission_duration_seconds", `name="slow.example.com"`)
	kubectl(t, s.w, s.admin, "delete", "validatingwebhookconfiguration", "slow")
}

// fullDatabase: a database that has reached its quota.
func (s symptoms) fullDatabase(t *testing.T) {
	cp1 := shared.lab.Machine("cp1")
	onMachine(t, cp1, `cd /etc/kubernetes/pki/etcd
value=$(head -c 200000 /dev/urandom | base64 -w 0)
for n in $(seq 150); do
  printf '{"key":"%s","value":"%s"}' "$(printf /registry/example.com/$n | base64 -w 0)" "$value" |
    curl -s --fail --cacert ca.crt --cert healthcheck-client.crt --key healthcheck-client.key --data @- \
      https://127.0.0.1:2379/v3/kv/put >/dev/null || exit 0
done
echo 'the quota was not reached'; exit 1`)
	out, err := tryKubectl(t, s.w, s.admin, "create", "configmap", "refused", "--namespace=default")
	if err == nil || !strings.Contains(out, "database space exceeded") {
		t.Errorf("a write with a full database: %v\n%s", err, out)
	}
	expectContains(t, s.issues(t), "has alarm NOSPACE")
	first, _, _ := strings.Cut(strings.TrimSpace(s.on(t, "cp1", showKeys)), "\n")
	expectContains(t, first, "registry/example.com")
	onMachine(t, cp1, ctl+"etcdctl del --prefix /registry/example.com/")
	s.repaired(t)
	kubectl(t, s.w, s.admin, "create", "configmap", "accepted", "--namespace=default")
}

// brokenAPIServer: somebody has edited the unit of an API server.
func (s symptoms) brokenAPIServer(t *testing.T) {
	const flag = "unsecure-port"
	onMachine(t, shared.lab.Machine("cp2"), "sed -i 's/--secure-port=/--"+flag+"=/' "+
		"/etc/systemd/system/kube-apiserver.service; systemctl daemon-reload; systemctl restart kube-apiserver || true")
	await(t, "the API server does not say why it ended", func() bool {
		return strings.Contains(s.on(t, "cp2", showAPIServer), "unknown flag: --"+flag)
	})
	expectContains(t, s.issues(t), "replica cp2 ("+address("cp2")+"): kube-apiserver")
	expectContains(t, plan(t, s.w), "--"+flag)
	s.repaired(t)
}
