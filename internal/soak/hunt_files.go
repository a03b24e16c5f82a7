package soak

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/kubequorum/terraform-provider-kube/internal/secretscan"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
)

// keyFiles returns all files with private keys, with the machine in front of the path.
func (f fleet) keyFiles(ctx context.Context) ([]secretscan.KeyFile, error) {
	printed, err := f.each(ctx, secretscan.KeysScript)
	if err != nil {
		return nil, err
	}
	var all []secretscan.KeyFile
	for _, m := range f {
		files, err := secretscan.ParseKeys(printed[m.Name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
		for _, file := range files {
			file.Path = m.Name + " " + file.Path
			all = append(all, file)
		}
	}
	return all, nil
}

// keyDirs are the directories in which the provider may store private keys, and a kubelet that of its certificate.
var keyDirs = []string{"/etc/kubernetes/", "/var/lib/kubelet/pki/"}

// misplacedKey returns what is wrong with where a private key is, or "".
func misplacedKey(file secretscan.KeyFile) string {
	machine, name, _ := strings.Cut(file.Path, " ")
	if file.Exposed() {
		return fmt.Sprintf("%s: others than the owner can use %s, which has a private key: mode %o", machine, name,
			file.Mode)
	}
	for _, dir := range keyDirs {
		if strings.HasPrefix(name, dir) {
			return ""
		}
	}
	return fmt.Sprintf("%s: %s has a private key", machine, name)
}

// writtenFile is a file that the provider has written.
type writtenFile struct {
	machine, path string
	size          int
	text          string // "" if it is large or a program
}

// writtenFiles returns the files that the provider has written.
func (f fleet) writtenFiles(ctx context.Context) ([]writtenFile, error) {
	printed, err := f.each(ctx, filesScript)
	if err != nil {
		return nil, err
	}
	var all []writtenFile
	for _, m := range f {
		for line := range strings.Lines(printed[m.Name]) {
			file, err := parseWritten(m.Name, line)
			if err != nil {
				return nil, err
			}
			all = append(all, file)
		}
	}
	return all, nil
}

// parseWritten parses a line of filesScript.
func parseWritten(machine, line string) (writtenFile, error) {
	fields := strings.Fields(line)
	if len(fields) != 4 {
		return writtenFile{}, fmt.Errorf("%s: list the written files: malformed line %q", machine, line)
	}
	size, err := strconv.Atoi(fields[1])
	if err != nil {
		return writtenFile{}, fmt.Errorf("%s: list the written files: %w", machine, err)
	}
	file := writtenFile{machine: machine, path: fields[2], size: size}
	if fields[3] == "-" {
		return file, nil
	}
	text, err := base64.StdEncoding.DecodeString(fields[3])
	if err != nil {
		return writtenFile{}, fmt.Errorf("%s: list the written files: %s: %w", machine, file.path, err)
	}
	file.text = string(text)
	return file, nil
}

// truncated returns that a program has another size than in the directory that it was installed
// from, or "".
func (w writtenFile) truncated(source string) string {
	parts := strings.Split(strings.TrimPrefix(w.path, "/opt/kube/"), "/")
	if len(parts) != 3 {
		return ""
	}
	info, err := os.Stat(filepath.Join(source, parts[0]+"-v"+parts[1], parts[2]))
	if err != nil || info.Size() == int64(w.size) { // files of other origin are not in that directory
		return ""
	}
	return fmt.Sprintf("%s: %s has %d bytes, not %d", w.machine, w.path, w.size, info.Size())
}

// staged matches names of staged files: those of package host, and those of scripts for static pods.
var staged = regexp.MustCompile(`^\..*(\.kube-.*|\.kube|\.started)$`)

// marks matches empty files: that a replica is in rotation, that it is stopped, that a component returns to the
// manifest that somebody else has written.
var marks = regexp.MustCompile(`^(/etc/kube-endpoint-[a-z-]+/registered|/etc/kubernetes/replica\.paused|` +
	`/etc/.*/\.[a-z-]+\.returns)$`)

// foreign returns that a file is where the kubelet reads manifests and is none of a component, or "". The kubelet
// ignores staged files there.
func (w writtenFile) foreign() string {
	name, component := path.Base(w.path), strings.TrimSuffix(path.Base(w.path), ".yaml")
	if path.Dir(w.path) != staticpod.Directory || staged.MatchString(name) {
		return ""
	}
	var pod struct {
		Kind     string
		Metadata struct{ Name string }
	}
	if err := yaml.Unmarshal([]byte(w.text), &pod); err != nil || pod.Kind != "Pod" || pod.Metadata.Name != component ||
		component == name || !slices.Contains(controlPlaneComponents, component) {
		return fmt.Sprintf("%s: %s is not the manifest of a component", w.machine, w.path)
	}
	return ""
}

// incomplete returns why a file is not complete, or "". Staged files are not expected to be: they
// are leftovers, which clean looks for. Marks are empty.
func (w writtenFile) incomplete() string {
	name := path.Base(w.path)
	switch {
	case staged.MatchString(name), strings.HasSuffix(name, "lock"), marks.MatchString(w.path):
		return ""
	case w.size == 0:
		return fmt.Sprintf("%s: %s is empty", w.machine, w.path)
	case w.text == "":
		return ""
	}
	var err error
	switch kind := path.Ext(name); {
	case kind == ".crt", kind == ".key", kind == ".pub":
		err = wholePEM(w.text)
	case kind == ".json":
		var document any
		err = json.Unmarshal([]byte(w.text), &document)
	case kind == ".yaml", kind == ".conf" && strings.HasPrefix(w.path, "/etc/kubernetes/"): // a kubeconfig
		var document any
		err = yaml.Unmarshal([]byte(w.text), &document)
	}
	if err == nil && !strings.HasSuffix(w.text, "\n") {
		err = fmt.Errorf("its last line does not end")
	}
	if err != nil {
		return fmt.Sprintf("%s: %s is not complete: %v", w.machine, w.path, err)
	}
	return ""
}

// wholePEM returns why a text is not a sequence of PEM blocks, or nil.
func wholePEM(text string) error {
	for rest := []byte(text); len(strings.TrimSpace(string(rest))) > 0; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return fmt.Errorf("it has something else than PEM")
		}
	}
	return nil
}
