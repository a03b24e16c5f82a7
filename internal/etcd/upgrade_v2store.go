package etcd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// v2StoreNext is the next step that etcd's guide describes (Upgrade etcd from v3.5 to
// v3.6, "V2 Store"), with the means of this provider. Keys can be deleted only through the
// v2 API, and the log that still contains them is removed by a raft snapshot taken
// afterwards.
const v2StoreNext = `with enable-v2 = "true" in extra_args, migrate the keys that clients still need ` +
	`and delete all keys through the v2 API (DELETE /v2/keys/KEY?recursive=true); then remove enable-v2, ` +
	`set snapshot-count = "1" on every member and apply; remove that too and apply; then change the version`

// v2Flag returns the flag of a unit with which clients can write to the v2 store.
func v2Flag(unit string) string {
	flags := machine.CommandIn(unit).Flags
	if value, ok := flags["enable-v2"]; ok && value != "false" {
		return "enable-v2"
	}
	if flags["experimental-enable-v2v3"] != "" {
		return "experimental-enable-v2v3"
	}
	return ""
}

// checkV2Store checks for known causes of a failed upgrade from 3.5 to 3.6, on every
// member that has not been upgraded yet.
//
// 3.6 reads the members from the v3 store, and 3.5 kept them in the v2 store: a promotion
// that was not written to both comes back as a learner (etcd-io/etcd#19557, #20793), and
// so do members that were removed (#20967). From 3.5.26 on a member repairs its v3 store
// at its start, and MayUpgrade requires that version of all members. checkV2Store requires
// that every member has the same member list.
//
// finding describes a permanent problem. err is a condition that may clear by itself.
func (cl *cluster) checkV2Store(
	ctx context.Context, clients *client.Clients, s Spec, v membership.View, inspect []machine.Observed,
) (finding string, err error) {
	if len(inspect) == 0 {
		return "", nil
	}
	if err := clients.RequireSameLists(ctx, v); err != nil {
		return "", err
	}
	findings := make([]string, len(inspect))
	var group sync.WaitGroup
	for i, f := range inspect {
		group.Go(func() { findings[i] = cl.inspect(ctx, s, f) })
	}
	group.Wait()
	return strings.Join(slices.DeleteFunc(findings, func(text string) bool { return text == "" }), "; "), nil
}

// olderUnit returns the unit of the older one of the versions on a machine, whose tools know the v2 store: an
// interrupted upgrade has the new unit installed already, and an interrupted downgrade the old one.
func olderUnit(f machine.Observed) string {
	unit, before := f.Definition(), f.Facts.Files[layout.RollbackUnitPath].Content
	version, former := machine.UnitVersion(unit), machine.UnitVersion(before)
	if former == "" || release.IsOlder(version, former) {
		return unit
	}
	return before
}

// inspect describes a problem with the data of the member on a machine, or returns "".
func (cl *cluster) inspect(ctx context.Context, s Spec, f machine.Observed) string {
	at, err := machine.InstallationIn(olderUnit(f))
	if err == nil {
		a := machine.Action{Verb: machine.Inspect, DataDir: at.DataDir, Tools: at.Tools}
		_, err = cl.machine(cl.hostAt(f.Address, s)).Change(ctx, host.Change{}, a)
	}
	switch {
	case err == nil:
		return ""
	case strings.Contains(err.Error(), "detected custom"): // etcdutl's errV2StoreCustomContent, errWALCustomContent
		return fmt.Sprintf("the data of %s contains keys of the v2 store, with which etcd 3.6 does not start", f.Label())
	}
	return fmt.Sprintf("it could not be determined whether the data of %s contains keys of the v2 store, "+
		"with which etcd 3.6 does not start: %s", f.Label(), err)
}
