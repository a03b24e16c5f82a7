package acceptance

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// rotation is the bundle's argument with the same number for all certificates and the
// service-account keys.
const rotation = `
resource "kube_pki_bundle" "this" {
  deletion_protection = false
  rotation = { kubernetes = %[1]d, etcd = %[1]d, front_proxy = %[1]d, service_account = %[1]d }
}
`

func rotateTo(t *testing.T, w *workspace.Workspace, generation int) {
	t.Helper()
	override(t, w, fmt.Sprintf(rotation, generation))
}

// rotated is a control plane in rotation, and the credentials issued before it began.
type rotated struct {
	w     *workspace.Workspace
	names []string
	first struct {
		kubeconfig string
		client     credentials
		account    credentials // the token of a ServiceAccount
	}
	etcd stageCredentials
}

// stageCredentials are the credentials of each stage, by its generation.
type stageCredentials map[int]credentials

const (
	administrator = "kubernetes-admin"
	firstAccount  = "system:serviceaccount:before:default"
)

// TestRotateAuthorities rotates all three authorities and the service-account keys together
// through their three stages. Clients use the virtual IP with the credentials from before the
// rotation, and with the latest ones. No client is disturbed until the old credentials are
// retired, even if a provider is killed in the middle of a stage.
func TestRotateAuthorities(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	w := newStory(t, names...)
	bare := fingerprints(t, names...)
	apply(t, w)
	r := &rotated{w: w, names: names, etcd: stageCredentials{}}
	r.remember(t)
	t.Run("no stage is skipped", r.skip)
	for _, stage := range []struct {
		name       string
		generation int
	}{{"introduced", 1}, {"adopted", 2}, {"retired", 3}} {
		t.Run(stage.name, func(t *testing.T) { r.stage(t, stage.generation) })
		if t.Failed() {
			t.FailNow()
		}
	}
	expectHealthy(t, w, names)
	apply(t, w, "-destroy")
	expectBare(t, bare, names...)
}

func (r *rotated) remember(t *testing.T) {
	t.Helper()
	r.first.kubeconfig = outputOf(t, r.w, "kubeconfig")
	r.first.client = credentialsOf(t, r.first.kubeconfig)
	r.first.client.expectControllers(t, "before", r.roots(t))
	r.first.account = r.first.client.with(r.first.client.tokenOf(t, "before"))
	r.first.account.expectKnown(t, "before the rotation", firstAccount, servers(r.names...)...)
	r.etcd[0] = credentials{tls: etcdCredentials(t, "cp1")}
}

func (r *rotated) roots(t *testing.T) string {
	t.Helper()
	return textOf(valuesOf(t, r.w, "kube_pki_bundle.this"), "ca_certificate")
}

func (r *rotated) skip(t *testing.T) {
	before := processes(t, r.names...)
	rotateTo(t, r.w, 2)
	_, _, err := r.w.Plan(t.Context())
	if err == nil {
		t.Fatal("a plan that skips a stage was not refused")
	}
	expectContains(t, unfolded(err.Error()), "skips a stage: apply 1 first")
	expectRestarted(t, before, nil)
}

// stage applies the next generation. Clients with the first kubeconfig keep working until it
// must be rejected.
func (r *rotated) stage(t *testing.T, generation int) {
	all := []*clients{r.load(t, outputOf(t, r.w, "kubeconfig"), true)}
	if generation == 2 { // at the first stage the two are the same
		all = append(all, r.load(t, r.first.kubeconfig, false))
	}
	if generation == 1 {
		r.cutOff(t, generation)
	}
	rotateTo(t, r.w, generation)
	apply(t, r.w)
	for _, l := range all {
		undisturbed(t, l)
	}
	r.etcd[generation] = credentials{tls: etcdCredentials(t, "cp1")}
	r.expectStage(t, generation)
}

// load starts clients with a kubeconfig on the virtual IP, and a writer on etcd.
func (r *rotated) load(t *testing.T, kubeconfig string, etcd bool) *clients {
	t.Helper()
	if !etcd {
		return startLoad(t, kubeconfig)
	}
	return startLoadOn(t, kubeconfig, func() []string { return r.names })
}

// expectStage checks every server against the expected results of the stage.
func (r *rotated) expectStage(t *testing.T, generation int) {
	t.Helper()
	what := fmt.Sprintf("at generation %d", generation)
	values := valuesOf(t, r.w, "kube_pki_bundle.this")
	t.Logf("%s: %v", what, values["stages"])
	present := credentialsOf(t, outputOf(t, r.w, "kubeconfig"))
	everywhere := append(servers(r.names...), endpointURL)
	present.expectKnown(t, what, administrator, everywhere...)
	present.expectControllers(t, fmt.Sprintf("generation-%d", generation), r.roots(t))
	if pki.StageOf(generation) == pki.Steady {
		r.first.client.trusting(present).expectRefused(t, what+", the first kubeconfig", everywhere...)
		r.first.account.trusting(present).expectRefused(t, what+", the first token", everywhere...)
	} else {
		r.first.client.expectKnown(t, what, administrator, everywhere...)
		r.first.account.expectKnown(t, what, firstAccount, everywhere...)
	}
	r.expectEtcd(t, generation)
	r.expectTrust(t, generation)
}

// expectEtcd checks that etcd certificates from before stay valid, at both ends, until they are
// retired.
func (r *rotated) expectEtcd(t *testing.T, generation int) {
	t.Helper()
	first, present := r.etcd[0], r.etcd[generation]
	for _, url := range members(r.names...) {
		if err := present.askMember(t, url); err != nil {
			t.Errorf("%s does not accept the client of generation %d: %v", url, generation, err)
		}
		if pki.StageOf(generation) != pki.Steady {
			if err := first.askMember(t, url); err != nil {
				t.Errorf("%s does not accept the first client at generation %d: %v", url, generation, err)
			}
		} else if err := first.trusting(present).askMember(t, url); err == nil ||
			!strings.Contains(err.Error(), "remote error: tls") {
			t.Errorf("%s was to refuse the first client at generation %d: %v", url, generation, err)
		}
	}
}

// expectTrust counts the authorities that machines trust: two of each during a rotation.
func (r *rotated) expectTrust(t *testing.T, generation int) {
	t.Helper()
	want := 1
	if pki.StageOf(generation) != pki.Steady {
		want = 2
	}
	for _, name := range r.names {
		for _, file := range []string{"ca.crt", "etcd/ca.crt", "front-proxy-ca.crt"} {
			text := onMachine(t, shared.lab.Machine(name), "cat /etc/kubernetes/pki/"+file)
			if got := len(certificatesIn(text)); got != want {
				t.Errorf("%s: %s holds %d authorities at generation %d, want %d", name, file, got, generation, want)
			}
		}
		text := onMachine(t, shared.lab.Machine(name), "cat /etc/kubernetes/pki/sa.pub")
		if got := strings.Count(text, "BEGIN PUBLIC KEY"); got != want {
			t.Errorf("%s: sa.pub holds %d keys at generation %d, want %d", name, got, generation, want)
		}
	}
}

// cutOff kills the provider when the first replica has applied the stage, and then requests the
// stage after it. Components that are two stages apart must not run together, so the request is
// rejected with the next step, which the caller takes.
func (r *rotated) cutOff(t *testing.T, generation int) {
	t.Helper()
	done := func(line string) bool {
		return strings.Contains(line, `"type":"apply_complete"`) && strings.Contains(line, "kube_control_plane_replica")
	}
	rotateTo(t, r.w, generation)
	cutWhen(t, r.w, done, func(terraform *os.Process) { killProvider(t, r.w, terraform) })
	rotateTo(t, r.w, generation+1)
	expectContains(t, refused(t, r.w),
		fmt.Sprintf("is still at generation %d of the etcd CA, and only adjacent generations are compatible with "+
			"generation %d", generation-1, generation+1),
		"Unchanged: nothing was changed",
		fmt.Sprintf("set rotation.etcd back to %d and apply, then raise it again", generation))
}
