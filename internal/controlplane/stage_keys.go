package controlplane

import (
	"fmt"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// If the introduction of a CA or key is taken back and repeated, the new one has the same generation number. So
// replicas are compared by content as well as by number, and each is compared with what the bundle has at its stage.

// keyFile is a file of a replica that has what a part verifies or decrypts with, and the component that reads it at its
// start.
type keyFile struct {
	part         pki.Part
	path, reader string
}

// keyFiles are the files by which replicas are compared. The other two parts are not among them: replicas verify
// nothing of each other by the etcd CA, and aggregated servers trust the front-proxy CAs of all replicas.
func keyFiles() []keyFile {
	return []keyFile{
		{pki.KubernetesPart, component.CACert, release.ControllerManager},
		{pki.ServiceAccountPart, component.SAPub, release.APIServer},
		{pki.EncryptionPart, component.EncryptionConfigPath, release.APIServer},
	}
}

// digestIn returns the digest of the file for b; "" if there is none.
func (k keyFile) digestIn(b *pki.Bundle) string {
	switch k.part {
	case pki.KubernetesPart:
		return component.ContentDigest(b.Roots(pki.Kubernetes))
	case pki.ServiceAccountPart:
		return component.ContentDigest(b.PublicKeys())
	}
	return component.EncryptionDigest(b)
}

// digestAt returns the digest of the file for b at its stage or one beside it, if b knows it. A stage without
// encryption has no file.
func (k keyFile) digestAt(b *pki.Bundle, generation int) (digest string, known bool) {
	there, known := b.At(k.part, generation)
	if !known {
		return "", false
	}
	digest = k.digestIn(there)
	return digest, digest != ""
}

// noted returns the digest with which the process of the replica was started; "" if it is unknown.
func (k keyFile) noted(f machine.Observed) string { return f.StartNote(f.Runtime(), k.reader)[k.path] }

// readKeys returns the digests of the files on a machine, by part.
func readKeys(f machine.Observed) map[pki.Part]string {
	keys := map[pki.Part]string{}
	for _, k := range keyFiles() {
		keys[k.part] = f.Facts.Files[k.path].SHA256
	}
	return keys
}

// changesKeys reports whether the processes of the replica run with other CAs or keys than those of the bundle. What
// was edited after their start is repaired. So is a CA or public key that was edited between rotations, whatever has
// read it: replicas that wait for each other's repair would wait for ever.
func changesKeys(s Spec, f machine.Observed) bool {
	return slices.ContainsFunc(keyFiles(), func(k keyFile) bool { return k.changes(s, f) })
}

// replacesKeys is changesKeys without the files that the machine does not have yet, as after an interrupted Create.
func replacesKeys(s Spec, f machine.Observed) bool {
	return slices.ContainsFunc(keyFiles(), func(k keyFile) bool {
		_, exists := f.Facts.Files[k.path]
		return exists && k.changes(s, f)
	})
}

func (k keyFile) changes(s Spec, f machine.Observed) bool {
	want, generation := k.digestIn(s.Bundle), f.Record.Generations[k.part]
	repair := k.part != pki.EncryptionPart && pki.StageOf(generation) == pki.Steady &&
		generation == s.Bundle.Generation(k.part)
	return want != "" && !repair && f.Facts.Files[k.path].SHA256 != want && k.noted(f) != want
}

// otherKeys describes the CAs and keys of a replica that differ from what b says of its stage.
func otherKeys(b *pki.Bundle, st replicaStatus) []string {
	var problems []string
	for _, k := range keyFiles() {
		generation := st.generations[k.part]
		if generation == b.Generation(k.part) && pki.StageOf(generation) == pki.Introduced {
			continue // nothing is made with either one, and the adoption compares them
		}
		have, seen := st.keys[k.part]
		want, known := k.digestAt(b, generation)
		if !seen || !known || have == want || have == k.digestIn(b) { // or a change to b was cut off
			continue
		}
		effect := "they would not trust each other"
		if k.part == pki.EncryptionPart {
			effect = "they could not read each other's objects"
		}
		problems = append(problems, fmt.Sprintf("replica %s is at generation %d of %s with another %s than the bundle has "+
			"there: %s", st.machine(), generation, k.part, noun(k.part), effect))
	}
	return problems
}

func noun(p pki.Part) string {
	if p == pki.ServiceAccountPart || p == pki.EncryptionPart {
		return "key"
	}
	return "CA"
}

// checkOwnKeys returns an error if the replica signs with a CA or key that it has adopted, and that is not the one
// of the bundle: no stage of the bundle verifies what it has signed.
func checkOwnKeys(s Spec, f machine.Observed) error {
	for _, k := range keyFiles() {
		generation, noted := f.Record.Generations[k.part], k.noted(f)
		if !k.part.Signs() || pki.StageOf(generation) != pki.Adopted || noted == "" {
			continue
		}
		want, known := k.digestAt(s.Bundle, generation)
		if known && noted != want && noted != k.digestIn(s.Bundle) { // a change to the bundle was cut off
			return rotationRefused(s, fmt.Sprintf("it is at generation %d of %s with another %s than the bundle has there: "+
				"what it has signed would be refused", generation, k.part, noun(k.part)), "use "+lastBundle+".", nil)
		}
	}
	return nil
}

const lastBundle = "the bundle with which that replica was last applied (an earlier state of kube_pki_bundle)"
