package machine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/volume"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/timer"
)

// FixedFiles returns the files that etcd reads at its start and whose content depends on
// the spec alone. Together with the files of scheduled snapshots, WantedDigest covers them
// and a plan can know them.
func FixedFiles(s Spec) []host.File {
	return []host.File{
		s.definition(),
		{Path: layout.CAPath, Content: []byte(s.Bundle.Anchors(pki.Etcd)), Mode: 0o644},
	}
}

// WantedDigest returns Status.ConfigDigest of a member that does not differ from s. It is for tests, here and in
// package etcd, and here because only this package knows all files of a member.
func WantedDigest(s Spec) string {
	states := map[string]host.FileState{}
	for _, f := range slices.Concat(FixedFiles(s), s.volumeFiles(), s.SnapshotMember().Files()) {
		states[f.Path] = host.FileState{SHA256: Digest(f.Content), Mode: f.Mode, Content: string(f.Content)}
	}
	return ConfigDigest(states)
}

// ConfigDigest covers path, mode and content of the fixed files on the machine, and of the
// scheduled snapshots' files if the provider wrote them.
func ConfigDigest(files map[string]host.FileState) string {
	sum := sha256.New()
	paths := []string{layout.UnitPath, layout.PodPath, layout.CAPath}
	if _, there := files[volume.UnitPath]; there {
		paths = append(paths, volume.UnitPath, volume.ScriptPath)
	}
	if timer.Managed(files[snapshot.TimerPath]) {
		paths = append(paths, snapshot.Paths...)
	}
	for _, p := range paths {
		if f, ok := files[p]; ok {
			fmt.Fprintf(sum, "%s %o %s\n", p, f.Mode.Perm(), f.SHA256)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Digest returns the SHA-256 digest of a file's content, in hex.
func Digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// UnitLink is the link that "systemctl enable" creates. As part of the change it needs no
// extra reload of systemd.
var UnitLink = host.Link{Path: "/etc/systemd/system/multi-user.target.wants/" + layout.Unit, Target: layout.UnitPath}

// baseChange returns the user, the directories and the links of a member. A static pod needs no user.
func baseChange(s Spec) host.Change {
	c := host.Change{
		Dirs: []host.Dir{
			{Path: s.Directory(), Mode: 0o700, Owner: s.owner(), Group: s.owner()},
			{Path: layout.ConfigDir, Mode: 0o755},
			{Path: path.Dir(layout.PKIDir), Mode: 0o755},
			{Path: layout.PKIDir, Mode: 0o755},
		},
	}
	if s.Runtime != StaticPod {
		c.Users = []host.User{{Name: layout.User}}
		c.Dirs = append(c.Dirs, host.Dir{Path: path.Dir(UnitLink.Path), Mode: 0o755})
		c.Links = []host.Link{UnitLink}
	}
	links, dirs := timer.Links(s.jobs())
	c.Links, c.Dirs = append(c.Links, links...), append(c.Dirs, dirs...)
	return c
}

// NewMemberChange returns the change that puts a member onto a machine, ready to start.
// The record is the last file: it confirms the pairs and their generation, and it exists
// before any data does. timers is what follows for the member's timers, including those of
// an earlier member on the machine.
func NewMemberChange(s Spec, f Observed, c Issued, id ID, env string) (change host.Change, timers host.Script) {
	change = baseChange(s)
	s.initial = initialFlags(env)
	change.Files = append(FixedFiles(s), s.volumeFiles()...)
	facts := f.Facts
	facts.Units = maps.Clone(facts.Units)
	for _, job := range s.jobs() {
		change.Files = append(change.Files, job.Files...)
		if len(job.Files) > 0 {
			delete(facts.Units, job.Timer()) // an earlier member's: it is started again
		}
	}
	_, change.Remove, timers = s.repairTimers(facts)
	if f.Leftovers != "" {
		timers += dropStaged(f.DataDir)
	}
	change.Files = append(change.Files, c.Files...)
	change.Files = append(change.Files, s.identityFiles(f, id)...)
	change.Files = append(change.Files,
		host.File{Path: layout.EnvPath, Content: []byte(env), Mode: 0o644},
		recordFile(s, id, c.Pairs))
	return change, timers
}

// artifacts returns all programs of s: etcd's, and what its snapshots need.
func (s Spec) artifacts() []host.Artifact {
	store := snapshot.Member{Settings: s.Snapshots, StoreVersion: s.StoreVersion}
	return append(Artifacts(s.Version), store.Artifacts()...)
}

// MissingArtifacts lists the programs that are not installed. Install verifies them before
// it renames them into place, so their existence is sufficient.
func MissingArtifacts(s Spec, f Observed) []string {
	return append(missingOf(s.artifacts(), f), s.missingImage(f)...)
}

func missingOf(artifacts []host.Artifact, f Observed) []string {
	var missing []string
	for _, a := range artifacts {
		if !slices.Contains(f.Facts.Dirs[path.Dir(a.Path())], a.Name) {
			missing = append(missing, a.Path())
		}
	}
	return missing
}

// Install installs the programs of s that are missing.
func Install(ctx context.Context, m Machine, s Spec, f Observed) error {
	if err := installNode(ctx, s, f); err != nil {
		return err
	}
	if err := provideImage(ctx, m, s, f); err != nil {
		return err
	}
	if len(missingOf(Artifacts(s.Version), f)) == 0 {
		return installStore(ctx, m, s, f)
	}
	problem.Progress(ctx, "etcd %s: installing etcd %s", s.Name, s.Version)
	if _, err := m.Install(ctx, s.Source, Artifacts(s.Version)); err != nil {
		return &problem.Problem{
			Summary: "etcd not installed", Host: s.Label(), Cause: err.Error(), Err: err,
			Unchanged: "no etcd was started, stopped or changed.",
			Next:      "check the artifact source of the provider and the version",
		}
	}
	return installStore(ctx, m, s, f)
}

// installStore installs the program that uploads snapshots to a bucket.
func installStore(ctx context.Context, m Machine, s Spec, f Observed) error {
	programs := s.SnapshotMember().Artifacts()
	if len(missingOf(programs, f)) == 0 {
		return nil
	}
	if _, err := m.Install(ctx, s.Source, programs); err != nil {
		return &problem.Problem{
			Summary: "kube-snapshot-store not installed", Host: s.Label(), Cause: err.Error(), Err: err,
			Unchanged: "no etcd was started, stopped or changed.",
			Next: fmt.Sprintf("check the artifact source of the provider: artifacts.snapshot_store, or %s-v%s/%s in "+
				"artifacts.directory, as it is released with the provider; or omit snapshots.s3", snapshot.StoreProduct,
				s.StoreVersion, snapshot.StoreProduct),
		}
	}
	return nil
}
