package machine

import (
	"errors"
	"io/fs"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
)

// KeptFilesDir contains the files of the user from before a change, named by their digests.
// They may hold keys, so they stay on the machine: a rollback copies them there.
const KeptFilesDir = component.KubernetesDir + "/replica.before"

// KeptFile is a file of the user as a rollback restores it.
type KeptFile struct {
	SHA256    string      `json:"sha256"`
	Mode      fs.FileMode `json:"mode"`
	Owner     string      `json:"owner"`
	NoRestart bool        `json:"no_restart,omitempty"`
	WriteOnly bool        `json:"write_only,omitempty"`
}

// keptFiles returns the files of the user that the machine has.
func (f Observed) keptFiles() map[string]KeptFile {
	kept := map[string]KeptFile{}
	for name, written := range f.Written {
		at := component.ConfigFilePath(name)
		state, there := f.Facts.Files[at]
		if !there || state.SHA256 == "" {
			continue
		}
		owner := state.Owner
		if component.ValidateConfigFileOwner(owner) != nil { // changed by hand
			owner = "root"
		}
		kept[name] = KeptFile{
			SHA256: state.SHA256, Mode: state.Mode.Perm(), Owner: owner, NoRestart: !f.noted(at), WriteOnly: written.WriteOnly,
		}
	}
	return kept
}

// noted reports whether a component has read a file at its start.
func (f Observed) noted(at string) bool {
	for _, name := range release.Components() {
		if _, read := f.Runtime().StartNote(f.Facts, name)[at]; read {
			return true
		}
	}
	return false
}

// checkKeptFiles validates the files in a rollback record.
func checkKeptFiles(files map[string]KeptFile) error {
	for name, k := range files {
		if err := errors.Join(component.ValidateConfigFileName(name),
			component.ValidateConfigFileOwner(k.Owner)); err != nil {
			return err
		}
		if !digestForm.MatchString(k.SHA256) || k.Mode&^fs.ModePerm != 0 {
			return errors.New("malformed digest or mode")
		}
	}
	return nil
}

// ConfigFiles returns the files of the record as a Replica has them.
func (b RollbackRecord) ConfigFiles() map[string]component.ConfigFile {
	files := map[string]component.ConfigFile{}
	for name, k := range b.Files {
		files[name] = component.ConfigFile{
			SHA256: k.SHA256, Mode: k.Mode, Owner: k.Owner, NoRestart: k.NoRestart, WriteOnly: k.WriteOnly,
		}
	}
	return files
}
