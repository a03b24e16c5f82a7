package controlplane

import (
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
)

func TestSpecValidate(t *testing.T) {
	for _, c := range []struct {
		alter func(*Spec)
		want  string
	}{
		{func(*Spec) {}, ""},
		{func(s *Spec) { s.Name = "CP1" }, "malformed replica name"},
		{func(s *Spec) { s.Port = 443 }, "not between 1024 and 65535"},
		{func(s *Spec) { s.Port = 10257 }, "controller-manager's"},
		{func(s *Spec) { s.Address = "10.0.0.12" }, "leads to another address: 10.0.0.11"},
		{func(s *Spec) { s.EndpointHost = "" }, "the endpoint has no address"},
		{func(s *Spec) { s.Version = "1.34" }, "malformed Kubernetes version"},
		{func(s *Spec) { s.ClusterDomain = "cluster.local." }, "malformed cluster domain"},
		{func(s *Spec) { s.EtcdURLs = nil }, "no etcd URL"},
		{func(s *Spec) { s.ServiceCIDRs = nil }, "no service range"},
		{func(s *Spec) { s.Bundle = nil }, "no PKI bundle"},
		{
			func(s *Spec) { s.Bundle = cptest.External(s.Bundle) },
			`the kubernetes authority is held elsewhere, and no signed certificate is given for "apiserver"`,
		},
		{func(s *Spec) { s.Bundle = signedElsewhere(t, *s) }, ""},
		{func(s *Spec) {
			s.Bundle = signedElsewhere(t, *s)
			delete(s.Bundle.Signed, "terraform-provider-kube")
		}, `no signed certificate is given for "terraform-provider-kube"`},
		{func(s *Spec) {
			bundle := *s.Bundle
			bundle.ServiceAccount.PrivateKey = ""
			s.Bundle = &bundle
		}, "lacks the service-account keys"},
		{func(s *Spec) { s.ExtraArgs = cptest.Args(release.APIServer, "secure-port", "1") }, "cannot be set"},
	} {
		s := testSpec(t)
		c.alter(&s)
		if err := s.Validate(); (c.want == "") != (err == nil) || !strings.Contains(cptest.Text(err), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
