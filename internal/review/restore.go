package review

import (
	"cmp"
	"strings"
)

// Restore is a restore of etcd, as the argument of a member requests it.
type Restore struct {
	ID       string
	Member   string // the survivor whose data is used
	Snapshot string // path on a machine
	File     string // path on the computer that runs Terraform
	Bucket   string // name, or "newest"
}

// restoreOf returns the restore in values that may be shown. An ID that is not known yet is one.
func restoreOf(shown, unknown map[string]any) Restore {
	values, marks := attributes(shown["restore"]), attributes(unknown["restore"])
	text := func(key string) string {
		value, _ := values[key].(string)
		return value
	}
	r := Restore{text("id"), text("member"), text("snapshot"), text("file"), text("bucket")}
	if unknown["restore"] == true || anyTrue(marks["id"]) {
		r.ID = cmp.Or(r.ID, "(known after apply)")
	}
	return r
}

// source describes where the data comes from, as Markdown.
func (r Restore) source() string {
	switch {
	case r.Member != "":
		return "the data of member " + code(r.Member)
	case r.Snapshot != "":
		return "the snapshot " + code(r.Snapshot)
	case r.File != "":
		return "the snapshot " + code(r.File) + " on the computer that runs Terraform"
	case r.Bucket == "newest":
		return "the newest verified snapshot in the bucket"
	case r.Bucket != "":
		return "the snapshot " + code(r.Bucket) + " in the bucket"
	}
	return "a snapshot that commands fetch"
}

// restoring describes the restores that an apply does, or is "". A member that joins while others have the same restore
// behind them just joins.
func (p ControlPlane) restoring() string {
	done := map[string]bool{"": true}
	for _, m := range p.Members {
		done[m.Restored] = true
	}
	var sources []string
	survivor := true
	for _, m := range p.Members {
		if !done[m.Restore.ID] && (m.Action == Update || m.Action.creates()) {
			sources = append(sources, m.Restore.source())
			survivor = survivor && m.Restore.Member != ""
		}
	}
	if len(sources) == 0 {
		return ""
	}
	lost := "later writes are lost"
	if survivor {
		lost = "what that member does not have is lost"
	}
	return "etcd **is restored from " + strings.Join(distinct(sources), ", ") + "**: API servers on the members' " +
		"machines stop, the members' data is archived, and " + lost + "."
}
