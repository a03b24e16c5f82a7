// Package endpoint has what all kinds of endpoint share: the registration by which replicas enter
// and leave rotation, the status of the resource, and the order of a change. Each kind is a
// package of its own below this one.
package endpoint

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrGone means that nothing of the endpoint exists any more.
var ErrGone = errors.New("control-plane endpoint does not exist")

// ErrSilent means that nothing answers by which the endpoint could be changed, and that is no machine of the cluster: a
// name server, for example. A replica can leave such an endpoint. It is not host.ErrUnreachable, which decides what is
// abandoned.
var ErrSilent = errors.New("no answer")

const (
	// DefaultPort is the port of an endpoint that names none.
	DefaultPort = 6443
	// DefaultDrainTimeout applies to an endpoint that names none.
	DefaultDrainTimeout = 10 * time.Second
)

// Kind is what makes the address of an endpoint fixed.
type Kind string

// The kinds. HAProxy is also the kind of a registration that names none: versions before this
// one wrote it so.
const (
	HAProxy  Kind = "haproxy"
	External Kind = "external"
	DNS      Kind = "dns"
	BGP      Kind = "bgp"
	KubeVIP  Kind = "kube_vip"
)

// Registration is what a replica needs to enter and leave rotation. It is derived from the
// endpoint's arguments, so it is known at plan time. It contains no secret.
type Registration struct {
	Kind         Kind              `json:"kind,omitempty"` // "" is HAProxy
	Address      string            `json:"address"`
	Address6     string            `json:"address6,omitempty"`             // the second one of a dual-stack endpoint
	Further      []string          `json:"additional_addresses,omitempty"` // that the same balancers have
	Port         int               `json:"port"`
	Hosts        map[string]string `json:"hosts"` // name → address: the balancers, or the machines of the replicas
	DrainTimeout time.Duration     `json:"drain_timeout"`
	VerifyCA     bool              `json:"verify_ca"`
	ClusterID    string            `json:"cluster_id,omitempty"` // "" if an earlier version wrote it
	// DetectionTime is the longest time until the endpoint stops sending requests to a replica that is no longer ready.
	// Zero if the provider takes it out of rotation before.
	DetectionTime time.Duration `json:"detection_time,omitempty"`
	// HealthyTime is the longest time until the endpoint sends requests to a replica that has become ready. Zero is
	// DetectionTime. Read it with EntryTime.
	HealthyTime time.Duration `json:"healthy_time,omitempty"`
	TargetPort  int           `json:"target_port,omitempty"` // of any kind but HAProxy: the API servers' own
	// ProbeFrom is the address of the machine from which the endpoint is probed. "" is this computer.
	ProbeFrom string `json:"probe_from,omitempty"`
	Zone      *Zone  `json:"zone,omitempty"` // of a dns endpoint; nil for other kinds
	// BGP is how an endpoint of that kind announces its address, or one by kube-vip in that mode. Nil for the others.
	BGP *Announcement `json:"bgp,omitempty"`
	// Additional are further endpoints of the same control plane, at which the replica is in rotation
	// as well. None of them has additional endpoints.
	Additional []Registration `json:"additional,omitempty"`
	// KubeVIP is how the machines elect the holder of the address. Nil for the other kinds.
	KubeVIP *Election `json:"kube_vip,omitempty"`
	// Hooks run on this computer. They come from the configuration, and are never written to a
	// machine or read from one.
	Hooks Hooks `json:"-"`
	// HasHooks is what a machine records of them.
	HasHooks bool `json:"has_hooks,omitempty"`
}

// MarshalJSON encodes what a machine may record: that there are hooks, and not which.
func (r Registration) MarshalJSON() ([]byte, error) {
	type record Registration
	recorded := record(r)
	recorded.HasHooks = r.HasHooks || r.Hooks.Any()
	return json.Marshal(recorded)
}

// Hooks are commands that change the balancer of an external endpoint, each a program and its
// arguments. Nil means that there is none.
type Hooks struct {
	Register, Drain, Deregister, Status []string
}

// Any reports whether there is a hook.
func (h Hooks) Any() bool { return len(h.Register)+len(h.Drain)+len(h.Deregister)+len(h.Status) > 0 }

// Zone is where the replicas of a dns endpoint have their address records. It contains no secret.
type Zone struct {
	Name        string        `json:"name"`                   // of the zone, without a trailing dot
	Server      string        `json:"server"`                 // IP:port of the server that takes updates
	NameServers []string      `json:"name_servers,omitempty"` // IP:port each; empty: what the zone's NS records say
	TTL         time.Duration `json:"ttl"`
	TSIGKey     string        `json:"tsig_key"` // name of the key; the provider's settings have the secret
	// CheckInterval and CheckThreshold are how the machines check the replicas: this many failed
	// checks in a row take a record out.
	CheckInterval   time.Duration `json:"check_interval"`
	CheckThreshold  int           `json:"check_threshold"`
	InstallPackages bool          `json:"install_packages"` // may install nsupdate and dig on the machines
}

// SameRecords reports whether both have their records in the same zone of the same server.
func (z Zone) SameRecords(other Zone) bool { return z.Server == other.Server && z.Name == other.Name }

// Key identifies equal registrations.
func (r Registration) Key() string {
	text, _ := json.Marshal(r) // strings, numbers and a map of strings always encode
	return string(text)
}

// Digest identifies equal registrations as a config_digest.
func (r Registration) Digest() string {
	sum := sha256.Sum256([]byte(r.Key()))
	return hex.EncodeToString(sum[:])
}

// ID identifies the endpoint of a registration within a control plane: two kinds of endpoint may have
// the same address while one takes over from the other.
func (r Registration) ID() string {
	return string(cmp.Or(r.Kind, HAProxy)) + " " + r.Address
}

// All returns the registration at each endpoint, the additional ones last.
func (r Registration) All() []Registration {
	first := r
	first.Additional = nil
	return append([]Registration{first}, r.Additional...)
}

// IDs returns the ID of each endpoint, sorted.
func (r Registration) IDs() []string {
	var ids []string
	for _, each := range r.All() {
		ids = append(ids, each.ID())
	}
	slices.Sort(ids)
	return ids
}

// At returns the registration at the endpoints of another one, with the settings that r has for them.
func (r Registration) At(other Registration) Registration {
	all := other.All()
	for i, each := range all {
		for _, own := range r.All() {
			if own.ID() == each.ID() {
				all[i] = own
			}
		}
	}
	at := all[0]
	at.Additional = all[1:]
	return at
}

// MovingHint is for the error of an endpoint that still has replicas: Terraform destroys what is
// removed before it changes what has depended on it.
const MovingHint = "; if they move to another endpoint in this apply, set create_before_destroy = true in the " +
	"lifecycle of this one and apply that first"

// ForgetHint is for the same error. The state has the endpoint twice if its resource was renamed without a moved block
// and the Delete was refused before the Create had begun.
const ForgetHint = "; if another resource manages this endpoint now, take this one out of the state, which changes " +
	"nothing on machines: terraform state rm, or a removed block with destroy = false"

// OtherHint is for the error of an endpoint whose machines have another one of its kind.
const OtherHint = "if the other endpoint is of the same cluster, move by way of one of another kind (guide " +
	"\"Topologies\", Moving to another endpoint); if it is of another cluster, destroy that one first"

// MaxAdditional limits the endpoints of one control plane.
const MaxAdditional = 4

// ValidateAdditional checks the additional endpoints against each other and the registration.
func (r Registration) ValidateAdditional() error {
	if len(r.Additional) > MaxAdditional {
		return fmt.Errorf("there are %d additional endpoints, and at most %d are supported", len(r.Additional), MaxAdditional)
	}
	return r.ValidateTogether()
}

// Leaving returns the registration of a replica that moves from the endpoints of another one: until it is in rotation
// at its own, it is at those too. Of a name that it leaves for another one, its machine has nothing by then: see
// package dns.
func (r Registration) Leaving(before Registration) Registration {
	isDNS := func(each Registration) bool { return each.Kind == DNS }
	ids, named := r.IDs(), slices.ContainsFunc(r.All(), isDNS)
	r.Additional = slices.Clone(r.Additional)
	for _, each := range before.All() {
		if !slices.Contains(ids, each.ID()) && (!named || !isDNS(each)) {
			r.Additional = append(r.Additional, each)
		}
	}
	return r
}

// ValidateTogether checks whether a replica can be at all endpoints of the registration at the same time.
func (r Registration) ValidateTogether() error {
	seen, ofKind, balancers := map[string]bool{}, map[Kind]bool{}, map[string]bool{}
	own := map[string]bool{} // addresses that a machine of a replica has itself
	for _, each := range r.All() {
		switch {
		case each.Address == "":
			return errors.New("an endpoint has no address")
		case len(each.Additional) > 0:
			return fmt.Errorf("the additional endpoint %s has additional endpoints itself", each.ID())
		case each.ClusterID != r.ClusterID:
			return fmt.Errorf("the additional endpoint %s belongs to the cluster %q, and the first one to %q", each.ID(),
				each.ClusterID, r.ClusterID)
		case each.Kind == KubeVIP && ofKind[KubeVIP]:
			return errors.New("a machine can be a candidate for one endpoint by kube-vip only, and there are two" + byWayOf)
		case each.Kind == BGP && ofKind[BGP]:
			return errors.New("a machine can announce the address of one endpoint by BGP only, and there are two" + byWayOf)
		case each.Kind == DNS && ofKind[DNS]:
			return errors.New("the records of a machine can be guarded in one name only, and there are two endpoints by DNS: " +
				"let other records lead to that name (CNAME)")
		case seen[each.ID()]:
			return fmt.Errorf("the endpoint %s is listed twice", each.ID())
		}
		if each.Kind == KubeVIP || each.Kind == BGP {
			for _, address := range each.Addresses() {
				if own[address] {
					return fmt.Errorf("kube-vip and bird cannot both manage the address %s on one machine: give one of the two "+
						"endpoints another address", address)
				}
				own[address] = true
			}
		}
		seen[each.ID()] = true
		ofKind[each.Kind] = true
		if cmp.Or(each.Kind, HAProxy) != HAProxy {
			continue
		}
		for _, address := range each.Hosts {
			if balancers[address] {
				return fmt.Errorf("the machine %s can balance for one endpoint only, and there are two: give one of them several "+
					"addresses (additional_addresses), or other hosts%s", address, byWayOf)
			}
		}
		for _, address := range each.Hosts {
			balancers[address] = true
		}
	}
	return nil
}

// byWayOf is for two endpoints of a kind on the same machines.
const byWayOf = ". To move from one to the other, use one of another kind in between (guide \"Topologies\", " +
	"Moving to another endpoint)"

// AdditionalAddresses returns the further addresses of the endpoint itself, and those of the additional endpoints.
func (r Registration) AdditionalAddresses() []string {
	addresses := slices.Clone(r.Further)
	for _, a := range r.Additional {
		addresses = append(addresses, a.Addresses()...)
	}
	return addresses
}

// Addresses returns all addresses of the endpoint itself.
func (r Registration) Addresses() []string {
	first := []string{r.Address}
	if r.Address6 != "" {
		first = append(first, r.Address6)
	}
	return append(first, r.Further...)
}

// EntryTime returns how long it takes until a replica that has become ready is in rotation.
func (r Registration) EntryTime() time.Duration { return cmp.Or(r.HealthyTime, r.DetectionTime) }

// LongestDetection returns the longest DetectionTime of all endpoints.
func (r Registration) LongestDetection() time.Duration {
	var longest time.Duration
	for _, each := range r.All() {
		longest = max(longest, each.DetectionTime)
	}
	return longest
}

// OnMachines reports whether clients reach API servers at the address of an endpoint, which the
// machines of the replicas have.
func (r Registration) OnMachines() bool {
	return slices.ContainsFunc(r.All(), func(each Registration) bool { return each.Kind == BGP || each.Kind == KubeVIP })
}

// Status is what the resource's state records about the endpoint.
type Status struct {
	ConfigDigest string // "" if a host cannot be reached
	Drift        []string
}

// ValidatePort checks a TCP port.
func ValidatePort(port int) error {
	if port < 1 || port > 65535 {
		return fmt.Errorf("port %d is not between 1 and 65535", port)
	}
	return nil
}
