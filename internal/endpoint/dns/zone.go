package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	miekg "github.com/miekg/dns"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/poll"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

const (
	// exchangeTimeout limits one request.
	exchangeTimeout = 10 * time.Second
	// changeAttempts is how often an update is decided again because the records have changed.
	changeAttempts = 10
	// spreadTimeout limits the wait until all name servers know an update.
	spreadTimeout  = time.Minute
	spreadInterval = 200 * time.Millisecond
	// signatureFudge is how far clocks may differ, in seconds (RFC 8945, section 10).
	signatureFudge = 300
)

// Why a zone cannot be used.
var (
	errNoKey       = errors.New("the provider's tsig_keys have no such key")
	errOtherKey    = errors.New("a machine names the key of another cluster")
	errSignature   = errors.New("the server does not accept the key's signature")
	errRefused     = errors.New("the server refuses the request")
	errNotInZone   = errors.New("the server is not the primary server of the zone")
	errAlias       = errors.New("the name is an alias (CNAME)")
	errFamily      = errors.New("the name has records of the other address family")
	errChanged     = errors.New("the records have changed")
	errLastRecord  = errors.New("it is the last address of the name")
	errUnreachable = fmt.Errorf("%w from the name server", endpoint.ErrSilent)
	errLagging     = errors.New("name servers do not have the update yet")
)

// zone speaks with the name servers of an endpoint's name. All requests use TCP.
type zone struct {
	endpoint.Zone
	host    string // the endpoint's name
	family  uint16 // TypeA or TypeAAAA
	key     *Key   // nil: unknown
	foreign bool   // the key is that of another cluster, and must not be used
	// unawaited: an update is made when the primary server has it.
	unawaited bool
	dial      func(ctx context.Context, network, address string) (net.Conn, error)
	lookup    func(ctx context.Context, name string) ([]netip.Addr, error)
	// around announces an update, see host.AroundRequest. Nil: nobody wants to know.
	around func(address, summary string) (ended func())
}

// exchange sends one request and returns the answer. Requests to the primary server are signed, and so
// are its answers. The other servers need not know the key.
func (z zone) exchange(ctx context.Context, server string, m *miekg.Msg) (*miekg.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	conn, err := z.dial(ctx, "tcp", server)
	if err != nil {
		return nil, fmt.Errorf("%w %s: %w", errUnreachable, server, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // a connection through SSH has no deadline
	client := &miekg.Client{Net: "tcp", Timeout: exchangeTimeout}
	if z.key != nil && server == z.Server {
		name := miekg.CanonicalName(z.TSIGKey)
		client.TsigSecret = map[string]string{name: z.key.Secret}
		m.SetTsig(name, miekg.Fqdn(z.key.Algorithm), signatureFudge, time.Now().Unix())
	}
	answer, _, err := client.ExchangeWithConnContext(ctx, m, &miekg.Conn{Conn: conn, TsigSecret: client.TsigSecret})
	if answer != nil {
		if refused := refusal(answer); refused != nil {
			return answer, fmt.Errorf("name server %s: %w", server, refused)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w %s: %w", errUnreachable, server, err)
	}
	if len(client.TsigSecret) > 0 && answer.IsTsig() == nil { // the library verifies only a signature that is there
		return nil, fmt.Errorf("name server %s: %w: the answer is not signed", server, errSignature)
	}
	return answer, nil
}

// refusal returns why a server did not do what a request asked for, or nil.
func refusal(answer *miekg.Msg) error {
	signature := answer.IsTsig()
	switch rcode := answer.Rcode; {
	case signature != nil && signature.Error != miekg.RcodeSuccess:
		return fmt.Errorf("%w: %s", errSignature, miekg.RcodeToString[int(signature.Error)])
	case rcode == miekg.RcodeSuccess, rcode == miekg.RcodeNameError:
		return nil
	case rcode == miekg.RcodeYXRrset, rcode == miekg.RcodeNXRrset, rcode == miekg.RcodeYXDomain:
		return errChanged
	case rcode == miekg.RcodeNotAuth, rcode == miekg.RcodeNotZone:
		return errNotInZone
	case rcode == miekg.RcodeRefused:
		return errRefused
	default:
		return fmt.Errorf("%w: %s", errRefused, miekg.RcodeToString[rcode])
	}
}

func question(name string, kind uint16) *miekg.Msg {
	m := new(miekg.Msg)
	m.SetQuestion(miekg.Fqdn(name), kind)
	m.RecursionDesired = false
	return m
}

// records returns the addresses that the primary server has. A name without records is no error.
func (z zone) records(ctx context.Context) (recordSet, error) {
	answer, err := z.exchange(ctx, z.Server, question(z.host, z.family))
	if err != nil {
		return recordSet{}, err
	}
	if !answer.Authoritative {
		return recordSet{}, fmt.Errorf("%w: %s", errNotInZone, z.Server)
	}
	set, alias := addressesIn(answer.Answer, z.host)
	if alias != "" {
		return recordSet{}, fmt.Errorf("%w for %s", errAlias, problem.Quote(alias))
	}
	return set, nil
}

// change decides and sends an update until one fits the records at that time, and returns when all
// name servers have it. If there is nothing to change, it only waits for the name servers.
func (z zone) change(ctx context.Context, decide func(now recordSet) (update, error)) error {
	if err := z.signs(); err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		now, err := z.records(ctx)
		if err != nil {
			return err
		}
		wanted, err := decide(now)
		if err != nil {
			return err
		}
		if wanted.empty() {
			return z.waitUntilSpread(ctx)
		}
		err = z.send(ctx, z.message(now, wanted), wanted)
		switch {
		case err == nil:
			return z.waitUntilSpread(ctx)
		case errors.Is(err, errChanged) && attempt < changeAttempts:
			continue
		case errors.Is(err, errUnreachable) && attempt < changeAttempts && ctx.Err() == nil:
			// The update may have been made. The next attempt reads the records.
			if _, again := z.records(ctx); again != nil {
				return err
			}
		default:
			return err
		}
	}
}

// signs returns why requests cannot be signed, or nil.
func (z zone) signs() error {
	switch {
	case z.foreign:
		return fmt.Errorf("%w: %s", errOtherKey, problem.Quote(z.TSIGKey))
	case z.key == nil:
		return fmt.Errorf("%w: %s", errNoKey, problem.Quote(z.TSIGKey))
	}
	return nil
}

// checkKey returns why the primary server does not accept updates with the key, or nil if nothing speaks against it. A
// server that does not answer says nothing about the key.
func (z zone) checkKey(ctx context.Context) error {
	if err := z.signs(); err != nil {
		return err
	}
	if err := z.tryUpdate(ctx); errors.Is(err, errSignature) || errors.Is(err, errRefused) {
		return err
	}
	return nil
}

// tryUpdate sends an update that deletes a record which cannot exist.
func (z zone) tryUpdate(ctx context.Context) error {
	m := new(miekg.Msg)
	m.SetUpdate(miekg.Fqdn(z.Name))
	m.Remove(z.rrs([]netip.Addr{documentation(z.family)}))
	_, err := z.exchange(ctx, z.Server, m)
	return err
}

// send sends an update.
func (z zone) send(ctx context.Context, m *miekg.Msg, wanted update) error {
	if z.around != nil {
		defer z.around(z.Server, wanted.String())()
	}
	_, err := z.exchange(ctx, z.Server, m)
	return err
}

// authorized returns an error if the key may not change the name.
func (z zone) authorized(ctx context.Context) error {
	if err := z.signs(); err != nil {
		return err
	}
	other := miekg.TypeAAAA
	if z.family == miekg.TypeAAAA {
		other = miekg.TypeA
	}
	answer, err := z.exchange(ctx, z.Server, question(z.host, other))
	if err != nil {
		return err
	}
	if set, _ := addressesIn(answer.Answer, z.host); len(set.Addresses) > 0 {
		return fmt.Errorf("%w: %s", errFamily, addressList(set.Addresses))
	}
	if err := z.tryUpdate(ctx); err != nil {
		return err
	}
	return z.waitUntilSpread(ctx)
}

// documentation returns an address that no machine has (RFC 5737, RFC 3849).
func documentation(family uint16) netip.Addr {
	if family == miekg.TypeAAAA {
		return netip.MustParseAddr("2001:db8::1")
	}
	return netip.MustParseAddr("192.0.2.1")
}

// waitUntilSpread returns when all name servers have the primary server's present version of the
// zone. It returns at once if the zone is unawaited.
func (z zone) waitUntilSpread(ctx context.Context) error {
	if z.unawaited {
		return nil
	}
	wanted, err := z.serial(ctx, z.Server)
	if err != nil {
		return err
	}
	servers, err := z.nameServers(ctx)
	if err != nil {
		return err
	}
	var late []string
	spread, err := poll.Until(ctx, spreadInterval, spreadTimeout, func() (bool, error) {
		late = nil
		for _, server := range servers {
			if serial, err := z.serial(ctx, server); err != nil {
				late = append(late, problem.Line(err.Error()))
			} else if !reached(serial, wanted) {
				late = append(late, fmt.Sprintf("%s has serial %d, not %d", server, serial, wanted))
			}
		}
		return len(late) == 0, nil
	})
	if err != nil || spread {
		return err
	}
	return fmt.Errorf("%w: %s", errLagging, strings.Join(late, "; "))
}

// serial returns the version of the zone that a server has.
func (z zone) serial(ctx context.Context, server string) (uint32, error) {
	answer, err := z.exchange(ctx, server, question(z.Name, miekg.TypeSOA))
	if err != nil {
		return 0, err
	}
	for _, rr := range answer.Answer {
		if soa, ok := rr.(*miekg.SOA); ok && answer.Authoritative {
			return soa.Serial, nil
		}
	}
	return 0, fmt.Errorf("%w: %s has no zone %s", errNotInZone, server, z.Name)
}

// nameServers returns IP:port of all name servers besides the primary one: those of the
// configuration, or those of the zone's NS records.
func (z zone) nameServers(ctx context.Context) ([]string, error) {
	if len(z.NameServers) > 0 {
		return z.NameServers, nil
	}
	answer, err := z.exchange(ctx, z.Server, question(z.Name, miekg.TypeNS))
	if err != nil {
		return nil, err
	}
	var servers []string
	for _, rr := range answer.Answer {
		ns, ok := rr.(*miekg.NS)
		if !ok {
			continue
		}
		at, err := z.resolve(ctx, strings.TrimSuffix(ns.Ns, "."))
		if err != nil {
			return nil, fmt.Errorf("name server %s of the zone: %w", problem.Quote(ns.Ns), err)
		}
		for _, address := range at {
			servers = append(servers, netip.AddrPortFrom(address, defaultPort).String())
		}
	}
	return servers, nil
}

// resolve returns the addresses of a name server, of one family: what the primary server says or, for a name in another
// zone, what the resolver says where the name servers are asked from. Each may be a server of its own, which gets the
// update at another time.
func (z zone) resolve(ctx context.Context, name string) ([]netip.Addr, error) {
	for _, kind := range []uint16{z.family, miekg.TypeA, miekg.TypeAAAA} {
		answer, err := z.exchange(ctx, z.Server, question(name, kind))
		if err != nil {
			continue // refused for a name of another zone
		}
		if set, _ := addressesIn(answer.Answer, name); len(set.Addresses) > 0 {
			return set.Addresses, nil
		}
	}
	addresses, err := z.lookup(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("it is in another zone: %w", err)
	}
	return ofFirstFamily(addresses), nil
}

// ofFirstFamily returns the addresses that have the family of the first one, which is the preferred one.
func ofFirstFamily(addresses []netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, address := range addresses {
		if address.Unmap().Is4() == addresses[0].Unmap().Is4() {
			out = append(out, address.Unmap())
		}
	}
	return out
}
