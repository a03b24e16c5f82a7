package staticpod

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// State is what a machine reports of one static pod and of what runs it.
type State struct {
	Reported   bool   // the machine was asked
	Runtime    string // the tool of the container runtime: crictl, ctr, or "" if there is none
	Answers    bool   // the container runtime does
	Kubelet    string // the state of kubelet.service: active, inactive, failed, …
	Former     bool   // a change of the kubelet was cut off: if it fails since, a start of the pod takes that back
	Manifests  string // the kubelet's directory of manifests; "" if it has none
	HasImage   bool   // the machine has the image that was asked for
	Containers []Container
	Duplicates []string // other files in Directory that the kubelet takes for the same pod
	Restarts   int      // of the container, while the pod is the same
}

// Container is one container of a pod, of which only one runs.
type Container struct {
	ID      string
	Running bool
	PID     int
	Note    map[string]string // what it was started with, if it runs: see Pod.Note
}

const (
	mostContainers = 200
	mostDuplicates = 50
	longestConfig  = 128 << 10
	mostRestarts   = 1 << 30
)

var (
	containerForm = regexp.MustCompile(`^[0-9a-f]{8,64}$`)
	stateForm     = regexp.MustCompile(`^[a-z]{1,20}$`)
)

// Read parses the lines of Report about the pod. Other lines, and what has an unknown form, are ignored.
func Read(output, name string) State {
	var s State
	for line := range strings.Lines(output) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if fields[0] != "pod" || len(fields) < 3 {
			continue
		}
		s.Reported = true
		s.read(fields[1], fields[2:], name)
	}
	return s
}

func (s *State) read(key string, values []string, name string) {
	switch key {
	case "runtime":
		if slices.Contains([]string{"crictl", "ctr"}, values[0]) {
			s.Runtime = values[0]
		}
	case "kubelet":
		if stateForm.MatchString(values[0]) {
			s.Kubelet = values[0]
		}
	case "former":
		s.Former = values[0] == "kept"
	case "manifests":
		s.setManifests(decode(values[0]))
	case "config":
		var config struct {
			StaticPodPath string `json:"staticPodPath"`
		}
		if yaml.Unmarshal([]byte(decode(values[0])), &config) == nil {
			s.setManifests(config.StaticPodPath)
		}
	case "image":
		s.HasImage = true
	case "answers":
		s.Answers = s.Answers || values[0] == name
	case "container", "duplicate", "log":
		if values[0] == name && len(values) > 1 {
			s.readOwn(key, values[1:])
		}
	}
}

func (s *State) readOwn(key string, values []string) {
	switch {
	case key == "container" && len(values) == 4:
		if pid, err := strconv.Atoi(values[2]); err == nil && pid >= 0 && containerForm.MatchString(values[0]) &&
			len(s.Containers) < mostContainers {
			c := Container{ID: values[0], Running: strings.HasSuffix(values[1], "RUNNING")}
			if c.Running {
				c.PID, c.Note = pid, ReadNote(decode(values[3]))
			}
			s.Containers = append(s.Containers, c)
		}
	case key == "duplicate" && pathForm.MatchString(values[0]) && path.Dir(values[0]) == Directory &&
		len(s.Duplicates) < mostDuplicates:
		s.Duplicates = append(s.Duplicates, values[0])
	case key == "log":
		if n, err := strconv.Atoi(values[0]); err == nil && n > s.Restarts && n < mostRestarts {
			s.Restarts = n
		}
	}
}

// setManifests takes a directory as the kubelet's, the last one that is set.
func (s *State) setManifests(dir string) {
	if dir = strings.TrimSuffix(dir, "/"); pathForm.MatchString(dir) {
		s.Manifests = dir
	}
}

// decode returns text from base64, or "" if it is not or too long.
func decode(text string) string {
	content, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(content) > longestConfig {
		return ""
	}
	return string(content)
}

// Running returns the container that runs, if there is one.
func (s State) Running() (Container, bool) {
	for _, c := range s.Containers {
		if c.Running {
			return c, true
		}
	}
	return Container{}, false
}

// Unit returns the state in systemd's terms, so that the rules for units hold for pods: placed is whether the manifest
// of the pod is in Directory, defined whether the machine has its definition. A container that ended and that the
// kubelet starts again is activating, and failed if there is no kubelet that would.
func (s State) Unit(placed, defined bool) host.UnitState {
	u := host.UnitState{Load: "loaded", Enabled: "disabled", Active: "inactive", Sub: "dead", Restarts: s.Restarts}
	if placed {
		u.Enabled = "enabled"
	}
	c, running := s.Running()
	switch {
	case running && placed:
		u.Active, u.Sub, u.MainPID = "active", "running", c.PID
	case running:
		u.Active, u.Sub, u.MainPID = "deactivating", "stop", c.PID
	case placed && s.Kubelet != "active":
		u.Active, u.Sub = "failed", "failed"
	case placed && len(s.Containers) > 0:
		u.Active, u.Sub = "activating", "auto-restart"
	case placed:
		u.Active, u.Sub = "activating", "start"
	case !defined:
		u = host.UnitState{Load: "not-found", Active: "inactive", Sub: "dead"}
	}
	return u
}

// Problems lists what keeps static pods from running on the machine, with the remedies.
func (s State) Problems() []string {
	var problems []string
	switch {
	case s.Runtime == "":
		problems = append(problems, "neither crictl nor ctr is installed: install containerd or CRI-O, and the kubelet, or "+
			"set install_kubelet")
	case !s.Answers:
		problems = append(problems, "the container runtime does not answer "+s.Runtime+": start it, for example "+
			"systemctl enable --now containerd")
	}
	switch fails := s.Kubelet == "activating" || s.Kubelet == "failed"; {
	case fails && s.Former:
		// pod_kubelet_recover restores the former kubelet
	case fails:
		problems = append(problems, "kubelet.service is "+s.Kubelet+": its log (journalctl -u kubelet) says why it does "+
			"not stay up")
	case s.Kubelet != "active":
		problems = append(problems, fmt.Sprintf("kubelet.service is %s: install the kubelet, and run systemctl enable "+
			"--now kubelet; or set install_kubelet", cmp.Or(s.Kubelet, "missing")))
	case s.Manifests != Directory:
		problems = append(problems, fmt.Sprintf("the kubelet's directory of manifests is %s, and not %s: set staticPodPath: "+
			"%s in the kubelet's configuration and restart it", cmp.Or(s.Manifests, "not set"), Directory, Directory))
	}
	return problems
}
