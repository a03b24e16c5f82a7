package machine

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// Drift describes how a machine differs from s. For a healthy member it is empty, and
// stays empty. entry is the member as the cluster lists it, or nil if no member answered.
func Drift(s Spec, f Observed, entry *membership.Member, now time.Time) []string {
	if words := absent(s, f); len(words) > 0 {
		return words
	}
	words := slices.Concat(
		f.takeOverDrift(s),
		s.volumeDrift(f),
		unitStateDrift(f),
		UnitFileDrift(s, f),
		fileDrift(s, f),
		memberDrift(s, f, entry),
	)
	if reason := restartReason(s, f, entry); reason != "" && len(words) == 0 {
		words = append(words, f.unitName()+" must be restarted: "+reason)
	}
	for _, l := range leaves(s) {
		words = append(words, certificateProblems(s, l, f, now)...)
	}
	words = append(words, s.ownerDrift(f)...)
	if f.Record != nil && f.Record.Generation != s.Generation() && len(words) == 0 {
		words = append(words, fmt.Sprintf("%s records generation %d of the etcd CA, wanted %d", layout.RecordPath,
			f.Record.Generation, s.Generation()))
	}
	if f.Record != nil && f.Record.UpgradeSnapshots() != s.UpgradeSnapshots() {
		words = append(words, fmt.Sprintf("%s records that %d upgrade snapshots are kept, wanted %d", layout.RecordPath,
			f.Record.UpgradeSnapshots(), s.UpgradeSnapshots()))
	}
	for _, job := range s.jobs() {
		words = append(words, job.Drift(f.Facts)...)
	}
	words = append(words, s.liveness().Lacks(f.Facts)...)
	words = append(words, crowdDrift(f)...)
	for i := range words {
		words[i] = s.Name + ": " + words[i]
	}
	return words
}

// absent describes the drift of a machine on which the member's data or identity is gone.
// Nothing else about such a machine is reported.
func absent(s Spec, f Observed) []string {
	switch {
	case s.Volume != nil && !f.Volume.InPlace():
		return s.prefixed(s.volumeDrift(f))
	case f.Empty():
		return []string{s.Name + ": machine rebuilt: it has neither the unit nor the data of the member, " +
			"but the cluster lists the member"}
	case !f.Data:
		return []string{fmt.Sprintf("%s: data directory %s has no data of a member", s.Name, s.Directory())}
	case f.TakesOver():
	case f.Foreign(s.Bundle.ClusterID, s.Directory()) != "":
		return []string{s.Name + ": " + f.Foreign(s.Bundle.ClusterID, s.Directory())}
	case f.Record != nil && f.Record.Name != s.Name:
		return []string{fmt.Sprintf("%s: the machine has member %q", s.Name, f.Record.Name)}
	}
	return nil
}

func unitStateDrift(f Observed) []string {
	var words []string
	switch {
	case f.Unit.Load == "masked":
		words = append(words, layout.Unit+" is masked, wanted active")
	case f.Unit.Active != "active":
		words = append(words, fmt.Sprintf("%s is %s, wanted active", f.unitName(), cmp.Or(f.Unit.Active, "missing")))
	}
	if f.isPod() {
		return append(words, f.podDrift()...)
	}
	if f.Unit.Load != "masked" && f.Unit.Enabled != "enabled" {
		words = append(words, fmt.Sprintf("%s is %s, wanted enabled", layout.Unit, cmp.Or(f.Unit.Enabled, "missing")))
	}
	for _, name := range f.Facts.Dirs[layout.DropInDir] {
		words = append(words, fmt.Sprintf("%s has the drop-in %s/%s, which was not written by the provider", layout.Unit,
			layout.DropInDir, name))
	}
	if f.Unit.NeedReload {
		words = append(words, layout.Unit+" changed on disk after systemd loaded it")
	}
	return words
}

// UnitFileDrift reports how the unit, or the manifest of the pod, differs: the flags, or, if none do, the lines.
func UnitFileDrift(s Spec, f Observed) []string {
	if s.Runtime == StaticPod {
		return s.manifestDrift(f)
	}
	file, ok := f.Facts.Files[layout.UnitPath]
	if !ok {
		return []string{layout.UnitPath + " is missing"}
	}
	wanted := renderUnit(s)
	if file.Content == wanted {
		return nil
	}
	have, haveRest, err := systemd.ParseUnit(file.Content)
	if err != nil {
		return []string{layout.UnitPath + " was edited manually: " + err.Error()}
	}
	want, wantRest, err := systemd.ParseUnit(wanted)
	if err != nil {
		return []string{err.Error()} // cannot happen: it was rendered
	}
	var words []string
	if have.Program != want.Program {
		words = append(words, fmt.Sprintf("%s runs %s, wanted %s", layout.Unit, cmp.Or(have.Program, "missing"),
			want.Program))
	}
	words = append(words, systemd.FlagDifferences(have.Flags, want.Flags)...)
	words = append(words, systemd.LineDifferences(layout.UnitPath, haveRest, wantRest)...)
	if len(words) == 0 {
		words = append(words, layout.UnitPath+" was edited manually")
	}
	return words
}

// fileDrift describes the drift of the other files and of the programs.
func fileDrift(s Spec, f Observed) []string {
	var words []string
	for _, file := range append(FixedFiles(s), s.volumeFiles()...) {
		have, ok := f.Facts.Files[file.Path]
		switch {
		case !ok && file.Path != layout.UnitPath:
			words = append(words, file.Path+" is missing")
		case ok && have.SHA256 != Digest(file.Content) && file.Path != layout.UnitPath:
			words = append(words, contentDrift(file, have))
		case ok && have.Mode.Perm() != file.Mode:
			words = append(words, fmt.Sprintf("%s has mode %04o, wanted %04o", file.Path, have.Mode.Perm(), file.Mode))
		}
	}
	for _, missing := range MissingArtifacts(s, f) {
		words = append(words, missing+" is missing")
	}
	for _, version := range s.SnapshotMember().LeftPrograms(f.Facts) {
		words = append(words, fmt.Sprintf("%s %s is installed, and nothing uses it", snapshot.StoreProduct, version))
	}
	if f.Pending {
		words = append(words, layout.EnvPath+" was not removed: the start of the member was not completed")
	}
	return words
}

// contentDrift describes a file with other content.
func contentDrift(file host.File, have host.FileState) string {
	if file.Path != layout.CAPath {
		return file.Path + " was edited manually"
	}
	return trustDrift(file.Path, have.Content, string(file.Content))
}

// trustDrift names the authorities in a trust file and the expected ones. During a
// rotation there are two of them.
func trustDrift(path, content, wanted string) string {
	have := CertificatesOf(content)
	if len(have) == 0 {
		return path + " does not contain the etcd CA certificate of the bundle"
	}
	return fmt.Sprintf("%s trusts %s, wanted %s", path, authorityNames(have), authorityNames(CertificatesOf(wanted)))
}

// authorityNames distinguishes authorities of the same name by the beginning of their
// SHA-256 fingerprints.
func authorityNames(authorities []*x509.Certificate) string {
	var names []string
	for _, c := range authorities {
		names = append(names, fmt.Sprintf("%q (%.8s)", c.Subject.CommonName, Digest(c.Raw)))
	}
	return strings.Join(names, " and ")
}

// memberDrift describes the drift that the cluster reports of the member.
func memberDrift(s Spec, f Observed, entry *membership.Member) []string {
	if entry == nil {
		return nil
	}
	var words []string
	if f.Data && f.Leftovers != "" { // while no member answers, a restore may be making it
		words = append(words, f.Leftovers+" is left of a restore that was not completed")
	}
	if entry.Version != "" && entry.Version != s.Version {
		words = append(words, fmt.Sprintf("the running server is etcd %s, wanted %s", entry.Version, s.Version))
	}
	if f.UpgradeUnfinished() && entry.Healthy && entry.Version == s.Version {
		words = append(words, layout.RollbackUnitPath+" was not removed: the version change was not completed")
	}
	if entry.Learner {
		words = append(words, "it is a learner, wanted voter")
	}
	return words
}
