package release

import (
	"maps"
	"slices"
)

// onMachines lists the minor versions that tests run on machines. The others are accepted only:
// their flags and feature gates are known.
var onMachines = []int{33, 34, 35, 36}

// Supported describes a minor version that the provider accepts.
type Supported struct {
	Minor      int    // 36
	ReadFrom   string // the release that its flags and feature gates were read from: "1.36.3"
	OnMachines bool   // tests run that release on machines
}

// SupportedVersions returns the minor versions that the provider accepts, oldest first.
func SupportedVersions() []Supported {
	var all []Supported
	for _, minor := range slices.Sorted(maps.Keys(readFrom)) {
		all = append(all, Supported{minor, readFrom[minor], slices.Contains(onMachines, minor)})
	}
	return all
}
