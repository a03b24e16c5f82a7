package machine

import (
	"context"
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
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// What machines and members say is accepted in known forms only. A value of any other form
// is not the provider's and is rejected.

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

// ReadRecord parses member.json.
func ReadRecord(text string) (*Record, error) {
	if len(text) > longestRecord {
		return nil, fmt.Errorf("its size is %d bytes", len(text))
	}
	var m Record
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return nil, errors.New("it is not valid JSON of a member record")
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	return &m, nil
}

func (m Record) check() error {
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
	case m.Restored != "" && ValidateRestoreID(m.Restored) != nil:
		return fmt.Errorf("restored is %s", problem.Quote(m.Restored))
	case m.Restoring != "" && ValidateRestoreID(m.Restoring) != nil:
		return fmt.Errorf("restoring is %s", problem.Quote(m.Restoring))
	case m.Inherited != "" && !pairForm.MatchString(m.Inherited):
		return fmt.Errorf("inherited is %s", problem.Quote(m.Inherited))
	case m.SnapshotsKept < 0 || m.SnapshotsKept > mostKept:
		return fmt.Errorf("snapshots_kept is %d", m.SnapshotsKept)
	}
	for address, name := range m.Silent {
		if host.CheckAddressForm(address) != nil || name != "" && ValidateName(name) != nil {
			return fmt.Errorf("silent has %s: %s", problem.Quote(address), problem.Quote(name))
		}
	}
	for leaf, pair := range m.Pairs {
		if !leafForm.MatchString(leaf) || !pairForm.MatchString(pair) {
			return fmt.Errorf("pairs has %s: %s", problem.Quote(leaf), problem.Quote(pair))
		}
	}
	return m.recorded().check()
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
	if c.Volume != nil {
		return c.Volume.CheckRecorded()
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
type installation struct{ version, Tools, DataDir string }

// InstallationIn parses the installation from a unit. It accepts only locations that the
// provider uses, because both paths become part of commands.
func InstallationIn(unit string) (installation, error) {
	command := CommandIn(unit)
	program, flags := command.Program, command.Flags
	version := path.Base(path.Dir(program))
	if err := release.ValidateVersion(version); err != nil || program != Artifacts(version)[0].Path() {
		return installation{}, fmt.Errorf("%s runs %s, which was not installed by the provider", definitionPath(unit),
			problem.Quote(program))
	}
	if err := ValidateDataDir(flags["data-dir"]); err != nil {
		return installation{}, fmt.Errorf("%s: %w", definitionPath(unit), err)
	}
	return installation{version: version, Tools: path.Dir(program), DataDir: flags["data-dir"]}, nil
}

// UnitVersion returns the version of the server that a unit starts, or "".
func UnitVersion(unit string) string {
	command := CommandIn(unit)
	version := path.Base(path.Dir(command.Program))
	if _, _, err := release.Parse(version); err != nil {
		return ""
	}
	return version
}

// Identify verifies that the machine has a member of a cluster, and returns its installation.
func Identify(ctx context.Context, m Machine, clusterID string) (installation, Record, error) {
	facts, err := m.Observe(ctx, host.Query{Contents: []string{layout.UnitPath, layout.PodPath, layout.RecordPath}})
	if err != nil {
		return installation{}, Record{}, err
	}
	held, err := ReadRecord(facts.Files[layout.RecordPath].Content)
	if err != nil || held.ClusterID != clusterID {
		return installation{}, Record{}, fmt.Errorf("%s does not identify a member of this cluster on the machine",
			layout.RecordPath)
	}
	at, err := InstallationIn(DefinitionIn(facts.Files))
	return at, *held, err
}
