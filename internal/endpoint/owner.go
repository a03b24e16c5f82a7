package endpoint

import (
	_ "embed"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

//go:embed owner.sh
var ownerScript host.Script

// OwnerFunctions returns shell functions that determine whose endpoint a machine has. See owner.sh
// for the variables that they need.
func OwnerFunctions() host.Script { return ownerScript }
