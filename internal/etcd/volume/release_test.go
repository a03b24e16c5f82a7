package volume

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// releaseStandIns replace what release.sh does with devices and mounts. The volume is mounted while the file mounted
// exists; umount fails while the file busy exists, and once if the file briefly does.
const releaseStandIns host.Script = `
find_volume() { volume=/dev/sdb; }
in_place() { [ -e "$scratch/mounted" ]; }
number_of() { cat "$scratch/number"; }
mount_volume() { : >"$scratch/mounted"; }
umount() {
  [ ! -e "$scratch/busy" ] || return 32
  if [ -e "$scratch/briefly" ]; then rm "$scratch/briefly"; return 32; fi
  rm "$scratch/mounted"
}
systemctl() { :; }
sleep() { :; }
`

// TestRelease: a volume that a process has mounted after it was unmounted here, or that cannot be unmounted, is not
// released, and the next attempt finds it as it was.
func TestRelease(t *testing.T) {
	infos, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	used := strings.Fields(string(infos))[2] // of a file system that processes have mounted
	const nobody = "4095:1048575"
	for name, c := range map[string]struct {
		number, file string
		state        State
		want         string // in the message; "": it is released
		left         State  // what the volume says afterwards
	}{
		"unmounted":                {nobody, "", Released, "", Released},
		"busy for a moment":        {nobody, "briefly", Released, "", Released},
		"busy":                     {nobody, "busy", Released, "have files on it open", Member},
		"in another namespace":     {used, "", Released, "has it mounted at /", Member},
		"of a member that left":    {used, "", Removed, "has it mounted at /", Removed},
		"a member that left":       {nobody, "", Removed, "", Removed},
		"busy, a member that left": {nobody, "busy", Removed, "have files on it open", Removed},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := Spec{Device: "/dev/sdb", MountPath: filepath.Join(dir, "volume")}
			at := filepath.Join(s.MountPath, IdentityFile)
			files := map[string]string{
				"mounted": "", "number": c.number, "volume/" + IdentityFile: identity(here, Member).text(),
			}
			if c.file != "" {
				files[c.file] = ""
			}
			if err := os.Mkdir(s.MountPath, 0o755); err != nil {
				t.Fatal(err)
			}
			for file, text := range files {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			left := identity(here, c.state)
			script := s.leaving(left) + host.Assignments(map[string]string{"scratch": dir}) + releaseStandIns + releaseScript
			out, err := exec.CommandContext(t.Context(), "sh", "-euc", string(script)).CombinedOutput()
			if (err == nil) != (c.want == "") || !strings.Contains(string(out), c.want) {
				t.Errorf("%v: %s, want %q", err, out, c.want)
			}
			if _, err := os.Stat(filepath.Join(dir, "mounted")); (err == nil) != (c.want != "") {
				t.Errorf("mounted: %v", err)
			}
			text, err := os.ReadFile(at)
			if err != nil {
				t.Fatal(err)
			}
			if i, err := ReadIdentity(string(text)); err != nil || i.State != c.left {
				t.Errorf("the volume says %+v, %v, want %s", i, err, c.left)
			}
		})
	}
}
