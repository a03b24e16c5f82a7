package release

import (
	"maps"
	"slices"
)

// onMachines lists the minor versions that tests run on machines. The others are accepted only:
// their flags and feature gates are known.
var onMachines = []int{5, 6, 7}

// Supported describes a minor version that the provider accepts.
type Supported struct {
	Minor      int    // 6
	ReadFrom   string // the release that its flags and feature gates were read from: "3.6.16"
	OnMachines bool   // tests run that release on machines
}

// SupportedVersions returns the minor versions that the provider accepts, oldest first.
func SupportedVersions() []Supported {
	var all []Supported
	for _, minor := range slices.Sorted(maps.Keys(ReadFrom)) {
		all = append(all, Supported{minor, ReadFrom[minor], slices.Contains(onMachines, minor)})
	}
	return all
}
