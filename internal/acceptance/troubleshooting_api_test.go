package acceptance

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// longest returns the first line of showLatency while clients send requests to cp1: what an API server waits for
// longest, in the mean, and how many seconds.
func (s symptoms) longest(
	t *testing.T, of credentials, clients int, method, path string,
) (line string, seconds float64) {
	t.Helper()
	stop := alarms{names: []string{"cp1"}}.requests(t, of, clients, method, path)
	defer stop()
	line, _, _ = strings.Cut(s.typed(t, showLatency), "\n")
	if _, err := fmt.Sscanf(line, "%f s", &seconds); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return line, seconds
}

const (
	// newConfigMaps is where clients write.
	newConfigMaps = "/api/v1/namespaces/default/configmaps"
	// slowRead waits for three seconds, without using a processor, because no cache is ever that new.
	slowRead = newConfigMaps + "?resourceVersion=1000000000000&resourceVersionMatch=NotOlderThan"
)

// manyRequests: clients send more than an API server handles at once. With the default limits, they hardly wait.
func (s symptoms) manyRequests(t *testing.T) {
	kubectl(t, s.w, s.admin, "create", "clusterrolebinding", "short", "--clusterrole=view", "--user=short")
	const clients, waits = 12, "apiserver_flowcontrol_request_wait_duration_seconds"
	line, before := s.longest(t, s.short, clients, http.MethodGet, slowRead)
	expectContains(t, line, waits, `flow_schema="global-default"`)
	override(t, s.w, smallQuota) // with the default limits
	s.repaired(t)
	line, after := s.longest(t, s.short, clients, http.MethodGet, slowRead)
	if strings.Contains(line, waits) && after > before/2 {
		t.Errorf("with the default limits, requests wait for %.1f s, and before for %.1f s", after, before)
	}
	kubectl(t, s.w, s.admin, "delete", "clusterrolebinding", "short")
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
	server := "--server=" + servers("cp1")[0]
	await(t, "the webhook is not called", func() bool {
		begin := time.Now()
		kubectl(t, s.w, s.admin, server, "create", "configmap", "slow-"+strings.ToLower(time.Now().Format("150405.000")),
			"--namespace=default")
		return time.Since(begin) >= 2*time.Second
	})
	line, _ := s.longest(t, s.operator(t), 2, http.MethodPost, newConfigMaps)
	expectContains(t, line, "apiserver_admission_webhook_admission_duration_seconds", `name="slow.example.com"`)
	kubectl(t, s.w, s.admin, "delete", "validatingwebhookconfiguration", "slow")
}

// operator returns the credentials of the administrator.
func (s symptoms) operator(t *testing.T) credentials {
	t.Helper()
	return credentialsOf(t, outputOf(t, s.w, "kubeconfig"))
}

// slowEtcd: the disk of a member is slow, and with it the API server on the same machine.
func (s symptoms) slowEtcd(t *testing.T) {
	m := shared.lab.Machine("cp1")
	t.Cleanup(func() { _ = m.SlowDisk(0) })
	if err := m.SlowDisk(2); err != nil {
		t.Fatal(err)
	}
	line, seconds := s.longest(t, s.operator(t), 4, http.MethodPost, newConfigMaps)
	if !strings.Contains(line, "etcd_request_duration_seconds") || seconds < 0.1 {
		t.Errorf("etcd is not what an API server waits for: %s", line)
	}
	if err := m.SlowDisk(0); err != nil {
		t.Fatal(err)
	}
	awaitRotation(t, s.names...)
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
