package build

import (
	"fmt"
	"strconv"
	"strings"
)

// MinorBefore returns the name of the set that is a number of minor versions older than the
// default set of a product: "kubernetes-1.35".
func MinorBefore(product string, minors int) string {
	major, minor, _ := strings.Cut(defaultSeries(product), ".")
	number, err := strconv.Atoi(minor)
	if err != nil {
		panic("the default folder of " + product + " does not end in MAJOR.MINOR") // TestReleases
	}
	return fmt.Sprintf("%s-%s.%d", product, major, number-minors)
}

// PatchBefore returns the name of the set that is an earlier patch release of the minor version
// of the default set of a product: "kubernetes-1.36-before".
func PatchBefore(product string) string {
	return product + "-" + defaultSeries(product) + "-before"
}

// defaultSeries returns the minor version that is the default of a product: "1.36".
func defaultSeries(product string) string {
	s, err := lookup(product)
	if err != nil {
		panic(err)
	}
	return strings.TrimPrefix(s.folder, product+"-")
}
