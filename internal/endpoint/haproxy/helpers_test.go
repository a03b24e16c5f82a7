package haproxy

import "github.com/kubequorum/terraform-provider-kube/internal/host"

const testCluster = "0123456789abcdef0123456789abcdef"

// serverAt is the server of a name and IP:port.
func serverAt(name, address string) server { return must(parseServer(name, address)) }

// lists is a balancer with the list of servers that registration leaves.
func lists(vip string, servers ...server) balancer {
	return withList(balancer{}, vip, renderBackends(vip, servers, nil))
}

// withList is b with that list of servers.
func withList(b balancer, vip, text string) balancer {
	if b.facts.Files == nil {
		b.facts.Files = map[string]host.FileState{}
	}
	b.facts.Files[backendsPath] = host.FileState{
		Mode: 0o644, Owner: "root", Group: "root",
		SHA256: sha256Hex([]byte(text)), Content: text,
	}
	b.backends = parseBackends(vip, text)
	return b
}
