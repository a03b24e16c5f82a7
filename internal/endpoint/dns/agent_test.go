package dns

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

func testRegistrar(keys map[string]Key) *Registrar {
	return testEndpoints(keys).For(testSpec().Registration())
}

func testEndpoints(keys map[string]Key) *Endpoints {
	nowhere := func(string) *host.Host { return &host.Host{} }
	return New(targets.NewObserver(nowhere, nil), keys)
}

// TestAgentFiles: the key is in one file, which only root reads.
func TestAgentFiles(t *testing.T) {
	secret := "c2VjcmV0LXNlY3JldC1zZWNyZXQ="
	r := testRegistrar(map[string]Key{"api-key": {Algorithm: "hmac-sha512", Secret: secret}})
	at := targets.Target{Name: "cp1", Address: "10.0.0.11", Port: 6443}
	keyed := 0
	for _, file := range r.agentFiles(at) {
		text := string(file.Content)
		if strings.Contains(text, secret) {
			keyed++
			if file.Mode != 0o600 || !strings.HasPrefix(text, "key \"api-key\" {\n\talgorithm hmac-sha512;") {
				t.Errorf("%s has mode %s:\n%s", file.Path, file.Mode, text)
			}
		}
		if file.Path == configPath {
			for _, want := range []string{
				"name='api.example.com'", "self='10.0.0.11'", "targets='10.0.0.11 10.0.0.12",
				"ttl='5'", "server_port='53'", "type='A'", "threshold='3'",
			} {
				if !strings.Contains(text, want) && !strings.Contains(text, strings.ReplaceAll(want, "'", "")) {
					t.Errorf("%s lacks %s:\n%s", file.Path, want, text)
				}
			}
		}
	}
	if keyed != 1 {
		t.Errorf("%d files have the secret", keyed)
	}
	if len(testRegistrar(nil).agentFiles(at)) != len(r.agentFiles(at))-1 {
		t.Error("without a key, there is no file for it")
	}
}

// TestUnlessOther: an endpoint that a replica leaves does not touch the agent of the one that it has moved to.
func TestUnlessOther(t *testing.T) {
	r := testRegistrar(nil)
	at := targets.Target{Name: "cp1", Address: "10.0.0.11", Port: 6443}
	for name, c := range map[string]struct {
		config string
		want   string
	}{
		"its own":   {r.agentConfig(at), "go on\n"},
		"another's": {strings.Replace(r.agentConfig(at), r.Address, "new.example.com", 1), ""},
		"no agent":  {"", "go on\n"},
	} {
		dir := t.TempDir()
		if c.config != "" {
			if err := os.WriteFile(filepath.Join(dir, "config"), []byte(c.config), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		script := host.Assignments(map[string]string{"config": dir}) + r.unlessOther() + "echo go on\n"
		out, err := exec.CommandContext(t.Context(), "sh", "-euc", string(script)).Output()
		if err != nil || string(out) != c.want {
			t.Errorf("%s: %q, %v, want %q", name, out, err, c.want)
		}
	}
}

// TestListed: a replica that is ready and has no record gets no requests.
func TestListed(t *testing.T) {
	seen := listed(targets.Observed{
		"cp1": {Name: "cp1", Address: "10.0.0.11", Replica: targets.Replica{Name: "cp1"}},
		"cp2": {Name: "cp2", Address: "10.0.0.12", Replica: targets.Replica{Name: "cp2"}},
	}, recordSet{Addresses: addresses(t, "10.0.0.12")})
	if len(seen.Serving()) != 1 || len(seen.OutOfRotation()) != 1 || seen["cp1"].NotReady == nil {
		t.Errorf("observed %+v", seen)
	}
}

// agentRun runs rounds of the agent of 10.0.0.11 on this computer. Stand-ins in place of dig, curl and nsupdate know
// the records and the API servers that are down, and keep what is requested.
type agentRun struct {
	t   *testing.T
	dir string
}

func newAgentRun(t *testing.T) agentRun {
	t.Helper()
	a := agentRun{t, t.TempDir()}
	config := host.Assignments(map[string]string{
		"name": "api.example.com", "zone": "example.com", "type": "A", "ttl": "5", "server": "10.0.0.53",
		"server_port": "53", "self": "10.0.0.11", "targets": "10.0.0.11 10.0.0.12", "port": "6443", "threshold": "2",
	})
	program := strings.NewReplacer(configDir, a.dir, stateDir, a.dir+"/state", "PATH=", "PATH="+a.dir+":").
		Replace(string(agentProgram))
	for name, text := range map[string]string{
		"agent": program, "config": string(config), "registered": "",
		"dig":      "#!/bin/sh\ncat " + a.dir + "/records\n",
		"curl":     "#!/bin/sh\nfor at; do :; done\necho \"$at\" | grep -qFf " + a.dir + "/down && echo 000 || echo 200\n",
		"nsupdate": "#!/bin/sh\ngrep ^update >>" + a.dir + "/updates\n",
	} {
		a.write(name, text)
	}
	return a
}

func (a agentRun) write(name, text string) {
	a.t.Helper()
	err := os.WriteFile(filepath.Join(a.dir, name), []byte(text), 0o700) //nolint:gosec // programs are among them
	if err != nil {
		a.t.Fatal(err)
	}
}

// round runs one round with these records while API servers are down, and returns the updates that it requests.
func (a agentRun) round(records, down string) string {
	a.t.Helper()
	a.write("records", strings.ReplaceAll(records, " ", "\n")+"\n")
	a.write("down", "nobody\n")
	if down != "" {
		a.write("down", "//"+down+":\n")
	}
	a.write("updates", "")
	if out, err := exec.CommandContext(a.t.Context(), filepath.Join(a.dir, "agent")).CombinedOutput(); err != nil {
		a.t.Fatalf("%v: %s", err, out)
	}
	updates, err := os.ReadFile(filepath.Join(a.dir, "updates"))
	if err != nil {
		a.t.Fatal(err)
	}
	return strings.TrimSpace(string(updates))
}

// TestAgentCounts: the checks of a replica count from the return of its record on: one late answer does not remove it
// again.
func TestAgentCounts(t *testing.T) {
	const both, deleted = "10.0.0.11 10.0.0.12", "update delete api.example.com. IN A 10.0.0.12"
	a := newAgentRun(t)
	for i, c := range []struct{ records, down, want string }{
		{both, "10.0.0.12", ""},
		{both, "10.0.0.12", deleted},
		{"10.0.0.11", "10.0.0.12", ""},
		{both, "10.0.0.12", ""},
		{both, "", ""},
		{both, "10.0.0.12", ""},
		{both, "10.0.0.12", deleted},
		{"10.0.0.12", "", "update add api.example.com. 5 IN A 10.0.0.11"}, // its own checks count without a record
	} {
		if got := a.round(c.records, c.down); got != c.want {
			t.Errorf("round %d: %q, want %q", i+1, got, c.want)
		}
	}
}

func TestDrift(t *testing.T) {
	r := testRegistrar(nil)
	seen := targets.Observed{
		"cp1": {Name: "cp1", Address: "10.0.0.11", Replica: targets.Replica{Name: "cp1"}},
		"cp2": {Name: "cp2", Address: "10.0.0.12"},
	}
	good := recordSet{Addresses: addresses(t, "10.0.0.11"), TTL: 5 * time.Second}
	if drift := r.drift(good, seen); len(drift) != 0 {
		t.Errorf("drift of what is wanted: %q", drift)
	}
	if drift := r.drift(recordSet{}, seen); len(drift) != 0 {
		t.Errorf("drift of a name without records: %q", drift)
	}
	if drift := r.drift(recordSet{Addresses: good.Addresses, TTL: time.Minute}, seen); len(drift) != 1 {
		t.Errorf("drift of one record with another time to live: %q", drift)
	}
	bad := recordSet{Addresses: addresses(t, "10.0.0.11", "10.0.0.12", "10.0.0.66"), TTL: time.Minute}
	text := strings.Join(r.drift(bad, seen), "\n")
	for _, want := range []string{
		"time to live is 1m0s instead of 5s", "10.0.0.66", "cp2 (10.0.0.12), which has no replica",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the drift:\n%s", want, text)
		}
	}
}

// TestStaleAddresses: the record of a machine whose API server may serve is not removed with the endpoint.
func TestStaleAddresses(t *testing.T) {
	r := testRegistrar(nil)
	notReady := errors.New("not ready")
	silent := func(targets.Target) error { return notReady }
	answers := func(targets.Target) error { return nil }
	gone := targets.Target{Name: "cp1", Address: "10.0.0.11", NotReady: notReady}
	unseen := targets.Target{Name: "cp2", Address: "10.0.0.12", Unreachable: host.ErrUnreachable, NotReady: notReady}
	serves := targets.Target{Name: "cp2", Address: "10.0.0.12", Unreachable: host.ErrUnreachable}
	for name, c := range map[string]struct {
		seen  targets.Observed
		probe func(targets.Target) error
		want  string
	}{
		"nobody serves":               {targets.Observed{"cp1": gone, "cp2": unseen}, silent, ""},
		"one that cannot be observed": {targets.Observed{"cp1": gone, "cp2": serves}, silent, "10.0.0.12"},
		"somebody else's API server":  {targets.Observed{"cp1": gone, "cp2": unseen}, answers, "10.0.0.11"},
		"no machine can be observed":  {targets.Observed{"cp2": unseen}, silent, "10.0.0.12"},
	} {
		stale, serving := r.staleAddresses(c.seen, c.probe)
		if addressList(serving) != c.want || len(stale)+len(serving) != 2 {
			t.Errorf("%s: stale are %v, and %v serve", name, stale, serving)
		}
	}
}

// TestRegistrationOf: the registration that a machine records has no secret, and reads back equal.
func TestRegistrationOf(t *testing.T) {
	r := testSpec().Registration()
	if r.Kind != endpoint.DNS || r.Port != 6443 || r.TargetPort != 6443 || strings.Contains(r.Key(), "secret") {
		t.Errorf("the registration is %s", r.Key())
	}
}

// TestForRecorded: a machine's record does not make the provider use the key of another cluster.
func TestForRecorded(t *testing.T) {
	nowhere := func(string) *host.Host { return &host.Host{} }
	e := New(targets.NewObserver(nowhere, nil), map[string]Key{"api-key": {Algorithm: "hmac-sha256", ClusterName: "prod"}})
	if err := e.ForRecorded(testSpec().Registration(), "prod").zone.signs(); err != nil {
		t.Errorf("its own cluster: %v", err)
	}
	err := e.ForRecorded(testSpec().Registration(), "test").zone.signs()
	if !errors.Is(err, errOtherKey) || !strings.Contains(nextStep(err), "taken over") {
		t.Errorf("another cluster: %v", err)
	}
	if err := testRegistrar(nil).zone.signs(); !errors.Is(err, errNoKey) {
		t.Errorf("an unknown key: %v", err)
	}
}

// TestAgentDrift: the agent as it is installed has no drift, and each change shows.
func TestAgentDrift(t *testing.T) {
	wanted := testRegistrar(nil).agentFiles(targets.Target{Name: "cp1", Address: "10.0.0.11", Port: 6443})
	installed := func() host.Facts {
		f := host.Facts{
			Commands: map[string]string{"nsupdate": "/usr/bin/nsupdate", "dig": "/usr/bin/dig", "curl": "/usr/bin/curl"},
			Files:    map[string]host.FileState{}, Units: map[string]host.UnitState{timerUnit: {Active: "active"}},
		}
		for _, file := range wanted {
			digest := sha256.Sum256(file.Content)
			f.Files[file.Path] = host.FileState{
				Mode: file.Mode, Owner: "root", Group: "root", SHA256: hex.EncodeToString(digest[:]),
			}
		}
		return f
	}
	for want, alter := range map[string]func(*host.Facts){
		"": func(*host.Facts) {},
		"its DNS agent does not add its record: " + registeredPath + " is missing": func(f *host.Facts) {
			delete(f.Files, registeredPath)
		},
		programPath + " is not there": func(f *host.Facts) { delete(f.Files, programPath) },
		configPath + ": content differs": func(f *host.Facts) {
			f.Files[configPath] = host.FileState{Mode: 0o644, Owner: "root", Group: "root", SHA256: "0"}
		},
		"bind-utils is not completely installed": func(f *host.Facts) { delete(f.Commands, "dig") },
		timerUnit + " does not run":              func(f *host.Facts) { delete(f.Units, timerUnit) },
	} {
		facts := installed()
		alter(&facts)
		if got := strings.Join(driftOf(wanted, facts), "\n"); got != want {
			t.Errorf("drift is %q, want %q", got, want)
		}
	}
}
