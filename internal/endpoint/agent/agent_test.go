package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

const unit = "kube-endpoint-test.service"

var (
	errOut    = errors.New("it holds nothing")
	errSecret = errors.New("its password is not known")
)

// testReport is what a machine reports: each field is also what is wrong.
type testReport struct{ lacks, differs, silent, out bool }

func listed(wrong bool, what string) []string {
	if wrong {
		return []string{what}
	}
	return nil
}

// testKind has one file, one unit, and a secret that is not known.
func testKind() Kind[testReport] {
	return Kind[testReport]{
		Text: func(endpoint.Registration) Text {
			return Text{Attribute: "test", Unregistered: "it is idle"}
		},
		ConfigDir: "/etc/test", Program: "/opt/kube/test", Units: []string{unit},
		Scripts: Scripts{
			Functions: "functions\n", Apply: "apply\n", Admit: "admit\n", Drain: "drain\n",
			Clean: host.Command{Script: "clean\n", Vars: map[string]string{"kept": "bird2"}},
			Vars:  func(r endpoint.Registration) map[string]string { return map[string]string{"length": r.Zone.Name} },
		},
		Complete: func(r endpoint.Registration) endpoint.Registration { return r },
		Validate: func(r endpoint.Registration) error {
			if r.Address == "" {
				return errors.New("no address")
			}
			return nil
		},
		Secrets: func(endpoint.Registration) error { return errSecret },
		Files: func(endpoint.Registration, string, netip.Addr, Machine[testReport]) []host.File {
			return []host.File{{Path: "/opt/kube/test/agent", Mode: 0o755}}
		},
		OutOfRotation: func(_ endpoint.Registration, m Machine[testReport]) error {
			if m.Report.out {
				return errOut
			}
			return nil
		},
		Lacks: func(_ endpoint.Registration, m Machine[testReport]) []string { return listed(m.Report.lacks, "lacks") },
		Differs: func(_ endpoint.Registration, m Machine[testReport]) []string {
			return listed(m.Report.differs, "differs")
		},
		Silent: func(_ endpoint.Registration, _ string, m Machine[testReport]) []string {
			return listed(m.Report.silent, "silent")
		},
		Next: func(err error) string {
			if errors.Is(err, errOut) {
				return "start it"
			}
			return ""
		},
	}
}

func testRegistration() endpoint.Registration {
	return endpoint.Registration{
		ClusterID: strings.Repeat("0a", 16), Address: "10.200.0.1", Port: 6443, Zone: &endpoint.Zone{Name: "32"},
		Hosts: map[string]string{"cp1": "10.0.0.11"},
	}
}

// TestDrift: what differs is listed from the outside in, and of another endpoint's machine nothing else is said.
func TestDrift(t *testing.T) {
	r, own := testRegistration(), netip.MustParseAddr("10.0.0.11")
	all := testReport{lacks: true, differs: true, silent: true, out: true}
	owner := endpoint.ReadOwner(r.Record("cp1"))
	other := owner
	other.Address = "10.200.0.2"
	for name, c := range map[string]struct {
		m    Machine[testReport]
		want []string
	}{
		"another endpoint": {
			Machine[testReport]{Owner: other, Report: all}, []string{"the machine belongs to " + other.String()},
		},
		"no record": {Machine[testReport]{Report: all}, []string{"not registered: it is idle"}},
		"everything": {Machine[testReport]{Owner: owner, Report: all}, []string{
			"lacks", "/opt/kube/test/agent is not there", unit + " is not there", "differs",
			"out of rotation: " + errOut.Error(), "silent",
		}},
		"files and units": {
			Machine[testReport]{Owner: owner},
			[]string{"/opt/kube/test/agent is not there", unit + " is not there"},
		},
	} {
		if got := testKind().Drift(r, "cp1", own, c.m); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestCutOff: files that an apply has written, which was cut off before the agent was restarted, are drift, and the
// agent is restarted in its turn.
func TestCutOff(t *testing.T) {
	k, r, own := testKind(), testRegistration(), netip.MustParseAddr("10.0.0.11")
	k.Query = func(endpoint.Registration, netip.Addr) host.Query {
		return host.Query{Files: []string{"/opt/kube/test/agent"}}
	}
	k.Parse = func(string, endpoint.Registration, netip.Addr) testReport { return testReport{} }
	m := Machine[testReport]{Owner: endpoint.ReadOwner(r.Record("cp1"))}
	m.Facts.Files = map[string]host.FileState{}
	wanted := k.Files(r, "cp1", own, m)
	for _, file := range wanted {
		sum := sha256.Sum256(file.Content)
		m.Facts.Files[file.Path] = host.FileState{
			Mode: file.Mode, Owner: "root", Group: "root", SHA256: hex.EncodeToString(sum[:]),
		}
	}
	if m.Rewrites(wanted) {
		t.Error("an agent whose files are in use is restarted")
	}
	mark := host.AlteredMark("/opt/kube/test/agent")
	if !slices.Contains(k.query(r, own).Files, mark) {
		t.Error("nobody asks whether a change was cut off")
	}
	m.Facts.Files[mark] = host.FileState{}
	drift := k.Drift(r, "cp1", own, m)
	if !m.Rewrites(wanted) || !strings.HasPrefix(drift[0], "/opt/kube/test/agent is not in use yet") {
		t.Errorf("the agent is not restarted, or the drift is %q", drift)
	}
}

// TestNextStep: the kind knows its own errors, and every error has a next step.
func TestNextStep(t *testing.T) {
	for want, err := range map[string]error{
		"test.targets":              fmt.Errorf("x: %w", targets.ErrNotATarget),
		"the endpoint's port":       fmt.Errorf("x: %w", errPort),
		"start it":                  fmt.Errorf("x: %w", errOut),
		"completed steps are skipp": errors.New("x"),
	} {
		r := &Registrar[testReport]{Set: &targets.Set{}, Kind: testKind()}
		if got := r.nextStep(err); !strings.Contains(got, want) {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

// TestCommands: the scripts have the functions that they call, and their variables.
func TestCommands(t *testing.T) {
	k, r := testKind(), testRegistration()
	for want, c := range map[string]host.Command{
		"admit": k.admit(r, "cp1"), "drain": k.drain(r, "cp1", targets.ToReturn), "clean": k.clean(r, "cp1"), "apply": {
			Script: k.change(r, nil).Script, Vars: k.change(r, nil).Vars,
		},
	} {
		text := string(c.Script)
		if !strings.HasSuffix(text, "\n"+want+"\n") || !strings.Contains(text, "\nfunctions\n") ||
			!strings.Contains(text, "unless_other()") || !strings.HasPrefix(text, "# ") {
			t.Errorf("%s is\n%s", want, text)
		}
		if c.Vars["cluster"] != r.ClusterID || c.Vars["vip"] != r.Address || c.Vars["length"] != "32" ||
			(c.Vars["kept"] != "") != (want == "clean") {
			t.Errorf("%s has %v", want, c.Vars)
		}
		if only := c.Vars["replica"]; (only == "cp1") != (want != "apply") {
			t.Errorf("%s is for the machine of replica %q", want, only)
		}
	}
	for how, want := range map[targets.Leaving]string{
		targets.ToReturn: "no", targets.ForGood: "yes", targets.AsLast: "yes",
	} {
		if removed := k.drain(r, "cp1", how).Vars["removed"]; removed != want {
			t.Errorf("a replica that leaves (%d) is removed: %q", how, removed)
		}
	}
	if only := k.claim(r, "cp1").Vars["replica"]; only != "" {
		t.Errorf("only a machine that replica %q has already is claimed", only)
	}
	if got := k.claim(r, "cp1").Vars["record"]; endpoint.ReadOwner(got).Name != "cp1" {
		t.Errorf("the record is %s", got)
	}
	links := k.change(r, nil).Links
	if len(links) != 1 || links[0].Path != wantsDir+unit || links[0].Target != UnitDir+unit {
		t.Errorf("links are %+v", links)
	}
}

// TestRefused: arguments that are not valid are refused before any machine is asked, and nothing secret is needed
// for a registration that a machine has recorded.
func TestRefused(t *testing.T) {
	e := New[testSpec](targets.NewObserver(nil, nil), testKind(), testKind())
	ctx := context.Background()
	if _, err := e.Create(ctx, testSpec{}); err == nil || !strings.Contains(err.Error(), "no address") {
		t.Errorf("create: %v", err)
	}
	s := testSpec{testRegistration()}
	if _, err := e.Create(ctx, s); !errors.Is(err, errSecret) || !errors.Is(err, endpoint.ErrAdopted) {
		t.Errorf("a create leaves a state that would be deleted: %v", err)
	}
	if _, err := e.Update(ctx, s, s); !errors.Is(err, errSecret) {
		t.Errorf("update: %v", err)
	}
	if err := e.For(s.Registration()).Register(ctx, "cp1", "10.0.0.11:6443"); !errors.Is(err, errSecret) {
		t.Errorf("register: %v", err)
	}
	if err := e.ForRecorded(s.Registration()).check(); err != nil {
		t.Errorf("recorded: %v", err)
	}
	for address, want := range map[string]error{"10.0.0.12:6443": targets.ErrNotATarget, "10.0.0.11:7443": errPort} {
		if err := e.ForRecorded(s.Registration()).Register(ctx, "cp1", address); !errors.Is(err, want) {
			t.Errorf("register %s: %v", address, err)
		}
	}
}

// testSpec is a registration.
type testSpec struct{ r endpoint.Registration }

func (s testSpec) Registration() endpoint.Registration { return s.r }

// TestUnobservedAgent: a machine whose agent cannot be asked counts as out, and does not leave for that reason. If
// nobody reaches the machine, what the other machines find counts.
func TestUnobservedAgent(t *testing.T) {
	pool, err := host.NewPool(host.Config{})
	if err == nil {
		err = pool.Close() // no machine answers
	}
	if err != nil {
		t.Fatal(err)
	}
	set := targets.NewObserver(func(address string) *host.Host { return pool.Host(host.Target{Address: address}) }, nil).
		For(testRegistration())
	r := &Registrar[testReport]{Set: set, Kind: testKind()}
	r.Kind.Query = func(endpoint.Registration, netip.Addr) host.Query { return host.Query{} }
	seen := targets.Target{Name: "cp1", Address: "10.0.0.11", Port: 6443, Replica: targets.Replica{Name: "cp1"}}
	if err := r.outOfRotation(t.Context(), seen); !errors.Is(err, targets.ErrUnknown) {
		t.Errorf("its agent is not observed: %v", err)
	}
	seen.NotReady = r.outOfRotation(t.Context(), seen)
	err = r.MayLeave(t.Context(), "cp1", targets.Observed{"cp1": seen}, targets.ForGood, r.outOfRotation)
	if refusal := (*endpoint.Refusal)(nil); !errors.As(err, &refusal) || !refusal.LastServing() {
		t.Errorf("the last replica leaves: %v", err)
	}
	seen.Unreachable = host.ErrUnreachable
	if err := r.outOfRotation(t.Context(), seen); !errors.Is(err, targets.ErrUnknown) {
		t.Errorf("its machine is not reached, and its agent may announce nothing: %v", err)
	}
}

// TestLeftBehind: the deletion of an endpoint cleans no machine whose replica is not known, and says which it is.
func TestLeftBehind(t *testing.T) {
	r := &Registrar[testReport]{Set: targets.NewObserver(nil, nil).For(testRegistration()), Kind: testKind()}
	mine := Machine[testReport]{Owner: endpoint.ReadOwner(r.Record("cp1"))}
	other := mine
	other.Owner.Address = "10.200.0.2"
	seen := map[string]Machine[testReport]{
		"cp1": mine, "cp2": {}, "cp3": other, "cp4": {Err: host.ErrUnreachable}, "cp5": mine,
	}
	unread := errors.New("the record is not JSON")
	replicas := targets.Observed{
		"cp4": {Unreachable: host.ErrUnreachable}, "cp5": {Address: "10.0.0.15", Unreachable: unread},
	}
	left, err := r.leftBehind(seen, replicas)
	if !slices.Equal(left, []string{"cp1"}) || err == nil || !strings.Contains(err.Error(), "cp5 (10.0.0.15): the ") {
		t.Errorf("left behind are %q, %v", left, err)
	}
	delete(seen, "cp5")
	if _, err := r.leftBehind(seen, replicas); err != nil {
		t.Error(err)
	}
}
