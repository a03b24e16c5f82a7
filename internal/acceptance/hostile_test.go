package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

// owned is the file that text from the compromised machine creates on any computer that
// executes it.
const owned = "/tmp/kube-owned"

// injected runs its command in any shell that evaluates it, with any quoting.
const injected = `zz';touch ` + owned + `;:'";touch ` + owned + `;:"$(touch ` + owned + `)` + "`touch " + owned + "`"

// hostileFiles corrupts the machine's files: a line in a balancer's servers file that another
// machine would execute, records, units.
const hostileFiles = `
say=$(cat /root/injected)
escape=$(printf '\033]0;owned\007\033[31m\302\233\342\200\256\377')
printf '    server %s 10.97.0.12:6443\n    server %s%s 10.97.0.12:6443\n' "$say" zz "$escape" \
  >>/etc/haproxy/kube/20-backends.cfg
mkdir -p /etc/systemd/system/etcd.service.d
: >"/etc/systemd/system/etcd.service.d/zz;touch $(echo x).conf"
: >"/etc/systemd/system/etcd.service.d/$escape.conf"
for unit in etcd kube-apiserver kube-scheduler; do
  printf '# %s %s\nEnvironment="X=%s"\n' "$say" "$escape" "$(printf %s "$say" | tr -d '"')" \
    >>/etc/systemd/system/$unit.service
done
printf '%s\n' "$say" >>/etc/keepalived/kube.conf
printf '# %s\n' "$say" >>/etc/haproxy/kube/10-endpoint.cfg
printf '%s  %s\n' "$say" "$say" >>/run/etcd/started
for file in /etc/haproxy/kube/20-backends.cfg /etc/haproxy/kube/10-endpoint.cfg /etc/systemd/system/etcd.service; do
  grep -qF kube-owned "$file" || { echo "$file does not lie" >&2 && exit 1; }
done
`

// hostileRecords corrupts the three records.
const hostileRecords = `
say=$(sed 's/["\\]/\\&/g' /root/injected)
for file in /etc/etcd/member.json /etc/kubernetes/replica.json /etc/haproxy/kube/endpoint.json; do
  SAY="$say" awk '{ gsub(/"cp3"/, "\"" ENVIRON["SAY"] "\""); gsub(/10\.97\.0\.13/, ENVIRON["SAY"]); print }' \
    "$file" >"$file.lie"
  grep -qF kube-owned "$file.lie" || { echo "$file does not lie" >&2 && exit 1; }
  cat "$file.lie" >"$file"
  rm "$file.lie"
done
`

// asked is the file on the machine that lists which files its programs read for others, and which programs have lied.
const asked = "/run/kube-asked"

// recordReads makes the programs that read files for an observation record which ones.
const recordReads = `
for program in head sha256sum; do
  cat >/usr/local/sbin/$program <<END
#!/bin/sh
echo "$program \$*" >>` + asked + `
exec /usr/bin/$program "\$@"
END
  chmod 755 /usr/local/sbin/$program
done
`

// hostilePrograms makes the programs that the provider queries lie before they do their work.
const hostilePrograms = `
for program in ip systemctl cat stat sha256sum readlink uname ss journalctl df getent id; do
  real=$(PATH=/usr/sbin:/usr/bin:/sbin:/bin command -v "$program") || { echo "there is no $program" >&2 && exit 1; }
  cat >/usr/local/sbin/$program.new <<END
#!/bin/sh
echo "lied: $program" >>` + asked + `
/bin/cat /root/injected
printf '\033]0;owned\007\n'
exec $real "\$@"
END
  chmod 755 /usr/local/sbin/$program.new
done
for file in /usr/local/sbin/*.new; do mv "$file" "${file%.new}"; done
`

// TestHostileMachine compromises one machine of a control plane: its files, its records and
// then its programs lie, during every Read, Update and Delete. Nothing from it is executed on
// another machine or on this computer, and users see plain text. The machine itself records that it was asked for each
// lie. After it is rebuilt, it joins again.
func TestHostileMachine(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	w := newStory(t, names...)
	bare := fingerprints(t, names...)
	apply(t, w)
	cp3 := shared.lab.Machine("cp3")
	onMachine(t, cp3, "cat >/root/injected <<'END'\n"+injected+"\nEND\n")
	onMachine(t, cp3, recordReads)
	programs := []string{"lied: systemctl", "lied: stat", "lied: sha256sum"}
	for i, lie := range []struct {
		name, script string
		asked        []string
	}{
		{"files", hostileFiles, []string{"/etc/systemd/system/etcd.service", "/etc/haproxy/kube/20-backends.cfg"}},
		{"records", hostileRecords, []string{"/etc/etcd/member.json", "/etc/haproxy/kube/endpoint.json"}},
		{"programs", hostilePrograms, programs},
	} {
		onMachine(t, cp3, lie.script)
		runAgainstHostile(t, lie.name, lie.asked, func() (string, error) {
			text, _, err := w.Plan(t.Context())
			return text, err
		})
		override(t, w, fmt.Sprintf(`
resource "kube_etcd_member" "this" { extra_args = each.key == "cp3" ? { max-txn-ops = "%d" } : {} }
resource "kube_control_plane_endpoint" "this" { drain_timeout = "%ds" }
`, 200+i, 5+i))
		runAgainstHostile(t, lie.name, lie.asked, func() (string, error) {
			_, err := w.Apply(t.Context(), t.Output(), "-parallelism=10")
			return "", err
		})
	}
	runAgainstHostile(t, "destroy", programs, func() (string, error) {
		_, err := w.Apply(t.Context(), t.Output(), "-destroy", `-target=kube_control_plane_replica.this["cp3"]`,
			`-target=kube_etcd_member.this["cp3"]`)
		return "", err
	})
	// Members with a pending change are changed in the apply that creates the rebuilt machine's
	// replica, which comes after all members in the graph.
	override(t, w, `resource "kube_etcd_member" "this" { extra_args = { max-txn-ops = "300" } }`)
	if err := cp3.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	trustNewHostKeys(t, w)
	apply(t, w)
	apply(t, w, "-destroy")
	expectBare(t, bare, "cp1", "cp2")
}

// runAgainstHostile runs Terraform, which may fail, and checks that the rules of TestHostileMachine hold, and that cp3
// was asked for its lies.
func runAgainstHostile(t *testing.T, what string, lies []string, run func() (string, error)) {
	t.Helper()
	cp3 := shared.lab.Machine("cp3")
	onMachine(t, cp3, ": >"+asked)
	text, err := run()
	answers := onMachine(t, cp3, "/bin/cat "+asked)
	for _, lie := range lies {
		if !strings.Contains(answers, lie) {
			t.Errorf("%s: cp3 was not asked for its lie: want %q in %.2000q", what, lie, answers)
		}
	}
	if err != nil {
		text += err.Error()
		t.Logf("%s: %.600s", what, err)
	}
	if strings.ContainsFunc(text, func(r rune) bool {
		return r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
	}) {
		t.Errorf("%s: what is shown is not plain text: %q", what, text)
	}
	if len(text) > 1<<20 {
		t.Errorf("%s: %d bytes are shown", what, len(text))
	}
	for _, name := range []string{"cp1", "cp2"} {
		if out := onMachine(t, shared.lab.Machine(name), `ls -d `+owned+`* 2>/dev/null || true`); out != "" {
			t.Fatalf("%s: the machine's words were executed on %s: %s", what, name, out)
		}
	}
	if got, _ := filepath.Glob(owned + "*"); len(got) > 0 {
		_ = os.Remove(owned)
		t.Fatalf("%s: the machine's words were executed here: %v", what, got)
	}
}
