// Package firewall says which connections a control plane needs, in one table, and renders the
// rules of each machine from it.
package firewall

// Role is who sends or receives.
type Role string

// The roles. Members, Replicas and Balancers are machines of the control plane; a machine may have
// all three, and is a node too if its address is among those of the nodes.
const (
	Machines          Role = "machines" // all of them
	Members           Role = "members"
	Replicas          Role = "replicas"
	Balancers         Role = "balancers"
	Operator          Role = "operator" // where Terraform runs, or its bastion
	Clients           Role = "clients"  // of the API
	Nodes             Role = "nodes"
	Monitoring        Role = "monitoring"
	NameServers       Role = "name_servers"
	Routers           Role = "routers"
	ExternalBalancers Role = "external_balancers"
	EndpointAddresses Role = "endpoint_addresses" // virtual IPs, which a machine has for a time
	// BalancerAddresses are further addresses of balancers, of the other family: what they send to a virtual IP of
	// that family comes from there.
	BalancerAddresses Role = "balancer_addresses"
	VRRPGroups        Role = "vrrp_groups" // the multicast addresses of VRRP
	Outside           Role = "outside"     // any address
)

// Protocol is an IP protocol.
type Protocol string

// The protocols.
const (
	TCP  Protocol = "tcp"
	UDP  Protocol = "udp"
	VRRP Protocol = "vrrp" // IP protocol 112, without ports
)

// Setting is a port that the configuration may change.
type Setting string

// The settings of ports.
const (
	APIPort      Setting = "port"          // of replicas
	EndpointPort Setting = "endpoint_port" // of the endpoint
	SSHPort      Setting = "ssh_port"
	AgentPort    Setting = "agent_port" // of konnectivity; not set: there is none

	EtcdMetricsPort     Setting = "etcd_metrics_port"     // of etcd's listener for metrics; not set: it is local
	BalancerMetricsPort Setting = "balancer_metrics_port" // of HAProxy's metrics; not set: there are none
	NodeExporterPort    Setting = "node_exporter_port"    // not set: there is none
)

// Flow is one kind of connection.
type Flow struct {
	Name     string // of the rule: "etcd-peer"
	From, To Role
	Protocol Protocol
	Port     int      // 0: the protocol has none, or it is a Setting without a default
	Setting  Setting  // "": the port is fixed
	Unless   Setting  // of a flow that replaces this one; "": none does
	Kinds    []string // of endpoints that need it; none: all
	Purpose  string
}

// Flows is the table of all connections. The documentation is made of it.
var Flows = []Flow{
	{
		Name: "ssh", From: Operator, To: Machines, Protocol: TCP, Port: 22, Setting: SSHPort,
		Purpose: "everything that the provider does; it reaches etcd and the API inside SSH",
	},
	{Name: "etcd-peer", From: Members, To: Members, Protocol: TCP, Port: 2380, Purpose: "Raft between members"},
	{Name: "etcd-client", From: Replicas, To: Members, Protocol: TCP, Port: 2379, Purpose: "API servers to etcd"},
	{
		Name: "etcd-health", From: Members, To: Members, Protocol: TCP, Port: 2379,
		Purpose: "liveness probes ask the other members before they restart one",
	},
	{
		Name: "api-balancer", From: Balancers, To: Replicas, Protocol: TCP, Port: 6443, Setting: APIPort,
		Kinds: []string{"haproxy"}, Purpose: "requests and health checks",
	},
	{
		Name: "api-client", From: Clients, To: Balancers, Protocol: TCP, Port: 6443, Setting: EndpointPort,
		Kinds: []string{"haproxy"}, Purpose: "clients to the API",
	},
	{
		Name: "api-node", From: Nodes, To: Balancers, Protocol: TCP, Port: 6443, Setting: EndpointPort,
		Kinds: []string{"haproxy"}, Purpose: "kubelets and Pods to the API",
	},
	{
		Name: "api-node", From: Nodes, To: EndpointAddresses, Protocol: TCP, Port: 6443, Setting: EndpointPort,
		Kinds:   []string{"haproxy", "external"},
		Purpose: "the same, for what a machine lets out that is a node too",
	},
	{
		Name: "api-node", From: Nodes, To: EndpointAddresses, Protocol: TCP, Port: 6443, Setting: APIPort,
		Kinds:   []string{"bgp", "kube_vip"},
		Purpose: "the same, for what a machine lets out that is a node too",
	},
	{
		Name: "api-check", From: Balancers, To: Balancers, Protocol: TCP, Port: 6443, Setting: EndpointPort,
		Kinds: []string{"haproxy"}, Purpose: "a create checks that the other balancers reach the virtual IP",
	},
	{
		Name: "api-check", From: BalancerAddresses, To: Balancers, Protocol: TCP, Port: 6443, Setting: EndpointPort,
		Kinds: []string{"haproxy"}, Purpose: "the same, for virtual IPs of the other family",
	},
	{
		Name: "api-check", From: Balancers, To: EndpointAddresses, Protocol: TCP, Port: 6443, Setting: EndpointPort,
		Kinds: []string{"haproxy"}, Purpose: "the same, for what a machine lets out",
	},
	{
		Name: "vrrp", From: Balancers, To: Balancers, Protocol: VRRP, Kinds: []string{"haproxy"},
		Purpose: "the virtual IP",
	},
	{
		Name: "vrrp", From: Balancers, To: VRRPGroups, Protocol: VRRP, Kinds: []string{"haproxy"},
		Purpose: "the same with `vrrp = \"multicast\"`: 224.0.0.18 or ff02::12",
	},
	{
		Name: "api-external", From: ExternalBalancers, To: Replicas, Protocol: TCP, Port: 6443, Setting: APIPort,
		Kinds: []string{"external"}, Purpose: "requests and health checks",
	},
	{
		Name: "api-client", From: Clients, To: Replicas, Protocol: TCP, Port: 6443, Setting: APIPort,
		Kinds: []string{"dns", "bgp", "kube_vip"}, Purpose: "clients to the API",
	},
	{
		Name: "api-node", From: Nodes, To: Replicas, Protocol: TCP, Port: 6443, Setting: APIPort,
		Kinds: []string{"dns", "bgp", "kube_vip"}, Purpose: "kubelets and Pods to the API",
	},
	{
		Name: "api-survivor", From: Replicas, To: Replicas, Protocol: TCP, Port: 6443, Setting: APIPort,
		Kinds: []string{"dns"}, Purpose: "a replica removes the record of one that does not answer",
	},
	{
		Name: "dns-update", From: Replicas, To: NameServers, Protocol: TCP, Port: 53, Kinds: []string{"dns"},
		Purpose: "dynamic updates by the machines; the same from where Terraform runs, or from `probe_from`",
	},
	{
		Name: "bgp", From: Replicas, To: Routers, Protocol: TCP, Port: 179, Kinds: []string{"bgp", "kube_vip"},
		Purpose: "sessions that the machines open; of `kube_vip` with `mode = \"bgp\"`",
	},
	{
		Name: "bgp", From: Routers, To: Replicas, Protocol: TCP, Port: 179, Kinds: []string{"bgp"},
		Purpose: "sessions that the routers open",
	},
	{
		Name: "bfd", From: Routers, To: Replicas, Protocol: UDP, Port: 3784, Kinds: []string{"bgp"},
		Purpose: "BFD of peers in the same network",
	},
	{
		Name: "bfd", From: Replicas, To: Routers, Protocol: UDP, Port: 3784, Kinds: []string{"bgp"},
		Purpose: "BFD of peers in the same network",
	},
	{
		Name: "bfd-multihop", From: Routers, To: Replicas, Protocol: UDP, Port: 4784, Kinds: []string{"bgp"},
		Purpose: "BFD of peers with `multihop`",
	},
	{
		Name: "bfd-multihop", From: Replicas, To: Routers, Protocol: UDP, Port: 4784, Kinds: []string{"bgp"},
		Purpose: "BFD of peers with `multihop`",
	},
	{
		Name: "kubelet", From: Replicas, To: Nodes, Protocol: TCP, Port: 10250,
		Purpose: "logs, exec, port-forward, metrics of kubelets, also on machines that are nodes too (static pods, " +
			"kubeadm); not with konnectivity",
	},
	{
		Name: "konnectivity", From: Nodes, To: Replicas, Protocol: TCP, Setting: AgentPort,
		Purpose: "agents of konnectivity; through the balancers with `haproxy.konnectivity`",
	},
	{
		Name: "konnectivity", From: Nodes, To: Balancers, Protocol: TCP, Setting: AgentPort, Kinds: []string{"haproxy"},
		Purpose: "agents of konnectivity with `haproxy.konnectivity`",
	},
	{
		Name: "konnectivity", From: Balancers, To: Replicas, Protocol: TCP, Setting: AgentPort, Kinds: []string{"haproxy"},
		Purpose: "agents of konnectivity with `haproxy.konnectivity`",
	},
	{
		Name: "metrics-apiserver", From: Monitoring, To: Replicas, Protocol: TCP, Port: 6443, Setting: APIPort,
		Purpose: "metrics of kube-apiserver",
	},
	{
		Name: "metrics-controller-manager", From: Monitoring, To: Replicas, Protocol: TCP, Port: 10257,
		Purpose: "metrics of kube-controller-manager, with `metrics`",
	},
	{
		Name: "metrics-scheduler", From: Monitoring, To: Replicas, Protocol: TCP, Port: 10259,
		Purpose: "metrics of kube-scheduler, with `metrics`",
	},
	{
		Name: "metrics-etcd", From: Monitoring, To: Members, Protocol: TCP, Port: 2379, Unless: EtcdMetricsPort,
		Purpose: "metrics of etcd; not with `etcd_metrics_port`",
	},
	{
		Name: "metrics-etcd-listener", From: Monitoring, To: Members, Protocol: TCP, Setting: EtcdMetricsPort,
		Purpose: "metrics of etcd, with `metrics.address` (2382) or `listen-metrics-urls`",
	},
	{
		Name: "metrics-haproxy", From: Monitoring, To: Balancers, Protocol: TCP, Setting: BalancerMetricsPort,
		Kinds: []string{"haproxy"}, Purpose: "metrics of HAProxy, with `haproxy.metrics`",
	},
	{
		Name: "metrics-node", From: Monitoring, To: Machines, Protocol: TCP, Setting: NodeExporterPort,
		Purpose: "metrics of node_exporter, with the facts of `metrics.textfile_directory`",
	},
	{
		Name: "https", From: Machines, To: Outside, Protocol: TCP, Port: 443,
		Purpose: "downloads and packages, uploads of snapshots; OIDC issuers and webhooks with a URL",
	},
	{Name: "resolver", From: Machines, To: Outside, Protocol: UDP, Port: 53, Purpose: "names of all that"},
	{
		Name: "resolver", From: Machines, To: Outside, Protocol: TCP, Port: 53,
		Purpose: "answers that are too long for UDP",
	},
	{
		Name: "ntp", From: Machines, To: Outside, Protocol: UDP, Port: 123,
		Purpose: "the time: certificates and leases depend on it",
	},
}
