// Package nodebootstrap describes what stock kubeadm reads from a control plane when a worker joins it: the
// objects, bootstrap tokens and the command. It connects to nothing.
package nodebootstrap

import (
	"net"
	"strconv"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

const (
	public = "kube-public"
	system = "kube-system"

	rbacGroup = "rbac.authorization.k8s.io"
	// tokenGroup is the group of every client that logs in with a bootstrap token of kubeadm.
	tokenGroup = "system:bootstrappers:kubeadm:default-node-token"
	nodesGroup = "system:nodes"

	clusterInfo   = "cluster-info"
	kubeadmConfig = "kubeadm-config"
	kubeletConfig = "kubelet-config"
)

// ClusterInfoPath is the path that kubeadm join requests without credentials.
const ClusterInfoPath = "/api/v1/namespaces/" + public + "/configmaps/" + clusterInfo

// Settings are the desired state of the objects, in plain values.
type Settings struct {
	Bundle        *pki.Bundle
	Host          string // of the endpoint
	Port          int
	Version       string // of the control plane: "1.36.3"
	ServiceCIDRs  []string
	PodCIDRs      []string
	ClusterDomain string
	ClusterDNS    []string // empty: the tenth address of the first range of Services
	KubeletConfig string   // YAML: fields of a KubeletConfiguration that replace those of the default
	// DiscoveryByFile leaves out what lets workers read cluster-info without credentials: they get DiscoveryFile.
	DiscoveryByFile bool
	// Adopt takes over objects of other field managers, and keeps the fields of their configurations that the provider
	// does not set.
	Adopt bool
}

// Endpoint returns the endpoint as HOST:PORT.
func (s Settings) Endpoint() string { return net.JoinHostPort(s.Host, strconv.Itoa(s.Port)) }

// Object is one object of the Kubernetes API, with the fields that are applied.
type Object struct {
	Group, Resource string // "rbac.authorization.k8s.io", "roles"
	Kind            string
	Namespace, Name string
	Fields          map[string]any // without apiVersion, kind and metadata

	version string // resourceVersion of what Fields were merged with: another one is not overwritten
}

// Label identifies the object for people: "Role kube-system/NAME".
func (o Object) Label() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// Manifest returns the whole object.
func (o Object) Manifest() map[string]any {
	// The label stays the provider's when somebody else changes all other fields: so the object does too.
	metadata := map[string]any{
		"name": o.Name, "labels": map[string]any{"app.kubernetes.io/managed-by": FieldManager},
	}
	if o.Namespace != "" {
		metadata["namespace"] = o.Namespace
	}
	if o.version != "" {
		metadata["resourceVersion"] = o.version
	}
	version := "v1"
	if o.Group != "" {
		version = o.Group + "/v1"
	}
	manifest := map[string]any{"apiVersion": version, "kind": o.Kind, "metadata": metadata}
	for name, value := range o.Fields {
		manifest[name] = value
	}
	return manifest
}

// Objects returns what kubeadm init uploads for workers (v1.34 to v1.36, cmd/kubeadm/app/phases: bootstraptoken,
// uploadconfig, kubelet), without the add-ons. kubeadm-config and kubelet-config have no
// kubeadm.kubernetes.io/component-config.hash: with it, kubeadm would consider them its own. cluster-info is the
// last one, because a worker begins with it.
func Objects(s Settings) ([]Object, error) {
	kubelet, err := s.kubeletConfiguration()
	if err != nil {
		return nil, err
	}
	objects := []Object{
		clusterRole("kubeadm:get-nodes", rule("get", "nodes", "")),
		clusterBinding("kubeadm:get-nodes", "kubeadm:get-nodes", group(tokenGroup)),
		clusterBinding("kubeadm:kubelet-bootstrap", "system:node-bootstrapper", group(tokenGroup)),
		clusterBinding("kubeadm:node-autoapprove-bootstrap",
			"system:certificates.k8s.io:certificatesigningrequests:nodeclient", group(tokenGroup)),
		clusterBinding("kubeadm:node-autoapprove-certificate-rotation",
			"system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", group(nodesGroup)),
	}
	objects = append(objects, granted(system, "kubeadm:nodes-kubeadm-config", read(kubeadmConfig),
		group(tokenGroup), group(nodesGroup))...)
	objects = append(objects, granted(system, "kubeadm:kubelet-config", read(kubeletConfig),
		group(nodesGroup), group(tokenGroup))...)
	if !s.DiscoveryByFile {
		objects = append(objects, anonymousDiscovery()...)
	}
	return append(objects,
		configMap(system, kubeadmConfig, "ClusterConfiguration", s.clusterConfiguration()),
		configMap(system, kubeletConfig, "kubelet", kubelet),
		configMap(public, clusterInfo, "kubeconfig", s.DiscoveryFile()),
	), nil
}

// Unwanted returns the objects that earlier settings may have left.
func Unwanted(s Settings) []Object {
	if s.DiscoveryByFile {
		return anonymousDiscovery()
	}
	return nil
}

// anonymousDiscovery lets everybody read cluster-info, which has no secrets.
func anonymousDiscovery() []Object {
	return granted(public, "kubeadm:bootstrap-signer-clusterinfo", read(clusterInfo), subject("User", "system:anonymous"))
}

func configMap(namespace, name, key, text string) Object {
	return Object{
		Resource: "configmaps", Kind: "ConfigMap", Namespace: namespace, Name: name,
		Fields: map[string]any{"data": map[string]any{key: text}},
	}
}

// granted returns a role with one rule, and its binding of the same name.
func granted(namespace, name string, allows map[string]any, to ...any) []Object {
	return []Object{
		{
			Group: rbacGroup, Resource: "roles", Kind: "Role", Namespace: namespace, Name: name,
			Fields: map[string]any{"rules": []any{allows}},
		},
		{
			Group: rbacGroup, Resource: "rolebindings", Kind: "RoleBinding", Namespace: namespace, Name: name,
			Fields: map[string]any{"roleRef": roleRef("Role", name), "subjects": to},
		},
	}
}

func clusterRole(name string, allows map[string]any) Object {
	return Object{
		Group: rbacGroup, Resource: "clusterroles", Kind: "ClusterRole", Name: name,
		Fields: map[string]any{"rules": []any{allows}},
	}
}

func clusterBinding(name, role string, to ...any) Object {
	return Object{
		Group: rbacGroup, Resource: "clusterrolebindings", Kind: "ClusterRoleBinding", Name: name,
		Fields: map[string]any{"roleRef": roleRef("ClusterRole", role), "subjects": to},
	}
}

func roleRef(kind, name string) map[string]any {
	return map[string]any{"apiGroup": rbacGroup, "kind": kind, "name": name}
}

func group(name string) any { return subject("Group", name) }

func subject(kind, name string) any {
	return map[string]any{"apiGroup": rbacGroup, "kind": kind, "name": name}
}

// read allows to get one ConfigMap.
func read(name string) map[string]any { return rule("get", "configmaps", name) }

// rule allows a verb on a resource of the core group, or on one object of it.
func rule(verb, resource, name string) map[string]any {
	r := map[string]any{"apiGroups": []any{""}, "resources": []any{resource}, "verbs": []any{verb}}
	if name != "" {
		r["resourceNames"] = []any{name}
	}
	return r
}
