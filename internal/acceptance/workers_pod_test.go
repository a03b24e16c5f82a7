package acceptance

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	certificates "k8s.io/api/certificates/v1"
	core "k8s.io/api/core/v1"
)

// podManifest is a Pod whose program prints a line each second. There is no scheduler's part in it that a taint could
// change, and no registry.
const podManifest = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": %q, "namespace": "default"},
"spec": {"automountServiceAccountToken": false, "terminationGracePeriodSeconds": 1, "containers": [
{"name": "main", "image": "` + podImage + `", "imagePullPolicy": "Never", "args": ["tick"]}]}}`

const podsPath = "/api/v1/namespaces/default/pods"

// runPod runs a Pod, which the scheduler places and which gets an address of the network plugin.
func (s *joinStory) runPod(t *testing.T, name string) {
	t.Helper()
	began := time.Now()
	s.admin = credentialsOf(t, outputOf(t, s.w, "kubeconfig"))
	await(t, "there is no default ServiceAccount", func() bool {
		code, _, err := s.admin.call(t.Context(), endpointURL, "GET",
			"/api/v1/namespaces/default/serviceaccounts/default", nil, nil)
		return err == nil && code == 200
	})
	s.admin.must(t, endpointURL, "POST", podsPath, json.RawMessage(fmt.Sprintf(podManifest, name)), nil)
	var pod core.Pod
	defer func() {
		if t.Failed() {
			t.Logf("%+v\n%s", pod.Status, onMachine(t, s.node, "journalctl -u kubelet -n 40 --no-pager"))
		}
	}()
	awaitFor(t, 2*time.Minute, "Pod "+name+" does not run", func() bool {
		_, _, err := s.admin.call(t.Context(), endpointURL, "GET", podsPath+"/"+name, nil, &pod)
		return err == nil && pod.Status.Phase == core.PodRunning
	})
	t.Logf("Pod %s runs at %s on %s after %.1f s", name, pod.Status.PodIP, pod.Spec.NodeName, time.Since(began).Seconds())
	if !strings.HasPrefix(pod.Status.PodIP, "10.244.0.") || pod.Spec.NodeName != workerName {
		t.Errorf("Pod %s has %s on %s", name, pod.Status.PodIP, pod.Spec.NodeName)
	}
	s.expectStreams(t, name)
}

// expectStreams: kubectl logs and kubectl exec work, from the API server to the kubelet.
func (s *joinStory) expectStreams(t *testing.T, name string) {
	t.Helper()
	text, err := s.stream(t, "logs", name)
	if err != nil || !strings.HasPrefix(text, "tick 0\n") {
		t.Errorf("kubectl logs: %v: %s", err, text)
	}
	t.Logf("kubectl logs %s: %d lines", name, strings.Count(text, "\n"))
	text, err = s.stream(t, "exec", name, "--", "/pod", "echo", "hello from "+name)
	if err != nil || text != "hello from "+name+"\n" {
		t.Errorf("kubectl exec: %v: %s", err, text)
	}
	t.Logf("kubectl exec %s: %s", name, text)
}

// stream is kubectl, and again if the API server has just noticed a new client certificate: client-go then closes all
// connections that it has, also the one on which it noticed (transport/cert_rotation.go).
func (s *joinStory) stream(t *testing.T, args ...string) (string, error) {
	t.Helper()
	text, err := s.kubectl(t, args...)
	if err != nil && strings.Contains(text, "use of closed network connection") {
		t.Logf("kubectl %s: %s", args[0], text)
		text, err = s.kubectl(t, args...)
	}
	return text, err
}

// kubectl runs kubectl as an administrator, through the virtual IP.
func (s *joinStory) kubectl(t *testing.T, args ...string) (string, error) {
	t.Helper()
	admin := writeFile(t, s.w, "admin.conf", outputOf(t, s.w, "kubeconfig"))
	return tryKubectl(t, s.w, append([]string{"--kubeconfig=" + admin}, args...)...)
}

// verified: API servers that verify kubelets refuse the certificate that a kubelet has signed itself, and accept the
// one that it gets as the guide says.
func (s *joinStory) verified(t *testing.T) {
	s.serving = true
	s.configure(t)
	apply(t, s.w)
	text, err := s.kubectl(t, "logs", "first")
	if err == nil || !strings.Contains(text, "tls: failed to verify certificate") {
		t.Errorf("a kubelet that the cluster does not know is accepted: %v: %s", err, text)
	}
	t.Logf("kubectl logs before the kubelet has a certificate of the cluster: %s", text)
	t.Log(onMachine(t, s.node, "set -e\n"+documentedScript(t, "workers", 2)))
	s.approve(t)
	await(t, "the API server does not accept the kubelet", func() bool {
		_, err := s.kubectl(t, "logs", "first")
		return err == nil
	})
	s.expectStreams(t, "first")
	s.expectReady(t)
}

// approve approves the newest request of the kubelet for a serving certificate, once it is there.
func (s *joinStory) approve(t *testing.T) {
	t.Helper()
	awaitFor(t, awaitTimeout, "the kubelet asks for no serving certificate", func() bool {
		var list certificates.CertificateSigningRequestList
		s.admin.must(t, endpointURL, "GET", "/apis/certificates.k8s.io/v1/certificatesigningrequests", nil, &list)
		for _, request := range list.Items {
			if request.Spec.SignerName != certificates.KubeletServingSignerName || len(request.Status.Conditions) > 0 ||
				request.Spec.Username != "system:node:"+workerName {
				continue
			}
			text, err := s.kubectl(t, "certificate", "approve", request.Name)
			if err != nil {
				t.Fatalf("kubectl certificate approve: %v: %s", err, text)
			}
			t.Log(text)
			return true
		}
		return false
	})
}
