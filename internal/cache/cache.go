// Package cache says where this project keeps what is made once and used by
// many runs: built programs, the tree that lab machines boot from.
package cache

import (
	"fmt"
	"os"
	"path/filepath"
)

// Variable is the environment variable that overrides where the cache is.
const Variable = "KUBE_LAB_CACHE"

// Dir is the cache's absolute path: $KUBE_LAB_CACHE, else
// terraform-provider-kube in the user's own cache directory. It need not exist.
func Dir() (string, error) {
	if dir := os.Getenv(Variable); dir != "" {
		if !filepath.IsAbs(dir) {
			return "", fmt.Errorf("find cache: %s=%q is not an absolute path", Variable, dir)
		}
		return dir, nil
	}
	user, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find cache: %w (set %s)", err, Variable)
	}
	return filepath.Join(user, "terraform-provider-kube"), nil
}
