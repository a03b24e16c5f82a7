package controlplane

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Kubernetes minor versions whose flags and probes are known here.
const (
	oldestMinor = 32
	newestMinor = 36
)

// Why a version is refused, for errors.Is.
var (
	ErrVersionMalformed = errors.New("malformed Kubernetes version")
	ErrVersionUnknown   = errors.New("unknown Kubernetes version")
	ErrVersionStep      = errors.New("illegal version step")
)

var versionForm = regexp.MustCompile(`^1\.(0|[1-9][0-9]{0,2})\.(0|[1-9][0-9]{0,2})(-(alpha|beta|rc)\.[0-9]+)?$`)

// ValidateVersion says why version cannot be a replica's: ErrVersionMalformed
// where it is none at all, ErrVersionUnknown where its minor is not known here.
func ValidateVersion(version string) error {
	if strings.HasPrefix(version, "v") && versionForm.MatchString(version[1:]) {
		return fmt.Errorf("%w %q: write it without v, %q", ErrVersionMalformed, version, version[1:])
	}
	minor, err := minorOf(version)
	if err != nil {
		return err
	}
	if minor < oldestMinor || minor > newestMinor {
		return fmt.Errorf("%w %q: known are 1.%d to 1.%d", ErrVersionUnknown, version, oldestMinor, newestMinor)
	}
	return nil
}

// ValidateStep says why a replica cannot go from one version to another
// (ErrVersionStep). A minor is never skipped, because API servers of one
// control plane must be within one minor of each other; and never lowered,
// because an older server cannot be relied on to read what a newer one stored.
// https://kubernetes.io/releases/version-skew-policy/
func ValidateStep(from, to string) error {
	old, err := minorOf(from)
	if err != nil {
		return err
	}
	next, err := minorOf(to)
	if err != nil {
		return err
	}
	switch {
	case next > old+1:
		return fmt.Errorf("%w from %s to %s: no minor may be skipped; go to 1.%d first", ErrVersionStep, from, to, old+1)
	case next < old:
		return fmt.Errorf("%w from %s to %s: a minor is never lowered, because an older API server may not read what a newer one has stored; stay at 1.%d", ErrVersionStep, from, to, old)
	}
	return nil
}

func minorOf(version string) (int, error) {
	parts := versionForm.FindStringSubmatch(version)
	if parts == nil {
		return 0, fmt.Errorf("%w %q: want MAJOR.MINOR.PATCH, such as 1.34.4", ErrVersionMalformed, version)
	}
	return strconv.Atoi(parts[1])
}
