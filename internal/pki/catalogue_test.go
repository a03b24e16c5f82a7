package pki

import (
	"slices"
	"testing"
)

// apiServer returns the API server's leaf of the tests' first machine.
func apiServer() Leaf {
	return APIServer(APIServerNames{
		NodeName:      "cp1",
		ClusterDomain: "cluster.local",
		ServiceIPs:    []string{"10.96.0.1"},
		Advertise:     "10.0.0.11",
		Endpoint:      "10.0.0.100",
		Extra:         []string{"api.example.com"},
	})
}

// catalogue returns every row of kubeadm's table, for the machine cp1.
func catalogue() []Leaf {
	return []Leaf{
		apiServer(),
		APIServerKubeletClient(),
		FrontProxyClient(),
		APIServerEtcdClient(),
		EtcdServer("cp1", "10.0.0.11"),
		EtcdPeer("cp1", "10.0.0.11"),
		EtcdHealthcheckClient(),
	}
}

func TestAPIServerNames(t *testing.T) {
	tests := map[string]struct {
		names APIServerNames
		want  []string
	}{
		"all": {
			APIServerNames{
				"cp1", "cluster.local",
				[]string{"10.96.0.1", "fd00::1"},
				"10.0.0.11", "api.example.com", "fd00::100",
				[]string{"api.example.com", "10.0.0.200"},
				[]string{"10.0.0.11", "CP1"},
			},
			[]string{
				"api.example.com", "cp1", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
				"kubernetes.default.svc.cluster.local", "10.0.0.11", "10.0.0.200", "10.96.0.1", "fd00::1", "fd00::100",
			},
		},
		"no endpoint": {
			APIServerNames{NodeName: "cp1", ClusterDomain: "k8s", Advertise: "fd00::11"},
			[]string{
				"cp1", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.k8s",
				"fd00::11",
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			names, err := parseHosts(APIServer(test.names).Hosts)
			if err != nil {
				t.Fatal(err)
			}
			if got := names.all(); !slices.Equal(got, test.want) {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}
