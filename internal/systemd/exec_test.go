package systemd

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

func TestExecStart(t *testing.T) {
	c := Command{Program: "/opt/kube/x", Flags: map[string]string{"b": "2", "a": "x y", "c": ""}}
	want := "ExecStart=/opt/kube/x \\\n  \"--a=x y\" \\\n  --b=2 \\\n  --c="
	if got := c.ExecStart(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestRepeatedFlag checks that a flag is written once for each value, in their order.
func TestRepeatedFlag(t *testing.T) {
	c := Command{Program: "/x", Flags: map[string]string{"issuer": "https://new\nhttps://old", "v": "2"}}
	if want := "ExecStart=/x \\\n  --issuer=https://new \\\n  --issuer=https://old \\\n  --v=2"; c.ExecStart() != want {
		t.Errorf("%s\nwant\n%s", c.ExecStart(), want)
	}
}

// TestCommandsAreReadBack covers each character that systemd treats specially.
func TestCommandsAreReadBack(t *testing.T) {
	c := Command{Program: "/opt/kube/x", Flags: map[string]string{
		"spaces": "a b  c", "quotes": `say "it's" \ so`, "percent": "100%n", "dollar": "$HOME ${PATH}", "empty": "",
		"repeated": "https://new\nhttps://old\na b", "equals": "a=b,c=d", "other": "a;b", "unicode": "é",
	}}
	got, rest, err := ParseUnit(Managed + "\n[Service]\nType=exec\n" + c.ExecStart() + "\nRestart=always\n")
	if err != nil || got.Program != c.Program || !maps.Equal(got.Flags, c.Flags) {
		t.Errorf("read back %+v: %v", got, err)
	}
	if want := Managed + "\n[Service]\nType=exec\nRestart=always"; rest != want {
		t.Errorf("the rest is %q, want %q", rest, want)
	}
}

func TestParseUnit(t *testing.T) {
	for _, c := range []struct{ name, unit, want string }{
		{"no command", "[Service]\nType=exec\n", "no ExecStart= line"},
		{"open quotation mark", "ExecStart=/bin/x \"--a=b\n", "read ExecStart=: a quotation mark is not closed"},
		{"nothing but a reset", "ExecStart=\n", "no ExecStart= line"},
		{"nothing but blanks", "ExecStart= \t\n", "no ExecStart= line"},
		{"a reset before the command", "ExecStart=\nExecStart=/bin/x --a=b\n", `/bin/x map["a":"b"] "ExecStart="`},
		{"single quotation marks", "ExecStart=/bin/x '--a=b c'", `/bin/x map["a":"b c"] ""`},
		{"one dash, no value", "ExecStart=/bin/x -a --b", `/bin/x map["a":"" "b":""] ""`},
		{"a second command", "ExecStart=/bin/x\nExecStart=/bin/y\n", `/bin/x map[] "ExecStart=/bin/y"`},
	} {
		command, rest, err := ParseUnit(c.unit)
		got := fmt.Sprintf("%s %q %q", command.Program, command.Flags, rest)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestDifferences(t *testing.T) {
	flags := FlagDifferences(map[string]string{"a": "1", "b": "2", "d": "4"},
		map[string]string{"b": "3", "c": "x", "d": "4"})
	if want := []string{
		`flag --a is "1", wanted not to be set`, `flag --b is "2", wanted "3"`,
		`flag --c is missing, wanted "x"`,
	}; !slices.Equal(flags, want) {
		t.Errorf("%q, want %q", flags, want)
	}
	issuers := FlagDifferences(map[string]string{"i": "a\nb"}, map[string]string{"i": "b\na"})
	if want := []string{`flag --i is "a", "b", wanted "b", "a"`}; !slices.Equal(issuers, want) {
		t.Errorf("%q, want %q", issuers, want)
	}
	if got := FlagDifferences(nil, map[string]string{"a": ""}); len(got) != 1 {
		t.Errorf("no flags found: %q", got)
	}
	lines := LineDifferences("/etc/x", "a\nb\nc", "c\nb\nd")
	if want := []string{
		`/etc/x has the line "a", which was not written by the provider`,
		`/etc/x lacks the line "d"`,
	}; !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
}

func TestReadStartNote(t *testing.T) {
	digest := "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	note := StartNoteEntry(digest, "/etc/a") + StartNoteEntry("0123", "/etc/b") + StartNoteEntry(digest,
		"/etc/../c") + StartNoteEntry(digest, "/etc/$(d)") + "\x1b[31m\n"
	if got := ReadStartNote(note); !maps.Equal(got, map[string]string{"/etc/a": digest}) {
		t.Errorf("%q", got)
	}
}
