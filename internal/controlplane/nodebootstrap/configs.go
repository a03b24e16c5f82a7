package nodebootstrap

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

const (
	kubeadmVersion = "kubeadm.k8s.io/v1beta4" // since 1.31
	kubeletVersion = "kubelet.config.k8s.io/v1beta1"
	kubeletKind    = "KubeletConfiguration"
)

// DiscoveryFile returns cluster-info: a kubeconfig without users. Its CAs are all that servers and clients of the
// cluster may have now, so that a worker that joins between two stages of a rotation accepts both. They are the
// issuing ones alone: kubelets verify their clients against the same file.
func (s Settings) DiscoveryFile() string { return encoded(s.discovery("")) }

// discovery returns the file with a name for the cluster. kubeadm's own cluster-info has none.
func (s Settings) discovery(name string) map[string]any {
	ca := base64.StdEncoding.EncodeToString([]byte(s.Bundle.Anchors(pki.Kubernetes)))
	return map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "",
		"contexts": nil, "users": nil,
		"clusters": []any{map[string]any{
			"name":    name,
			"cluster": map[string]any{"certificate-authority-data": ca, "server": "https://" + s.Endpoint()},
		}},
	}
}

// DiscoveryFileOf returns DiscoveryFile with a bootstrap token as its user, for kubeadm join --discovery-file without
// another argument. With credentials in the file, kubeadm makes no request without them: a server that refuses those
// with 401 makes it wait until it gives up, and only 403 lets it go on with the file
// (cmd/kubeadm/app/discovery/file). It contains the token, which is a secret.
func (s Settings) DiscoveryFileOf(token string) string {
	const user, cluster = "bootstrap", "kubernetes"
	file := s.discovery(cluster)
	file["current-context"] = user
	file["contexts"] = []any{map[string]any{"name": user, "context": map[string]any{"cluster": cluster, "user": user}}}
	file["users"] = []any{map[string]any{"name": user, "user": map[string]any{"token": token}}}
	return encoded(file)
}

// clusterConfiguration returns what kubeadm join and kubeadm upgrade node read on a worker. Without a version,
// kubeadm would ask the internet for one.
func (s Settings) clusterConfiguration() string {
	return encoded(merged(map[string]any{"apiVersion": kubeadmVersion, "kind": "ClusterConfiguration"}, s.clusterFields()))
}

// clusterFields are those that the provider sets in a ClusterConfiguration. All versions of kubeadm's API have them.
func (s Settings) clusterFields() map[string]any {
	networking := map[string]any{
		"dnsDomain": s.ClusterDomain, "serviceSubnet": strings.Join(s.ServiceCIDRs, ","),
	}
	if len(s.PodCIDRs) > 0 {
		networking["podSubnet"] = strings.Join(s.PodCIDRs, ",")
	}
	return map[string]any{
		"clusterName": s.Bundle.ClusterName, "controlPlaneEndpoint": s.Endpoint(),
		"kubernetesVersion": "v" + s.Version, "networking": networking,
	}
}

// kubeletConfiguration returns kubeadm's defaults (componentconfigs/kubelet.go) with the fields of the user.
func (s Settings) kubeletConfiguration() (string, error) {
	fields, err := s.kubeletDefaults()
	if err != nil {
		return "", err
	}
	own, err := parseKubelet(s.KubeletConfig)
	if err != nil {
		return "", err
	}
	return encoded(merged(fields, own)), nil
}

func (s Settings) kubeletDefaults() (map[string]any, error) {
	dns := s.ClusterDNS
	if len(dns) == 0 {
		address, err := DNSAddress(s.ServiceCIDRs)
		if err != nil {
			return nil, err
		}
		dns = []string{address}
	}
	return map[string]any{
		"apiVersion": kubeletVersion, "kind": kubeletKind,
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": "/etc/kubernetes/pki/ca.crt"},
		},
		"authorization": map[string]any{"mode": "Webhook"},
		"cgroupDriver":  "systemd",
		"clusterDNS":    listed(dns), "clusterDomain": s.ClusterDomain,
		"healthzBindAddress": "127.0.0.1", "healthzPort": int64(10248),
		"rotateCertificates": true, "staticPodPath": "/etc/kubernetes/manifests",
	}, nil
}

// listed returns texts as a list of YAML.
func listed(texts []string) []any {
	out := make([]any, 0, len(texts))
	for _, text := range texts {
		out = append(out, text)
	}
	return out
}

// DNSAddress returns the address of the cluster's DNS Service: the tenth of the first range, as with kubeadm.
func DNSAddress(ranges []string) (string, error) {
	if len(ranges) == 0 {
		return "", errors.New("there is no range of Services")
	}
	prefix, err := netip.ParsePrefix(ranges[0])
	if err != nil {
		return "", fmt.Errorf("range of Services: %w", err)
	}
	address := prefix.Masked().Addr()
	for range 10 {
		address = address.Next()
	}
	if !prefix.Contains(address) {
		return "", fmt.Errorf("range of Services %s has no tenth address: set cluster_dns", prefix)
	}
	return address.String(), nil
}

// ValidateKubeletConfig returns why text is not a set of fields of a KubeletConfiguration, or nil.
func ValidateKubeletConfig(text string) error {
	_, err := parseKubelet(text)
	return err
}

func parseKubelet(text string) (map[string]any, error) {
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(text), &fields); err != nil {
		return nil, fmt.Errorf("kubelet_config is not a mapping in YAML: %w", err)
	}
	for name, want := range map[string]string{"apiVersion": kubeletVersion, "kind": kubeletKind} {
		if value, set := fields[name]; set && value != want {
			return nil, fmt.Errorf("kubelet_config has %s %v: leave it out, or use %s", name, value, want)
		}
	}
	if rotate, set := fields["rotateCertificates"]; set && rotate != true {
		return nil, errors.New("kubelet_config sets rotateCertificates to something else than true: kubeadm sets it to " +
			"true on every node, and without it nodes would leave the cluster when their certificate expires")
	}
	return fields, nil
}

// merged returns base with the fields of over: maps are merged, and everything else is replaced.
func merged(base, over map[string]any) map[string]any {
	out := maps.Clone(base)
	for name, value := range over {
		below, isMap := value.(map[string]any)
		if before, wasMap := out[name].(map[string]any); isMap && wasMap {
			value = merged(before, below)
		}
		out[name] = value
	}
	return out
}

func encoded(fields map[string]any) string {
	text, err := yaml.Marshal(fields)
	if err != nil {
		panic("nodebootstrap: encode a configuration: " + err.Error()) // strings, numbers, maps and lists always encode
	}
	return string(text)
}
