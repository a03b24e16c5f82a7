package machine

import (
	"cmp"
	"encoding/json"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// RollbackRecordPath exists while a change is in progress and contains what ran before it. If
// the replica does not become ready, in this run or after an interruption, that is restored. It
// contains no secrets.
const RollbackRecordPath = component.KubernetesDir + "/replica.before.json"

// RollbackRecord is what a replica ran: the definitions of its components, and the corresponding parts of the
// record. It does not contain files derived from the bundle, because it is only restored while
// the generations of the bundle are unchanged. Nor does it contain certificates and
// kubeconfigs, which are issued for the version that will run.
type RollbackRecord struct {
	Version     string            `json:"version"` // of the API server
	Port        int               `json:"port"`
	Etcd        []string          `json:"etcd"`
	Generations map[pki.Part]int  `json:"generations"`
	Definitions map[string]string `json:"definitions"` // component → its definition
	Settings    map[string]string `json:"settings"`    // path → content: see SettingFiles
	// Files are the files of the user, by name, without their contents: see KeptFilesDir.
	Files map[string]KeptFile `json:"files,omitempty"`
}

// File returns the file that stores the record.
func (b RollbackRecord) File() host.File {
	text, _ := json.MarshalIndent(b, "", "  ") // strings and numbers can always be encoded
	return host.File{
		Path: RollbackRecordPath, Content: append(text, '\n'), Mode: component.SecretMode, Owner: "root", Group: "root",
	}
}

// RollbackRecord returns what the replica runs now.
func (f Observed) RollbackRecord(generations map[pki.Part]int) RollbackRecord {
	now := RollbackRecord{
		Version: f.EffectiveVersion(release.APIServer), Port: f.Record.Port, Etcd: f.Record.Etcd,
		Generations: generations, Definitions: map[string]string{}, Settings: map[string]string{}, Files: f.keptFiles(),
	}
	for _, path := range component.SettingPaths() {
		if file, there := f.Facts.Files[path]; there {
			now.Settings[path] = file.Content
		}
	}
	for _, name := range component.Names() {
		definition := cmp.Or(f.Runtime().InheritedDefinition(f.Facts, name), f.Facts.Files[f.Runtime().Path(name)].Content)
		if definition != "" {
			now.Definitions[name] = definition
		}
	}
	return now
}
