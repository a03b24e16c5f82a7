package component

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// FilesDir is the directory of the files that users give, such as an admission configuration.
// It is separate from the provider's own files, so that a name can never collide with one.
const FilesDir = KubernetesDir + "/files"

// Limits of the files of a replica.
const (
	MaxConfigFiles    = 64
	MaxConfigFileSize = 256 << 10
)

// ConfigFile is a file that a flag of a component, or another such file, names.
type ConfigFile struct {
	Content   string      // "" if only the digest is known
	SHA256    string      // "" if the content is unknown
	Mode      fs.FileMode // 0 means SecretMode
	Owner     string      // user and group; "" means the component whose flags name the file
	NoRestart bool        // the component reloads the file by itself
	WriteOnly bool        // the content is only known while it is applied
}

// PlacedFile is a ConfigFile on a machine, with all defaults filled in.
type PlacedFile struct {
	Name   string
	Path   string
	SHA256 string
	Mode   fs.FileMode
	Owner  string
	// Content is nil if only the digest is known.
	Content []byte
}

// File returns the file to write.
func (p PlacedFile) File() host.File {
	return host.File{Path: p.Path, Content: p.Content, Mode: p.Mode, Owner: p.Owner, Group: p.Owner}
}

// PlacedFiles returns the files of s, sorted by name.
func PlacedFiles(s Replica) []PlacedFile {
	var placed []PlacedFile
	for _, name := range slices.Sorted(maps.Keys(s.ConfigFiles)) {
		f := s.ConfigFiles[name]
		p := PlacedFile{
			Name: name, Path: ConfigFilePath(name), SHA256: f.SHA256, Mode: f.mode(), Owner: s.owner(s.configFileOwner(name)),
		}
		if f.Content != "" {
			p.Content, p.SHA256 = []byte(f.Content), ContentDigest(f.Content)
		}
		placed = append(placed, p)
	}
	return placed
}

// ConfigFilePath returns the path of a file on the machine.
func ConfigFilePath(name string) string { return path.Join(FilesDir, name) }

// ContentDigest returns the digest by which contents are compared: SHA-256, in hexadecimal.
func ContentDigest(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

func (f ConfigFile) mode() fs.FileMode {
	if f.Mode == 0 {
		return SecretMode
	}
	return f.Mode
}

// configFileOwner returns the owner of a file. By default this is the first component whose
// flags name it. Without one, the API server reads nearly all files that other files name.
func (s Replica) configFileOwner(name string) string {
	if owner := s.ConfigFiles[name].Owner; owner != "" {
		return owner
	}
	for _, c := range release.Components() {
		if len(flagsNaming(s.ExtraArgs[c], name)) > 0 {
			return c
		}
	}
	return release.APIServer
}

var (
	configFileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)
	configFileMode = regexp.MustCompile(`^0[46](00|40|44)$`)
)

// ValidateConfigFileName returns why name is not the name of a file in FilesDir.
func ValidateConfigFileName(name string) error {
	if !configFileName.MatchString(name) {
		return fmt.Errorf("malformed file name %q: want letters, digits and ._-, at most 100 of them; the file is placed "+
			"in %s", name, FilesDir)
	}
	return nil
}

// ParseConfigFileMode parses a mode. Nobody but the owner may ever write a file that a control
// plane reads, and nobody executes one.
func ParseConfigFileMode(text string) (fs.FileMode, error) {
	if !configFileMode.MatchString(text) {
		return 0, fmt.Errorf("mode %q: want 0600, 0640, 0644, 0400, 0440 or 0444", text)
	}
	var mode fs.FileMode
	for _, digit := range text {
		mode = mode<<3 | fs.FileMode(digit-'0')
	}
	return mode, nil
}

// ValidateConfigFileOwner returns why owner cannot own a file.
func ValidateConfigFileOwner(owner string) error {
	if !slices.Contains(append(release.Components(), "root"), owner) {
		return fmt.Errorf("owner %q: want %s or root", owner, strings.Join(release.Components(), ", "))
	}
	return nil
}

// validate checks what a file says by itself.
func (f ConfigFile) validate() error {
	switch {
	case f.Mode != 0 && !configFileMode.MatchString(fmt.Sprintf("%04o", f.Mode)):
		return fmt.Errorf("mode %04o is not allowed", f.Mode)
	case len(f.Content) > MaxConfigFileSize:
		return fmt.Errorf("it has %d bytes, at most %d are allowed", len(f.Content), MaxConfigFileSize)
	case f.SHA256 == ContentDigest(""):
		return errors.New("it is empty")
	case strings.ContainsRune(f.Content, 0):
		return errors.New("it contains a NUL character: only text can be given")
	case f.Owner != "":
		return ValidateConfigFileOwner(f.Owner)
	}
	return nil
}
