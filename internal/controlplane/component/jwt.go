package component

import (
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
)

// jwtAuthenticator is one entry (k8s.io/apiserver/pkg/apis/apiserver/v1beta1). The
// API server refuses to start with a field that it does not know.
type jwtAuthenticator struct {
	Issuer struct {
		URL                  string   `json:"url"`
		DiscoveryURL         string   `json:"discoveryURL"`
		CertificateAuthority string   `json:"certificateAuthority"`
		Audiences            []string `json:"audiences"`
		AudienceMatchPolicy  string   `json:"audienceMatchPolicy"`
		EgressSelectorType   string   `json:"egressSelectorType"` // since 1.34
	} `json:"issuer"`
	ClaimValidationRules []struct {
		Claim         string `json:"claim"`
		RequiredValue string `json:"requiredValue"`
		Expression    string `json:"expression"`
		Message       string `json:"message"`
	} `json:"claimValidationRules"`
	ClaimMappings struct {
		Username claimMapping `json:"username"`
		Groups   claimMapping `json:"groups"`
		UID      claimMapping `json:"uid"`
		Extra    []struct {
			Key             string `json:"key"`
			ValueExpression string `json:"valueExpression"`
		} `json:"extra"`
	} `json:"claimMappings"`
	UserValidationRules []struct {
		Expression string `json:"expression"`
		Message    string `json:"message"`
	} `json:"userValidationRules"`
}

type claimMapping struct {
	Claim      string  `json:"claim"`
	Prefix     *string `json:"prefix"`
	Expression string  `json:"expression"`
}

// validate performs the checks of the API server at start
// (k8s.io/apiserver/pkg/apis/apiserver/validation), except for expressions. The API server
// compiles those; a replica that does not start because of one is rolled back.
func (j jwtAuthenticator) validate(version string) error {
	issuer, err := url.Parse(j.Issuer.URL)
	if err != nil || issuer.Scheme != "https" || issuer.Host == "" || issuer.User != nil || issuer.RawQuery != "" ||
		issuer.Fragment != "" {
		return fmt.Errorf("issuer.url is %q: it must be an https URL without user, query or fragment", j.Issuer.URL)
	}
	audiences := len(j.Issuer.Audiences)
	minor, err := release.Minor(version)
	switch {
	case audiences == 0 || slices.Contains(j.Issuer.Audiences, ""):
		return errors.New("issuer.audiences must name at least one, such as the client id at the issuer")
	case audiences > 1 && j.Issuer.AudienceMatchPolicy != "MatchAny":
		return errors.New("issuer.audienceMatchPolicy must be MatchAny with several audiences")
	case j.Issuer.EgressSelectorType != "" && err == nil && minor < 34:
		return errors.New("issuer.egressSelectorType: 1.34 added it; leave it out until version is 1.34")
	}
	if err := j.ClaimMappings.Username.validate("claimMappings.username"); err != nil {
		return err
	}
	if j.ClaimMappings.Username.Claim+j.ClaimMappings.Username.Expression == "" {
		return errors.New("claimMappings.username must have a claim or an expression")
	}
	return j.ClaimMappings.Groups.validate("claimMappings.groups")
}

func (m claimMapping) validate(where string) error {
	switch {
	case m.Claim != "" && m.Expression != "":
		return fmt.Errorf("%s has claim and expression: the API server takes one of them", where)
	case m.Claim != "" && m.Prefix == nil:
		return fmt.Errorf("%s has a claim and no prefix: write one, or \"\" for none", where)
	case m.Expression != "" && m.Prefix != nil:
		return fmt.Errorf("%s has a prefix beside an expression: put it into the expression", where)
	}
	return nil
}
