package release

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ErrSkew means that the version skew policy does not allow a version together with the running
// ones.
var ErrSkew = errors.New("version skew")

// maxKubeletSkew is how many minors a kubelet may be older than the API server
// (since Kubernetes 1.28).
const maxKubeletSkew = 3

// maxNames is the maximum number of nodes that one message names.
const maxNames = 5

// Versions contains the versions that run in a control plane, by name; "" is unknown.
type Versions struct {
	Replicas map[string]string // of the API servers, including the replica's own
	Etcd     map[string]string // of the members
	Kubelets map[string]string // of the nodes; nil if no API server answered
	// Removed lists APIs that clients have requested from the running API servers and
	// that the wanted version no longer serves.
	Removed []string
}

// CheckSkew returns every reason why the named replica may not be created at, or changed to, a
// version together with the running versions. An unknown version is not a reason: the caller
// decides whether enough is known. https://kubernetes.io/releases/version-skew-policy/
func CheckSkew(version, name string, s Versions) error {
	want, err := Minor(version)
	if err != nil {
		return err
	}
	var refusals []error
	for _, replica := range slices.Sorted(maps.Keys(s.Replicas)) {
		switch has := s.Replicas[replica]; {
		case has == "":
		case replica == name:
			refusals = append(refusals, ValidateStep(has, version))
		default:
			refusals = append(refusals, checkReplica(version, want, replica, has))
		}
	}
	for _, member := range slices.Sorted(maps.Keys(s.Etcd)) {
		if s.Etcd[member] == "" {
			continue
		}
		if err := ValidateEtcd(version, s.Etcd[member]); err != nil {
			refusals = append(refusals, fmt.Errorf("%w: etcd member %s: %w", ErrSkew, member, err))
		}
	}
	if !s.serves(version) {
		refusals = append(refusals, checkKubelets(version, want, s.Kubelets)...)
	}
	return errors.Join(refusals...)
}

// serves reports whether an API server runs the minor of a version already. Another one of that minor then meets no
// kubelet that this minor has not met: to refuse it would prevent a security patch, or the repair of a replica.
func (s Versions) serves(version string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(s.Replicas)),
		func(has string) bool { return SameMinor(has, version) })
}

// checkReplica checks that API servers of one control plane differ by at most one minor,
// because clients reach any of them, and each must be able to read what the others stored.
func checkReplica(version string, want int, replica, has string) error {
	minor, err := Minor(has)
	if err != nil {
		return fmt.Errorf("replica %s: %w", replica, err)
	}
	const rule = "API servers of one control plane are within one minor of each other"
	switch {
	case want > minor+1:
		return fmt.Errorf("%w: replica %s is at %s, more than one minor below %s (%s): upgrade it to 1.%d first",
			ErrSkew, replica, has, version, rule, want-1)
	case want < minor-1:
		return fmt.Errorf("%w: replica %s is at %s, more than one minor above %s (%s): choose 1.%d or 1.%d",
			ErrSkew, replica, has, version, rule, minor-1, minor)
	}
	return nil
}

// checkKubelets checks that no kubelet is newer than any API server that it reaches through the
// endpoint, or more than maxKubeletSkew minors older.
func checkKubelets(version string, want int, kubelets map[string]string) []error {
	var newer, older []string
	newest := 0
	for _, node := range slices.Sorted(maps.Keys(kubelets)) {
		minor, known := looseMinor(kubelets[node])
		named := node + " (" + kubelets[node] + ")"
		switch {
		case !known:
		case minor > want:
			newer, newest = append(newer, named), max(newest, minor)
		case minor < want-maxKubeletSkew:
			older = append(older, named)
		}
	}
	var refusals []error
	if len(newer) > 0 {
		refusals = append(refusals, fmt.Errorf("%w: the kubelets of nodes %s would be newer than the API server, which is "+
			"not supported: choose 1.%d or newer",
			ErrSkew, shorten(newer), newest))
	}
	if len(older) > 0 {
		refusals = append(refusals, fmt.Errorf("%w: kubelets would be more than %d minors older than the API server at "+
			"%s: upgrade the kubelets of nodes %s to 1.%d first",
			ErrSkew, maxKubeletSkew, version, shorten(older), want-maxKubeletSkew))
	}
	return refusals
}

func shorten(names []string) string {
	if more := len(names) - maxNames; more > 0 {
		names = append(slices.Clone(names[:maxNames]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}
