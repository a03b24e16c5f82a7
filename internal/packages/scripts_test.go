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

// machine is a directory of programs, and one for the record of what was installed.
type machine struct {
	*testing.T
	dir, state string
}

// newMachine returns a machine with tools of this one, and fake programs, which find its directory in $machine.
func newMachine(t *testing.T, tools []string, fake map[string]string) machine {
	t.Helper()
	m := machine{t, t.TempDir(), t.TempDir()}
	for _, name := range append([]string{
		"sh", "awk", "cat", "comm", "flock", "grep", "mkdir", "mv", "rm", "sed", "sort", "tail", "xargs",
	}, tools...) {
		at, err := exec.LookPath(name)
		if err != nil {
			testrun.Missing(t, err)
		}
		if err := os.Symlink(at, filepath.Join(m.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range fake {
		m.write(m.dir, name, "#!"+filepath.Join(m.dir, "sh")+"\n"+text+"\n")
	}
	return m
}

func (m machine) write(dir, name, text string) {
	m.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
		m.Fatal(err)
	}
}

func (m machine) read(name string) string {
	m.Helper()
	text, err := os.ReadFile(filepath.Join(m.dir, name))
	if err != nil {
		m.Fatal(err)
	}
	return string(text)
}

func (m machine) run(script host.Script) string {
	m.Helper()
	output, err := m.command(script).CombinedOutput()
	if err != nil {
		m.Fatalf("%v\n%s", err, output)
	}
	return string(output)
}

func (m machine) command(script host.Script) *exec.Cmd {
	cmd := exec.Command(filepath.Join(m.dir, "sh"), "-euc",
		"packages_dir="+m.state+" packages='haproxy keepalived' units='haproxy.service keepalived.service' packages_kept=\n"+
			string(host.FlushFunction()+transactionsScript+script))
	cmd.Env = []string{"PATH=" + m.dir, "LC_ALL=C", "machine=" + m.dir}
	return cmd
}

// TestPackagesOfATransaction: of what rpm's machines have afterwards, only what came
// in the transaction that brought the endpoint's packages is the endpoint's: not
// what others installed before or after it, nor what it only brought up to date.
func TestPackagesOfATransaction(t *testing.T) {
	m := newMachine(t, nil, map[string]string{
		"systemctl": ":", "sync": ":",
		// Others install auditd and falco meanwhile, before and after the lock is had.
		"dnf": `printf '200 auditd\n' >>$machine/database
sed -i 's/^100 pcre/300 pcre/' $machine/database
printf '300 haproxy\n300 keepalived\n300 net-snmp-libs\n400 falco\n' >>$machine/database`,
		"rpm": `case "$1" in
-qa) case "$3" in *TID*) cat $machine/database ;; *) sed 's/.* //' $machine/database ;; esac ;;
-q) shift 3; for name; do sed -n "s/ $name\$//p" $machine/database |
  grep . || { echo "package $name is not installed"; }; done ;;
esac`,
	})
	m.write(m.dir, "database", "100 bash\n100 pcre\n") // transaction and name
	m.run(installScript)
	const want = "haproxy\nkeepalived\nnet-snmp-libs\n"
	if got := m.run("brought"); got != want {
		t.Errorf("brought %q, wanted %q", got, want)
	}
	if left, err := os.ReadDir(m.state); err != nil || len(left) != 2 { // installed, lock
		t.Errorf("left: %v, %v", left, err)
	}
	// An interrupted run has recorded the units of what it installs, and those of others do not appear. A reboot has
	// ended its masks.
	m.write(m.dir, "systemctl", "#!"+filepath.Join(m.dir, "sh")+"\necho \"$@\" >>$machine/units\n")
	m.write(m.state, "installing", "haproxy.service\n")
	m.write(m.state, "wanted", "haproxy\n")
	m.write(m.state, "before", "bash\npcre\n")
	m.write(m.state, "boot", "the former\n")
	m.run("units=\n" + installScript)
	const masked = "mask --runtime --quiet haproxy.service\nunmask --runtime --quiet haproxy.service\n" +
		"disable --quiet haproxy.service\n"
	if text := m.read("units"); text != masked+"stop --quiet haproxy.service\n" {
		t.Errorf("units: %q, wanted %q and a stop", text, masked)
	}
	// One that ends at once stops nothing.
	m.write(m.dir, "units", "")
	m.run("units=haproxy.service\n" + installScript)
	if text := m.read("units"); text != masked {
		t.Errorf("units: %q, wanted %q", text, masked)
	}
	// Cut off before it was written down: the transaction still says so.
	m.write(m.state, "wanted", "haproxy\nkeepalived\n")
	m.write(m.state, "before", "bash\npcre\n")
	m.write(m.state, "installed", "")
	if got := m.run("brought"); got != want {
		t.Errorf("after a cut: brought %q, wanted %q", got, want)
	}
}

// aptMachine is a machine with dpkg, whose apt-get loses power once everything is unpacked if $machine/cut exists.
// dpkg's status is then on the disk, and its log is empty.
func aptMachine(t *testing.T) machine {
	t.Helper()
	m := newMachine(t, []string{"uniq", "date", "sleep"}, map[string]string{
		"systemctl": ":", "sync": ":",
		"apt-get": `for word; do case "$word" in *--log=*) log=${word##*--log=} ;; esac; done
add() {
  ! grep -q "installed $1\$" $machine/status || return 0
  echo "$2" >>$machine/status
  echo "2026-01-05 10:00:00 install $1:amd64 <none> 1" >>$log
}
case "$*" in *" install haproxy"*) ;; *) exit 0 ;; esac
add haproxy "half-installed haproxy"
add keepalived "installed keepalived"
add liblua "installed liblua"
echo liblua:amd64 >>$machine/auto
[ ! -e $machine/cut ] || { : >$log; exit 1; }
sed -i 's/^half-//' $machine/status`,
		"apt-mark": `cat $machine/auto`,
		"apt-cache": `shift 3
echo "$*" >>$machine/asked
printf '%s\n' haproxy '  Depends: libc' ' |Depends: <lua-virtual>' '    liblua' keepalived '  Depends: libc' libc`,
		"dpkg-query": `case "$*" in *Eflag*) ;; *) cat $machine/status ;; esac`,
		"dpkg": `case "$*" in *--purge*) ;; *) exit 0 ;; esac
shift 2
echo "$@" >$machine/purged
[ ! -e $machine/cut ] || { sed -i 's/^installed haproxy/config-files haproxy/' $machine/status; kill -9 $PPID; }`,
	})
	m.write(m.dir, "status", "installed libc\nconfig-files liblua\nnot-installed gone\n")
	m.write(m.dir, "auto", "libc\n")
	m.write(m.dir, "cut", "")
	if err := m.command(installScript).Run(); err == nil {
		t.Fatal("it was not cut off")
	}
	if text, err := os.ReadFile(filepath.Join(m.state, "dpkg.log")); err != nil || len(text) > 0 {
		t.Fatalf("the log is %q, %v", text, err)
	}
	m.write(m.state, "boot", "the former\n")
	// Meanwhile others install sshguard, which depends on nft, and with which apt recommends whois.
	m.write(m.dir, "status", m.read("status")+"installed sshguard\ninstalled nft\ninstalled whois\n")
	m.write(m.dir, "auto", m.read("auto")+"nft\nwhois\n")
	return m
}

// TestPackagesWithoutLog: after a power cut, dpkg's status has what was installed, and its log may be empty. What
// others have installed meanwhile is theirs.
func TestPackagesWithoutLog(t *testing.T) {
	const want = "haproxy\nkeepalived\nliblua\n"
	purged := strings.ReplaceAll(want, "\n", " ")
	t.Run("continued", func(t *testing.T) {
		m := aptMachine(t)
		if err := os.Remove(filepath.Join(m.dir, "cut")); err != nil {
			t.Fatal(err)
		}
		m.run(installScript)
		if got := m.run("brought"); got != want {
			t.Errorf("brought %q, want %q", got, want)
		}
		if left, err := os.ReadDir(m.state); err != nil || len(left) != 2 { // installed, lock
			t.Errorf("left: %v, %v", left, err)
		}
	})
	t.Run("removed", func(t *testing.T) {
		m := aptMachine(t)
		if err := m.command(removeScript + "remove_packages").Run(); err == nil {
			t.Fatal("it was not cut off")
		}
		// haproxy's configuration is left, of which the status alone does not say whose it is.
		m.write(m.dir, "purged", "")
		if err := os.Remove(filepath.Join(m.dir, "cut")); err != nil {
			t.Fatal(err)
		}
		m.run(removeScript + "remove_packages")
		if got := m.read("purged"); got != strings.TrimSpace(purged)+"\n" {
			t.Errorf("purged %q, want %q", got, purged)
		}
		if _, err := os.Stat(m.state); !os.IsNotExist(err) {
			t.Errorf("the record is left: %v", err)
		}
	})
}

// TestPackagesAfterAFailure: what the user installs after an installation that has failed is the user's, because dpkg's
// log is complete as long as the machine is not booted.
func TestPackagesAfterAFailure(t *testing.T) {
	m := aptMachine(t)
	if err := os.Remove(filepath.Join(m.dir, "cut")); err != nil {
		t.Fatal(err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	m.write(m.state, "boot", string(boot))
	m.write(m.dir, "systemctl", "#!"+filepath.Join(m.dir, "sh")+"\necho \"$@\" >>$machine/units\n")
	m.write(m.dir, "status", strings.ReplaceAll(m.read("status"), "half-", ""))
	if got := m.run("interrupted=yes\nbrought"); got != "" {
		t.Errorf("brought %q, want nothing", got)
	}
	m.run("units=haproxy.service\n" + installScript)
	if units := m.read("units"); strings.Contains(units, "stop") {
		t.Errorf("units: %q, want that the user's is not stopped", units)
	}
	m.run(removeScript + "remove_packages")
	if purged, err := os.ReadFile(filepath.Join(m.dir, "purged")); err == nil {
		t.Errorf("purged %q", purged)
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
