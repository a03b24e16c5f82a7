package systemd

import (
	"path"
	"reflect"
	"strings"
	"testing"
)

// FuzzParseUnit verifies that a command of printable ASCII that was parsed and rendered is parsed
// as the same command.
func FuzzParseUnit(f *testing.F) {
	f.Add(Command{Program: "/opt/a", Flags: map[string]string{"x": "1\n2", "y": `a "b" $HOME %h ;`}}.ExecStart() + "\n")
	f.Add("[Service]\nExecStart=/opt/kube/etcd \\\n  --name='a b' \\\n  \"--x=\\\"\"\nUser=etcd\n")
	f.Add("ExecStart=\nExecStart=\"")
	f.Fuzz(func(t *testing.T, unit string) {
		c, _, err := ParseUnit(unit)
		printable := strings.IndexFunc(unit, func(r rune) bool { return r != '\n' && (r < ' ' || r > '~') }) < 0
		if err != nil || !printable {
			return
		}
		if again, _, err := ParseUnit(c.ExecStart() + "\n"); err != nil || !reflect.DeepEqual(c, again) {
			t.Errorf("%q is parsed as %q, and rendered again as %q, %v", unit, c, again, err)
		}
	})
}

// FuzzReadStartNote verifies that a note names plain absolute paths only.
func FuzzReadStartNote(f *testing.F) {
	digest := strings.Repeat("a", 64)
	f.Add(StartNoteEntry(digest, "/etc/kubernetes/pki/ca.crt"))
	f.Add(digest + "  /etc/../x\n" + digest + "  /a b\n" + digest + "  /$(id)\n")
	f.Fuzz(func(t *testing.T, text string) {
		for file, sum := range ReadStartNote(text) {
			if !path.IsAbs(file) || path.Clean(file) != file || strings.ContainsAny(file, " '\"$`;\n") || len(sum) != 64 {
				t.Errorf("%q has %q of %q", text, sum, file)
			}
		}
	})
}
