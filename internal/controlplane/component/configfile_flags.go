package component

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
)

// reloadedFlags name files that a running component reloads: the authorization and the
// authentication configuration since 1.30 (pkg/kubeapiserver/authorizer/reload.go and
// options/authentication.go), and the certificates of further server names, which the serving
// options of all components share (apiserver, pkg/server/dynamiccertificates). All other files
// are read at the start only.
var reloadedFlags = map[string][]string{
	release.APIServer:         {"authorization-config", "authentication-config", "tls-sni-cert-key"},
	release.ControllerManager: {"tls-sni-cert-key"},
	release.Scheduler:         {"tls-sni-cert-key"},
}

var fileReference = regexp.MustCompile(regexp.QuoteMeta(FilesDir) + `/[A-Za-z0-9._/@+-]*`)

// namedFiles returns the names of the files in FilesDir that a text refers to.
func namedFiles(text string) []string {
	var names []string
	for _, reference := range fileReference.FindAllString(text, -1) {
		if name, below := strings.CutPrefix(path.Clean(reference), FilesDir+"/"); below {
			names = append(names, strings.TrimRight(name, "."))
		}
	}
	return names
}

// flagsNaming returns the flags among args that name a file, sorted.
func flagsNaming(args map[string]string, name string) []string {
	var flags []string
	for _, flag := range slices.Sorted(maps.Keys(args)) {
		if slices.Contains(namedFiles(args[flag]), name) {
			flags = append(flags, flag)
		}
	}
	return flags
}

// readers returns the components that are restarted when a file changes: those whose flags name
// it. A file that only other files name is read by its owner; root's, which everyone may read,
// by the API server.
func (s Replica) readers(name string) []string {
	var components []string
	for _, c := range release.Components() {
		if len(flagsNaming(s.ExtraArgs[c], name)) > 0 {
			components = append(components, c)
		}
	}
	if len(components) > 0 {
		return components
	}
	if owner := s.configFileOwner(name); slices.Contains(release.Components(), owner) {
		return []string{owner}
	}
	return []string{release.APIServer}
}

// configInputs returns the files that a component reads at its start, sorted by path.
func (s Replica) configInputs(component string) []string {
	var paths []string
	for _, name := range slices.Sorted(maps.Keys(s.ConfigFiles)) {
		if !s.ConfigFiles[name].NoRestart && slices.Contains(s.readers(name), component) {
			paths = append(paths, ConfigFilePath(name))
		}
	}
	return paths
}

// ValidateConfigFiles returns why files cannot be placed for components with these extra
// arguments. A flag that names a missing file would keep its component from starting.
func ValidateConfigFiles(files map[string]ConfigFile, extra map[string]map[string]string) error {
	if len(files) > MaxConfigFiles {
		return fmt.Errorf("%d files: at most %d are allowed", len(files), MaxConfigFiles)
	}
	s := Replica{ConfigFiles: files, ExtraArgs: extra}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := ValidateConfigFileName(name); err != nil {
			return err
		}
		if err := files[name].validate(); err != nil {
			return fmt.Errorf("file %q: %w", name, err)
		}
		if err := s.validateReaders(name); err != nil {
			return fmt.Errorf("file %q: %w", name, err)
		}
	}
	for _, c := range release.Components() {
		if err := validateReferences(files, c, extra[c]); err != nil {
			return err
		}
	}
	return nil
}

// validateReferences returns an error if a flag names a file that is not in files.
func validateReferences(files map[string]ConfigFile, component string, args map[string]string) error {
	for _, flag := range slices.Sorted(maps.Keys(args)) {
		for _, name := range namedFiles(args[flag]) {
			if _, exists := files[name]; !exists {
				return fmt.Errorf("flag %q of %s names %s, and there is no file %q: %s is the directory of files; add it there, "+
					"or correct the flag",
					flag, component, ConfigFilePath(name), name, FilesDir)
			}
		}
	}
	return nil
}

// validateReaders returns why a component that reads a file could not read it, or would never
// notice a change of it.
func (s Replica) validateReaders(name string) error {
	f, owner := s.ConfigFiles[name], s.configFileOwner(name)
	for _, component := range s.readers(name) {
		if owner != component && f.mode()&0o004 == 0 {
			return fmt.Errorf(`%s reads it, but cannot with owner %s and mode %04o: set owner = %q, `+
				`or mode = "0644" if nothing in it is secret`, component, owner, f.mode(), component)
		}
		if !f.NoRestart {
			continue
		}
		for _, flag := range flagsNaming(s.ExtraArgs[component], name) {
			if !slices.Contains(reloadedFlags[component], flag) {
				return fmt.Errorf("restart = false, but %s reads the file of the flag %q at its start only; drop restart",
					component, flag)
			}
		}
	}
	return nil
}

// UnusedConfigFiles returns the files that neither a flag nor the content of another file
// names. It returns none if a content is unknown, because that may name any of them.
func UnusedConfigFiles(files map[string]ConfigFile, extra map[string]map[string]string) []string {
	named := map[string]bool{}
	for _, args := range extra {
		for _, value := range args {
			for _, name := range namedFiles(value) {
				named[name] = true
			}
		}
	}
	for name, f := range files {
		if f.Content == "" {
			return nil
		}
		for _, other := range namedFiles(f.Content) {
			named[other] = named[other] || other != name
		}
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(files)), func(name string) bool { return named[name] })
}

// MissingConfigFiles returns, for each file whose content names other files in FilesDir that
// are not in files, their names.
func MissingConfigFiles(files map[string]ConfigFile) map[string][]string {
	missing := map[string][]string{}
	for name, f := range files {
		for _, other := range namedFiles(f.Content) {
			if _, exists := files[other]; !exists {
				missing[name] = append(missing[name], other)
			}
		}
	}
	return missing
}

var secretKey = regexp.MustCompile(`(?m)PRIVATE KEY-----|^[\s-]*(client-key-data|token|password)[ \t]*:[ \t]*\S`)

// HoldsSecret reports whether a content appears to hold a key or a password, as the kubeconfig
// of a webhook does.
func HoldsSecret(content string) bool { return secretKey.MatchString(content) }
