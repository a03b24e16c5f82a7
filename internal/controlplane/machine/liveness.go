package machine

import (
	"net"
	"slices"
	"strconv"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/runtime"
	"github.com/kubequorum/terraform-provider-kube/internal/liveness"
)

// Liveness returns the probe of the components of s. The proxy server for agents is asked by its own
// probe, which neither agents nor the API server can fail. While it hangs, every request fails that
// needs a node or a webhook, so its restart takes nothing from anybody, and the API server stays.
func Liveness(s component.Replica) liveness.Probe {
	if !s.LivenessProbe {
		return noProbe
	}
	p := noProbe
	p.Wanted, p.Server, p.Endpoints = true, s.LocalURL()+"/readyz", slices.Sorted(slices.Values(s.EtcdURLs))
	p.CA, p.Cert, p.Key = component.EtcdClientCA, component.EtcdClientCert, component.KeyPath(component.EtcdClientCert)
	for _, c := range component.Of(s) {
		probed := liveness.Component{Unit: runtime.Of(s).Unit(c.Name), Rule: liveness.ClientRule}
		at := net.JoinHostPort(c.Probe.Address, strconv.Itoa(c.Probe.Port))
		switch c.Name {
		case release.APIServer:
			probed.Ready = s.LocalURL() + "/readyz" + component.ExceptShared
			probed.Live = s.LocalURL() + "/livez" + component.ExceptShared
			probed.Rule = liveness.ServerRule
		case release.ControllerManager: // it has no other path
			probed.Ready, probed.Live = "https://"+at+c.Probe.Path, "https://"+at+"/healthz"
		case release.Scheduler:
			probed.Ready, probed.Live = "https://"+at+c.Probe.Path, "https://"+at+"/livez"
		case component.KonnectivityServer:
			probed.Ready = "http://" + at + c.Probe.Path
			probed.Live, probed.Rule = probed.Ready, liveness.AloneRule
		default:
			continue
		}
		p.Components = append(p.Components, probed)
	}
	return p
}

// noProbe is the probe of a machine that has none.
var noProbe = liveness.Probe{Name: "kube-liveness", Script: component.KubernetesDir + "/liveness.sh"}

// LivenessTimerPath is the file that shows that the components are probed.
var LivenessTimerPath = noProbe.Job().TimerPath()
