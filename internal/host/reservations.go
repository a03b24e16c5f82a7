package host

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// reservationPattern matches a number of bytes, or a weight.
var reservationPattern = regexp.MustCompile(`^[1-9][0-9]{0,18}$`)

// systemSlice has the units that are in no other slice.
const systemSlice = "system.slice"

// mostLevels is how many slices above a unit are read.
const mostLevels = 16

// reservations are what units, and the slices above them, reserve on a machine.
type reservations struct {
	v2     bool // the machine has cgroup v2, without which no memory is reserved
	weighs bool // shares of disks are in effect
	levels map[string][]level
}

// level is a unit, or a slice above it. "" is a setting that it does not have.
type level struct{ name, memory, cpu, io string }

// readReservations parses the lines of the functions processes and weighs: for each unit, itself and then its slices,
// from the nearest to the one at the top.
func readReservations(output string) reservations {
	r := reservations{levels: map[string][]level{}}
	for line := range strings.Lines(output) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		switch {
		case len(fields) == 2 && fields[0] == "cgroups":
			r.v2 = fields[1] == "2"
		case len(fields) == 2 && fields[0] == "weighs":
			r.weighs = fields[1] == "yes"
		case len(fields) == 4 && fields[0] == "reserved" && len(r.levels[fields[1]]) < mostLevels:
			r.levels[fields[1]] = append(r.levels[fields[1]], levelIn(fields[2], fields[3]))
		}
	}
	return r
}

// levelIn parses properties, "NAME=VALUE NAME=VALUE ". MemoryLow= protects memory as well, as long as there is some
// elsewhere.
func levelIn(name, text string) level {
	values := map[string]string{}
	for _, word := range strings.Fields(text) {
		key, value, _ := strings.Cut(word, "=")
		if reservationPattern.MatchString(value) {
			values[key] = value
		}
	}
	return level{
		name: problem.Line(name), memory: cmp.Or(values["MemoryMin"], values["MemoryLow"]), cpu: values["CPUWeight"],
		io: values["IOWeight"],
	}
}

// describe sets what is reserved for a unit. The kernel reserves no more memory than every slice above has
// (Documentation/admin-guide/cgroup-v2.rst, memory.min). A share counts among the groups at the same level: in
// system.slice among its units, else at the top, because a unit is alone in a slice of its own.
func (r reservations) describe(p *Process, unit string) {
	all := r.levels[unit]
	if len(all) < 2 { // without a slice, systemd does not know it
		return
	}
	own, slices, top := all[0], all[1:], all[len(all)-1]
	shares := top
	if top.name == systemSlice {
		shares = all[len(all)-2]
	}
	p.CPUWeight = shares.cpu
	if r.weighs {
		p.IOWeight = shares.io
	}
	least := slices[0].memory
	for _, slice := range slices {
		if len(slice.memory) < len(least) || len(slice.memory) == len(least) && slice.memory < least {
			least = slice.memory
		}
		if own.memory != "" && !sameMemory(slice.memory, own.memory) {
			p.NotInEffect = append(p.NotInEffect, differs("MemoryMin", own.memory, slice.memory, slice.name))
		}
	}
	if r.v2 {
		p.MemoryMin = least
	}
	if own.cpu != "" && shares.cpu != own.cpu {
		p.NotInEffect = append(p.NotInEffect, differs("CPUWeight", own.cpu, shares.cpu, shares.name))
	}
	if own.io != "" && shares.io != own.io {
		p.NotInEffect = append(p.NotInEffect, differs("IOWeight", own.io, shares.io, shares.name))
	}
}

// largestPage is how far two amounts of memory may be apart that systemd has computed of the same percentage: in a unit
// it counts in 1/10000, and for set-property in 1/2^32, and both are rounded down to pages.
const largestPage = 1 << 16

func sameMemory(a, b string) bool {
	one, oneErr := strconv.ParseInt(a, 10, 64)
	other, otherErr := strconv.ParseInt(b, 10, 64)
	return oneErr == nil && otherErr == nil && max(one, other)-min(one, other) <= largestPage
}

func differs(property, want, got, slice string) string {
	return property + "=" + want + ", and " + slice + " has " + cmp.Or(got, "none")
}
