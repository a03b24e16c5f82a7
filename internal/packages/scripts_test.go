package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// TestPackagesOfATransaction: of what rpm's machines have afterwards, only what came
// in the transaction that brought the endpoint's packages is the endpoint's: not
// what others installed before or after it, nor what it only brought up to date.
func TestPackagesOfATransaction(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	for _, name := range []string{
		"sh", "awk", "cat", "comm", "flock", "grep", "mkdir", "mv", "rm", "sed", "sort", "tail",
		"xargs",
	} {
		at, err := exec.LookPath(name)
		if err != nil {
			testrun.Missing(t, err)
		}
		if err := os.Symlink(at, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	database := filepath.Join(dir, "database") // transaction and name
	for name, text := range map[string]string{
		"systemctl": ":", "sync": ":",
		// Others install auditd and falco meanwhile, before and after the lock is had.
		"dnf": `printf '200 auditd\n' >>` + database + `
sed -i 's/^100 pcre/300 pcre/' ` + database + `
printf '300 haproxy\n300 keepalived\n300 net-snmp-libs\n400 falco\n' >>` + database,
		"rpm": `case "$1" in
-qa) case "$3" in *TID*) cat ` + database + ` ;; *) sed 's/.* //' ` + database + ` ;; esac ;;
-q) shift 3; for name; do sed -n "s/ $name\$//p" ` + database +
			` | grep . || { echo "package $name is not installed"; }; done ;;
esac`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!"+filepath.Join(dir, "sh")+"\n"+text+"\n"),
			0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(database, []byte("100 bash\n100 pcre\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(script host.Script) string {
		cmd := exec.Command(filepath.Join(dir, "sh"), "-euc",
			"packages_dir="+state+" packages='haproxy keepalived' units='haproxy.service keepalived.service'\n"+
				string(host.FlushFunction()+transactionsScript+script))
		cmd.Env = []string{"PATH=" + dir, "LC_ALL=C"}
		output, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		return string(output)
	}
	run(installScript)
	const want = "haproxy\nkeepalived\nnet-snmp-libs\n"
	if got := run("brought"); got != want {
		t.Errorf("brought %q, wanted %q", got, want)
	}
	if left, err := os.ReadDir(state); err != nil || len(left) != 2 { // installed, lock
		t.Errorf("left: %v, %v", left, err)
	}
	// An interrupted run has recorded the units of what it installs, and those of others do not appear.
	log := filepath.Join(dir, "units")
	for path, text := range map[string]string{
		filepath.Join(dir, "systemctl"):    "#!" + filepath.Join(dir, "sh") + "\necho \"$@\" >>" + log + "\n",
		filepath.Join(state, "installing"): "haproxy.service\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	run("units=\n" + installScript)
	const masked = "mask --runtime --quiet haproxy.service\nunmask --runtime --quiet haproxy.service\n" +
		"disable --quiet haproxy.service\n"
	if text, err := os.ReadFile(log); err != nil || string(text) != masked {
		t.Errorf("units: %q, %v, wanted %q", text, err, masked)
	}
	// Cut off before it was written down: the transaction still says so.
	for name, text := range map[string]string{
		"wanted": "haproxy\nkeepalived\n", "before": "bash\npcre\n",
		"installed": "",
	} {
		if err := os.WriteFile(filepath.Join(state, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := run("brought"); got != want {
		t.Errorf("after a cut: brought %q, wanted %q", got, want)
	}
}

// TestPackagesOfDpkg: dpkg's own log tells what was new.
func TestPackagesOfDpkg(t *testing.T) {
	if _, err := exec.LookPath("dpkg"); err != nil {
		testrun.Missing(t, err)
	}
	state := t.TempDir()
	log := `2026-01-05 10:00:00 startup archives unpack
2026-01-05 10:00:00 install liblua5.3-0:amd64 <none> 5.3.6-2
2026-01-05 10:00:00 status half-installed liblua5.3-0:amd64 5.3.6-2
2026-01-05 10:00:01 upgrade libssl3:amd64 3.0.1 3.0.2
2026-01-05 10:00:02 install haproxy:amd64 <none> 2.6.12-1
2026-01-05 10:00:03 configure haproxy:amd64 2.6.12-1 <none>
`
	if err := os.WriteFile(filepath.Join(state, "dpkg.log"), []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	script := "packages_dir=" + state + "\n" + string(transactionsScript) + "brought"
	output, err := exec.Command("sh", "-euc", script).CombinedOutput()
	if got := strings.Fields(string(output)); err != nil || strings.Join(got, " ") != "haproxy liblua5.3-0" {
		t.Errorf("%q, %v", output, err)
	}
}
