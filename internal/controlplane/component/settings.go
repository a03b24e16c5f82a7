package component

import (
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// SettingPaths returns all files that a replica's own settings may create. They contain no
// secrets.
func SettingPaths() []string {
	return []string{AuditPolicyPath, AuthenticationConfigPath, EgressSelectorPath}
}

// SettingFiles returns the files whose content depends on the replica's settings and not on the
// bundle. Only the API server reads them, at start. It could reload its authentication
// configuration, but it would keep the old one when the new one is invalid, and the error would
// stay hidden until the next start. A rollback restores these files too.
func SettingFiles(s Replica) []host.File {
	if s.Previous != nil {
		return s.Previous.files()
	}
	var files []host.File
	if s.WritesPolicy() {
		files = append(files, settingFile(AuditPolicyPath, s.PolicyText()))
	}
	if s.writesAuthentication() {
		files = append(files, settingFile(AuthenticationConfigPath, s.AuthenticationText()))
	}
	if s.hasKonnectivity() {
		files = append(files, settingFile(EgressSelectorPath, egressSelectorText))
	}
	return files
}

func settingFile(path, content string) host.File {
	return host.File{Path: path, Content: []byte(content), Mode: PublicMode, Owner: "root", Group: "root"}
}

// files returns the setting files from before the change.
func (p Previous) files() []host.File {
	var files []host.File
	for _, path := range SettingPaths() {
		if content, there := p.Settings[path]; there {
			files = append(files, settingFile(path, content))
		}
	}
	return files
}

// settingInputs returns the setting files that the API server reads at start.
func settingInputs(s Replica) []string {
	var paths []string
	for _, file := range SettingFiles(s) {
		paths = append(paths, file.Path)
	}
	return paths
}

// unwantedSettings returns the files that earlier settings of this replica may have left
// behind.
func unwantedSettings(s Replica) []string {
	wanted := settingInputs(s)
	return slices.DeleteFunc(SettingPaths(), func(path string) bool { return slices.Contains(wanted, path) })
}
