package machine

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/runtime"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// RestartReason returns why component c must be restarted, or "". It compares with the note
// written at the component's start, so that a change that was interrupted before the restart is
// still detected.
func RestartReason(c component.Component, f Observed, after map[string]string) string {
	by := runtime.Named(c.Runtime)
	state := by.State(f.Facts, c.Name)
	if reason := UnitProblem(state); reason != "" {
		return reason
	}
	if reason := noProbe.NotReady(f.Facts, by.Unit(c.Name)); reason != "" {
		return reason
	}
	if differences, inherited := by.Inherited(f.Facts, c); inherited {
		if files := by.Overrides(f.Facts, c.Name); len(files) > 0 {
			return "its definition is changed by files in " + path.Dir(files[0])
		}
		return inheritedReason(c, f, differences, after)
	}
	noted := by.StartNote(f.Facts, c.Name)
	definition := by.Path(c.Name)
	// An edit of a unit file that systemd has not read is reverted before the process has used
	// it.
	undone := noted[definition] == after[definition] && f.Facts.Files[definition].SHA256 != after[definition]
	if state.NeedReload && !undone {
		return "its definition changed after it was read"
	}
	if files := by.Overrides(f.Facts, c.Name); len(files) > 0 {
		return "its definition is changed by files in " + path.Dir(files[0])
	}
	if noted[definition] != after[definition] {
		return "it was started with another " + definition
	}
	for _, file := range c.Inputs {
		// The kubelet starts a container whenever it likes, with what the note said before: what is on the disk may have
		// been read.
		read := by.OnMachine() || f.Facts.Files[file].SHA256 == noted[file]
		if noted[file] != after[file] || !read {
			return "it was started with another " + file
		}
	}
	return ""
}

// UnitProblem returns why a unit does not run, or "". A first start in progress is no
// problem; a unit that systemd restarts again and again is one.
func UnitProblem(unit host.UnitState) string {
	switch {
	case unit.Active == "active":
		return ""
	case unit.Sub == runtime.WithoutContainer:
		return "has no container: the kubelet's log (journalctl -u kubelet) says why"
	case unit.Active == "activating" && unit.Sub != "auto-restart":
		return ""
	case unit.Load == "" || unit.Load == "not-found":
		return "does not exist"
	case unit.Sub == "auto-restart" || unit.Active == "failed":
		return "fails (" + unit.Result + ")"
	}
	return "is " + unit.Active
}

// readAtStart returns all files that a component may have read at start, except its unit file.
func readAtStart() []string {
	return append(component.SettingPaths(), component.SAKey, component.SAPub, component.EtcdClientCA,
		component.EncryptionConfigPath, component.CACert, component.CAKey, component.SigningCA, component.ClientCA,
		component.FrontProxyCA,
		component.ControllerManagerConf, component.SchedulerConf, component.KonnectivityConf, component.KonnectivityCert,
		component.KeyPath(component.KonnectivityCert))
}

// StaleProcess returns which of the components runs with other files than those on disk. A
// component that does not run has read nothing.
func StaleProcess(f Observed, components []string) error {
	by := f.Runtime()
	for _, name := range components {
		if !ProcessExists(by.State(f.Facts, name)) {
			continue
		}
		noted := f.StartNote(by, name)
		if len(noted) == 0 {
			return fmt.Errorf("%s runs without a record of the files it has read", name)
		}
		// Earlier versions of the provider recorded the etcd member's file, which is rotated
		// separately.
		delete(noted, component.EtcdCA)
		for _, file := range slices.Sorted(maps.Keys(noted)) {
			if strings.HasPrefix(file, component.FilesDir+"/") {
				continue // not derived from the bundle, so no evidence of a rotation
			}
			if noted[file] != f.Facts.Files[file].SHA256 {
				return fmt.Errorf("%s was started with another %s than its machine has now", name, file)
			}
		}
	}
	return nil
}

// ProcessExists reports whether a process of the unit may exist. A unit that systemd is about to restart
// has no process, and will read what is on disk.
func ProcessExists(unit host.UnitState) bool {
	switch unit.Active {
	case "active", "reloading", "deactivating":
		return true
	case "activating":
		return unit.Sub != "auto-restart"
	}
	return false
}
