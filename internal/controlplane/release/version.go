package release

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// The minor versions whose flags and probes are known.
const (
	OldestMinor = 32
	NewestMinor = 37
)

// The reasons why a version is rejected, for errors.Is.
var (
	ErrVersionMalformed = errors.New("malformed Kubernetes version")
	ErrVersionUnknown   = errors.New("unknown Kubernetes version")
	ErrVersionStep      = errors.New("illegal version step")
)

// versionForm is stricter than a semantic version: the version becomes part of a
// path on machines.
var versionForm = regexp.MustCompile(`^1\.(0|[1-9][0-9]{0,2})\.(0|[1-9][0-9]{0,2})(-(alpha|beta|rc)\.[0-9]+)?$`)

// IsVersion reports whether text is a well-formed Kubernetes version.
func IsVersion(text string) bool { return versionForm.MatchString(text) }

// ValidateVersion returns why a replica cannot have a version: ErrVersionMalformed
// if it is not a version, ErrVersionUnknown if its minor is not supported.
func ValidateVersion(version string) error {
	if plain, ok := strings.CutPrefix(version, "v"); ok && IsVersion(plain) {
		return fmt.Errorf("%w %q: write it without v, %q", ErrVersionMalformed, version, plain)
	}
	minor, err := Minor(version)
	if err != nil {
		return err
	}
	if minor < OldestMinor || minor > NewestMinor {
		return fmt.Errorf("%w %q: known are 1.%d to 1.%d", ErrVersionUnknown, version, OldestMinor, NewestMinor)
	}
	return nil
}

// ValidateStep returns why a replica cannot go from one version to another
// (ErrVersionStep). A minor is never skipped, because the API servers of a control
// plane must be within one minor of each other. It is never lowered, because an
// older API server may not be able to read what a newer one has stored.
// https://kubernetes.io/releases/version-skew-policy/
func ValidateStep(from, to string) error {
	old, err := Minor(from)
	if err != nil {
		return err
	}
	next, err := Minor(to)
	if err != nil {
		return err
	}
	switch {
	case next > old+1:
		return fmt.Errorf("%w from %s to %s: no minor may be skipped; go to 1.%d first", ErrVersionStep, from, to, old+1)
	case next < old:
		return fmt.Errorf("%w from %s to %s: a minor is never lowered, because an older API server may not read what a "+
			"newer one has stored; stay at 1.%d", ErrVersionStep, from, to, old)
	}
	return nil
}

// SameMinor reports whether two versions are releases of the same minor.
func SameMinor(a, b string) bool {
	x, errA := Minor(a)
	y, errB := Minor(b)
	return errA == nil && errB == nil && x == y
}

func parseVersion(text string) (*version.Version, error) {
	if !IsVersion(text) {
		return nil, fmt.Errorf("%w %q: want MAJOR.MINOR.PATCH, such as 1.36.3", ErrVersionMalformed, text)
	}
	return version.ParseSemantic(text)
}

// Minor returns the minor version: 36 for "1.36.3".
func Minor(text string) (int, error) {
	v, err := parseVersion(text)
	if err != nil {
		return 0, err
	}
	return int(v.Minor()), nil
}

// looseMinor also accepts a kubelet's version, which may be a vendor's ("v1.33.5+k3s1"), and a
// minor alone ("1.33").
func looseMinor(text string) (minor int, known bool) {
	v, err := version.ParseGeneric(text)
	if err != nil || v.Major() != 1 {
		return 0, false
	}
	return int(v.Minor()), true
}

// older compares semantic versions: 1.35.0-rc.0 precedes 1.35.0. A vendor's version that is not
// semantic is neither older nor newer.
func older(a, b string) bool {
	v, err := version.ParseSemantic(a)
	w, other := version.ParseSemantic(b)
	return err == nil && other == nil && v.LessThan(w)
}
