package controlplane

import "fmt"

// ValidateEtcd says why a version of Kubernetes cannot use a version of etcd.
func ValidateEtcd(kubernetes, etcd string) error {
	var major, minor, patch int
	if _, err := fmt.Sscanf(etcd, "%d.%d.%d", &major, &minor, &patch); err != nil {
		return fmt.Errorf("read etcd version %q: %w", etcd, err)
	}
	if major == 3 && (minor < 5 || minor == 5 && patch < 24) {
		return fmt.Errorf("Kubernetes %s needs etcd 3.5.24 or newer: upgrade etcd first", kubernetes)
	}
	return nil
}
