package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// MasterLeases is the prefix under which API servers register, unless they run with another --etcd-prefix than
// /registry: one key each, which ends with its address, under a lease of 15 s (kube-apiserver's
// --endpoint-reconciler-type=lease). The key of a dead API server expires within that time.
const MasterLeases = defaultPrefix + masterLeasesDir

// APIServers returns the addresses of the API servers that use the cluster, whatever their --etcd-prefix, if it has up
// to MaxPrefixSegments segments. An error for which TooManyDirs reports true says that it is not known whether there
// are more.
func (c *Clients) APIServers(ctx context.Context, v *membership.View) ([]string, error) {
	if v == nil {
		return nil, ErrNoAnswer
	}
	var all []registration
	err := c.ViaVoter(ctx, *v, 0, func(address string) (err error) {
		all, err = c.registrations(ctx, address)
		return err
	})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, r := range all {
		address, err := APIServerOfKey(r.Dir, r.Key)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(out, address) {
			out = append(out, address)
		}
	}
	return out, nil
}

// TooManyDirs reports whether APIServers has failed because other programs store keys in thousands of directories.
func TooManyDirs(err error) bool { return errors.Is(err, errTooManyDirs) }

// errNoAddress means that a registration is of no API server.
var errNoAddress = errors.New("a registration is no IP address")

// IsNoAddress reports whether APIServers has failed because a key among registrations is of no API server.
func IsNoAddress(err error) bool { return errors.Is(err, errNoAddress) }

// APIServerOfKey returns the address in the key with which an API server registers below a directory, such as
// MasterLeases.
func APIServerOfKey(dir, key string) (string, error) {
	text := strings.TrimPrefix(key, dir)
	address, err := netip.ParseAddr(text)
	if err != nil || address.Zone() != "" {
		return "", fmt.Errorf("%w: %s contains %s", errNoAddress, problem.Quote(dir), problem.Quote(text))
	}
	return address.String(), nil
}

// ForgetAPIServers removes the registrations of API servers from restored data. Those that are not found among many
// directories of other programs expire.
func (c *Clients) ForgetAPIServers(ctx context.Context, address string) error {
	all, err := c.registrations(ctx, address)
	if err != nil && !TooManyDirs(err) {
		return err
	}
	for _, r := range all {
		err := c.Call(ctx, address, ChangeTimeout, func(ctx context.Context, member *clientv3.Client) error {
			_, err := member.Delete(ctx, r.Key)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// registrations asks the member at an address for all registrations, at one revision. If the error is errTooManyDirs,
// it returns those that it has found until then.
func (c *Clients) registrations(ctx context.Context, address string) ([]registration, error) {
	search, revision := newRegistrationSearch(), int64(0)
	for {
		q, more, err := search.next()
		if err != nil || !more {
			return search.all, err
		}
		content, at, err := c.dirContent(ctx, address, q, revision)
		if err != nil {
			return nil, fmt.Errorf("read the keys of %s: %w", problem.Quote(q.Dir), err)
		}
		revision = cmp.Or(revision, at)
		search.see(q, content)
	}
}

// dirContent asks the member at an address, with one request. revision is that of the keys; 0 is the newest. It also
// returns the newest revision.
func (c *Clients) dirContent(
	ctx context.Context, address string, q dirQuery, revision int64,
) (content dirContent, newest int64, err error) {
	get := func(key string, options ...clientv3.OpOption) clientv3.Op {
		return clientv3.OpGet(key, append(options, clientv3.WithKeysOnly(), clientv3.WithRev(revision))...)
	}
	var leases, resources, rest []clientv3.Op
	if q.begins() {
		leases = append(leases, get(q.Dir+masterLeasesDir, clientv3.WithPrefix()))
		for _, dir := range resourceDirs {
			resources = append(resources, get(q.Dir+dir, clientv3.WithPrefix(), clientv3.WithLimit(1)))
		}
	}
	if q.Keys > 0 {
		rest = append(rest, get(q.From, clientv3.WithRange(clientv3.GetPrefixRangeEnd(q.Dir)), clientv3.WithLimit(q.Keys)))
	}
	var answer *clientv3.TxnResponse
	err = c.Call(ctx, address, RequestTimeout, func(ctx context.Context, member *clientv3.Client) (err error) {
		answer, err = member.Txn(ctx).Then(slices.Concat(leases, resources, rest)...).Commit()
		return err
	})
	if err != nil {
		return dirContent{}, 0, err
	}
	keys := func(n int) (keys []string, more bool) { // of the next n operations
		for _, response := range answer.Responses[:n] {
			for _, kv := range response.GetResponseRange().GetKvs() {
				keys = append(keys, string(kv.Key))
			}
			more = response.GetResponseRange().GetMore()
		}
		answer.Responses = answer.Responses[n:]
		return keys, more
	}
	content.Leases, _ = keys(len(leases))
	there, _ := keys(len(resources))
	content.Resources = len(there) == len(resourceDirs)
	content.Keys, content.More = keys(len(rest))
	return content, answer.Header.Revision, nil
}
