package acceptance

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// pods creates 500 ReplicaSets whose Pods fit no node, before the controller managers return, an aggregated API
// without a server, and a node without a kubelet. Without any node, the scheduler tries again and again, and no Pod
// counts as unschedulable.
func (a alarms) pods(t *testing.T) {
	t.Helper()
	cause := time.Now()
	provokeMetrics(t, a.admin)
	a.onAll(t, "systemctl stop kube-controller-manager")
	labels := map[string]any{"app": "none"}
	set := map[string]any{
		"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": map[string]any{"generateName": "none-"},
		"spec": map[string]any{
			"replicas": 1, "selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{
				"automountServiceAccountToken": false, "nodeSelector": labels,
				"containers": []any{map[string]any{"name": "none", "image": "none"}},
			}},
		},
	}
	for range 500 {
		a.admin.must(t, endpointURL, http.MethodPost, "/apis/apps/v1/namespaces/default/replicasets", set, nil)
	}
	a.onAll(t, "systemctl start kube-controller-manager")
	serve := func(elsewhere bool) func() error {
		return func() error {
			if err := a.admin.serveElsewhere(t.Context(), elsewhere); err != nil {
				t.Log(err) // the API servers are slow: whether it suffices is what the alert says
			}
			return nil
		}
	}
	_ = serve(false)() // it is elsewhere since its metrics were provoked
	end := again(t, serve(true), serve(false), 8*time.Second)
	a.p.expectAlerts(t, cause, 6*time.Minute, "KubePodsUnschedulable", "KubePodsPending", "KubeWorkQueueDeep",
		"KubeWorkQueueSlow", "KubeAggregatedAPIDown", "KubeAggregatedAPIErrors", "KubeNodesNotReady", "KubeAllNodesNotReady")
	end()
	for _, path := range []string{
		apiServices + "/" + aggregated, "/apis/apps/v1/namespaces/default/replicasets",
		"/api/v1/namespaces/default/pods/unschedulable", "/api/v1/nodes/none",
	} {
		a.remove(t, path)
	}
}

// remove deletes an object, or the objects of a collection, which takes several requests on a busy computer.
func (a alarms) remove(t *testing.T, path string) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(time.Second) {
		code, text, err := a.admin.call(t.Context(), endpointURL, http.MethodDelete, path, nil, nil)
		if err == nil && (code == http.StatusOK || code == http.StatusNotFound) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("DELETE %s: HTTP %d, %v: %s", path, code, err, text)
		}
	}
}

// clients requests with a certificate that ends within a day.
func (a alarms) clients(t *testing.T) {
	t.Helper()
	cause := time.Now()
	stop := a.requests(t, credentialsOf(t, outputOf(t, a.w, "short")), 4, http.MethodGet, "/version")
	defer stop()
	a.p.expectAlerts(t, cause, 5*time.Minute, "KubeClientCertificateExpiration", "KubeClientCertificateExpiresSoon")
}

// requests sends requests of so many clients to every API server until stop is called. What is answered is the
// subject of the alerts.
func (a alarms) requests(t *testing.T, of credentials, clients int, method, path string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range clients {
		server := servers(a.names...)[i%len(a.names)]
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				var body any
				if method == http.MethodPost {
					body = map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
						"name": "load-" + strconv.Itoa(i) + "-" + strconv.Itoa(n),
					}}
				}
				_, _, _ = of.call(ctx, server, method, path, body, nil)
				select {
				case <-ctx.Done():
				case <-time.After(250 * time.Millisecond):
				}
			}
		})
	}
	return func() { cancel(); all.Wait() }
}

// sessions opens more connections to a balancer than four fifths of those that it accepts.
func (a alarms) sessions(t *testing.T) {
	t.Helper()
	cause := time.Now()
	has := holder(t, a.names...).Name
	a.on(t, has, "/opt/kube/endpoint/ask /run/kube-endpoint/haproxy.sock 'set maxconn frontend kube-apiserver 40'")
	var open []net.Conn
	for range 36 {
		conn, err := (&tls.Dialer{Config: a.admin.tls}).DialContext(t.Context(), "tcp", vip+":6443")
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
	}
	a.p.expectAlerts(t, cause, 4*time.Minute, "HAProxySessionsNearLimit "+has)
	for _, conn := range open {
		_ = conn.Close()
	}
	a.on(t, has, "systemctl reload kube-endpoint-haproxy") // with the limit of its configuration
}

// balancers moves the address four times, and then takes a server out on one balancer, stops another one, and removes a
// server from the configuration of the last one.
func (a alarms) balancers(t *testing.T) {
	t.Helper()
	cause := time.Now()
	for range 4 {
		from := holder(t, a.names...)
		onMachine(t, from, "systemctl restart kube-endpoint-keepalived")
		for end := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
			if now := holders(t, a.names...); len(now) == 1 && now[0] != from.Name {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("the address does not leave %s", from.Name)
			}
		}
		a.onAll(t, "systemctl start kube-endpoint-facts.service") // a move is counted in a round
	}
	has := holder(t, a.names...).Name
	a.on(t, has, "/opt/kube/endpoint/ask /run/kube-endpoint/haproxy.sock 'set server kube-apiserver/cp2 state maint'")
	others := slices.DeleteFunc(slices.Clone(a.names), func(name string) bool { return name == has })
	a.on(t, others[0], "systemctl stop kube-endpoint-haproxy")
	a.on(t, others[1], "sed -i '/ server cp3 /d' /etc/haproxy/kube/20-backends.cfg; "+
		"! grep ' cp3 ' /etc/haproxy/kube/20-backends.cfg; systemctl reload kube-endpoint-haproxy")
	a.p.expectAlerts(t, cause, 6*time.Minute, "KubeVirtualIPMoves", "HAProxyServerDrained "+has, "HAProxyServersDiffer",
		"HAProxyDown")
	apply(t, a.w, "-target=module.control_plane.kube_control_plane_endpoint.this")
}

// overload sends requests while there is no quorum.
func (a alarms) overload(t *testing.T) {
	t.Helper()
	cause := time.Now()
	for _, name := range a.names[1:] {
		a.on(t, name, "systemctl stop etcd")
	}
	// API servers limit how many writes wait at once, so too few proposals fail of theirs alone.
	a.on(t, "cp1", "cat >/run/puts <<'END'\n"+ctl+`while :; do
  for i in 1 2 3 4 5 6 7 8 9 10 11 12; do etcdctl --command-timeout=1s put /none x >/dev/null 2>&1 & done
  wait
done
END
systemd-run --quiet --unit=puts sh /run/puts`)
	const path = "/api/v1/namespaces/default/configmaps?timeout=5s"
	reads := a.requests(t, a.admin, 180, http.MethodGet, path)
	writes := a.requests(t, a.admin, 450, http.MethodPost, path)
	a.p.expectAlerts(t, cause, 8*time.Minute, "KubeAPIRequestsInFlight", "KubeAPIErrorsHigh", "KubeAPIErrorsVeryHigh",
		"KubeAPIErrorBudgetBurn", "KubeAPITerminatedRequests", "KubeAPILatencyHigh", "KubeAPIEtcdSlow",
		"EtcdHighNumberOfFailedProposals", "EtcdHighNumberOfFailedGRPCRequests", "EtcdVeryHighNumberOfFailedGRPCRequests")
	reads()
	writes()
	a.on(t, "cp1", "systemctl stop puts; rm /run/puts")
	for _, name := range a.names[1:] {
		a.on(t, name, "systemctl start etcd")
	}
}

// noAddress stops what holds the address.
func (a alarms) noAddress(t *testing.T) {
	t.Helper()
	cause := time.Now()
	a.onAll(t, "systemctl stop kube-endpoint-keepalived")
	a.p.expectAlerts(t, cause, 4*time.Minute, "KubeVirtualIPOnNoMachine")
}
