package component

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// policy is audit.k8s.io/v1 (k8s.io/apiserver/pkg/apis/audit/v1), limited to the fields that
// can prevent the API server from starting.
type policy struct {
	APIVersion        string         `json:"apiVersion"`
	Kind              string         `json:"kind"`
	Metadata          map[string]any `json:"metadata"`
	Rules             []policyRule   `json:"rules"`
	OmitStages        []string       `json:"omitStages"`
	OmitManagedFields bool           `json:"omitManagedFields"`
}

type policyRule struct {
	Level             string           `json:"level"`
	Users             []string         `json:"users"`
	UserGroups        []string         `json:"userGroups"`
	Verbs             []string         `json:"verbs"`
	Resources         []policyResource `json:"resources"`
	Namespaces        []string         `json:"namespaces"`
	NonResourceURLs   []string         `json:"nonResourceURLs"`
	OmitStages        []string         `json:"omitStages"`
	OmitManagedFields *bool            `json:"omitManagedFields"`
}

type policyResource struct {
	Group         string   `json:"group"`
	Resources     []string `json:"resources"`
	ResourceNames []string `json:"resourceNames"`
}

var (
	auditLevels = []string{"None", "Metadata", "Request", "RequestResponse"}
	auditStages = []string{"RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"}
)

// validatePolicy performs the server's own validation
// (k8s.io/apiserver/pkg/apis/audit/validation). It also rejects unknown fields, which the
// server would ignore: a misspelt field changes what is logged.
func validatePolicy(text string) error {
	var p policy
	if err := yaml.UnmarshalStrict([]byte(text), &p); err != nil {
		return fmt.Errorf("audit policy cannot be read: %w", err)
	}
	switch {
	case p.APIVersion != "audit.k8s.io/v1" || p.Kind != "Policy":
		return fmt.Errorf("audit policy is of kind %q and apiVersion %q: it must be Policy of audit.k8s.io/v1",
			p.Kind, p.APIVersion)
	case len(p.Rules) == 0:
		return errors.New("audit policy has no rules: the API server does not start with it")
	}
	if err := knownStages("omitStages", p.OmitStages); err != nil {
		return err
	}
	for i, rule := range p.Rules {
		if err := rule.validate(fmt.Sprintf("rules[%d]", i)); err != nil {
			return err
		}
	}
	return nil
}

func (r policyRule) validate(where string) error {
	if !slices.Contains(auditLevels, r.Level) {
		return fmt.Errorf("audit policy: %s.level is %q: it must be one of %s",
			where, r.Level, strings.Join(auditLevels, ", "))
	}
	if len(r.NonResourceURLs) > 0 && len(r.Resources)+len(r.Namespaces) > 0 {
		return fmt.Errorf("audit policy: %s has nonResourceURLs beside resources or namespaces: make it two rules", where)
	}
	for _, path := range r.NonResourceURLs {
		star := strings.Index(path, "*")
		if path != "*" && !strings.HasPrefix(path, "/") || star >= 0 && star != len(path)-1 {
			return fmt.Errorf("audit policy: %s.nonResourceURLs has %q: it must begin with /, and may have * at its end",
				where, path)
		}
	}
	for _, resource := range r.Resources {
		switch {
		case resource.Group != "" && !dnsLabels.MatchString(resource.Group):
			return fmt.Errorf("audit policy: %s.resources has the group %q: write the name alone, without a version",
				where, resource.Group)
		case len(resource.ResourceNames) > 0 && len(resource.Resources) == 0:
			return fmt.Errorf("audit policy: %s.resources has resourceNames without resources", where)
		}
	}
	return knownStages(where+".omitStages", r.OmitStages)
}

func knownStages(where string, stages []string) error {
	for _, stage := range stages {
		if !slices.Contains(auditStages, stage) {
			return fmt.Errorf("audit policy: %s has %q: it must be one of %s", where, stage, strings.Join(auditStages, ", "))
		}
	}
	return nil
}
