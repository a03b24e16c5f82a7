package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Runs is one member of a cluster as far as an upgrade depends on it.
type Runs struct {
	Name    string
	Address string // "" until it has served for the first time
	Version string // of the running server; "" when it does not answer
	Healthy bool
	Leader  bool
	Learner bool
	Trouble string // why it is not healthy
	Alarms  []string
	ID      string // hex
	DBSize  int64  // bytes; 0 when it does not answer, as the next two
	DBInUse int64  // bytes: what would be left after a defragmentation
	DBQuota int64  // bytes; negative: none; 0: not known (etcd 3.5 does not say)
}

// label names the member in messages.
func (r Runs) label() string { return machineLabel(orNone(r.Name), r.Address) }

// Survey is what the members of a cluster run.
type Survey struct {
	Members []Runs // sorted by name
	// ClusterVersion is what the members have agreed on, as "3.5": etcd raises it
	// when the last member runs a newer minor version, and refuses to start an
	// older one from then on. "" when nobody tells.
	ClusterVersion string
}

// Survey asks the cluster what its members run, through any of the hosts.
func (c *Clusters) Survey(ctx context.Context, hosts map[string]*host.Host, b *pki.Bundle) (Survey, error) {
	conv, err := c.named(b.ClusterID).converseThrough(b, slices.Collect(maps.Values(hosts)))
	if err != nil {
		return Survey{}, err
	}
	defer conv.Close()
	v, err := conv.view(ctx, hostAddresses(hosts))
	if err != nil {
		return Survey{}, &problem.Problem{
			Summary: "etcd does not tell what runs", Cause: err.Error(), Unchanged: problem.Nothing, Err: err,
			Next: "bring back a quorum of the etcd members, and the machines through which they are reached, then try again",
		}
	}
	return conv.surveyed(ctx, v), nil
}

// hostAddresses are those of hosts, sorted by the name of the host.
func hostAddresses(hosts map[string]*host.Host) []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		all = append(all, hosts[name].Address())
	}
	return all
}

// surveyed is v with the version that the members have agreed on.
func (c *conversation) surveyed(ctx context.Context, v View) Survey {
	out := Survey{ClusterVersion: c.clusterVersion(ctx, v, 0)}
	for _, m := range v.Members {
		out.Members = append(out.Members, Runs{
			Name: m.Name, Address: m.address(), Version: m.Version, Healthy: m.Healthy,
			Leader: m.ID == v.Leader, Learner: m.Learner, Trouble: m.Trouble, Alarms: m.Alarms,
			ID: fmt.Sprintf("%x", m.ID), DBSize: m.DBSize, DBInUse: m.DBInUse, DBQuota: m.DBQuota,
		})
	}
	return out
}

// clusterVersion is what the members have agreed on, as any of them other than
// the one with the given id tells, or "". It only ever rises while nobody asks
// etcd for a downgrade, and a member that lags behind tells an older one, so the
// highest is taken.
func (c *conversation) clusterVersion(ctx context.Context, v View, not uint64) string {
	told := make([]string, len(v.Members))
	_ = inOrder(v.Members, func(i int, m Member) (err error) { // who does not tell is left out
		if m.ID != not && m.Version != "" {
			told[i], err = c.agreed(ctx, m.address())
		}
		return err
	})
	highest, newest := "", -1
	for _, version := range told {
		if minor, ok := agreedMinor(version); ok && minor > newest {
			highest, newest = version, minor
		}
	}
	return highest
}

// agreed asks one member for the version that the members have agreed on.
func (c *conversation) agreed(ctx context.Context, address string) (string, error) {
	text, err := c.get(ctx, address, "/version", 1<<12)
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", address, err)
	}
	var versions struct {
		Cluster string `json:"etcdcluster"` // "3.6.0", or "not_decided"
	}
	if err := json.Unmarshal(text, &versions); err != nil {
		return "", fmt.Errorf("read the version of %s: %w", address, err)
	}
	minor, _, err := parseVersion(versions.Cluster)
	if err != nil {
		return "", fmt.Errorf("read the version of %s: %w", address, err)
	}
	return fmt.Sprintf("3.%d", minor), nil
}

// get asks one member for a page of at most so many bytes that it serves beside
// its API.
func (c *conversation) get(ctx context.Context, address, page string, most int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.patienceOr(askTimeout))
	defer cancel()
	config := c.tls.Clone()
	config.ServerName = address
	transport := &http.Transport{
		TLSClientConfig:   config,
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, addr string) (net.Conn, error) { return c.dial(ctx, addr) },
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, ClientURL(address)+page, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", response.Status)
	}
	return io.ReadAll(io.LimitReader(response.Body, most))
}

// agreedMinor reads the minor version of "3.6".
func agreedMinor(version string) (minor int, ok bool) {
	if version == "" {
		return 0, false
	}
	minor, _, err := parseVersion(version + ".0")
	return minor, err == nil
}

// MayUpgrade says why the members of a cluster may not be brought to a version,
// or nil. It is about the versions alone: that all are healthy is asked when
// the upgrade begins. Every rule that is broken is named.
//
// etcd runs neighbouring minor versions in one cluster, and a member may go
// back to the older of the two as long as one other still runs it: only when
// the last one has left it do they agree on the newer one, and from then on an
// older server ends at its start (MustDetectDowngrade in etcd's
// etcdserver/version). So an upgrade that is not complete can be given up.
func MayUpgrade(s Survey, target string) error {
	to, _, err := parseVersion(target)
	if err != nil {
		return err
	}
	var refusals []string
	agreed, known := agreedMinor(s.ClusterVersion)
	switch {
	case known && to < agreed:
		refusals = append(refusals, fmt.Sprintf("etcd %s cannot follow: all members have run 3.%d and agreed on it, and etcd refuses to start an older one "+
			"from then on; stay at 3.%d, or restore a snapshot from before", target, agreed, agreed))
	case known && to > agreed+1:
		refusals = append(refusals, fmt.Sprintf("etcd %s cannot follow: the members have agreed on 3.%d so far; upgrade all of them by one minor version at a time, 3.%d first",
			target, agreed, agreed+1))
	}
	if len(refusals) == 0 {
		for _, m := range s.Members {
			if err := mayFollow(s, m, target, known); err != nil {
				refusals = append(refusals, fmt.Sprintf("member %s runs %s: %s", m.label(), m.Version, err))
			}
		}
	}
	if len(refusals) == 0 {
		return nil
	}
	return errors.New(strings.Join(refusals, "; "))
}

// mayFollow says why target may not be beside or after what m runs, or nil.
func mayFollow(s Survey, m Runs, target string, agreed bool) error {
	if m.Version == "" {
		return nil
	}
	err := ValidateUpgrade(m.Version, target)
	back := err != nil && ValidateUpgrade(target, m.Version) == nil
	if back && agreed && slices.ContainsFunc(s.Members, func(other Runs) bool { return notNewer(other.Version, target) }) {
		return nil
	}
	return err
}

// notNewer reports whether a member with this version is of the minor version
// of target or an older one.
func notNewer(version, target string) bool {
	minor, _, err := parseVersion(version)
	to, _, toErr := parseVersion(target)
	return err == nil && toErr == nil && minor <= to
}
