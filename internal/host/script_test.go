package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// shellMetacharacters returns values that a shell would interpret if they were not quoted.
func shellMetacharacters(marker string) []string {
	return []string{
		"", " ", "plain", "two words", "it's", `"`, `\`, `\'`, "a\nb", "a\n", "\n", "-n", "~", "~root", "*", "/etc/*", "#",
		"!", "a=b", "$HOME", "${x",
		"$(touch " + marker + ")", "`touch " + marker + "`", ";touch " + marker, "'; touch " + marker + "; '",
		"\ntouch " + marker + "\n",
		"&& touch " + marker, "| touch " + marker, "' $(touch " + marker + ") '", "\xff\xfe';touch " + marker + ";'",
		"\x1b[31m'", "\u202e'",
	}
}

// TestVars passes values to scripts in all three ways: each one arrives unchanged, and none is
// executed.
func TestVars(t *testing.T) {
	_, h := newMachine(t)
	marker := filepath.Join(t.TempDir(), "executed")
	const script = `printf '%s' "$value" | od -An -v -tx1 | tr -d ' \n'`
	for _, value := range shellMetacharacters(marker) {
		vars := map[string]string{"value": value, "a_1": value}
		ran, err := h.Run(t.Context(), Command{Script: script, Vars: vars})
		must(t, err)
		changed, err := h.Apply(t.Context(), Change{Script: script, Vars: vars})
		must(t, err)
		facts, err := h.Observe(t.Context(), Query{Script: script, Vars: vars})
		must(t, err)
		for way, got := range map[string]string{"Run": ran, "Apply": changed.Output, "Observe": facts.Output} {
			if got != hexOf(value) {
				t.Errorf("%s of %q: %s, want %s", way, value, got, hexOf(value))
			}
		}
	}
	if names := names(t, filepath.Dir(marker)); len(names) > 0 {
		t.Errorf("a value was executed: %v", names)
	}
}

func hexOf(text string) string {
	const digits = "0123456789abcdef"
	var b strings.Builder
	for i := range len(text) {
		b.WriteByte(digits[text[i]>>4])
		b.WriteByte(digits[text[i]&15])
	}
	return b.String()
}

// TestVarsRefused covers names that cannot be variables; nothing is sent to the machine.
func TestVarsRefused(t *testing.T) {
	server, h := newMachine(t)
	for name, value := range map[string]string{
		"": "x", "PATH": "x", "IFS": "x", "1a": "x", "a b": "x", "a;id": "x", "a\n": "x", "$a": "x", "ä": "x", "a": "x\x00y",
	} {
		vars := map[string]string{name: value}
		if _, err := h.Run(t.Context(), Command{Script: "true", Vars: vars}); err == nil {
			t.Errorf("Run took %q=%q", name, value)
		}
		if _, err := h.Apply(t.Context(), Change{Script: "true", Vars: vars}); err == nil {
			t.Errorf("Apply took %q=%q", name, value)
		}
		if _, err := h.Observe(t.Context(), Query{Script: "true", Vars: vars}); err == nil {
			t.Errorf("Observe took %q=%q", name, value)
		}
	}
	if lines := server.commandLines(); len(lines) > 0 {
		t.Errorf("sent %q", lines)
	}
}

// TestDiscard: paths are quoted, and temporary files of staging are still removed.
func TestDiscard(t *testing.T) {
	_, h := newMachine(t)
	dir := t.TempDir()
	for _, name := range []string{"it's", ".it's.kube-1-ab", "other", "$(x)"} {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	_, err := h.Run(t.Context(),
		Command{Script: Discard(filepath.Join(dir, "it's"), filepath.Join(dir, "$(x)"), filepath.Join(dir, "absent"))})
	must(t, err)
	if got := names(t, dir); len(got) != 1 || got[0] != "other" {
		t.Errorf("left: %v", got)
	}
}
