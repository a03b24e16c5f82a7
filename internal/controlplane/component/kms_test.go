package component

import (
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
)

func TestValidateSocket(t *testing.T) {
	for endpoint, want := range map[string]string{
		"unix:///run/kms.sock":            "",
		"unix:///var/run/kms/plugin.sock": "",
		"unix:///opt/kms/tmp/x.sock":      "",
		"unix://@kms":                     "",
		"unix://run/kms.sock":             "not the URL of a Unix socket",
		"tcp://127.0.0.1:1":               "not the URL of a Unix socket",
		"":                                "not the URL of a Unix socket",
		"unix:///run/kms.sock\nclosed /x": "not the URL of a Unix socket",
	} {
		if err := ValidateSocket(endpoint); (want == "") != (err == nil) || !strings.Contains(cptest.Text(err), want) {
			t.Errorf("%q: %v, want %q", endpoint, err, want)
		}
	}
}

func TestValidateGroup(t *testing.T) {
	for name, good := range map[string]bool{
		"kms": true, "_kms-1": true, "Kms.Plugins": true, "": false, "1kms": false, "a b": false, "a\nb": false,
		"a;b": false, "$(id)": false,
	} {
		if err := ValidateGroup(name); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
	}
}
