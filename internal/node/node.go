// Package node installs what static pods need on a machine that has none of it: containerd, by the machine's package
// manager, and a kubelet that runs alone, which means without an API server. It records what it has installed, and
// removes exactly that. A machine with a kubelet of somebody else is left as it is.
package node

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/packages"
)

// Where things are on a machine.
const (
	// RecordPath says what was installed. It exists from before the first change until everything is removed.
	RecordPath       = "/etc/kube-node/installed.json"
	ConfigPath       = "/var/lib/kubelet/config.yaml"
	UnitPath         = "/etc/systemd/system/" + Unit
	DropIn           = UnitPath + ".d/90-kube-program.conf" // names the program
	containerdConfig = "/etc/containerd/config.toml"

	// Unit is that of the kubelet.
	Unit           = "kubelet.service"
	containerdUnit = "containerd.service"
	socket         = "/run/containerd/containerd.sock"
)

// DefaultSandboxImage is the image of the sandbox of a pod. It is that of kubeadm 1.32 to 1.36
// (kubeadm's constants.PauseVersion); each kubelet runs with each.
const DefaultSandboxImage = "registry.k8s.io/pause:3.10"

// Wanted is what is installed on a machine that has no kubelet.
type Wanted struct {
	Version      string // of the kubelet
	SandboxImage string // "" is DefaultSandboxImage
}

// record is the content of RecordPath.
type record struct {
	Kubelet    string `json:"kubelet"`
	Containerd bool   `json:"containerd"` // the machine had neither containerd nor a configuration of it
	Config     bool   `json:"config"`     // the machine had no configuration of a kubelet
	Complete   bool   `json:"complete"`   // everything was installed, and the kubelet ran
}

// State is a machine as far as this package is concerned.
type State struct {
	Asked    bool // the machine was asked
	Kubelet  host.UnitState
	Recorded bool // this package has begun to install a kubelet there
	record   record
	facts    host.Facts
}

// AddTo extends a query by what Read needs.
func AddTo(q *host.Query) {
	q.Contents = append(q.Contents, RecordPath)
	q.Files = append(q.Files, containerdConfig, ConfigPath)
	q.Units = append(q.Units, Unit)
	q.Script += cgroupQuestion.WithoutComments()
	*q = packages.Node().Extend(*q)
}

// Read interprets the facts of an extended query.
func Read(f host.Facts) State {
	s := State{facts: f}
	s.Kubelet, s.Asked = f.Units[Unit]
	if file, ok := f.Files[RecordPath]; ok {
		s.Recorded = true
		_ = json.Unmarshal([]byte(file.Content), &s.record) // one that cannot be read says that nothing is complete
	}
	return s
}

// Recorded reports whether the files of a machine include the record of an installation, which Remove needs.
func Recorded(files map[string]host.FileState) bool {
	_, there := files[RecordPath]
	return there
}

// Lacks reports whether the machine has no kubelet, or one whose installation by this package was interrupted.
func (s State) Lacks() bool {
	if s.Recorded {
		return !s.record.Complete
	}
	return s.Asked && s.Kubelet.Load == "not-found"
}

// Problems lists why nothing can be installed on the machine.
func (s State) Problems() []string {
	if missing := packages.Node().Missing(s.facts); len(missing) > 0 && !packages.HasManager(s.facts) {
		return []string{fmt.Sprintf("it lacks %v, and none of %v is there to install them", missing, packages.Managers())}
	}
	return nil
}

// began returns the record of an installation that begins now, or that began before.
func (s State) began(w Wanted) record {
	if s.Recorded && s.record.Kubelet != "" {
		again := s.record
		again.Kubelet = w.Version
		return again
	}
	_, containerd := s.facts.Commands["containerd"]
	_, configured := s.facts.Files[containerdConfig]
	_, config := s.facts.Files[ConfigPath]
	return record{Kubelet: w.Version, Containerd: !containerd && !configured, Config: !config}
}

func (r record) file() host.File {
	text, _ := json.MarshalIndent(r, "", "  ") // strings and booleans always encode
	return host.File{Path: RecordPath, Mode: 0o644, Content: append(text, '\n')}
}

// Artifact is the program of the kubelet.
func Artifact(version string) host.Artifact {
	return host.Artifact{Product: "kubernetes", Version: version, Name: "kubelet"}
}

// sandboxArchive is the archive of the image of sandboxes that a source's directory may have.
func sandboxArchive(version string) host.Artifact {
	return host.Artifact{Product: "kubernetes", Version: version, Name: "pause.tar"}
}

// dirs are the directories of files.
func dirs(files []host.File) []host.Dir {
	var all []host.Dir
	for _, file := range files {
		if dir := (host.Dir{Path: path.Dir(file.Path), Mode: 0o755}); !slices.Contains(all, dir) {
			all = append(all, dir)
		}
	}
	return all
}
