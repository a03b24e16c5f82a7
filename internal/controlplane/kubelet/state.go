package kubelet

import (
	"encoding/base64"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
)

// State is how the kubelet of a machine runs.
type State struct {
	Reported  bool     // the machine was asked
	Active    string   // of its unit, in systemd's terms
	PID       int      // 0: none
	Restarts  int      // by systemd, since it was last started otherwise
	Arguments string   // of its unit's command, without the program; "" if they are not known
	Program   string   // that runs; "" if none does
	Version   string   // of that; "" if it is not known
	Cordoned  bool     // its node accepts no Pods, because a change of the kubelet was cut off
	Node      string   // the one that is cordoned; "" if the mark of that was cut off before
	Servers   []string // URLs in its kubeconfig; none if it has none
}

const (
	mostServers = 5
	mostPID     = 1 << 30
)

var (
	activeForm  = regexp.MustCompile(`^[a-z]{1,20}$`)
	commandForm = regexp.MustCompile(`argv\[\]=[^ ;]+ ([^;]*) ; ignore_errors=`)
	pathForm    = regexp.MustCompile(`^(/[A-Za-z0-9][A-Za-z0-9._+-]*)+$`)
)

// Read parses the output of Report. Other lines, and what has an unknown form, are ignored.
func Read(output string) State {
	var s State
	for line := range strings.Lines(output) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if fields[0] == "kubelet" && len(fields) >= 3 {
			s.Reported = true
			s.read(fields[1], fields[2:])
		}
	}
	return s
}

func (s *State) read(key string, values []string) {
	switch key {
	case "active":
		if activeForm.MatchString(values[0]) {
			s.Active = values[0]
		}
	case "started":
		if len(values) == 2 {
			s.PID, s.Restarts = count(values[0]), count(values[1])
		}
	case "command":
		if matches := commandForm.FindAllStringSubmatch(decode(values[0]), -1); len(matches) == 1 {
			s.Arguments = matches[0][1]
		}
	case "program":
		if at := strings.TrimSuffix(decode(values[0]), " (deleted)"); path.IsAbs(at) && pathForm.MatchString(at) {
			s.Program = at
		}
	case "version":
		if version, ok := strings.CutPrefix(decode(values[0]), "Kubernetes v"); ok && release.IsVersion(version) {
			s.Version = version
		}
	case "node":
		s.Cordoned = values[0] == "cordoned"
		if name := decode(values[len(values)-1]); len(values) == 2 && nodeForm.MatchString(name) {
			s.Node = name
		}
	case "server":
		at := decode(values[0])
		if u, err := url.Parse(at); err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil &&
			len(s.Servers) < mostServers {
			s.Servers = append(s.Servers, u.Scheme+"://"+u.Host)
		} else if at != "" {
			s.Servers = append(s.Servers, "an address that is not understood")
		}
	}
}

// count returns a number of processes or times; 0 if it is none.
func count(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > mostPID {
		return 0
	}
	return n
}

// decode returns the line that base64 encodes, or "" if it is none.
func decode(text string) string {
	content, err := base64.StdEncoding.DecodeString(text)
	line := strings.TrimRight(string(content), "\n")
	if err != nil || strings.ContainsAny(line, "\n\x00") {
		return ""
	}
	return line
}
