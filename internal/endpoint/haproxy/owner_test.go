package haproxy

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// ownerCases are what machines can have, and whether a host may be had by an
// endpoint of testCluster at testVIP.
var ownerCases = map[string]struct {
	record, config string
	whose          string
	wantErr        string // whose it is
}{
	"nothing": {whose: "none"},
	"its own": {record: recordText(ownerSpec(testCluster, testVIP)), whose: "ours"},
	"another cluster's": {
		record: recordText(ownerSpec(otherCluster, "10.0.0.200")), whose: "other",
		wantErr: "the endpoint 10.0.0.200 of cluster test (id " + otherCluster + ")",
	},
	"another cluster's, of the same address": {
		record: recordText(ownerSpec(otherCluster, testVIP)), whose: "other",
		wantErr: "the endpoint 10.0.0.100 of cluster test (id " + otherCluster + ")",
	},
	"its own, of another address": {
		record: recordText(ownerSpec(testCluster, "10.0.0.200")), whose: "other",
		wantErr: "the endpoint 10.0.0.200 of cluster test (id " + testCluster + ")",
	},
	"an earlier version's": {record: earlierRecord, config: renderHAProxy(ownerSpec("", testVIP)), whose: "ours"},
	"an earlier version's, of another address": {
		record: earlierRecord, config: renderHAProxy(ownerSpec("", "10.0.0.200")), whose: "other",
		wantErr: "the endpoint 10.0.0.200",
	},
	"an earlier version's, IPv6": {
		config: renderHAProxy(ownerSpec("", "fd00::100")), whose: "other",
		wantErr: "the endpoint fd00::100",
	},
	"an earlier version's without a record": {config: renderHAProxy(ownerSpec("", testVIP)), whose: "ours"},
	"a record that is none":                 {record: "\x00{", whose: "none"},
	"a record that is none, beside its own": {
		record: "[]", config: renderHAProxy(ownerSpec("", testVIP)),
		whose: "ours",
	},
	"a record that is none, beside another's": {
		record: "[]", config: renderHAProxy(ownerSpec("", "10.0.0.200")),
		whose: "other", wantErr: "the endpoint 10.0.0.200",
	},
	"a configuration that says nothing of address": {config: "global\n", whose: "none"},
}

const earlierRecord = "{\n  \"hosts\": {\n    \"cp1\": \"10.0.0.11\"\n  },\n  \"interface\": \"\",\n  " +
	"\"virtual_router_id\": 0,\n  \"install_packages\": true,\n  \"drain_timeout\": 0\n}\n"

func ownerSpec(cluster, address string) Spec {
	s := specOf(address, map[string]string{"cp1": "10.0.0.11"})
	s.ClusterID = cluster
	return s
}

// TestOwner: what Go makes of a machine's files.
func TestOwner(t *testing.T) {
	for name, c := range ownerCases {
		b := newBalancer(ownerSpec(testCluster, testVIP), host.Facts{Files: map[string]host.FileState{
			recordPath: {Content: c.record}, endpointPath: {Content: c.config},
		}}, "10.0.0.11")
		if (b.otherEndpoint != "") != (c.whose == "other") || b.otherEndpoint != "" &&
			b.otherEndpoint != "the machine belongs to "+c.wantErr {
			t.Errorf("%s: %q", name, b.otherEndpoint)
		}
	}
}

// TestOwnerScript: what the scripts make of the same files, under their lock.
func TestOwnerScript(t *testing.T) {
	for name, c := range ownerCases {
		dir := t.TempDir()
		for file, text := range map[string]string{"endpoint.json": c.record, "10-endpoint.cfg": c.config} {
			if text != "" {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		script := strings.Replace(string(withOwner("")), configDir, dir, 1) + "lock\nwhose\nunless_other\necho mine\n"
		vars := host.Assignments(ownerSpec(testCluster, testVIP).ownerVars())
		output, err := exec.Command("sh", "-euc", string(vars)+script).CombinedOutput()
		want := c.whose + "\nmine\n"
		if c.whose == "other" {
			want = "other\nother\n" + c.record
		}
		if err != nil || string(output) != want {
			t.Errorf("%s: %q, wanted %q (%v)", name, output, want, err)
		}
	}
}

// TestNoDirectory: a claim and a removal end if the directory of the endpoint cannot be created, and say why.
func TestNoDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]host.Script{"claim": claimScript, "clean": cleanScript} {
		first, _, _ := strings.Cut(string(script), "unless_other") // nothing after it is run
		text := strings.Replace(string(withOwner("")), configDir, filepath.Join(file, "kube"), 1) + first + "echo passed\n"
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // a busy computer is slow
		out, err := exec.CommandContext(ctx, "sh", "-euc", text).CombinedOutput()
		if ctx.Err() != nil || err == nil || !strings.Contains(string(out), file) {
			t.Errorf("%s: %v, %v: %q", name, ctx.Err(), err, out)
		}
		cancel()
	}
}

// TestReadRecord: a record says what a record can say, or nothing.
func TestReadRecord(t *testing.T) {
	ownRecord := recordText(ownerSpec(testCluster, testVIP))
	if readRecord(ownRecord) == nil || readRecord(earlierRecord) == nil {
		t.Error("a record was refused")
	}
	for what, change := range map[string][2]string{
		"an id that is none":        {testCluster, testCluster + "';reboot;'"},
		"a name that is none":       {`"test"`, `"te\u001bst"`},
		"an address that is none":   {testVIP, "$(reboot)"},
		"a host's name":             {`"cp1"`, `"cp1;reboot"`},
		"a host's address":          {"10.0.0.11", "cp1.example.com"},
		"an interface that is none": {`"interface": ""`, `"interface": "eth0;reboot"`},
		"a router id":               {`"virtual_router_id": 0`, `"virtual_router_id": 256`},
		"a negative timeout":        {`"drain_timeout": 0`, `"drain_timeout": -1`},
	} {
		changed := strings.Replace(ownRecord, change[0], change[1], 1)
		if changed == ownRecord || readRecord(changed) != nil {
			t.Errorf("%s: taken as a record:\n%s", what, changed)
		}
	}
}
