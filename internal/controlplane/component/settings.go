package component

import (
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// SettingPaths are all files that a replica's own settings may make. They hold no
// secret.
func SettingPaths() []string { return []string{AuditPolicyPath, AuthenticationConfigPath} }

// SettingFiles are the files whose content the replica's settings decide, and not
// the bundle. All are the API server's, which reads them when it starts: it could
// reload its authentication by itself, but would then keep to the old one where
// the new one cannot be used, and nobody would know until its next start. A change
// that is taken back takes back these too.
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
	return files
}

func settingFile(path, content string) host.File {
	return host.File{Path: path, Content: []byte(content), Mode: PublicMode, Owner: "root", Group: "root"}
}

// files are the setting files that there were.
func (p Previous) files() []host.File {
	var files []host.File
	for _, path := range SettingPaths() {
		if content, there := p.Settings[path]; there {
			files = append(files, settingFile(path, content))
		}
	}
	return files
}

// settingInputs are what the API server reads of them at its start.
func settingInputs(s Replica) []string {
	var paths []string
	for _, file := range SettingFiles(s) {
		paths = append(paths, file.Path)
	}
	return paths
}

// unwantedSettings are those that other settings of this replica may have left.
func unwantedSettings(s Replica) []string {
	wanted := settingInputs(s)
	return slices.DeleteFunc(SettingPaths(), func(path string) bool { return slices.Contains(wanted, path) })
}
