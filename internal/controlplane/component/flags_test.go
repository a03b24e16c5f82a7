package component

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/cache"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// common adds the flags that every component has in addition to kubeadm's.
func common(flags map[string]string) map[string]string {
	merged := map[string]string{"profiling": "false", "tls-min-version": "VersionTLS12", "tls-cipher-suites": cipherSuites}
	maps.Copy(merged, flags)
	return merged
}

func TestFlagsAreKubeadms(t *testing.T) {
	s := testReplica(t)
	for _, c := range []struct {
		component Component
		want      map[string]string
	}{
		{APIServer(s), common(map[string]string{
			// kubeadm's
			"advertise-address":                  "10.0.0.11",
			"allow-privileged":                   "true",
			"authorization-mode":                 "Node,RBAC",
			"client-ca-file":                     "/etc/kubernetes/pki/client-ca.crt",
			"enable-admission-plugins":           "NodeRestriction,DenyServiceExternalIPs",
			"enable-bootstrap-token-auth":        "true",
			"etcd-cafile":                        "/etc/kubernetes/pki/apiserver-etcd-ca.crt",
			"etcd-certfile":                      "/etc/kubernetes/pki/apiserver-etcd-client.crt",
			"etcd-keyfile":                       "/etc/kubernetes/pki/apiserver-etcd-client.key",
			"etcd-servers":                       "https://10.0.0.11:2379",
			"kubelet-client-certificate":         "/etc/kubernetes/pki/apiserver-kubelet-client.crt",
			"kubelet-client-key":                 "/etc/kubernetes/pki/apiserver-kubelet-client.key",
			"kubelet-preferred-address-types":    "InternalIP,ExternalIP,Hostname",
			"proxy-client-cert-file":             "/etc/kubernetes/pki/front-proxy-client.crt",
			"proxy-client-key-file":              "/etc/kubernetes/pki/front-proxy-client.key",
			"requestheader-allowed-names":        "front-proxy-client",
			"requestheader-client-ca-file":       "/etc/kubernetes/pki/front-proxy-ca.crt",
			"requestheader-extra-headers-prefix": "X-Remote-Extra-",
			"requestheader-group-headers":        "X-Remote-Group",
			"requestheader-username-headers":     "X-Remote-User",
			"secure-port":                        "6443",
			"service-account-issuer":             "https://kubernetes.default.svc.cluster.local",
			"service-account-key-file":           "/etc/kubernetes/pki/sa.pub",
			"service-account-signing-key-file":   "/etc/kubernetes/pki/sa.key",
			"service-cluster-ip-range":           "10.96.0.0/12",
			"tls-cert-file":                      "/etc/kubernetes/pki/apiserver.crt",
			"tls-private-key-file":               "/etc/kubernetes/pki/apiserver.key",
			// additional
			"bind-address":                            "10.0.0.11",
			"goaway-chance":                           "0.001",
			"shutdown-delay-duration":                 "5s",
			"shutdown-watch-termination-grace-period": "5s",
			// the CIS benchmark's
			"audit-policy-file":     "/etc/kubernetes/audit-policy.yaml",
			"audit-log-path":        "/var/log/kube-apiserver/audit.log",
			"audit-log-maxage":      "30",
			"audit-log-maxbackup":   "10",
			"audit-log-maxsize":     "100",
			"authentication-config": "/etc/kubernetes/authentication.yaml",
		})},
		{controllerManager(s), common(map[string]string{
			"authentication-kubeconfig":        "/etc/kubernetes/controller-manager.conf",
			"authorization-kubeconfig":         "/etc/kubernetes/controller-manager.conf",
			"bind-address":                     "127.0.0.1",
			"client-ca-file":                   "/etc/kubernetes/pki/client-ca.crt",
			"cluster-name":                     "prod",
			"cluster-signing-cert-file":        "/etc/kubernetes/pki/ca-signing.crt",
			"cluster-signing-key-file":         "/etc/kubernetes/pki/ca.key",
			"controllers":                      "*,bootstrapsigner,tokencleaner",
			"kubeconfig":                       "/etc/kubernetes/controller-manager.conf",
			"leader-elect":                     "true",
			"requestheader-client-ca-file":     "/etc/kubernetes/pki/front-proxy-ca.crt",
			"root-ca-file":                     "/etc/kubernetes/pki/ca.crt",
			"use-service-account-credentials":  "true",
			"service-account-private-key-file": "/etc/kubernetes/pki/sa.key",
			"terminated-pod-gc-threshold":      "12500",
		})},
		{scheduler(s), common(map[string]string{
			"authentication-kubeconfig": "/etc/kubernetes/scheduler.conf",
			"authorization-kubeconfig":  "/etc/kubernetes/scheduler.conf",
			"bind-address":              "127.0.0.1",
			"kubeconfig":                "/etc/kubernetes/scheduler.conf",
			"leader-elect":              "true",
		})},
	} {
		if !maps.Equal(c.component.Flags, c.want) {
			t.Errorf("%s:\n%s", c.component.Name, differences(c.component.Flags, c.want))
		}
	}
}

func TestFlagsFollowSettings(t *testing.T) {
	for _, c := range []struct {
		name      string
		alter     func(*Replica)
		component string
		want      []string // arguments that are present, or absent with a leading "!"
	}{
		{
			"external etcd in any order",
			func(s *Replica) { s.EtcdURLs = []string{"https://c:2379", "https://a:2379", "https://b:2379"} },
			release.APIServer,
			[]string{"--etcd-servers=https://a:2379,https://b:2379,https://c:2379"},
		},
		{
			"the endpoint's address is on the machine", func(s *Replica) { s.AllAddresses = true },
			release.APIServer,
			[]string{"--bind-address=0.0.0.0", "--advertise-address=10.0.0.11"},
		},
		{
			"the endpoint's address is on a machine with IPv6",
			func(s *Replica) { s.Address, s.AllAddresses = "fd00::11", true }, release.APIServer,
			[]string{"--bind-address=::", "--advertise-address=fd00::11"},
		},
		{
			"the user wants all addresses", func(s *Replica) { s.ListenAll = true },
			release.APIServer,
			[]string{"--bind-address=0.0.0.0", "--advertise-address=10.0.0.11"},
		},
		{
			"only an API server listens on all addresses", func(s *Replica) { s.AllAddresses = true },
			release.Scheduler,
			[]string{"--bind-address=127.0.0.1"},
		},
		{"port", func(s *Replica) { s.Port = 7443 }, release.APIServer, []string{"--secure-port=7443"}},
		{
			"cluster domain", func(s *Replica) { s.ClusterDomain = "k8s.example" },
			release.APIServer,
			[]string{"--service-account-issuer=https://kubernetes.default.svc.k8s.example"},
		},
		{"dual stack", func(s *Replica) {
			s.ServiceCIDRs, s.PodCIDRs = []string{"10.96.0.0/12", "fd00:1::/112"}, []string{"10.244.0.0/16", "fd00:2::/56"}
		}, release.ControllerManager, []string{
			"--allocate-node-cidrs=true", "--cluster-cidr=10.244.0.0/16,fd00:2::/56",
			"--service-cluster-ip-range=10.96.0.0/12,fd00:1::/112",
		}},
		{
			"no pod ranges", func(*Replica) {}, release.ControllerManager,
			[]string{"!--allocate-node-cidrs", "!--cluster-cidr", "!--service-cluster-ip-range"},
		},
		{
			"a plugin is added", func(s *Replica) {
				s.ExtraArgs = cptest.Args(release.APIServer, "enable-admission-plugins", "PodNodeSelector, AlwaysPullImages")
			},
			release.APIServer,
			[]string{"--enable-admission-plugins=NodeRestriction,DenyServiceExternalIPs,PodNodeSelector,AlwaysPullImages"},
		},
		{
			"a plugin is there already", func(s *Replica) {
				s.ExtraArgs = cptest.Args(release.APIServer, "enable-admission-plugins", "PodNodeSelector,NodeRestriction")
			},
			release.APIServer,
			[]string{"--enable-admission-plugins=DenyServiceExternalIPs,PodNodeSelector,NodeRestriction"},
		},
		{
			"a plugin is taken away", func(s *Replica) {
				s.ExtraArgs = cptest.Args(release.APIServer, "disable-admission-plugins", "DenyServiceExternalIPs")
			},
			release.APIServer,
			[]string{"--enable-admission-plugins=NodeRestriction", "--disable-admission-plugins=DenyServiceExternalIPs"},
		},
		{
			"an extra flag overrides", func(s *Replica) { s.ExtraArgs = cptest.Args(release.APIServer, "goaway-chance", "0") },
			release.APIServer,
			[]string{"--goaway-chance=0"},
		},
		{
			"nothing is audited", func(s *Replica) { s.Audit.Off = true },
			release.APIServer,
			[]string{
				"!--audit-policy-file", "!--audit-log-path", "!--audit-log-maxage", "!--audit-log-maxbackup",
				"!--audit-log-maxsize",
			},
		},
		{
			"auditing by hand", func(s *Replica) {
				s.Audit.Off = true
				s.ExtraArgs = cptest.Args(release.APIServer, "audit-webhook-config-file", "/etc/hook")
			},
			release.APIServer,
			[]string{"--audit-webhook-config-file=/etc/hook", "!--audit-log-path"},
		},
		{
			"another policy file", func(s *Replica) {
				s.ExtraArgs = cptest.Args(release.APIServer, "audit-policy-file", "/etc/audit-policy.yaml")
			},
			release.APIServer,
			[]string{"--audit-policy-file=/etc/audit-policy.yaml", "--audit-log-maxage=30"},
		},
		{
			"less of the audit log", func(s *Replica) { s.Audit = Audit{MaxAgeDays: 7, MaxBackups: 2, MaxSizeMB: 50} },
			release.APIServer,
			[]string{"--audit-log-maxage=7", "--audit-log-maxbackup=2", "--audit-log-maxsize=50"},
		},
		{
			"logins by flags", func(s *Replica) {
				s.ExtraArgs = cptest.Args(release.APIServer, "oidc-issuer-url", "https://login.example")
			},
			release.APIServer,
			[]string{"!--authentication-config"},
		},
		{
			"logins by a file of one's own", func(s *Replica) {
				s.ExtraArgs = cptest.Args(release.APIServer, "authentication-config", "/etc/login.yaml")
			},
			release.APIServer,
			[]string{"--authentication-config=/etc/login.yaml"},
		},
		{
			"without the gate", func(s *Replica) {
				s.Version, s.ExtraArgs = "1.33.13", cptest.Args(release.APIServer, release.FeatureGates,
					"AnonymousAuthConfigurableEndpoints=false")
			},
			release.APIServer,
			[]string{"!--authentication-config"},
		},
		{"nothing encrypted", func(*Replica) {}, release.APIServer, []string{"!--encryption-provider-config"}},
		{
			"encryption at rest",
			func(s *Replica) { s.Bundle = cptest.Encrypting(s.Bundle, cptest.Secretbox("key1", "secrets")) },
			release.APIServer,
			[]string{
				"--encryption-provider-config=/etc/kubernetes/encryption.yaml", "!--encryption-provider-config-automatic-reload",
			},
		},
		{
			"the authority's key is held elsewhere", func(s *Replica) { s.Bundle = cptest.External(s.Bundle) },
			release.ControllerManager,
			[]string{"--root-ca-file=/etc/kubernetes/pki/ca.crt", "!--cluster-signing-cert-file", "!--cluster-signing-key-file"},
		},
		{
			"an extra flag adds", func(s *Replica) { s.ExtraArgs = cptest.Args(release.Scheduler, "v", "4") },
			release.Scheduler,
			[]string{"--v=4"},
		},
		{
			"structured authorization", func(s *Replica) {
				s.ExtraArgs = cptest.Args(release.APIServer, "authorization-config", "/etc/kubernetes/authorization.yaml")
			},
			release.APIServer,
			[]string{"--authorization-config=/etc/kubernetes/authorization.yaml", "!--authorization-mode"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := testReplica(t)
			c.alter(&s)
			var have []string
			for _, part := range Of(s) {
				if part.Name == c.component {
					have = arguments(part.Flags)
				}
			}
			for _, want := range c.want {
				if unwanted, ok := strings.CutPrefix(want, "!"); ok {
					if slices.ContainsFunc(have, func(a string) bool { return strings.HasPrefix(a, unwanted+"=") }) {
						t.Errorf("%s is there", unwanted)
					}
				} else if !slices.Contains(have, want) {
					t.Errorf("%s is not in %q", want, have)
				}
			}
		})
	}
}

func TestOwnedFlagsAreThoseSet(t *testing.T) {
	overridable := []string{
		"allow-privileged", "authorization-mode", "enable-admission-plugins", "enable-bootstrap-token-auth",
		"kubelet-preferred-address-types", "service-account-issuer", "profiling", "tls-min-version",
		"use-service-account-credentials", "controllers", "allocate-node-cidrs", "goaway-chance",
		"tls-cipher-suites", "terminated-pod-gc-threshold", "authentication-config",
		"audit-policy-file", "audit-log-path", "audit-log-maxage", "audit-log-maxbackup", "audit-log-maxsize",
	}
	s := testReplica(t)
	s.PodCIDRs = []string{"10.244.0.0/16"}
	for _, c := range Of(s) {
		for name := range c.Flags {
			_, owned := OwnedFlags[c.Name][name]
			if owned == slices.Contains(overridable, name) {
				t.Errorf("%s: whether --%s can be overridden is not decided", c.Name, name)
			}
		}
	}
}

// TestDecidedOtherwise checks the section of the guide Hardening on what other guides ask: the decision, and
// the setting that reverses it.
func TestDecidedOtherwise(t *testing.T) {
	const all, own = "0.0.0.0", "127.0.0.1"
	flag := func(s Replica, component, name string) string {
		for _, c := range Of(s) {
			if c.Name == component {
				return c.Flags[name]
			}
		}
		return "no component"
	}
	for name, c := range map[string]struct {
		component, flag string
		decided         string
		reverse         func(*Replica)
		reversed        string
	}{
		"privileged Pods": {
			release.APIServer, "allow-privileged", "true", func(s *Replica) {
				s.ExtraArgs = map[string]map[string]string{release.APIServer: {"allow-privileged": "false"}}
			}, "false",
		},
		"requests without credentials": {
			release.APIServer, "authentication-config", AuthenticationConfigPath, func(s *Replica) {
				s.ExtraArgs = map[string]map[string]string{
					release.APIServer: {"authentication-config": "/etc/kubernetes/files/authentication.yaml"},
				}
			}, "/etc/kubernetes/files/authentication.yaml",
		},
		"API server on one address": {
			release.APIServer, "bind-address", "10.0.0.11", func(s *Replica) { s.ListenAll = true }, all,
		},
		"controller-manager on loopback": {
			release.ControllerManager, "bind-address", own, func(s *Replica) { s.MetricsAddress = all }, all,
		},
		"scheduler on loopback": {
			release.Scheduler, "bind-address", own, func(s *Replica) { s.MetricsAddress = all }, all,
		},
	} {
		s := testReplica(t)
		if got := flag(s, c.component, c.flag); got != c.decided {
			t.Errorf("%s: --%s=%s, want %s", name, c.flag, got, c.decided)
		}
		c.reverse(&s)
		if got := flag(s, c.component, c.flag); got != c.reversed {
			t.Errorf("%s, reversed: --%s=%s, want %s", name, c.flag, got, c.reversed)
		}
		if err := ValidateExtraArgs(c.component, s.Version, s.ExtraArgs[c.component]); err != nil {
			t.Errorf("%s, reversed: %v", name, err)
		}
	}
}

func TestValidateExtraArgs(t *testing.T) {
	for _, c := range []struct {
		component, flag, value string
		want                   string // part of the error; "" means none
	}{
		{release.APIServer, "event-ttl", "2h", ""},
		{release.APIServer, "audit-log-path", "-", ""},
		{release.APIServer, "audit-log-path", "", ""},
		{release.APIServer, "audit-log-path", "/var/log/kube-apiserver/audit.log", ""},
		{release.APIServer, "audit-log-path", "audit.log", "not an absolute path"},
		{release.APIServer, "--event-ttl", "2h", "without dashes"},
		{release.APIServer, "event ttl", "2h", "malformed flag"},
		{release.APIServer, "", "2h", "malformed flag"},
		{release.APIServer, "event-ttl", "2h\n--x", "control character"},
		{release.APIServer, "service-account-issuer", Repeated("https://new", "https://old"), ""},
		{release.APIServer, "service-account-issuer", Repeated("https://new", "https://\x1bold"), "control character"},
		{release.APIServer, "etcd-servers", "https://x:2379", `setting "etcd"`},
		{release.APIServer, "anonymous-auth", "false", "authentication.anonymous_paths"},
		{release.APIServer, "encryption-provider-config", "/etc/x.yaml", "encryption that the PKI bundle holds"},
		{release.APIServer, "encryption-provider-config-automatic-reload", "true", "takes effect by a restart"},
		{release.APIServer, "shutdown-delay-duration", "0s", "health checks"},
		{release.APIServer, "endpoint-reconciler-type", "none", "finds the API servers of a cluster by their registrations"},
		{release.APIServer, "etcd-prefix", "prod", ""},
		{release.APIServer, "etcd-prefix", "/a/b/../k8s/registry/", ""},
		{release.APIServer, "etcd-prefix", "a/b/c/d", "at most 3 segments"},
		{release.APIServer, "etcd-prefix", "/registry/", ""},
		{release.APIServer, "etcd-prefix", "/", ""},
		{release.APIServer, "etcd-prefix", "registry/prod", "below the default"},
		{release.APIServer, "etcd-prefix", "", "which means /"},
		{release.ControllerManager, "leader-elect", "false", "leader election"},
		{release.Scheduler, "secure-port", "1", "machine's address"},
		{"kubelet", "v", "1", "unknown component"},
		{
			release.ControllerManager, release.FeatureGates, "NoSuchGate",
			`malformed feature gate "NoSuchGate": write NAME=true`,
		},
		{release.ControllerManager, release.FeatureGates, "WatchList=on", "malformed feature gate"},
	} {
		err := ValidateExtraArgs(c.component, "", map[string]string{c.flag: c.value})
		if got := cptest.Text(err); (c.want == "") != (err == nil) || !strings.Contains(got, c.want) {
			t.Errorf("%s --%s=%q: %q, want %q", c.component, c.flag, c.value, got, c.want)
		}
	}
}

// TestRepeatingFlagsExist detects misspellings in the table of flags that repeat.
func TestRepeatingFlagsExist(t *testing.T) {
	for minor := release.OldestMinor; minor <= release.NewestMinor; minor++ {
		for component, flags := range repeating {
			for _, flag := range flags {
				if err := ValidateExtraArgs(component, fmt.Sprintf("1.%d.0", minor), map[string]string{flag: "x"}); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// TestListFlags compares the table of lists with the help of the components.
func TestListFlags(t *testing.T) {
	version, err := build.Version("kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := cache.Dir()
	if err != nil {
		t.Fatal(err)
	}
	form := regexp.MustCompile(`(?m)^ +(?:-[a-z], )?--([a-z0-9-]+) ` +
		`(strings|int32Slice|mapStringString|colonSeparatedMultimapStringString) `)
	for name, flags := range lists {
		program := filepath.Join(dir, "components", "kubernetes-v"+version, name)
		if _, err := os.Stat(program); err != nil {
			testrun.NotBuilt(t, "Kubernetes "+version)
		}
		help, err := exec.CommandContext(t.Context(), program, "--help").Output()
		if err != nil {
			t.Fatal(err)
		}
		var shown []string
		for _, match := range form.FindAllStringSubmatch(string(help), -1) {
			if !slices.Contains(repeating[name], match[1]) {
				shown = append(shown, match[1])
			}
		}
		if want := slices.Sorted(slices.Values(shown)); !slices.Equal(slices.Sorted(slices.Values(flags)), want) {
			t.Errorf("%s has the lists %q, and the table %q", name, want, slices.Sorted(slices.Values(flags)))
		}
	}
}

func TestProviderFlagsAreKnownToEveryRelease(t *testing.T) {
	s := testReplica(t)
	s.PodCIDRs = []string{"10.244.0.0/16"}
	for minor := release.OldestMinor; minor <= release.NewestMinor; minor++ {
		s.Version = fmt.Sprintf("1.%d.0", minor)
		for _, c := range Of(s) {
			if err := release.ValidateFlags(c.Name, s.Version, c.Flags); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestOwnedFlagsExist detects misspellings in the table of owned flags.
func TestOwnedFlagsExist(t *testing.T) {
	newest := fmt.Sprintf("1.%d.0", release.NewestMinor)
	for component, owned := range OwnedFlags {
		for name := range owned {
			if err := release.ValidateFlags(component, newest, map[string]string{name: "1"}); err != nil {
				t.Errorf("%s has no flag %q: %v", component, name, err)
			}
		}
	}
}

func arguments(flags map[string]string) []string {
	out := make([]string, 0, len(flags))
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		out = append(out, "--"+name+"="+flags[name])
	}
	return out
}

// differences lists the flags that are in one of the two maps only, or with another value.
func differences(have, want map[string]string) string {
	var lines []string
	for flag, value := range have {
		if expected, ok := want[flag]; !ok || expected != value {
			lines = append(lines, "unexpected --"+flag+"="+value)
		}
	}
	for flag, value := range want {
		if actual, ok := have[flag]; !ok || actual != value {
			lines = append(lines, "missing --"+flag+"="+value)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
