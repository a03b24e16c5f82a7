package controlplane

import (
	"fmt"
	"regexp"
	"strconv"
)

// oldestEtcd is, of each Kubernetes minor, the oldest etcd that kubeadm accepts
// beside it: MinExternalEtcdVersion in cmd/kubeadm/app/constants/constants.go of
// 1.32.13, 1.33.13, 1.34.4, 1.35.4 and 1.36.3. Earlier patch releases of a minor
// named an older one and were corrected. No release names a newest etcd; what
// each was tested with (SupportedEtcdVersion there) is 3.5.24 up to 1.33, 3.6.5
// with 1.34, 3.6.6 with 1.35 and 3.6.8 with 1.36, and 1.37 is the first with 3.7.
var oldestEtcd = map[int]release{
	32: {3, 5, 24},
	33: {3, 5, 24},
	34: {3, 5, 24},
	35: {3, 5, 24},
	36: {3, 5, 24},
}

// release is a version in order: major, minor, patch.
type release [3]int

func (r release) String() string { return fmt.Sprintf("%d.%d.%d", r[0], r[1], r[2]) }

func (r release) before(other release) bool {
	for i := range r {
		if r[i] != other[i] {
			return r[i] < other[i]
		}
	}
	return false
}

var releaseForm = regexp.MustCompile(`^([0-9]{1,4})\.([0-9]{1,4})\.([0-9]{1,4})$`)

func parseRelease(version string) (release, error) {
	parts := releaseForm.FindStringSubmatch(version)
	if parts == nil {
		return release{}, fmt.Errorf("malformed version %q: want MAJOR.MINOR.PATCH", version)
	}
	var r release
	for i := range r {
		number, err := strconv.Atoi(parts[i+1])
		if err != nil {
			return release{}, err
		}
		r[i] = number
	}
	return r, nil
}

// ValidateEtcd says why a Kubernetes version cannot run with a version of etcd,
// or nil: etcd must be as new as kubeadm of the same release demands. A newer
// one is never refused, because no release of Kubernetes names a newest.
func ValidateEtcd(kubernetes, etcd string) error {
	if err := ValidateVersion(kubernetes); err != nil {
		return err
	}
	minor, err := minorOf(kubernetes)
	if err != nil {
		return err
	}
	have, err := parseRelease(etcd)
	if err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	if oldest := oldestEtcd[minor]; have.before(oldest) {
		return fmt.Errorf("etcd %s is too old for Kubernetes %s, which needs %s or later (kubeadm's MinExternalEtcdVersion): upgrade etcd first", etcd, kubernetes, oldest)
	}
	return nil
}
