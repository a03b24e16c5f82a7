// Package backend takes the place of Terraform's remote backends. They are modules of their own, which are
// published nowhere, so that a build from the module proxy lacks them.
package backend

import "github.com/hashicorp/terraform/internal/backend"

// New is called when a configuration names one of these backends.
func New() backend.Backend {
	panic("this build of Terraform, which is for tests, has no remote backends")
}
