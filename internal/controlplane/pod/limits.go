package pod

import (
	"strconv"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
)

// memoryLimitVariable makes Go collect garbage before the limit is reached, as for units.
const memoryLimitVariable = "GOMEMLIMIT"

// setLimits sets the resources of a pod. Its memory is reserved by a request.
func setLimits(p *staticpod.Pod, l component.Limits) {
	p.Limits = map[string]string{}
	if l.MemoryMax != "" {
		p.Limits["memory"] = quantity(l.MemoryMax)
		if _, set := p.Environment[memoryLimitVariable]; !set {
			if p.Environment == nil {
				p.Environment = map[string]string{}
			}
			p.Environment[memoryLimitVariable] = goLimit(l.MemoryMax)
		}
	}
	if l.CPUQuota != "" {
		p.Limits["cpu"] = strings.TrimSuffix(l.CPUQuota, "%") + "0m"
		if milli(p.Limits["cpu"]) < milli(p.Requests["cpu"]) { // a kubelet refuses a request above its limit
			p.Requests["cpu"] = p.Limits["cpu"]
		}
	}
	if l.MemoryMin != "" {
		p.Requests["memory"] = quantity(l.MemoryMin)
	}
}

// milli returns thousandths of a processor.
func milli(quantity string) int {
	n, _ := strconv.Atoi(strings.TrimSuffix(quantity, "m")) // Validate refuses other limits
	return n
}

// limitsOf returns the limits that setLimits has set, and the environment of the user.
func limitsOf(p staticpod.Pod) (component.Limits, map[string]string) {
	l := component.Limits{MemoryMax: amount(p.Limits["memory"]), MemoryMin: amount(p.Requests["memory"])}
	if share, ok := strings.CutSuffix(p.Limits["cpu"], "0m"); ok {
		l.CPUQuota = share + "%"
	}
	var environment map[string]string
	for name, value := range p.Environment {
		if name == memoryLimitVariable && l.MemoryMax != "" && value == goLimit(l.MemoryMax) {
			continue
		}
		if environment == nil {
			environment = map[string]string{}
		}
		environment[name] = value
	}
	return l, environment
}

// quantity returns an amount of memory as Kubernetes writes it: systemd's K, M, G and T are powers of 1024.
func quantity(amount string) string {
	if strings.ContainsAny(amount, "KMGT") {
		return amount + "i"
	}
	return amount
}

// amount is the inverse of quantity.
func amount(quantity string) string { return strings.TrimSuffix(quantity, "i") }

// goLimit returns nine tenths of an amount in bytes.
func goLimit(amount string) string {
	factor := int64(1)
	number := strings.TrimRight(amount, "KMGT")
	switch amount[len(number):] {
	case "K":
		factor = 1 << 10
	case "M":
		factor = 1 << 20
	case "G":
		factor = 1 << 30
	case "T":
		factor = 1 << 40
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return "" // Validate has refused it
	}
	return strconv.FormatInt(n*factor/10*9, 10)
}
