package etcd

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// This file parses the output of machines and members, and accepts only known forms.
// Values of any other form are not the provider's and are rejected.

const (
	longestRecord  = 256 << 10
	mostGeneration = 1 << 20
	mostKept       = 1 << 20
	mostArguments  = 500
)

var (
	clusterIDForm = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)
	memberIDForm  = regexp.MustCompile(`^[0-9a-f]{1,16}$`)
	tokenForm     = regexp.MustCompile(`^[A-Za-z0-9._-]{1,200}$`)
	pairForm      = regexp.MustCompile(`^[0-9a-f]{64}$`)
	flagForm      = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,99}$`)
	leafForm      = regexp.MustCompile(`^[a-z0-9][a-z0-9/-]{0,99}$`)
)

// readRecord parses member.json.
func readRecord(text string) (*record, error) {
	if len(text) > longestRecord {
		return nil, fmt.Errorf("its size is %d bytes", len(text))
	}
	var m record
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return nil, errors.New("it is not valid JSON of a member record")
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	return &m, nil
}

func (m record) check() error {
	switch {
	case !clusterIDForm.MatchString(m.ClusterID):
		return fmt.Errorf("cluster_id is %s", problem.Quote(m.ClusterID))
	case m.ClusterName != "" && pki.ValidateClusterName(m.ClusterName) != nil:
		return fmt.Errorf("cluster_name is %s", problem.Quote(m.ClusterName))
	case m.Name != "" && ValidateName(m.Name) != nil:
		return fmt.Errorf("name is %s", problem.Quote(m.Name))
	case m.MemberID != "" && !memberIDForm.MatchString(m.MemberID):
		return fmt.Errorf("member_id is %s", problem.Quote(m.MemberID))
	case m.EtcdCluster != "" && !memberIDForm.MatchString(m.EtcdCluster):
		return fmt.Errorf("etcd_cluster_id is %s", problem.Quote(m.EtcdCluster))
	case m.Generation < 0 || m.Generation > mostGeneration:
		return fmt.Errorf("generation is %d", m.Generation)
	case m.SnapshotsKept < 0 || m.SnapshotsKept > mostKept:
		return fmt.Errorf("snapshots_kept is %d", m.SnapshotsKept)
	}
	for leaf, pair := range m.Pairs {
		if !leafForm.MatchString(leaf) || !pairForm.MatchString(pair) {
			return fmt.Errorf("pairs has %s: %s", problem.Quote(leaf), problem.Quote(pair))
		}
	}
	return m.configured().check()
}

// check validates the recorded configuration, because an import proposes it to a user as a
// configuration.
func (c configured) check() error {
	if len(c.ExtraArgs) > mostArguments {
		return fmt.Errorf("extra_args has %d flags", len(c.ExtraArgs))
	}
	for flag, value := range c.ExtraArgs {
		if !flagForm.MatchString(flag) || value != problem.Line(value) {
			return fmt.Errorf("extra_args has %s = %s", problem.Quote(flag), problem.Quote(value))
		}
	}
	if c.EarlyRenewal < 0 || c.EarlyRenewal > 100*365*24*time.Hour {
		return fmt.Errorf("early_renewal is %d", c.EarlyRenewal)
	}
	return nil
}

// initialToken returns the token of a static bootstrap; "" if it is not one of the
// provider's.
func initialToken(text string) string {
	if tokenForm.MatchString(text) {
		return text
	}
	return ""
}

// initialNames returns the members of a static bootstrap, given as NAME=URL separated by
// commas; none if it is not one of the provider's.
func initialNames(cluster string) []string {
	var names []string
	for entry := range strings.SplitSeq(cluster, ",") {
		name, peer, _ := strings.Cut(entry, "=")
		if ValidateName(name) != nil || membership.HostInURL(peer) == "" {
			return nil
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// installation is the location of a member's programs and data.
type installation struct{ version, tools, dataDir string }

// installationIn parses the installation from a unit. It accepts only locations that the
// provider uses, because both paths become part of commands.
func installationIn(unit string) (installation, error) {
	command, _, _ := systemd.ParseUnit(unit)
	program, flags := command.Program, command.Flags
	version := path.Base(path.Dir(program))
	if err := release.ValidateVersion(version); err != nil || program != artifacts(version)[0].Path() {
		return installation{}, fmt.Errorf("%s runs %s, which was not installed by the provider", layout.UnitPath, problem.Quote(program))
	}
	if err := ValidateDataDir(flags["data-dir"]); err != nil {
		return installation{}, fmt.Errorf("%s: %w", layout.UnitPath, err)
	}
	return installation{version: version, tools: path.Dir(program), dataDir: flags["data-dir"]}, nil
}

// listedPeers parses the member list that etcdctl prints: name → address. A member that
// never started has no name, and no machine knows which one it is.
func listedPeers(list string) (peers map[string]string, alone bool) {
	var answer struct {
		Members []struct {
			Name     string   `json:"name"`
			PeerURLs []string `json:"peerURLs"`
		} `json:"members"`
	}
	peers = map[string]string{}
	if json.Unmarshal([]byte(list), &answer) != nil {
		return peers, true
	}
	for _, m := range answer.Members {
		urls := membership.URLsReported(m.PeerURLs)
		if len(urls) > 0 && ValidateName(m.Name) == nil {
			peers[m.Name] = membership.HostInURL(urls[0])
		}
	}
	return peers, false
}
