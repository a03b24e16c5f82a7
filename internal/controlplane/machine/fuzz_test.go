package machine

import (
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
)

// FuzzReadWrittenFiles verifies that a list of files names files of the directory only.
func FuzzReadWrittenFiles(f *testing.F) {
	f.Add(`{"files": {"admission.yaml": {"write_only": true}}}`)
	f.Add(`{"files": {"../../etc/shadow": {}, "a": {"write_only": "x"}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		for name := range ReadWrittenFiles(text) {
			if err := component.ValidateConfigFileName(name); err != nil {
				t.Errorf("%q: %v", text, err)
			}
		}
	})
}
