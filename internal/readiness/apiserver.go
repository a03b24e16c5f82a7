package readiness

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// isOn reads a boolean flag.
func isOn(flags map[string]string, name string, standard bool) bool {
	value, set := flags[name]
	if !set {
		return standard
	}
	on, err := strconv.ParseBool(value)
	return value == "" || err == nil && on // "--flag" alone turns it on
}

// isZero reports whether a number or a duration is zero.
func isZero(value string) bool {
	if d, err := time.ParseDuration(value); err == nil {
		return d == 0
	}
	n, err := strconv.ParseFloat(value, 64)
	return err == nil && n == 0
}

// listOf splits a comma-separated flag.
func listOf(value string) []string {
	return slices.DeleteFunc(strings.Split(value, ","), func(name string) bool { return name == "" })
}

// everyAPIServer judges the running API server of every replica.
func everyAPIServer(e Evidence, judge func(flags map[string]string, files map[string]string) verdict) verdict {
	return everyReplica(e, func(r Replica) verdict {
		if !r.APIServer.Running {
			return unknown("the API server is not running")
		}
		return judge(r.APIServer.Flags, r.Files)
	})
}

// onBalancers reports whether the balancers of the endpoint are part of the control plane.
func (e Endpoint) onBalancers() bool { return e.Kind == "" || e.Kind == "haproxy" }

// serverWords returns the title of the item, and where the machines of more API servers are listed.
func serverWords(e Endpoint) (title, list string) {
	const servers = "Three or more API servers "
	switch {
	case e.Kind == "external":
		return servers + "behind a balancer", "their machines in external.targets, and with the balancer,"
	case e.Kind == "dns":
		return servers + "at a DNS name", "their machines in dns.targets"
	case e.Kind == "bgp":
		return servers + "that announce one address", "their machines in bgp.targets"
	case e.Kind == "kube_vip" && e.Announced:
		return servers + "whose address kube-vip announces", "their machines in kube_vip.targets"
	case e.Kind == "kube_vip":
		return servers + "to one of which kube-vip gives the address", "their machines in kube_vip.targets"
	}
	return servers + "behind a virtual IP", "two or more machines in haproxy.hosts"
}

// judgeServers judges how many API servers clients reach, and whether the balancers of a virtual IP work.
func judgeServers(e Evidence) verdict {
	n := len(e.Endpoint.InRotation)
	if !e.Endpoint.onBalancers() {
		return judgeTargets(e.Endpoint, n)
	}
	words := fmt.Sprintf("%d API servers in rotation at %s, on %d balancers", n, e.Endpoint.Address, e.Endpoint.Balancers)
	switch {
	case len(e.Endpoint.Unread) == e.Endpoint.Balancers:
		return unknown("no balancer could be observed")
	case n < 2:
		return fail("%s", words)
	case len(e.Endpoint.Unread) > 0:
		return warn("%s, of which %s could not be observed", words, strings.Join(e.Endpoint.Unread, ", "))
	case len(e.Endpoint.Holders) != 1:
		return warn("%s, and %d of these have the address", words, len(e.Endpoint.Holders))
	case n < 3, e.Endpoint.Balancers < 2:
		return warn("%s", words)
	}
	return pass("%s, the address is on %s", words, e.Endpoint.Holders[0])
}

// judgeTargets judges an endpoint whose requests reach the API servers without balancers of this control plane.
func judgeTargets(e Endpoint, ready int) verdict {
	words := fmt.Sprintf("%d API servers ready %s", ready, map[string]string{
		"external": "behind the balancer " + e.Address, "dns": "with a record of the name " + e.Address,
		"bgp": "that announce " + e.Address, "kube_vip": "where kube-vip can give the address " + e.Address,
	}[e.Kind])
	if e.Announced {
		words = fmt.Sprintf("%d API servers ready where kube-vip announces %s", ready, e.Address)
	}
	switch {
	case e.Silence != "":
		return fail("%s, which does not answer: %s", words, e.Silence)
	case ready < 2:
		return fail("%s", words)
	case ready < 3:
		return warn("%s", words)
	}
	return pass("%s, which answers", words)
}

func judgeRequests(e Evidence) verdict {
	return everyAPIServer(e, func(flags, _ map[string]string) verdict {
		limited := !isZero(flags["max-requests-inflight"]) && !isZero(flags["max-mutating-requests-inflight"])
		switch {
		case isOn(flags, "enable-priority-and-fairness", true) && limited:
			return pass("priority and fairness is enabled")
		case limited:
			return warn("priority and fairness is disabled, but the number of requests is limited")
		}
		return fail("the number of requests is not limited")
	})
}

func judgeAuthorization(e Evidence) verdict {
	return everyAPIServer(e, func(flags, files map[string]string) verdict {
		modes := listOf(flags["authorization-mode"])
		if flags["authorization-config"] != "" {
			var config struct {
				Authorizers []struct {
					Type string `json:"type"`
				} `json:"authorizers"`
			}
			text, read := files["authorization-config"]
			if err := yaml.Unmarshal([]byte(text), &config); err != nil || !read {
				return unknown("%s cannot be read", flags["authorization-config"])
			}
			modes = nil
			for _, a := range config.Authorizers {
				modes = append(modes, a.Type)
			}
		}
		words := "modes: " + strings.Join(modes, ",")
		switch {
		case len(modes) == 0:
			return fail("no mode is set: all requests are allowed")
		case slices.Contains(modes, "AlwaysAllow"), !slices.Contains(modes, "Node"), !slices.Contains(modes, "RBAC"):
			return fail("%s", words)
		case len(modes) > 2:
			return warn("%s", words)
		}
		return pass("%s", words)
	})
}

// judgeAdmission checks admission plugins. PodSecurity and ResourceQuota are on by default,
// NodeRestriction is not (pkg/kubeapiserver/options/plugins.go).
func judgeAdmission(e Evidence) verdict {
	return everyAPIServer(e, func(flags, _ map[string]string) verdict {
		on := append([]string{"PodSecurity", "ResourceQuota"}, listOf(flags["enable-admission-plugins"])...)
		off := listOf(flags["disable-admission-plugins"])
		var lacks []string
		for _, plugin := range []string{"NodeRestriction", "PodSecurity", "ResourceQuota"} {
			// A plugin in both lists is on (apiserver's AdmissionOptions.enabledPluginNames).
			asked := slices.Contains(listOf(flags["enable-admission-plugins"]), plugin)
			if !slices.Contains(on, plugin) || slices.Contains(off, plugin) && !asked {
				lacks = append(lacks, plugin)
			}
		}
		switch {
		case len(lacks) > 0:
			return fail("disabled: %s", strings.Join(lacks, ", "))
		case slices.Contains(on, "AlwaysAdmit"):
			return warn("all three are enabled, but AlwaysAdmit is enabled too")
		}
		return pass("all three are enabled")
	})
}

// authentication has the relevant fields of an AuthenticationConfiguration file.
type authentication struct {
	JWT       []any `json:"jwt"`
	Anonymous *struct {
		Enabled    bool `json:"enabled"`
		Conditions []struct {
			Path string `json:"path"`
		} `json:"conditions"`
	} `json:"anonymous"`
}

// authenticationOf reads the file that the flag names. read is false if the file could not be
// read.
func authenticationOf(flags, files map[string]string) (config authentication, named, read bool) {
	if flags["authentication-config"] == "" {
		return authentication{}, false, true
	}
	text, there := files["authentication-config"]
	err := yaml.Unmarshal([]byte(text), &config)
	return config, true, there && err == nil
}

// healthPaths are the paths that a balancer requests without credentials.
var healthPaths = []string{"/livez", "/readyz", "/healthz"}

// everywhere describes what requests without credentials reach if no path is named: RBAC decides,
// and these are what every cluster grants them (bootstrappolicy, system:public-info-viewer).
const everywhere = "/healthz, /livez, /readyz, /version and all that RBAC grants to system:anonymous and " +
	"system:unauthenticated"

func judgeAnonymous(e Evidence) verdict {
	return everyAPIServer(e, func(flags, files map[string]string) verdict {
		config, _, read := authenticationOf(flags, files)
		switch {
		case !read:
			return unknown("%s cannot be read", flags["authentication-config"])
		case config.Anonymous == nil && !isOn(flags, "anonymous-auth", true):
			return pass("no path is open")
		case config.Anonymous == nil:
			return fail("open: %s", everywhere)
		case !config.Anonymous.Enabled:
			return pass("no path is open")
		case len(config.Anonymous.Conditions) == 0:
			return fail("open: %s", everywhere)
		}
		var open, more []string
		for _, condition := range config.Anonymous.Conditions {
			if open = append(open, condition.Path); !slices.Contains(healthPaths, condition.Path) {
				more = append(more, condition.Path)
			}
		}
		if len(more) > 0 {
			return warn("open: %s; these are not health paths: %s", strings.Join(open, ", "), strings.Join(more, ", "))
		}
		return pass("open: %s", strings.Join(open, ", "))
	})
}

func judgeOIDC(e Evidence) verdict {
	return everyAPIServer(e, func(flags, files map[string]string) verdict {
		config, _, read := authenticationOf(flags, files)
		switch {
		case !read:
			return unknown("%s cannot be read", flags["authentication-config"])
		case len(config.JWT) > 0:
			return pass("%d issuers in %s", len(config.JWT), flags["authentication-config"])
		case flags["oidc-issuer-url"] != "":
			return pass("%s", flags["oidc-issuer-url"])
		case flags["authentication-token-webhook-config-file"] != "":
			return pass("token webhook")
		}
		return fail("users have only certificates and service-account tokens, which cannot be revoked individually")
	})
}
