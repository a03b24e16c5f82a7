package release

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// oldestEtcd is the oldest etcd that kubeadm of a Kubernetes minor accepts:
// MinExternalEtcdVersion in cmd/kubeadm/app/constants/constants.go of 1.32.13, 1.33.13, 1.34.4,
// 1.35.4, 1.36.3 and 1.37.2. Earlier patch releases of a minor named an older one and were
// corrected. No release names a maximum. The versions that each installs (DefaultEtcdVersion
// there) are 3.5.24 up to 1.33, 3.6.5 for 1.34, 3.6.6 for 1.35, 3.6.8 for 1.36 and 3.7.0 for
// 1.37.
var oldestEtcd = map[int]*version.Version{
	32: version.MustParseSemantic("3.5.24"),
	33: version.MustParseSemantic("3.5.24"),
	34: version.MustParseSemantic("3.5.24"),
	35: version.MustParseSemantic("3.5.24"),
	36: version.MustParseSemantic("3.5.24"),
	37: version.MustParseSemantic("3.5.24"),
}

// ValidateEtcd returns why a Kubernetes version cannot run with a version of etcd: etcd must be
// at least as new as kubeadm of the same release requires. A newer etcd is never rejected,
// because no release of Kubernetes names a maximum.
func ValidateEtcd(kubernetes, etcd string) error {
	if err := ValidateVersion(kubernetes); err != nil {
		return err
	}
	minor, err := Minor(kubernetes)
	if err != nil {
		return err
	}
	have, err := version.ParseSemantic(etcd)
	if err != nil {
		return fmt.Errorf("etcd: malformed version %q: want MAJOR.MINOR.PATCH", etcd)
	}
	if oldest := oldestEtcd[minor]; have.LessThan(oldest) {
		return fmt.Errorf("etcd %s is too old for Kubernetes %s, which needs %s or later (kubeadm's "+
			"MinExternalEtcdVersion): upgrade etcd first", etcd, kubernetes, oldest)
	}
	return nil
}
