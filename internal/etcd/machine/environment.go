package machine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// ValidateEnvironment returns why variables cannot be set for a member. etcd takes its flags from
// variables as well, and does not start if a flag is set in both ways.
func ValidateEnvironment(variables map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if strings.HasPrefix(name, "ETCD_") {
			return fmt.Errorf("%s is a flag of etcd: set it in extra_args", name)
		}
	}
	return systemd.ValidateEnvironment(variables)
}
