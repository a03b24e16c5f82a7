package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Data from a machine is parsed here into strict types. Everything else is rejected.

const (
	longestRecord  = 1 << 20
	longestRaw     = 64 << 10 // of a part of a record that belongs to another package
	mostGeneration = 1 << 20
	mostListed     = 1000
)

var (
	clusterIDForm = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)
	digestForm    = regexp.MustCompile(`^[0-9a-f]{64}$`)
	pathForm      = regexp.MustCompile(`^/[A-Za-z0-9._/-]{1,254}$`)
	flagForm      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,99}$`)
)

// ReadRecord parses the record of a machine. A missing record is the zero value. A record that
// cannot be parsed is an error, because it may belong to another cluster.
func ReadRecord(text string) (Record, error) {
	var r Record
	if text == "" {
		return r, nil
	}
	err := readJSON(text, &r)
	if err == nil {
		err = r.check()
	}
	if err != nil {
		return Record{}, fmt.Errorf("read %s: %w", RecordPath, err)
	}
	return r, nil
}

// readJSON parses JSON. Its errors do not quote the text.
func readJSON(text string, into any) error {
	if len(text) > longestRecord {
		return fmt.Errorf("it has %d bytes", len(text))
	}
	if json.Unmarshal([]byte(text), into) != nil {
		return errors.New("it is not JSON that the provider writes")
	}
	return nil
}

func (r Record) check() error {
	switch {
	case !clusterIDForm.MatchString(r.ClusterID):
		return fmt.Errorf("cluster_id is %s", problem.Quote(r.ClusterID))
	case r.ClusterName != "" && pki.ValidateClusterName(r.ClusterName) != nil:
		return fmt.Errorf("cluster_name is %s", problem.Quote(r.ClusterName))
	case r.Name != "" && component.ValidateName(r.Name) != nil:
		return fmt.Errorf("name is %s", problem.Quote(r.Name))
	case r.Runtime != "" && r.Runtime != component.StaticPod:
		return fmt.Errorf("runtime is %s", problem.Quote(r.Runtime))
	case r.Port < 0 || r.Port > 65535:
		return fmt.Errorf("port is %d", r.Port)
	case len(r.Etcd) > 0 && (len(r.Etcd) > mostListed || component.ValidateEtcdURLs(r.Etcd) != nil):
		return fmt.Errorf("etcd is %s", problem.Quote(strings.Join(r.Etcd, " ")))
	case len(r.Endpoint) > longestRaw:
		return fmt.Errorf("endpoint has %d bytes", len(r.Endpoint))
	}
	for file, digest := range r.Issued {
		if !pathForm.MatchString(file) || digest != "" && !digestForm.MatchString(digest) {
			return fmt.Errorf("issued has %s: %s", problem.Quote(file), problem.Quote(digest))
		}
	}
	for file, digest := range r.Inherited {
		if !pathForm.MatchString(file) || !digestForm.MatchString(digest) {
			return fmt.Errorf("inherited has %s: %s", problem.Quote(file), problem.Quote(digest))
		}
	}
	if err := checkGenerations(r.Generations); err != nil || r.Configured == nil {
		return err
	}
	return r.Configured.check()
}

func checkGenerations(generations map[pki.Part]int) error {
	for part, generation := range generations {
		if !slices.Contains(pki.Parts(), part) || generation < 0 || generation > mostGeneration {
			return fmt.Errorf("generations has %s: %d", problem.Quote(string(part)), generation)
		}
	}
	return nil
}

// check validates the recorded configuration, because an import proposes it to a person.
func (c Configured) check() error {
	for name, flags := range c.ExtraArgs {
		if !slices.Contains(release.Components(), name) || len(flags) > mostListed {
			return fmt.Errorf("extra_args has %s", problem.Quote(name))
		}
		for flag, value := range flags {
			hidden := func(one string) bool { return one != problem.Line(one) }
			if !flagForm.MatchString(flag) || slices.ContainsFunc(component.Values(value), hidden) {
				return fmt.Errorf("extra_args has %s = %s", problem.Quote(flag), problem.Quote(value))
			}
		}
	}
	for _, list := range [][]string{c.ExtraSANs, c.PodCIDRs} {
		for _, text := range list {
			if len(list) > mostListed || len(text) > 512 || text != problem.Line(text) {
				return fmt.Errorf("configured has %s", problem.Quote(text))
			}
		}
	}
	switch {
	case c.EarlyRenewal < 0 || c.EarlyRenewal > 100*365*24*time.Hour:
		return fmt.Errorf("early_renewal is %d", c.EarlyRenewal)
	case len(c.Settings) > longestRaw:
		return fmt.Errorf("settings has %d bytes", len(c.Settings))
	}
	return nil
}

// ReadRollbackRecord returns nil for an empty text, and for a record that could not be
// restored: only files of a replica are written from it.
func ReadRollbackRecord(text string) *RollbackRecord {
	var b RollbackRecord
	if readJSON(text, &b) != nil || b.Port <= 0 || b.Port > 65535 || checkGenerations(b.Generations) != nil {
		return nil
	}
	if b.Version != "" && programVersion(b.Version) == "" || len(b.Etcd) > 0 && component.ValidateEtcdURLs(b.Etcd) != nil {
		return nil
	}
	if slices.ContainsFunc(release.Components(), func(name string) bool { return b.Definitions[name] == "" }) {
		return nil
	}
	for file := range b.Settings {
		if !slices.Contains(component.SettingPaths(), file) {
			return nil
		}
	}
	if checkKeptFiles(b.Files) != nil {
		return nil
	}
	return &b
}

// versionIn returns the version in the path of component c's program, or "" if the provider did
// not install it.
func versionIn(executable, c string) string {
	if path.Base(executable) != c {
		return ""
	}
	return programVersion(path.Base(path.Dir(executable)))
}

// programVersion returns version if it is a well-formed Kubernetes version, otherwise "".
func programVersion(version string) string {
	if release.IsVersion(version) {
		return version
	}
	return ""
}

// Sections splits the output of a script at headings with known names.
func Sections(output string, known []string) map[string]string {
	parts := map[string]string{}
	for part := range strings.SplitSeq("\n"+output, "\n"+SectionHeading) {
		name, text, _ := strings.Cut(part, "\n")
		if slices.Contains(known, name) {
			parts[name] = text
		}
	}
	return parts
}
