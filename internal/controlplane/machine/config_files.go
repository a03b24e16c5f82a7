package machine

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// FilesListPath lists the files in component.FilesDir that the provider has written or is
// about to write. It is written before them, so that an interrupted change leaves no file that
// nothing removes. Once a change has removed files, their names are taken out. Files that are
// not listed are left alone.
const FilesListPath = component.KubernetesDir + "/replica.files.json"

// WrittenFiles is the content of FilesListPath. It contains no secrets.
type WrittenFiles struct {
	Files map[string]WrittenFile `json:"files"` // by name
}

// WrittenFile is a file that the provider has written.
type WrittenFile struct {
	WriteOnly bool `json:"write_only"` // an import must not read the content
}

// ReadWrittenFiles parses the list. One that cannot be parsed counts as missing.
func ReadWrittenFiles(text string) map[string]WrittenFile {
	var list WrittenFiles
	if text == "" || readJSON(text, &list) != nil {
		return nil
	}
	for name := range list.Files {
		if component.ValidateConfigFileName(name) != nil {
			return nil
		}
	}
	return list.Files
}

// ExactFilesList returns the list for s once nothing remains to be removed, or nil if the list
// that is written before a change is already exact.
func ExactFilesList(s component.Replica, f Observed) *WrittenFiles {
	exact := NewWrittenFiles(s, Observed{})
	if len(NewWrittenFiles(s, f).Files) == len(exact.Files) {
		return nil
	}
	return &exact
}

// NewWrittenFiles returns the list for s: its files, and those on the machine that remain to be
// removed.
func NewWrittenFiles(s component.Replica, f Observed) WrittenFiles {
	list := WrittenFiles{Files: map[string]WrittenFile{}}
	for _, name := range f.UnwantedConfigFiles(s) {
		list.Files[name] = f.Written[name]
	}
	for name, file := range s.ConfigFiles {
		list.Files[name] = WrittenFile{WriteOnly: file.WriteOnly}
	}
	return list
}

// File returns the file to write.
func (w WrittenFiles) File() host.File {
	text, _ := json.MarshalIndent(w, "", "  ") // names and booleans always encode
	return host.File{
		Path: FilesListPath, Content: append(text, '\n'), Mode: component.SecretMode, Owner: "root", Group: "root",
	}
}

// UnwantedConfigFiles returns the names of the files that the provider has written and s does
// not have, sorted.
func (f Observed) UnwantedConfigFiles(s component.Replica) []string {
	var names []string
	for name := range f.Written {
		if _, wanted := s.ConfigFiles[name]; !wanted && slices.Contains(f.Facts.Dirs[component.FilesDir], name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// writtenPaths returns the paths of the files that the provider has written.
func (f Observed) writtenPaths() []string {
	var paths []string
	for _, name := range slices.Sorted(maps.Keys(f.Written)) {
		paths = append(paths, component.ConfigFilePath(name))
	}
	return paths
}

// configFilesQuery adds the files of s to a query.
func configFilesQuery(q *host.Query, s component.Replica) {
	q.Contents = append(q.Contents, FilesListPath)
	q.Dirs = append(q.Dirs, component.FilesDir)
	for _, p := range component.PlacedFiles(s) {
		q.Files = append(q.Files, p.Path)
	}
}

//go:embed config_files_list.sh
var listConfigFiles host.Script

// configFilesScript prints the mode, owner and digest of every file in the directory, including
// those that are no longer wanted.
func configFilesScript() host.Script {
	return `echo "` + SectionHeading + component.FilesDir + `"
` + host.Assignments(map[string]string{"files_dir": component.FilesDir}) + listConfigFiles
}

var configFileLine = regexp.MustCompile(`^([0-7]{3,4}) ([A-Za-z0-9_-]{1,32}) ([A-Za-z0-9_-]{1,32}) ` +
	`([0-9a-f]{64})  (\S+)$`)

// addConfigFiles parses the output of configFilesScript. Lines of another form are skipped.
func addConfigFiles(files map[string]host.FileState, output string) {
	for line := range strings.Lines(output) {
		part := configFileLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if part == nil || component.ValidateConfigFileName(part[5]) != nil {
			continue
		}
		at := component.ConfigFilePath(part[5])
		if _, known := files[at]; known {
			continue
		}
		mode, _ := strconv.ParseUint(part[1], 8, 16) // the expression admits octal digits only
		files[at] = host.FileState{Mode: fs.FileMode(mode), Owner: part[2], Group: part[3], SHA256: part[4]}
	}
}

// ConfigFileProblem describes how a file of the user differs on the machine, or "". It never
// quotes the content.
func ConfigFileProblem(files map[string]host.FileState, want component.PlacedFile) string {
	state, ok := files[want.Path]
	if !ok {
		return "is missing"
	}
	var problems []string
	if state.SHA256 != want.SHA256 {
		problems = append(problems, "has different content")
	}
	if mode := state.Mode.Perm(); mode != want.Mode {
		problems = append(problems, fmt.Sprintf("has mode %04o, wanted %04o", mode, want.Mode))
	}
	if state.Owner != want.Owner || state.Group != want.Owner {
		problems = append(problems, fmt.Sprintf("belongs to %s:%s, wanted %s:%s",
			state.Owner, state.Group, want.Owner, want.Owner))
	}
	return strings.Join(problems, " and ")
}

// ConfigFilesDrift describes how the files of the user differ on the machine.
func ConfigFilesDrift(s component.Replica, f Observed) []string {
	var problems []string
	for _, p := range component.PlacedFiles(s) {
		if text := ConfigFileProblem(f.Facts.Files, p); text != "" {
			problems = append(problems, p.Path+" "+text)
		}
		if _, listed := f.Written[p.Name]; !listed {
			problems = append(problems, FilesListPath+" does not name "+p.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Written)) {
		if _, wanted := s.ConfigFiles[name]; wanted {
			continue
		}
		if slices.Contains(f.Facts.Dirs[component.FilesDir], name) {
			problems = append(problems, component.ConfigFilePath(name)+" exists, but is not wanted")
		} else {
			problems = append(problems, FilesListPath+" names "+name+", which is not wanted")
		}
	}
	return problems
}

// AddConfigDigests sets the digests that the files of the user will have.
func AddConfigDigests(s component.Replica, after map[string]string) {
	for _, p := range component.PlacedFiles(s) {
		after[p.Path] = p.SHA256
	}
}

// StaleConfigFile returns a file of the user that a component was started with in another form
// than the machine has now, or "". What such a component runs cannot be restored.
func (f Observed) StaleConfigFile() string {
	for _, name := range release.Components() {
		for file, sum := range f.Runtime().StartNote(f.Facts, name) {
			if path.Dir(file) == component.FilesDir && f.Facts.Files[file].SHA256 != sum {
				return file
			}
		}
	}
	return ""
}
