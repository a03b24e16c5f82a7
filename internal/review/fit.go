package review

import (
	"cmp"
	"slices"
	"sort"
)

// fit renders a layout within a limit. It leaves out sections by rank, the longest first, then
// shortens the list of what is destroyed, and then the summary.
func fit(l layout, limit int) string {
	if full := l.render(); len(full) <= limit {
		return full
	}
	order := l.order()
	n := sort.Search(len(order), func(n int) bool { return len(l.without(order[:n]).render()) <= limit })
	l = l.without(order[:n])
	for _, names := range []int{-1, 10, 3, 0} {
		l.names = names
		if text := l.render(); len(text) <= limit {
			return text
		}
	}
	for l.rows > 0 {
		l.rows /= 2
		if text := l.render(); len(text) <= limit {
			return text
		}
	}
	return l.render()
}

// position is the place of a section: its plan, and its index there.
type position struct{ plan, index int }

// order returns the sections in the order in which they are left out.
func (l layout) order() []position {
	var all []position
	for plan, sections := range l.sections {
		for i := range sections {
			all = append(all, position{plan, i})
		}
	}
	slices.SortStableFunc(all, func(a, b position) int {
		first, second := l.sections[a.plan][a.index], l.sections[b.plan][b.index]
		return cmp.Or(cmp.Compare(first.rank, second.rank), cmp.Compare(len(second.text), len(first.text)))
	})
	return all
}

// without returns the layout without some sections.
func (l layout) without(omitted []position) layout {
	l.omitted = make([]map[int]bool, len(l.sections))
	for i := range l.omitted {
		l.omitted[i] = map[int]bool{}
	}
	for _, at := range omitted {
		l.omitted[at.plan][at.index] = true
	}
	return l
}
