package controlplane

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// encryptable are the resources whose objects can be encrypted at rest.
func encryptable() []string { return []string{"secrets", "configmaps"} }

// encryptedPrefix is the prefix of every value that an API server stores encrypted
// (k8s.io/apiserver/pkg/server/options/encryptionconfig).
const encryptedPrefix = "k8s:enc:"

// isEncryptedWith reports whether a value in etcd is stored in the form that an API server writes
// with encryption e for objects of the resource.
func isEncryptedWith(e pki.Encryption, resource string, value []byte) bool {
	if !e.Covers(resource) {
		return !bytes.HasPrefix(value, []byte(encryptedPrefix))
	}
	version := "v1"
	if e.Kind == pki.KMS {
		version = "v2"
	}
	return bytes.HasPrefix(value, []byte(encryptedPrefix+string(e.Kind)+":"+version+":"+e.Name+":"))
}

// staleObjects are, by resource, the objects in etcd (namespace/name) whose stored form differs from what an
// API server would write now; nil if they are unknown.
type staleObjects map[string][]string

// findStaleObjects reads every object that can be encrypted. Without a store, all resources of
// the rotation count as stale.
func findStaleObjects(ctx context.Context, s Spec) (staleObjects, error) {
	left := staleObjects{}
	if s.Store == nil {
		for _, resource := range s.rotated() {
			left[resource] = nil
		}
		return left, nil
	}
	for _, resource := range encryptable() {
		at := s.storedAt(resource)
		err := s.Store.Scan(ctx, at, func(key string, value []byte) {
			if !isEncryptedWith(s.Bundle.Encryption, resource, value) {
				left[resource] = append(left[resource], strings.TrimPrefix(key, at))
			}
		})
		if err != nil {
			return nil, fmt.Errorf("check how etcd stores %s: %w", resource, err)
		}
	}
	return left, nil
}

// rotated returns the resources that either of the two encryptions of the rotation covers.
func (s Spec) rotated() []string {
	return slices.DeleteFunc(encryptable(), func(resource string) bool {
		other := s.Bundle.EncryptionRotation.Other
		return !s.Bundle.Encryption.Covers(resource) && (other == nil || !other.Covers(resource))
	})
}

// checkReadable returns an error if the API server reads objects now that it could not read with the bundle: a bundle
// that was taken back and forth without the replicas, or an old one, lacks the key that they were stored with. It
// looks only before the configuration of the encryption changes, or the file that the API server reads it from.
func checkReadable(ctx context.Context, s Spec, f machine.Observed) error {
	has, encrypts := f.Facts.Files[component.EncryptionConfigPath]
	same := has.SHA256 == component.EncryptionDigest(s.Bundle)
	if other, err := f.OtherEncryption(); !encrypts || s.Store == nil || same && other == "" && err == nil {
		return nil
	}
	unreadable, reason, err := findUnreadable(ctx, s, math.MaxInt)
	switch {
	case err != nil:
		return rotationRefused(s, err.Error(), "fix this, then apply again.", err)
	case unreadable == 0:
		return nil
	}
	return rotationRefused(s, fmt.Sprintf("%d objects in etcd would become unreadable: %v", unreadable, reason),
		readableNext(s, reason,
			"use the bundle with that key (the newest state of kube_pki_bundle that all replicas were applied with)."), nil)
}

// checkReadableByNew returns an error if the API server of a new replica could not read what etcd has: the members may
// have survived the machines of all replicas, and the bundle may be an old one or an imported one without the key. An
// etcd that this provider does not manage may be out of its reach, and nothing is known of it then.
func checkReadableByNew(ctx context.Context, s Spec, f machine.Observed) error {
	if f.Record.ClusterID != "" || s.Store == nil {
		return nil
	}
	unreadable, reason, err := findUnreadable(ctx, s, mostStored)
	if err != nil && ctx.Err() == nil { // it may elect a leader at the same time
		unreadable, reason, err = findUnreadable(ctx, s, mostStored)
	}
	if err != nil {
		if versions, unknown := s.Store.Versions(ctx); unknown == nil && len(versions) == 0 {
			return nil
		}
		return notReadable(s, err.Error(), "fix this, then apply again.", err)
	}
	if unreadable == 0 {
		return nil
	}
	return notReadable(s, fmt.Sprintf("its API server could not read %d objects in etcd: %v", unreadable, reason),
		readableNext(s, reason, "use the bundle with that key: the newest state of kube_pki_bundle that the replicas were "+
			"applied with, or an import with the encryption configuration of the API servers. Then apply again."), nil)
}

// readableNext returns the next step after objects that could not be read: withKey if the bundle does not have the key.
func readableNext(s Spec, reason error, withKey string) string {
	if step := s.Bundle.StepToRead(reason); step != "" {
		return step + "; then apply again."
	}
	return withKey
}

func notReadable(s Spec, cause, next string, err error) error {
	return &problem.Problem{
		Summary: "Control-plane replica not created", Host: s.Machine(), Cause: cause, Err: err, Unchanged: problem.Nothing,
		Next: next,
	}
}

// findUnreadable counts the objects in etcd that API servers of the bundle cannot read, and returns why they cannot
// read one of them. After most objects of a resource, the rest is not read: a key that is missing shows in any of them.
func findUnreadable(ctx context.Context, s Spec, most int) (unreadable int, reason, err error) {
	for _, resource := range encryptable() {
		seen := 0
		scan, stop := context.WithCancel(ctx)
		err := s.Store.Scan(scan, s.storedAt(resource), func(_ string, value []byte) {
			if seen++; seen >= most {
				stop() // ends the read after this page
			}
			if err := s.Bundle.Reads(resource, value); err != nil {
				unreadable, reason = unreadable+1, err
			}
		})
		stop()
		if err != nil && seen < most {
			return 0, nil, fmt.Errorf("cannot determine how etcd stores %s: %w", resource, err)
		}
	}
	return unreadable, reason, nil
}

// storedAt returns the prefix of a resource's objects in etcd.
func (s Spec) storedAt(resource string) string {
	return path.Join("/", cmp.Or(s.ExtraArgs[release.APIServer]["etcd-prefix"], "registry"), resource) + "/"
}

// checkNoStaleObjects returns an error if dropping the other key of a rotation would leave
// objects stored with it: they would be unreadable. It first tries to rewrite them. All other
// replicas already write with the remaining key, because they are within one stage.
func checkNoStaleObjects(ctx context.Context, s Spec, f machine.Observed) error {
	to := s.Bundle.Generation(pki.EncryptionPart)
	joins := f.Record.ClusterID == "" // its own API server does not run yet; the others rewrite
	there := f.Record.Generations[pki.EncryptionPart] == to && (!joins || f.TakesOver(s.Replica))
	if there || pki.StageOf(to) != pki.Steady || joins && s.Store == nil {
		return nil
	}
	left, err := findStaleObjects(ctx, s)
	if err == nil && len(left) > 0 && !joins {
		left, err = rewriteStaleObjects(ctx, s, left)
	}
	if err != nil {
		return rotationRefused(s, "cannot determine how etcd stores the objects: "+err.Error(),
			"fix this, then apply again: only what is left is rewritten.", err)
	}
	return staleObjectsProblem(s, left, joins, goesBack(s, f))
}

// goesBack reports whether the replica goes back to the encryption stage of s. A new replica has no stage yet: it could
// not start at the stage before if the bundle does not have the encryption of that stage.
func goesBack(s Spec, f machine.Observed) bool {
	if f.Record.ClusterID == "" {
		return s.Bundle.EncryptionRotation.Other == nil
	}
	return f.Record.Generations[pki.EncryptionPart] > s.Bundle.Generation(pki.EncryptionPart)
}

// staleObjectsProblem returns why the objects that are left keep the replica from its stage, or
// nil. Other replicas may still rewrite them for one that joins. On the way back, no stage is proposed: the API
// server reads and rewrites them at its present one.
func staleObjectsProblem(s Spec, left staleObjects, joins, back bool) error {
	if len(left) == 0 {
		return nil
	}
	cause := left.String() + " stored in etcd with another encryption than the current one: at this stage they would " +
		"become unreadable, or stay unencrypted"
	before := s.Bundle.Generation(pki.EncryptionPart) - 1
	switch {
	case joins && back:
		return rotationNotYet(s, cause, "apply the other replicas first; where there are none, use the bundle with the "+
			"encryption of these objects (an earlier state of kube_pki_bundle).")
	case joins:
		return rotationNotYet(s, cause, fmt.Sprintf("apply the other replicas first; where there are none, set "+
			"rotation.encryption back to %d.", before))
	case back:
		return rotationRefused(s, cause, "look for what keeps the API server from rewriting these objects, then apply "+
			"again.", nil)
	}
	return rotationRefused(s, cause, fmt.Sprintf("set rotation.encryption back to %d, apply, and look for what keeps "+
		"the API server from rewriting these objects.", before), nil)
}

// String describes the counts, such as "3 secrets are".
func (l staleObjects) String() string {
	var counts []string
	for _, resource := range slices.Sorted(maps.Keys(l)) {
		counts = append(counts, fmt.Sprintf("%d %s", len(l[resource]), resource))
	}
	return strings.Join(counts, " and ") + " are"
}

// rewriteInRotation rewrites what is stored with the other key of a rotation once every replica writes with the one
// in use: the new one when that is adopted, and the previous one when the rotation goes back. The last replica to
// take this stage therefore does it. The stage that drops the other key checks again. If nobody knows whether
// another replica writes with the key in use, that is an error as long as there is something to rewrite: no later
// apply would do it.
func (r *Replicas) rewriteInRotation(ctx context.Context, s Spec) error {
	switch stage := s.Bundle.EncryptionRotation.Stage(); {
	case stage == pki.Steady:
		return nil
	case stage == pki.Introduced && s.Store == nil: // nothing says whether this is the way back
		return nil
	}
	others, err := r.otherReplicas(ctx, s)
	if err != nil {
		return err
	}
	last, unseen := lastToTakeEncryption(s, others)
	if !last {
		return nil
	}
	left, err := findStaleObjects(ctx, s)
	switch {
	case err != nil || len(left) == 0:
	case len(unseen) > 0:
		err = errors.New(strings.Join(unseen, "; "))
	default:
		left, err = rewriteStaleObjects(ctx, s, left)
	}
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%s still stored with the other key", left)
	}
	if err != nil {
		return &problem.Problem{
			Summary: "Objects not rewritten with the encryption key in use", Host: s.Machine(), Cause: err.Error(),
			Unchanged: "the replica is up to date and in rotation; both keys can still be read.",
			Next: "fix this, then apply again: only what is left is rewritten; the next stage of the rotation checks it " +
				"too.",
			Err: err,
		}
	}
	return nil
}

// lastToTakeEncryption reports whether no other replica is known to take the encryption stage of s later, and with it
// the rewrite. unseen describes those of which that is unknown.
func lastToTakeEncryption(s Spec, others []replicaStatus) (last bool, unseen []string) {
	for _, st := range others {
		switch {
		case st.absent:
		case st.foreign, st.between: // its takeover, or the end of its change, rewrites
			return false, nil
		case st.unknown != nil:
			unseen = append(unseen, st.unseen())
		case st.generations[pki.EncryptionPart] != s.Bundle.Generation(pki.EncryptionPart):
			return false, nil
		}
	}
	return true, unseen
}

// rewriteStaleObjects rewrites the given objects and looks again. If it is cut off, the next call has less to do.
func rewriteStaleObjects(ctx context.Context, s Spec, left staleObjects) (staleObjects, error) {
	for _, resource := range slices.Sorted(maps.Keys(left)) {
		n, err := s.client().Rewrite(ctx, resource, left[resource])
		if err != nil {
			return nil, fmt.Errorf("rewrite %s: %w", resource, err)
		}
		problem.Progress(ctx, "%s: rewrote %d %s with the present encryption", s.Machine(), n, resource)
	}
	if s.Store == nil {
		return nil, nil
	}
	return findStaleObjects(ctx, s)
}
