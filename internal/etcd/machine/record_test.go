package machine

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
)

const goodRecord = `{"cluster_id": "0123456789abcdef0123456789abcdef", "cluster_name": "prod", "name": "cp1",
"member_id": "8e9e05c52164694d", "generation": 3, "silent": {"10.0.0.12": "cp2"},
"snapshots_kept": 5, "pairs": {"etcd/server": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
"configured": {"extra_args": {"max-txn-ops": "256"}, "early_renewal": 86400000000000}}`

func TestReadRecord(t *testing.T) {
	m, err := ReadRecord(goodRecord)
	if err != nil || m.Name != "cp1" || m.ID() == 0 || m.recorded().ExtraArgs["max-txn-ops"] != "256" {
		t.Fatalf("%+v, %v", m, err)
	}
	for what, change := range map[string][2]string{
		"cluster id":         {"0123456789abcdef0123456789abcdef", "$(id)"},
		"no cluster id":      {"0123456789abcdef0123456789abcdef", ""},
		"cluster name":       {`"prod"`, `"prod;id"`},
		"name":               {`"cp1"`, `"cp1'; id; '"`},
		"name as a path":     {`"cp1"`, `"../cp1"`},
		"name of two lines":  {`"cp1"`, `"cp1\ncp2"`},
		"member id":          {"8e9e05c52164694d", "8e9e05c52164694d0"},
		"member id, no hex":  {"8e9e05c52164694d", "zz"},
		"generation":         {`"generation": 3`, `"generation": -3`},
		"snapshots kept":     {`"snapshots_kept": 5`, `"snapshots_kept": 99999999`},
		"another type":       {`"generation": 3`, `"generation": "3"`},
		"digest":             {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "aaaa"},
		"leaf":               {"etcd/server", "etcd/../../x y"},
		"silent address":     {"10.0.0.12", "10.0.0.12%$(id)"},
		"silent name":        {`"cp2"`, `"../cp2"`},
		"flag":               {"max-txn-ops", "max-txn-ops=1 --data-dir"},
		"value of a flag":    {`"256"`, `"256\u001b[31m"`},
		"early renewal":      {"86400000000000", "-1"},
		"not valid JSON":     {"{", "x"},
		"more than a record": {`"cp1"`, `"cp1", "x": "` + strings.Repeat("x", longestRecord) + `"`},
	} {
		text := strings.Replace(goodRecord, change[0], change[1], 1)
		if m, err := ReadRecord(text); err == nil {
			t.Errorf("%s: read as %+v", what, m)
		} else if len(err.Error()) > 1000 || strings.ContainsAny(err.Error(), "\x1b\n") {
			t.Errorf("%s: %q", what, err)
		}
	}
}

func FuzzReadRecord(f *testing.F) {
	f.Add(goodRecord)
	f.Add(strings.Replace(goodRecord, "cp1", "$(id)", 1))
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ReadRecord(text)
		if err != nil {
			return
		}
		if !clusterIDForm.MatchString(m.ClusterID) || m.Name != "" && ValidateName(m.Name) != nil || m.Generation < 0 {
			t.Errorf("%q is read as %+v", text, m)
		}
	})
}

func TestInitialNames(t *testing.T) {
	for text, want := range map[string][]string{
		"b=https://10.0.0.2:2380,a=https://10.0.0.1:2380": {"a", "b"},
		"a=https://[fd00::1]:2380":                        {"a"},
		"":                                                nil,
		"a=https://10.0.0.1:2380,$(id)=https://10.0.0.2:2380": nil,
		"a=https://10.0.0.1:2380;id":                          nil,
		"a=file:///etc/shadow":                                nil,
		"a=https://u:p@10.0.0.1:2380":                         nil,
	} {
		if got := initialNames(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func FuzzListedPeers(f *testing.F) {
	f.Add(`{"members":[{"name":"cp1","peerURLs":["https://10.0.0.1:2380"]},` +
		`{"name":"$(id)","peerURLs":["https://10.0.0.2:2380"]},{"name":"cp3","peerURLs":["https://10.0.0.3:2380';id"]}]}`)
	f.Add(`{"members":[{"name":"","peerURLs":[]}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		peers, _ := listedPeers(text)
		for name, address := range peers {
			if _, err := netip.ParseAddr(address); ValidateName(name) != nil ||
				err != nil && membership.HostInURL("https://"+net.JoinHostPort(address, "2380")) == "" {
				t.Errorf("%q gives %q at %q", text, name, address)
			}
		}
	})
}

func TestListed(t *testing.T) {
	for name, want := range map[string]string{
		"cp1": "cp1", "node1.example.com": "node1.example.com", "": "", "$(id)": `"$(id)"`, "a\x1b[2J": `"a\x1b[2J"`,
		"\u202ex": `"\u202ex"`,
	} {
		if got := membership.NameReported(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
	if got := membership.URLsReported([]string{
		"https://10.0.0.1:2379", "https://10.0.0.1:2379/;id", "https://$(id):2379",
		"unix:///x", "https://[fd00::1]:2379", "https://[FD00:0::2]:2379", "https://[::ffff:10.0.0.3]:2380",
		"https://etcd.example:2380",
	}); !slices.Equal(got, []string{
		"https://10.0.0.1:2379", "https://[fd00::1]:2379", "https://[fd00::2]:2379", "https://10.0.0.3:2380",
		"https://etcd.example:2380",
	}) {
		t.Errorf("%q", got)
	}
	for key, want := range map[string]string{
		"10.0.0.1": "10.0.0.1", "fd00::1": "fd00::1", "evil.example": "",
		"10.0.0.1;id": "", "fe80::1%eth0": "",
	} {
		got, err := client.APIServerOfKey(client.MasterLeases, client.MasterLeases+key)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", key, got, err)
		}
	}
}

func TestInstallationIn(t *testing.T) {
	const unit = "ExecStart=/opt/kube/etcd/3.6.16/etcd --data-dir=/var/lib/etcd\n"
	at, err := InstallationIn(unit)
	if err != nil || at != (installation{version: "3.6.16", Tools: "/opt/kube/etcd/3.6.16", DataDir: "/var/lib/etcd"}) {
		t.Fatalf("%+v, %v", at, err)
	}
	for what, text := range map[string]string{
		"another program":  strings.Replace(unit, "/opt/kube/etcd/3.6.16/etcd", "/tmp/3.6.16/etcd", 1),
		"another version":  strings.Replace(unit, "3.6.16", "$(id)", 1),
		"a shared dir":     strings.Replace(unit, "/var/lib/etcd", "/var/lib", 1),
		"no plain path":    strings.Replace(unit, "/var/lib/etcd", "/var/lib/etcd;id", 1),
		"a path with dots": strings.Replace(unit, "/var/lib/etcd", "/var/lib/etcd/../../../", 1),
		"none":             "",
	} {
		if at, err := InstallationIn(text); err == nil {
			t.Errorf("%s: %+v", what, at)
		}
	}
}
