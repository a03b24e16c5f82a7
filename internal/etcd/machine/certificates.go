package machine

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// CertificatesOf returns the certificates in a PEM text; none if it is damaged.
func CertificatesOf(text string) []*x509.Certificate {
	var all []*x509.Certificate
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return all
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil
		}
		all = append(all, c)
	}
}

// Leaves returns the certificates of a member.
func Leaves(name, address string) []pki.Leaf {
	return []pki.Leaf{pki.EtcdServer(name, address), pki.EtcdPeer(name, address), pki.EtcdHealthcheckClient()}
}

func leaves(s Spec) []pki.Leaf { return Leaves(s.Name, s.Host.Address()) }

// CertificatePath returns where the certificate of a leaf is.
func CertificatePath(l pki.Leaf) string { return path.Join(path.Dir(layout.PKIDir), l.Name) + ".crt" }

func keyPath(l pki.Leaf) string { return path.Join(path.Dir(layout.PKIDir), l.Name) + ".key" }

// pairDigest ties a certificate to its key. It detects a pair of which only one half was
// renamed into place before an interruption.
func pairDigest(certificateSHA, keySHA string) string { return Digest([]byte(certificateSHA + keySHA)) }

// certificateProblems describes, for one leaf, how the pair on the machine differs from the wanted one.
func certificateProblems(s Spec, l pki.Leaf, f Observed, now time.Time) []string {
	problems := pairProblems(s, l, f, now)
	for _, p := range narrowed(l, f) {
		problems = append(problems, s.accessProblem(p, f.Facts.Files[p], modes(l)[p]))
	}
	slices.Sort(problems)
	return problems
}

// pairProblems describes, for one leaf, why the pair on the machine must be replaced.
func pairProblems(s Spec, l pki.Leaf, f Observed, now time.Time) []string {
	certificate, ok := f.Facts.Files[CertificatePath(l)]
	if !ok {
		return []string{"certificate " + CertificatePath(l) + " is missing"}
	}
	key, ok := f.Facts.Files[keyPath(l)]
	if !ok {
		return []string{"key " + keyPath(l) + " is missing"}
	}
	problems := s.Bundle.Check(l, certificate.Content, now)
	problems = append(problems, s.Bundle.Renewal(l, certificate.Content, s.EarlyRenewal, now)...)
	if !f.TakesOver() && // kubeadm has written both
		(f.Record == nil || f.Record.Pairs[l.Name] != pairDigest(certificate.SHA256, key.SHA256)) {
		problems = append(problems, fmt.Sprintf("certificate %s and its key are not the pair that was issued",
			CertificatePath(l)))
	}
	for p, want := range modes(l) {
		if got := f.Facts.Files[p]; got.Mode.Perm()&^want != 0 || !mayOwn(got.Owner) {
			problems = append(problems, s.accessProblem(p, got, want))
		}
	}
	slices.Sort(problems)
	return problems
}

// modes returns the modes of the two files of a leaf.
func modes(l pki.Leaf) map[string]fs.FileMode {
	return map[string]fs.FileMode{CertificatePath(l): 0o644, keyPath(l): 0o600}
}

// narrowed lists the files of a leaf that fewer users can read than should, as benchmarks of security ask for. Nobody
// else has read or written them, so they get their modes, and no new content.
func narrowed(l pki.Leaf, f Observed) []string {
	var paths []string
	for p, want := range modes(l) {
		if got, there := f.Facts.Files[p]; there && got.Mode.Perm() != want && got.Mode.Perm()&^want == 0 {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	return paths
}

// accessRepair returns a script that widens the modes of narrowed files that are kept, or "".
func accessRepair(s Spec, f Observed, now time.Time) host.Script {
	var script host.Script
	for _, l := range leaves(s) {
		if len(pairProblems(s, l, f, now)) > 0 {
			continue
		}
		for _, p := range narrowed(l, f) {
			script += host.Chmod(p, modes(l)[p])
		}
	}
	return script
}

func (s Spec) accessProblem(at string, got host.FileState, want fs.FileMode) string {
	return fmt.Sprintf("%s has mode %04o and owner %s, wanted %04o and %s", at, got.Mode.Perm(), got.Owner, want,
		s.owner())
}

// Issued is the result of issuing the necessary pairs: the files to write, what the record
// contains of them, and the earliest expiry of all pairs, including the kept ones.
type Issued struct {
	Files  []host.File
	Pairs  map[string]string
	Expiry time.Time
}

// Certificates issues the pairs that must be replaced, and keeps the others: an
// unnecessary reissue would be an unnecessary risk.
func Certificates(s Spec, f Observed, now time.Time) (Issued, error) {
	out := Issued{Pairs: map[string]string{}}
	for _, l := range leaves(s) {
		text := f.Facts.Files[CertificatePath(l)].Content
		if len(pairProblems(s, l, f, now)) == 0 {
			out.Pairs[l.Name] = pairDigest(f.Facts.Files[CertificatePath(l)].SHA256, f.Facts.Files[keyPath(l)].SHA256)
		} else {
			pair, err := s.Bundle.Issue(l, now, 0)
			if err != nil {
				return Issued{}, fmt.Errorf("issue certificate %s for %s: %w", l.Name, s.Label(), err)
			}
			text = pair.Certificate
			out.Files = append(out.Files, pairFiles(s, l, f, pair, now)...)
			out.Pairs[l.Name] = pairDigest(Digest([]byte(pair.Certificate)), Digest([]byte(pair.PrivateKey)))
		}
		info, err := pki.Inspect(text)
		if err != nil {
			return Issued{}, fmt.Errorf("read certificate %s of %s: %w", l.Name, s.Label(), err)
		}
		if out.Expiry.IsZero() || info.NotAfter.Before(out.Expiry) {
			out.Expiry = info.NotAfter
		}
	}
	return out, nil
}

// pairFiles returns the files of a pair. The one that makes it invalid comes last, so a pair of which only the other
// was renamed into place stays invalid, also in a takeover: until it has written the record, nothing ties the two
// together.
func pairFiles(s Spec, l pki.Leaf, f Observed, pair pki.KeyPair, now time.Time) []host.File {
	certificate := host.File{
		Path: CertificatePath(l), Content: []byte(pair.Certificate), Mode: 0o644, Owner: s.owner(), Group: s.owner(),
	}
	key := host.File{Path: keyPath(l), Content: []byte(pair.PrivateKey), Mode: 0o600, Owner: s.owner(), Group: s.owner()}
	state := f.Facts.Files[key.Path]
	state.Mode, state.Owner = key.Mode, key.Owner
	files := map[string]host.FileState{}
	maps.Copy(files, f.Facts.Files)
	files[key.Path] = state
	f.Facts.Files = files
	if len(pairProblems(s, l, f, now)) == 0 {
		return []host.File{certificate, key}
	}
	return []host.File{key, certificate}
}

// Expiry returns the earliest expiry of a member's certificates among the observed files
// of a machine. The paths do not depend on the member's name.
func Expiry(files map[string]host.FileState) time.Time {
	var earliest time.Time
	for _, l := range Leaves("", "") {
		info, err := pki.Inspect(files[CertificatePath(l)].Content)
		if err == nil && (earliest.IsZero() || info.NotAfter.Before(earliest)) {
			earliest = info.NotAfter
		}
	}
	return earliest
}

// UnreadCertificates returns the paths of a member's certificates that are missing among the observed files, or are no
// certificates. Expiry does not count them.
func UnreadCertificates(files map[string]host.FileState) []string {
	var paths []string
	for _, l := range Leaves("", "") {
		if _, err := pki.Inspect(files[CertificatePath(l)].Content); err != nil {
			paths = append(paths, CertificatePath(l))
		}
	}
	return paths
}
