package timer

import (
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// Repair returns what brings all jobs of one resource on a machine to what they are, and the
// commands that follow. They share the directory of their links, which goes with the last one.
func Repair(jobs []Job, facts host.Facts) (files []host.File, remove []string, commands host.Script) {
	wanted := false
	for _, job := range jobs {
		change, action := job.Repair(facts)
		files, remove = append(files, change.Files...), append(remove, change.Remove...)
		commands += job.Script(action)
		wanted = wanted || job.wanted()
	}
	shared := func(p string) bool { return p == wantsDir }
	emptied := slices.ContainsFunc(remove, shared)
	remove = slices.DeleteFunc(remove, shared)
	if emptied && !wanted {
		remove = append(remove, wantsDir)
	}
	return files, remove, commands
}

// Links returns the links of the jobs that are wanted, with their directory.
func Links(jobs []Job) (links []host.Link, dirs []host.Dir) {
	for _, job := range jobs {
		if job.wanted() {
			links, dirs = append(links, job.Link()), []host.Dir{WantsDir}
		}
	}
	return links, dirs
}

// Stop returns the commands that stop jobs and prevent their start at boot.
func Stop(jobs []Job) host.Script {
	var script host.Script
	for _, job := range jobs {
		script += job.StopScript()
	}
	return script
}

// Clear returns the commands that remove the units of jobs. What they run is for the caller to remove.
func Clear(jobs []Job) host.Script {
	var script host.Script
	for _, job := range jobs {
		script += job.ClearScript()
	}
	return script
}
