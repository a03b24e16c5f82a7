package soak

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// memberSpec is one member as a configuration describes it.
type memberSpec struct {
	Name    string `json:"name"`
	Address string `json:"address"`
}

// layout contains the members by their for_each keys.
type layout map[string]memberSpec

func (l layout) keys() []string { return slices.Sorted(maps.Keys(l)) }

// peers returns the addresses by name.
func (l layout) peers() map[string]string {
	peers := map[string]string{}
	for _, p := range l {
		peers[p.Name] = p.Address
	}
	return peers
}

// with returns l with another description for a key.
func (l layout) with(key string, p memberSpec) layout {
	other := maps.Clone(l)
	other[key] = p
	return other
}

// layoutEdit is an edit generated for one layout.
type layoutEdit struct {
	edit     string
	layout   layout            // afterwards
	moved    map[string]string // with moved blocks: the new keys by the old ones
	replaced []string          // keys passed to -replace
	tainted  []string          // keys that are tainted first
	destroy  []string          // keys passed to -destroy with -target
	all      bool              // -destroy of everything
	state    stateEdit
}

// stateEdit is a change of the state before the apply. "" is none.
type stateEdit string

const (
	forgetOne   stateEdit = "one resource is removed from it"
	forgetAll   stateEdit = "it is lost"
	importAll   stateEdit = "it is lost, and everything is imported"
	olderBackup stateEdit = "an older one is restored"
)

// Limits of a layout's size.
const (
	fewest = 2
	most   = 4
)

// editGenerator generates edits. New keys and names are never reused.
type editGenerator struct {
	random *rand.Rand
	pool   []string // addresses of all machines
	made   int
}

// edits returns the edits that people make. Each returns nil if the layout does not allow it.
func (d *editGenerator) edits() []func(layout) *layoutEdit {
	all := []func(layout) *layoutEdit{
		d.rekey(justOne, true), d.rekey(everyone, true), d.swap, d.destroyAll,
		d.lose(forgetOne), d.lose(forgetAll), d.lose(importAll), d.lose(olderBackup),
		d.add, d.add, d.remove,
	}
	for _, n := range []extent{justOne, butOne, everyone} {
		all = append(all, d.rekey(n, false), d.rename(n), d.readdress(n), d.recreate("replace", n), d.recreate("taint", n))
	}
	return append(all, d.destroySome(justOne), d.destroySome(butOne))
}

// next returns a random edit.
func (d *editGenerator) next(l layout) layoutEdit {
	for all := d.edits(); ; {
		if edit := all[d.random.IntN(len(all))](l); edit != nil {
			return *edit
		}
	}
}

func (d *editGenerator) fresh(kind string) string {
	d.made++
	return fmt.Sprintf("%s%d", kind, d.made)
}

// extent is how many members an edit affects.
type extent string

const (
	justOne  extent = "one"
	butOne   extent = "all but one"
	everyone extent = "all"
)

// some returns random keys.
func (d *editGenerator) some(l layout, n extent) []string {
	keys := l.keys()
	d.random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	switch n {
	case justOne:
		return keys[:1]
	case butOne:
		return keys[1:]
	}
	return keys
}

// rekey changes only the keys of members.
func (d *editGenerator) rekey(n extent, moved bool) func(layout) *layoutEdit {
	return func(l layout) *layoutEdit {
		out := layoutEdit{edit: "rename the key of " + string(n), layout: maps.Clone(l)}
		if moved {
			out.edit, out.moved = out.edit+", with moved blocks", map[string]string{}
		}
		for _, key := range d.some(l, n) {
			other := d.fresh("key")
			out.layout[other] = l[key]
			delete(out.layout, key)
			if moved {
				out.moved[key] = other
			}
		}
		return &out
	}
}

// rename changes the names of members: other members on the same machines.
func (d *editGenerator) rename(n extent) func(layout) *layoutEdit {
	return func(l layout) *layoutEdit {
		out := layoutEdit{edit: "rename " + string(n), layout: l}
		for _, key := range d.some(l, n) {
			out.layout = out.layout.with(key, memberSpec{d.fresh("node"), l[key].Address})
		}
		return &out
	}
}

// readdress moves members to other machines.
func (d *editGenerator) readdress(n extent) func(layout) *layoutEdit {
	return func(l layout) *layoutEdit {
		free, keys := d.free(l), d.some(l, n)
		if len(free) < len(keys) {
			return nil
		}
		out := layoutEdit{edit: "re-address " + string(n), layout: l}
		for i, key := range keys {
			out.layout = out.layout.with(key, memberSpec{l[key].Name, free[i]})
		}
		return &out
	}
}

// swap exchanges the machines of two members.
func (d *editGenerator) swap(l layout) *layoutEdit {
	two := d.some(l, everyone)
	a, b := l[two[0]], l[two[1]]
	return &layoutEdit{
		edit:   "exchange the addresses of two",
		layout: l.with(two[0], memberSpec{a.Name, b.Address}).with(two[1], memberSpec{b.Name, a.Address}),
	}
}

// recreate recreates members on their machines.
func (d *editGenerator) recreate(how string, n extent) func(layout) *layoutEdit {
	return func(l layout) *layoutEdit {
		out := layoutEdit{edit: how + " " + string(n), layout: l}
		if how == "taint" {
			out.tainted = d.some(l, n)
		} else {
			out.replaced = d.some(l, n)
		}
		return &out
	}
}

// destroySome destroys members with -target, and keeps them in the configuration.
func (d *editGenerator) destroySome(n extent) func(layout) *layoutEdit {
	return func(l layout) *layoutEdit {
		return &layoutEdit{edit: "destroy " + string(n) + " by -target", layout: l, destroy: d.some(l, n)}
	}
}

func (d *editGenerator) destroyAll(l layout) *layoutEdit {
	return &layoutEdit{edit: "destroy all", layout: l, all: true}
}

func (d *editGenerator) lose(what stateEdit) func(layout) *layoutEdit {
	return func(l layout) *layoutEdit { return &layoutEdit{edit: "state: " + string(what), layout: l, state: what} }
}

func (d *editGenerator) add(l layout) *layoutEdit {
	free := d.free(l)
	if len(l) >= most || len(free) == 0 {
		return nil
	}
	return &layoutEdit{edit: "add one", layout: l.with(d.fresh("key"), memberSpec{d.fresh("node"), free[0]})}
}

func (d *editGenerator) remove(l layout) *layoutEdit {
	if len(l) <= fewest {
		return nil
	}
	out := &layoutEdit{edit: "remove one", layout: maps.Clone(l)}
	delete(out.layout, d.some(l, justOne)[0])
	return out
}

// free returns the addresses without a member, in random order.
func (d *editGenerator) free(l layout) []string {
	var all []string
	for _, address := range d.pool {
		used := func(p memberSpec) bool { return p.Address == address }
		if !slices.ContainsFunc(slices.Collect(maps.Values(l)), used) {
			all = append(all, address)
		}
	}
	d.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}
