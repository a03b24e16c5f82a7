package controlplane

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ErrSkew: a version that what runs beside it does not allow.
var ErrSkew = errors.New("version skew")

// kubeletLag is how many minors a kubelet may be older than the API server it
// reaches (since Kubernetes 1.28).
const kubeletLag = 3

// namesShown is how many offenders of one kind a refusal names.
const namesShown = 5

// Skew is which versions run in a control plane, by name. "" is one that does
// not tell.
type Skew struct {
	Replicas map[string]string // of the API servers, the asked one's included
	Etcd     map[string]string // of the members
	Kubelets map[string]string // of the nodes; nil where no API server could be asked
	// Removed are APIs that clients of the running API servers have asked for and
	// that the wanted version does not serve any more, in words.
	Removed []string
}

// MayRun says every reason why the replica of that name may not be brought to,
// or made at, a version beside what runs. What does not tell its version is not
// known and no reason; whether that is enough is the caller's to decide.
// https://kubernetes.io/releases/version-skew-policy/
func MayRun(version, name string, s Skew) error {
	want, err := minorOf(version)
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
			refusals = append(refusals, besideReplica(version, want, replica, has))
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
	return errors.Join(append(refusals, aboveKubelets(version, want, s.Kubelets)...)...)
}

// besideReplica: API servers of one control plane differ by one minor at most,
// because clients meet now one and now another, and each has to read what the
// others stored.
func besideReplica(version string, want int, replica, has string) error {
	minor, err := minorOf(has)
	if err != nil {
		return fmt.Errorf("replica %s: %w", replica, err)
	}
	const rule = "API servers of one control plane are within one minor of each other"
	switch {
	case want > minor+1:
		return fmt.Errorf("%w: replica %s is at %s, more than one minor below %s (%s): upgrade it to 1.%d first", ErrSkew, replica, has, version, rule, want-1)
	case want < minor-1:
		return fmt.Errorf("%w: replica %s is at %s, more than one minor above %s (%s): choose 1.%d or 1.%d", ErrSkew, replica, has, version, rule, minor-1, minor)
	}
	return nil
}

// aboveKubelets: a kubelet is never newer than an API server it reaches, and it
// reaches any of them through the endpoint; nor too much older.
func aboveKubelets(version string, want int, kubelets map[string]string) []error {
	var newer, older []string
	newest := 0
	for _, node := range slices.Sorted(maps.Keys(kubelets)) {
		minor, known := looseMinor(kubelets[node])
		word := node + " (" + kubelets[node] + ")"
		switch {
		case !known:
		case minor > want:
			newer, newest = append(newer, word), max(newest, minor)
		case minor < want-kubeletLag:
			older = append(older, word)
		}
	}
	var refusals []error
	if len(newer) > 0 {
		refusals = append(refusals, fmt.Errorf("%w: kubelets would be newer than the API server, and never may be: those of nodes %s: choose 1.%d or newer",
			ErrSkew, shorten(newer), newest))
	}
	if len(older) > 0 {
		refusals = append(refusals, fmt.Errorf("%w: kubelets would be more than %d minors older than the API server at %s: upgrade the kubelets of nodes %s to 1.%d first",
			ErrSkew, kubeletLag, version, shorten(older), want-kubeletLag))
	}
	return refusals
}

// looseForm takes a kubelet's version, which may be a vendor's ("v1.33.5+k3s1"),
// and that of a release ("1.33").
var looseForm = regexp.MustCompile(`^v?1\.(0|[1-9][0-9]{0,2})(\.|$)`)

func looseMinor(version string) (minor int, known bool) {
	parts := looseForm.FindStringSubmatch(version)
	if parts == nil {
		return 0, false
	}
	minor, err := strconv.Atoi(parts[1])
	return minor, err == nil
}

func shorten(words []string) string {
	if more := len(words) - namesShown; more > 0 {
		words = append(slices.Clone(words[:namesShown]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(words, ", ")
}
