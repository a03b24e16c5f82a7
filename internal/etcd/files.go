package etcd

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// Leaves returns the certificates of a member.
func Leaves(name, address string) []pki.Leaf {
	return []pki.Leaf{pki.EtcdServer(name, address), pki.EtcdPeer(name, address), pki.EtcdHealthcheckClient()}
}

func leaves(s Spec) []pki.Leaf { return Leaves(s.Name, s.Host.Address()) }

func certificatePath(l pki.Leaf) string { return path.Join(path.Dir(layout.PKIDir), l.Name) + ".crt" }

func keyPath(l pki.Leaf) string { return path.Join(path.Dir(layout.PKIDir), l.Name) + ".key" }

// fixedFiles returns the files that etcd reads at its start and whose content depends on
// the spec alone. Together with the files of scheduled snapshots, WantedDigest covers them
// and a plan can know them.
func fixedFiles(s Spec) []host.File {
	return []host.File{
		{Path: layout.UnitPath, Content: []byte(renderUnit(s)), Mode: 0o644},
		{Path: layout.CAPath, Content: []byte(s.Bundle.Anchors(pki.Etcd)), Mode: 0o644},
	}
}

// WantedDigest returns Status.ConfigDigest of a member that does not differ from s.
func WantedDigest(s Spec) string {
	states := map[string]host.FileState{}
	for _, f := range append(fixedFiles(s), s.snapshotMember().Files()...) {
		states[f.Path] = host.FileState{SHA256: digest(f.Content), Mode: f.Mode, Content: string(f.Content)}
	}
	return configDigest(states)
}

// configDigest covers path, mode and content of the fixed files on the machine, and of the
// scheduled snapshots' files if the provider wrote them.
func configDigest(files map[string]host.FileState) string {
	sum := sha256.New()
	paths := []string{layout.UnitPath, layout.CAPath}
	if snapshot.WrittenByProvider(files[snapshot.TimerPath]) {
		paths = append(paths, snapshot.Paths...)
	}
	for _, p := range paths {
		if f, ok := files[p]; ok {
			fmt.Fprintf(sum, "%s %o %s\n", p, f.Mode.Perm(), f.SHA256)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// unitLink is the link that "systemctl enable" creates. As part of the change it needs no
// extra reload of systemd.
var unitLink = host.Link{Path: "/etc/systemd/system/multi-user.target.wants/" + layout.Unit, Target: layout.UnitPath}

// baseChange returns the user, the directories and the links of a member.
func baseChange(s Spec) host.Change {
	c := host.Change{
		Users: []host.User{{Name: layout.User}},
		Dirs: []host.Dir{
			{Path: s.dataDir(), Mode: 0o700, Owner: layout.User, Group: layout.User},
			{Path: layout.ConfigDir, Mode: 0o755},
			{Path: path.Dir(layout.PKIDir), Mode: 0o755},
			{Path: layout.PKIDir, Mode: 0o755},
			{Path: path.Dir(unitLink.Path), Mode: 0o755},
		},
		Links: []host.Link{unitLink},
	}
	if s.Snapshots != nil {
		c.Dirs = append(c.Dirs, host.Dir{Path: path.Dir(snapshot.TimerLink.Path), Mode: 0o755})
		c.Links = append(c.Links, snapshot.TimerLink)
	}
	return c
}

// pairDigest ties a certificate to its key. It detects a pair of which only one half was
// renamed into place before an interruption.
func pairDigest(certificateSHA, keySHA string) string { return digest([]byte(certificateSHA + keySHA)) }

// certificateProblems describes, for one leaf, why the pair on the machine must be
// replaced.
func certificateProblems(s Spec, l pki.Leaf, f observed, now time.Time) []string {
	certificate, ok := f.facts.Files[certificatePath(l)]
	if !ok {
		return []string{"certificate " + certificatePath(l) + " is missing"}
	}
	key, ok := f.facts.Files[keyPath(l)]
	if !ok {
		return []string{"key " + keyPath(l) + " is missing"}
	}
	faults := s.Bundle.Check(l, certificate.Content, now)
	faults = append(faults, s.Bundle.Renewal(l, certificate.Content, s.EarlyRenewal, now)...)
	if f.Record == nil || f.Record.Pairs[l.Name] != pairDigest(certificate.SHA256, key.SHA256) {
		faults = append(faults, fmt.Sprintf("certificate %s and its key are not the pair that was issued", certificatePath(l)))
	}
	for p, want := range map[string]fs.FileMode{certificatePath(l): 0o644, keyPath(l): 0o600} {
		if got := f.facts.Files[p]; got.Mode.Perm() != want || got.Owner != layout.User {
			faults = append(faults, fmt.Sprintf("%s has mode %04o and owner %s, wanted %04o and %s", p, got.Mode.Perm(), got.Owner, want, layout.User))
		}
	}
	slices.Sort(faults)
	return faults
}

// issued is the result of issuing the necessary pairs: the files to write, what the record
// contains of them, and the earliest expiry of all pairs, including the kept ones.
type issued struct {
	Files  []host.File
	Pairs  map[string]string
	Expiry time.Time
}

// certificates issues the pairs that must be replaced, and keeps the others: an
// unnecessary reissue would be an unnecessary risk.
func certificates(s Spec, f observed, now time.Time) (issued, error) {
	out := issued{Pairs: map[string]string{}}
	for _, l := range leaves(s) {
		text := f.facts.Files[certificatePath(l)].Content
		if len(certificateProblems(s, l, f, now)) == 0 {
			out.Pairs[l.Name] = f.Record.Pairs[l.Name]
		} else {
			pair, err := s.Bundle.Issue(l, now, 0)
			if err != nil {
				return issued{}, fmt.Errorf("issue certificate %s for %s: %w", l.Name, s.label(), err)
			}
			text = pair.Certificate
			out.Files = append(out.Files,
				host.File{Path: certificatePath(l), Content: []byte(pair.Certificate), Mode: 0o644, Owner: layout.User, Group: layout.User},
				host.File{Path: keyPath(l), Content: []byte(pair.PrivateKey), Mode: 0o600, Owner: layout.User, Group: layout.User})
			out.Pairs[l.Name] = pairDigest(digest([]byte(pair.Certificate)), digest([]byte(pair.PrivateKey)))
		}
		info, err := pki.Inspect(text)
		if err != nil {
			return issued{}, fmt.Errorf("read certificate %s of %s: %w", l.Name, s.label(), err)
		}
		if out.Expiry.IsZero() || info.NotAfter.Before(out.Expiry) {
			out.Expiry = info.NotAfter
		}
	}
	return out, nil
}

// expiry returns the earliest expiry of a member's certificates among the observed files
// of a machine. The paths do not depend on the member's name.
func expiry(files map[string]host.FileState) time.Time {
	var earliest time.Time
	for _, l := range Leaves("", "") {
		info, err := pki.Inspect(files[certificatePath(l)].Content)
		if err == nil && (earliest.IsZero() || info.NotAfter.Before(earliest)) {
			earliest = info.NotAfter
		}
	}
	return earliest
}

// newMemberChange returns the change that puts a member onto a machine, ready to start.
// The record is the last file: it confirms the pairs and their generation, and it exists
// before any data does. timer is what to do about the timer of scheduled snapshots,
// including that of an earlier member on the machine.
func newMemberChange(s Spec, f observed, c issued, id memberID, env string) (change host.Change, timer snapshot.TimerAction) {
	snapshots, snapshotTimer := s.snapshotMember().Repair(f.facts)
	change = baseChange(s)
	change.Remove = snapshots.Remove
	change.Files = slices.Concat(fixedFiles(s), s.snapshotMember().Files(), c.Files)
	change.Files = append(change.Files,
		host.File{Path: layout.EnvPath, Content: []byte(env), Mode: 0o644},
		recordFile(s, id, c.Pairs))
	if s.Snapshots != nil {
		return change, snapshot.TimerOn
	}
	return change, snapshotTimer
}
