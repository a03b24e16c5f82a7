package component

import (
	_ "embed"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

//go:embed agent_manifest.yaml
var agentManifest string

// imageReference is a container image's name with its registry, tag or digest.
var imageReference = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,500}$`)

// AgentManifest returns the manifest of the agents that connect to the proxy servers, YAML
// documents: the DaemonSet, and the rights of agents and servers. host is a name or an address at
// which the agents reach every proxy server, such as the endpoint's; image is that of proxy-agent.
func AgentManifest(host string, port int, image string) (string, error) {
	switch address, err := netip.ParseAddr(host); {
	case err == nil && address.Zone() == "":
		host = address.String()
	case ValidateDomain(host) != nil:
		return "", fmt.Errorf("%q is neither an IP address nor a DNS name", host)
	case strings.Trim(host, "0123456789.") == "":
		return "", fmt.Errorf("%q is a malformed IP address", host)
	}
	if port < 1 || port > 65535 {
		return "", fmt.Errorf("port %d is not between 1 and 65535", port)
	}
	if !imageReference.MatchString(image) {
		return "", fmt.Errorf("%q is not the name of a container image", image)
	}
	return strings.NewReplacer("@HOST@", host, "@PORT@", strconv.Itoa(port), "@IMAGE@", image).Replace(agentManifest), nil
}
