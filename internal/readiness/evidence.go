package readiness

import "time"

// Evidence is the observed state of a control plane, as plain values. A non-empty Unread field
// is the reason why the other fields of its struct are not known.
type Evidence struct {
	Now            time.Time
	Etcd           Etcd
	Members        []Member
	Drill          *Drill // the last restore drill; nil: none is recorded
	Endpoint       Endpoint
	Replicas       []Replica
	ReplicasUnread string // why the list of replicas is not known
	Encryption     Encryption
	Certificates   []Certificate
	// CertificatesUnread are those that machines should have and that cannot be read, with the machine.
	CertificatesUnread []string
	SignedOutside      []string // authorities with an external key, whose certificates no apply renews
	Alerts             Alerts
	Nodes              []Node
	NodesUnread        string
}

// Etcd is the cluster as its members report it.
type Etcd struct {
	Unread  string
	Voters  int
	Healthy int // of the voters
}

// Drill is the result of a restore drill.
type Drill struct {
	Ended     time.Time
	Succeeded bool
	Problem   string        // why it failed
	RTO       time.Duration // until an API server served the snapshot
	RPO       time.Duration // the age of the snapshot; 0: not known
	Compared  bool          // with the objects of the live cluster
}

// Member is one etcd member: its process, its disk, its database.
type Member struct {
	Name, Address string
	Unread        string
	Process       Process
	DBSize        int64  // bytes; 0: not known
	Quota         int64  // bytes; 0: not known; negative: none
	OwnDisk       bool   // its data is not on the root file system
	Disk          string // mount point of the data; "": not known
	// Devices are the whole disks below that file system, as the kernel names them: "sdb",
	// "nvme0n1", "loop0". Empty: not known, as of a file system in the network.
	Devices []string
	Sharing []string // mount points of other file systems that use one of these disks
	Memory  bool     // the mount point is a file system in memory
	Volume  string   // mount point of the volume that moves with the member, by its record; "": none
	// FsyncUnread is why the latency of its log is not known.
	FsyncUnread string
	Fsync       time.Duration // 99th percentile since the member started
	Fsyncs      uint64        // number of measurements
	Compaction  Compaction
	TLS         TLS
	Profiling   Answer // of its page of profiles
	Schedules   []Schedule
	Scheduled   *Scheduled // nil: not set up
}

// Process is a running component.
type Process struct {
	Running bool
	Flags   map[string]string // of its command line, without dashes
	// The limits of its unit, or of its container; "" means no limit.
	MemoryMax string
	CPUQuota  string
	// What is reserved, as far as it is in effect: memory that is not reclaimed, and shares of processors and disks
	// when there is too little for all; "" means nothing more than others get.
	MemoryMin string
	CPUWeight string
	IOWeight  string
	// CPURequest: it runs in a container to which the kubelet gives a share of processors.
	CPURequest bool
	// NotInEffect are reservations that are set, and not in effect, in words.
	NotInEffect []string
	Unseen      string // why limits and reservations do not show; "" if they do
	Scrapes     Scrapes
}

// Scrapes is who reads the metrics of a process.
type Scrapes struct {
	Unseen string // why that does not show; "" if it does
	Last   []Scrape
	// Connections: these are clients that connected to the port. What they asked for, and whether they were refused, is
	// not known.
	Connections bool
}

// Scrape is a reader of metrics.
type Scrape struct {
	By  string        // such as an address, or a user
	Ago time.Duration // since it has last read them
}

// Answer is a process's answer to a request for a page. The zero value is none.
type Answer struct {
	Status int    // of HTTP
	Unread string // why there is no answer
}

// Compaction is how a member's history is compacted.
type Compaction struct {
	Unread   string
	Revision uint64        // up to which it is compacted; 0: never
	Last     time.Time     // of the last compaction since the process started; zero: none
	Uptime   time.Duration // of the process
}

// TLS is what the files of a member say.
type TLS struct {
	Unread  string
	Clients Side // what clients get, and who they may be
	Peers   Side
}

// Side is one of a member's two servers.
type Side struct {
	Key     string // identifies the public key of the certificate
	Refused string // why a client of the member refuses that certificate; "" if none does
	// Foreign are other authorities of this control plane that the trusted file contains.
	Foreign []string
}

// Alerts are the alerting rules that the API of the cluster has (objects of the Prometheus
// operator).
type Alerts struct {
	Unread       string
	Rules        int
	Certificates []string // the alerts that look at the end of certificates
}

// Schedule is a systemd timer, not made by this provider, whose name or command mentions etcd.
type Schedule struct {
	Name    string
	Command string
	Failed  bool // its last run failed
	Ran     time.Time
}

// Scheduled is the provider's own timer for snapshots on one machine.
type Scheduled struct {
	Failed  bool      // its last run failed
	Uploads bool      // it uploads snapshots
	Sent    time.Time // when the newest snapshot uploaded from here was saved; zero: none
	Since   time.Time // when uploads were configured as they are; zero: they are not, or it is not known
	Ran     time.Time // zero: never
	Next    time.Time // zero: it is stopped
	// Interval is the longest time between two runs; 0: not known.
	Interval time.Duration
}

// Endpoint is the path to the API servers.
type Endpoint struct {
	Address    string
	Kind       string // as the resource names it; "" is "haproxy"
	Announced  bool   // of kube_vip: every machine announces the address, and none holds it
	Silence    string // why an endpoint without balancers of this control plane does not answer; "" if it does
	Balancers  int
	Unread     []string // balancers that could not be observed
	Holders    []string
	InRotation []string // replicas that receive requests from every balancer
}

// Replica is the three components on one machine.
type Replica struct {
	Name, Address     string
	Unread            string
	APIServer         Process
	ControllerManager Process
	Scheduler         Process
	Kubelet           bool              // one that uses an API server runs on the machine
	Profiling         map[string]Answer // of each component's page of profiles, by its name
	// Files are the files that flags of the API server name, by flag. Files with secrets are
	// excluded.
	Files map[string]string
}

// Encryption is how the cluster stores secret data.
type Encryption struct {
	Unread    string
	Provider  string // "" or "identity": in the clear
	Resources []string
	Stored    map[string]Stored // what etcd has, by resource; those that are to be encrypted
	// StoredUnread is why that is not known.
	StoredUnread string
}

// Stored counts objects by the form in which etcd has them.
type Stored struct {
	Objects int
	Clear   int  // not encrypted
	Other   int  // encrypted, and not as the API servers would write them now
	Partly  bool // there are more, which were not looked at
}

// Certificate is a leaf certificate or the certificate of an authority.
type Certificate struct {
	Of  string // its description
	End time.Time
}

// Node is one node of the cluster.
type Node struct {
	Name         string
	Addresses    []string
	Taints       []string // "KEY:EFFECT"
	ControlPlane bool     // by its label, as kubeadm sets it
}

// processes returns the components of a replica by name.
func (r Replica) processes() []named {
	return []named{
		{"kube-apiserver", r.APIServer},
		{"kube-controller-manager", r.ControllerManager},
		{"kube-scheduler", r.Scheduler},
	}
}

// named is a process with its name.
type named struct {
	name string
	Process
}

// FilesOf returns the flags of the API server that name a file with evidence and without
// secrets.
func FilesOf() []string {
	return []string{"audit-policy-file", "authentication-config", "authorization-config"}
}
