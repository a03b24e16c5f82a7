package machine

import (
	"bytes"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/componenttest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// TestKubeconfigsAreReadWithoutTheirKeys runs the filter of machines.
func TestKubeconfigsAreReadWithoutTheirKeys(t *testing.T) {
	if _, err := exec.LookPath("grep"); err != nil {
		testrun.Missing(t, "no grep on this computer")
	}
	s := componenttest.Stacked(t)
	k := component.Kubeconfigs(s)[0]
	file, err := k.Issue(s, cptest.Now)
	if err != nil {
		t.Fatal(err)
	}
	filter := func(text []byte) string {
		grep := exec.CommandContext(t.Context(), "grep", "-E", PlainLines)
		grep.Stdin = bytes.NewReader(text)
		out, err := grep.Output()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 {
			return "" // no line matches
		}
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	shown := filter(file.Content)
	info, err := pki.ParseKubeconfig(shown)
	if err != nil || info.Server != k.Server || strings.Contains(shown, "key") {
		t.Errorf("%v, %+v from\n%s", err, info, shown)
	}
	for _, other := range []string{
		`{"users":[{"user":{"client-key-data":"SECRET"}}]}`,
		"users: [{user: {client-key-data: SECRET}}]",
		"  user: { client-key-data: SECRET }",
		"  user:\n    token: SECRET",
		"- name: x\n  user:\n    client-key-data: SECRET\n    password: SECRET",
		"client-key-data:\n  SECRET",
	} {
		if shown := filter([]byte(other)); strings.Contains(shown, "SECRET") {
			t.Errorf("%q shows %q", other, shown)
		}
	}
}
