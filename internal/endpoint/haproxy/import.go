package haproxy

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/timer"
)

// Imported is an endpoint as read from its machines: the content of a Spec.
type Imported struct {
	ClusterID       string // "" if an earlier version created it
	Address         string
	Address6        string // "" if it has no second virtual IP
	Further         []string
	Port            int
	Hosts           map[string]string // name → address
	Interface       string
	VirtualRouterID int
	VRRP            string
	InstallPackages bool
	CACertificate   string
	DrainTimeout    time.Duration
	Konnectivity    *Konnectivity // Targets is nil if they are Hosts
	HandOver        string
	Metrics         *Metrics
	// TextfileDirectory is that of Spec.
	TextfileDirectory string
	LivenessProbe     bool
	// Replicas are the addresses of the machines in rotation. Their registrations may have a
	// newer DrainTimeout, because a change of it does not change the balancers.
	Replicas []string
}

// Import reads an endpoint from one of its machines. It changes nothing. machine returns the
// connection for an address: if this machine has no record of the other hosts' names, they are
// read from those hosts.
func Import(ctx context.Context, h *host.Host, machine func(address string) *host.Host) (Imported, error) {
	facts, err := h.Observe(ctx, importQuery())
	if err != nil {
		return Imported{}, fmt.Errorf("read the endpoint on %s: %w", h.Address(), err)
	}
	own, err := rendered(h, facts)
	if err != nil {
		return Imported{}, err
	}
	out := own.imported()
	out.Konnectivity = own.konnectivity.withHosts(out.Hosts)
	if len(out.Hosts) == 0 && own.multicast {
		return Imported{}, notImported(h, recordPath+" does not name the endpoint's machines, and with multicast no other "+
			"file does", "import by the address of another of its machines, or apply the configuration, which writes it again")
	}
	if len(out.Hosts) == 0 {
		out.Hosts, err = own.askOtherHosts(ctx, machine)
		out.Konnectivity = own.konnectivity.withHosts(out.Hosts)
	}
	return out, err
}

func importQuery() host.Query {
	return host.Query{
		Contents: []string{
			endpointPath, backendsPath, keepalivedPath, caPath, recordPath, noFacts.Script, noFacts.Job().TimerPath(),
			noProbe.Job().TimerPath(), unitDir + watchUnit,
		},
		Script: "ip -o address show",
	}
}

// installed is one machine's part of an endpoint, as read from its files.
type installed struct {
	machine *host.Host
	name    string
	address string // of the machine
	peers   []string
	vip     netip.AddrPort
	others  []netip.Addr // the virtual IPs beside it
	// konnectivity is the port of agents, with all targets; nil if there is none.
	konnectivity *Konnectivity
	metrics      *Metrics // nil if there are none
	textfiles    string   // the directory of facts
	probed       bool     // there are liveness probes
	device       string
	usual        string // the interface that has the machine's address
	routerID     int
	// multicast is set if advertisements have no other recipients; peers is empty then.
	multicast bool
	handOver  string
	ca        string
	replicas  []string
	record    *record
	owner     owner
}

var (
	bindLine   = regexp.MustCompile(`(?m)^\s*bind (\S+)`)
	nameLine   = regexp.MustCompile(`(?m)^\s*router_id (\S+)`)
	deviceLine = regexp.MustCompile(`(?m)^\s*interface (\S+)`)
	idLine     = regexp.MustCompile(`(?m)^\s*virtual_router_id (\d+)`)
	sourceLine = regexp.MustCompile(`(?m)^\s*(?:unicast|mcast)_src_ip (\S+)`)
	peersBlock = regexp.MustCompile(`(?s)unicast_peer \{(.*?)\}`)
)

// rendered parses the files that change renders.
func rendered(h *host.Host, facts host.Facts) (installed, error) {
	balancer, there := facts.Files[endpointPath]
	vrrp := facts.Files[keepalivedPath].Content
	if !there || vrrp == "" {
		return installed{}, notImported(h, "no endpoint of this provider is on the machine",
			"give the address of one of the endpoint's machines (haproxy.hosts)")
	}
	first := func(line *regexp.Regexp, text string) string {
		return append(line.FindStringSubmatch(text), "", "")[1]
	}
	out := installed{
		machine: h, name: first(nameLine, vrrp), address: first(sourceLine, vrrp), device: first(deviceLine, vrrp),
		ca: facts.Files[caPath].Content, record: readRecord(facts.Files[recordPath].Content),
		peers: strings.Fields(first(peersBlock, vrrp)), multicast: sendsMulticast(vrrp),
		textfiles: noFacts.DirectoryIn(facts.Files),
		probed:    timer.Managed(facts.Files[noProbe.Job().TimerPath()]),
	}
	_, watched := facts.Files[unitDir+watchUnit]
	switch {
	case watched:
		out.handOver = Take
	case strings.Contains(vrrp, waitingPath):
		out.handOver = Prepare // or Release, which has the same files
	}
	var err, agents, exporter, numbers error
	proxies, metrics, _ := strings.Cut(balancer.Content, metricsHeading)
	out.metrics, exporter = metricsIn(metrics)
	api, tunnels, _ := strings.Cut(proxies, konnectivityHeading)
	out.konnectivity, agents = konnectivityIn(tunnels)
	if strings.Contains(api, preparedBind) {
		return installed{}, notImported(h, "the endpoint is about to take its address from the machine's own services",
			"complete that with the configuration that has begun it (haproxy.inherit)")
	}
	out.vip, out.others, err = vipsIn(api)
	out.routerID, numbers = strconv.Atoi(first(idLine, vrrp))
	if err := errors.Join(err, agents, exporter, numbers, out.validate()); err != nil {
		return installed{}, notImported(h, endpointPath+", "+keepalivedPath+" or "+caPath+
			" was changed by hand, so that they do not say what the endpoint is: "+
			printable(strings.ReplaceAll(err.Error(), "\n", "; ")),
			"undo the change, or apply the configuration, which writes them again")
	}
	if out.address != h.Address() {
		return installed{}, notImported(h, "the machine is known to the others as "+out.address, "import by that address")
	}
	out.peers = slices.DeleteFunc(out.peers, func(peer string) bool { return peer == loopback(out.address) })
	_, out.usual = parseAddresses(facts.Output, "", out.address)
	out.owner = ownerOf(out.record, balancer.Content)
	for _, s := range parseBackends(out.vip.Addr().String(), facts.Files[backendsPath].Content).servers {
		out.replicas = append(out.replicas, s.Address.Addr().String())
	}
	return out, nil
}

// vipsIn returns the virtual IPs in HAProxy's configuration, the first one with its port.
func vipsIn(api string) (first netip.AddrPort, others []netip.Addr, err error) {
	for _, bind := range bindLine.FindAllStringSubmatch(api, MostFurther+3) {
		at, err := netip.ParseAddrPort(bind[1])
		switch {
		case err != nil:
			return first, nil, err
		case !first.IsValid():
			first = at
		case at.Port() != first.Port():
			return first, nil, fmt.Errorf("the port of %s is another one", at)
		default:
			others = append(others, at.Addr())
		}
	}
	if !first.IsValid() {
		return first, nil, errors.New("HAProxy listens nowhere")
	}
	return first, others, nil
}

// addresses returns the virtual IPs beside the first as Address6 and Further: as the record says, if it has the same
// ones, or the first IPv6 one beside IPv4 as Address6.
func (p installed) addresses() (address6 string, further []string) {
	for _, other := range p.others {
		further = append(further, other.String())
	}
	if p.record != nil && p.record.Address == p.vip.Addr().String() {
		recorded := Spec{Address: p.record.Address, Address6: p.record.Address6, Further: p.record.Further}
		if slices.Equal(recorded.vips()[1:], further) {
			return recorded.Address6, recorded.Further
		}
	}
	if len(p.others) > 0 && p.vip.Addr().Is4() && p.others[0].Is6() {
		return further[0], further[1:]
	}
	return "", further
}

// validate reports whether the files have the form that the provider writes.
func (p installed) validate() error {
	checks := []error{
		validateName("host name", p.name), ValidateInterface(p.device), ValidateAddress(p.vip.Addr().String()),
		validateVirtualRouterID(p.routerID),
	}
	address6, further := p.addresses()
	if address6 != "" {
		checks = append(checks, ValidateAddress6(p.vip.Addr().String(), address6))
	}
	checks = append(checks, ValidateFurther(p.vip.Addr().String(), address6, further, nil))
	for _, address := range append([]string{p.address}, p.peers...) {
		_, err := netip.ParseAddr(address)
		checks = append(checks, err)
	}
	return errors.Join(append(checks, certificatesOnly(p.ca))...)
}

// certificatesOnly checks that text contains only PEM certificates, with comments between
// them.
func certificatesOnly(text string) error {
	if strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) && !strings.ContainsRune("\n\r\t", r) }) {
		return errors.New(caPath + " is not text")
	}
	for rest := []byte(text); len(bytes.TrimSpace(rest)) > 0; {
		block, after := pem.Decode(rest)
		if block == nil {
			return errors.New(caPath + " contains more than certificates")
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil || block.Type != "CERTIFICATE" {
			return errors.New(caPath + " contains something that is not a certificate")
		}
		rest = after
	}
	return nil
}

func notImported(h *host.Host, cause, next string) error {
	return &problem.Problem{
		Summary: "Endpoint not imported", Host: h.Address(), Cause: cause, Unchanged: problem.Nothing, Next: next + ".",
		Err: errors.New(cause),
	}
}

// imported returns the endpoint that a machine belongs to. Its record is used if it renders the
// existing files; otherwise Hosts is empty.
func (p installed) imported() Imported {
	recorded := p.record
	if recorded == nil {
		recorded = &record{InstallPackages: true}
	}
	out := Imported{
		ClusterID: p.owner.ClusterID,
		Address:   p.vip.Addr().String(), Port: int(p.vip.Port()), CACertificate: p.ca, Replicas: p.replicas,
		Metrics:           p.metrics,
		TextfileDirectory: p.textfiles, LivenessProbe: p.probed, HandOver: p.handOver,
		Interface: recorded.Interface, VirtualRouterID: recorded.VirtualRouterID, InstallPackages: recorded.InstallPackages,
		DrainTimeout: orDefault(recorded.DrainTimeout, endpoint.DefaultDrainTimeout),
	}
	out.Address6, out.Further = p.addresses()
	if device := orDefault(out.Interface, p.usual); device != p.device {
		out.Interface = p.device
	}
	if (Spec{Address: out.Address, VirtualRouterID: out.VirtualRouterID}).routerID() != p.routerID {
		out.VirtualRouterID = p.routerID
	}
	out.VRRP = recorded.VRRP
	if p.multicast != (recorded.VRRP == Multicast) {
		out.VRRP = ""
		if p.multicast {
			out.VRRP = Multicast
		}
	}
	sameHosts := p.multicast || slices.Equal(slices.Sorted(maps.Values(recorded.Hosts)), p.all())
	if sameHosts && recorded.Hosts[p.name] == p.address {
		out.Hosts = recorded.Hosts
	}
	return out
}

// all returns the addresses of the endpoint's machines, sorted.
func (p installed) all() []string {
	return slices.Sorted(slices.Values(append(slices.Clone(p.peers), p.address)))
}

// askOtherHosts reads the name of every machine of the endpoint.
func (p installed) askOtherHosts(
	ctx context.Context, machine func(address string) *host.Host,
) (map[string]string, error) {
	var mu sync.Mutex
	hosts := map[string]string{p.name: p.address}
	err := onHosts(p.peers, func(address string) error {
		peer := machine(address)
		facts, err := peer.Observe(ctx, importQuery())
		if err != nil {
			return fmt.Errorf("ask %s for its name in the endpoint: %w", address, err)
		}
		other, err := rendered(peer, facts)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		hosts[other.name] = other.address
		return nil
	})
	return hosts, err
}
