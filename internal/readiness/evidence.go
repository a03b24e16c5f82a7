package readiness

import "time"

// Evidence is what was read of a control plane, as plain values. Unread, where
// there is one, says why the rest of the value it stands in says nothing.
type Evidence struct {
	Now            time.Time
	Etcd           Etcd
	Members        []Member
	Endpoint       Endpoint
	Replicas       []Replica
	ReplicasUnread string // why it is not known which replicas there are
	Encryption     Encryption
	Certificates   []Certificate
	SignedOutside  []string // authorities whose key is held elsewhere, so that no apply renews what they sign
	Nodes          []Node
	NodesUnread    string
}

// Etcd is the cluster by its members' word.
type Etcd struct {
	Unread  string
	Voters  int
	Healthy int // of the voters
}

// Member is one etcd member: its process, its disk, its database.
type Member struct {
	Name, Address string
	Unread        string
	Process       Process
	DBSize        int64  // bytes; 0: not known
	Quota         int64  // bytes; 0: not known; negative: none
	OwnDisk       bool   // its data is not on the file system of /
	Disk          string // where the data is mounted; "": not known
	Memory        bool   // that is a file system in memory
	// FsyncUnread says why the latency of its log is not known.
	FsyncUnread string
	Fsync       time.Duration // its 99th percentile since the member started
	Fsyncs      uint64        // how many were measured
	Schedules   []Schedule
	Scheduled   *Scheduled // nil: not set up
}

// Process is a component that runs.
type Process struct {
	Running bool
	Flags   map[string]string // of its command line, without dashes
	// What systemd limits it to: "" where it does not.
	MemoryMax string
	CPUQuota  string
}

// Schedule is somebody's systemd timer of which the name or the command speaks of etcd.
type Schedule struct {
	Name    string
	Command string
	Failed  bool // its last run did
	Ran     time.Time
}

// Scheduled is the provider's own timer for snapshots on one machine.
type Scheduled struct {
	Failed  bool      // its last run did
	Uploads bool      // it brings snapshots elsewhere
	Sent    time.Time // when the newest was saved that was sent from here; zero: none
	Ran     time.Time // zero: never
	Next    time.Time // zero: it does not run
}

// Endpoint is the way to the API servers.
type Endpoint struct {
	Address    string
	Balancers  int
	Unread     []string // balancers that could not be looked at
	Holders    []string
	InRotation []string // replicas that every balancer sends requests to
}

// Replica is the three components on one machine.
type Replica struct {
	Name, Address     string
	Unread            string
	APIServer         Process
	ControllerManager Process
	Scheduler         Process
	// Files that flags of the API server name, by flag: those that hold no secret.
	Files map[string]string
}

// Encryption is how the cluster stores what is secret.
type Encryption struct {
	Unread    string
	Provider  string // "" or "identity": in the clear
	Resources []string
}

// Certificate is one leaf certificate, or an authority's.
type Certificate struct {
	Of  string // in words
	End time.Time
}

// Node is one node of the cluster.
type Node struct {
	Name      string
	Addresses []string
	Taints    []string // "KEY:EFFECT"
}

// processes are the components of a replica by name.
func (r Replica) processes() []named {
	return []named{{"kube-apiserver", r.APIServer}, {"kube-controller-manager", r.ControllerManager}, {"kube-scheduler", r.Scheduler}}
}

// named is a process with its name.
type named struct {
	name string
	Process
}

// FilesOf are the flags of the API server that name a file which is evidence
// and holds no secret.
func FilesOf() []string {
	return []string{"audit-policy-file", "authentication-config", "authorization-config"}
}
