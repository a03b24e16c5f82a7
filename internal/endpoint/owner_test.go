package endpoint

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

const ownerCluster = "0123456789abcdef0123456789abcdef"

func ownerRegistration() Registration {
	return Registration{ClusterID: ownerCluster, Address: "10.200.0.1"}
}

// TestUnitDrift: a unit is there, runs, and starts at boot.
func TestUnitDrift(t *testing.T) {
	for want, state := range map[string]host.UnitState{
		"":                 {Load: "loaded", Active: "active", Enabled: "enabled"},
		"x is not there":   {Load: "not-found", Active: "active", Enabled: "enabled"},
		"x is failed":      {Load: "loaded", Active: "failed", Enabled: "enabled"},
		"x is not enabled": {Load: "loaded", Active: "active", Enabled: "disabled"},
	} {
		if got := strings.Join(UnitDrift("x", state), "; "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestReadOwner(t *testing.T) {
	const (
		otherAddress = `{"cluster_id": "` + ownerCluster + `", "address": "api.example.org"}`
		otherType    = `{"cluster_id": "` + ownerCluster + `", "address": "10.200.0.1", "name": 1}`
	)
	r := ownerRegistration()
	if o := ReadOwner(r.Record("cp1")); o != (Owner{ownerCluster, "10.200.0.1", "cp1"}) || o.Other(r) || !o.Exists() {
		t.Errorf("%+v", o)
	}
	for _, other := range []Registration{
		{ClusterID: r.ClusterID, Address: "10.200.0.2"}, {ClusterID: strings.Repeat("f", 32), Address: r.Address},
	} {
		if !ReadOwner(r.Record("cp1")).Other(other) {
			t.Errorf("the machine belongs to %+v", other)
		}
	}
	if o := ReadOwner(""); o.Exists() || o.Other(r) {
		t.Errorf("%+v", o)
	}
	for _, text := range []string{
		"{", `{"cluster_id": "x", "address": "10.200.0.1"}`, `{"address": "$(id)"}`, "[]", otherAddress, otherType,
	} {
		if o := ReadOwner(text); !o.Other(r) || o != unreadable {
			t.Errorf("%q is read as %+v", text, o)
		}
	}
}

// TestUnlessOther: a script for one replica does not change the machine of another one, also of the same endpoint.
func TestUnlessOther(t *testing.T) {
	r := ownerRegistration()
	otherAddress, otherCluster := r, r
	otherAddress.Address, otherCluster.ClusterID = "10.200.0.2", strings.Repeat("f", 32)
	for name, c := range map[string]struct{ record, replica, want string }{
		"no record":              {"", "cp1", "go on"},
		"its machine":            {r.Record("cp1"), "cp1", "go on"},
		"of another replica":     {r.Record("one"), "cp1", "absent"},
		"whatever replica":       {r.Record("one"), "", "go on"},
		"a record without names": {strings.Replace(r.Record("one"), "\"name\": \"one\"", "\"port\": 1", 1), "cp1", "go on"},
		"another address":        {otherAddress.Record("cp1"), "cp1", "other"},
		"another cluster":        {otherCluster.Record("one"), "cp1", "other"},
	} {
		config := t.TempDir()
		if c.record != "" {
			if err := os.WriteFile(filepath.Join(config, "endpoint.json"), []byte(c.record), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		script := host.Assignments(map[string]string{
			"config": config, "cluster": r.ClusterID, "vip": r.Address, "replica": c.replica,
		}) + OwnerFunctions() + "unless_other\necho go on\n"
		out, err := exec.CommandContext(t.Context(), "/bin/sh", "-eu", "-c", string(script)).CombinedOutput()
		if got, _, _ := strings.Cut(string(out), "\n"); err != nil || got != c.want {
			t.Errorf("%s: %q, %v, want %q", name, out, err, c.want)
		}
	}
}

// TestNoDirectory: a script ends if the directory of the endpoint cannot be created, and says why.
func TestNoDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	script := host.Assignments(map[string]string{
		"config": filepath.Join(file, "kube"), "cluster": ownerCluster, "vip": "10.200.0.1", "replica": "", "record": "{}",
	}) + host.FlushFunction() + OwnerFunctions() + ClaimScript()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // a busy computer is slow
	defer cancel()
	out, err := exec.CommandContext(ctx, "/bin/sh", "-euc", string(script)).CombinedOutput()
	if ctx.Err() != nil || err == nil || !strings.Contains(string(out), file) {
		t.Errorf("%v, %v: %q", ctx.Err(), err, out)
	}
}

// FuzzReadOwner verifies that a record names an endpoint, or is unreadable.
func FuzzReadOwner(f *testing.F) {
	f.Add(ownerRegistration().Record("cp1"))
	f.Add(`{"cluster_id": "$(id)", "address": "10.0.0.1"}`)
	f.Fuzz(func(t *testing.T, text string) {
		o := ReadOwner(text)
		if _, err := netip.ParseAddr(o.Address); err != nil && o != (Owner{}) && o != unreadable {
			t.Errorf("%q is read as %+v", text, o)
		}
	})
}
