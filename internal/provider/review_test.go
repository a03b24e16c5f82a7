package provider

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/review"
)

// reasonsOf returns the reasons in a comment for the change of one attribute.
func reasonsOf(t *testing.T, kind, attribute string) []review.Reason {
	t.Helper()
	return reasonsIn(t, kind, map[string]any{
		"actions": []string{"update"}, "before": map[string]any{attribute: nil},
		"after": map[string]any{attribute: nil}, "after_unknown": map[string]any{attribute: true},
	})
}

// reasonsIn returns the reasons in a comment for a change of a resource.
func reasonsIn(t *testing.T, kind string, change map[string]any) []review.Reason {
	t.Helper()
	text, err := json.Marshal(map[string]any{
		"format_version": "1.2",
		"resource_changes": []any{map[string]any{
			"address": kind + ".x", "mode": "managed", "type": kind, "name": "x",
			"provider_name": "registry.terraform.io/kubequorum/kube", "change": change,
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := review.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	plane := plan.ControlPlanes[0]
	switch {
	case len(plane.Members) > 0:
		return plane.Members[0].Reasons
	case len(plane.Replicas) > 0:
		return plane.Replicas[0].Reasons
	case len(plane.Endpoints) > 0:
		return plane.Endpoints[0].Reasons
	}
	return plane.Secrets[0].Reasons
}

// TestReviewKnowsArguments checks that the comment on a plan describes the change of every
// argument, and that it does not treat an observed attribute as an argument. sealed_for and
// file_digests are computed, but follow from arguments: of the provider, and write-only ones. completed_at of a
// drill is computed, and unknown when one is due.
func TestReviewKnowsArguments(t *testing.T) {
	for _, newResource := range New("test")().Resources(t.Context()) {
		var meta resource.MetadataResponse
		var schema resource.SchemaResponse
		r := newResource()
		r.Metadata(t.Context(), resource.MetadataRequest{ProviderTypeName: "kube"}, &meta)
		r.Schema(t.Context(), resource.SchemaRequest{}, &schema)
		for name, attribute := range schema.Schema.Attributes {
			reasons := reasonsOf(t, meta.TypeName, name)
			argument := attribute.IsRequired() || attribute.IsOptional()
			unnamed := slices.ContainsFunc(reasons, func(r review.Reason) bool { return r.Text == "other arguments" })
			switch {
			case argument && (len(reasons) == 0 || unnamed):
				t.Errorf("a change of %s.%s has no words: %v", meta.TypeName, name, reasons)
			case !argument && len(reasons) > 0 && name != "sealed_for" && name != "file_digests" &&
				name != "completed_at":
				t.Errorf("%s.%s is found, and told as a reason: %v", meta.TypeName, name, reasons)
			}
		}
	}
}

// TestReviewKnowsReaders: the comment finds out which component reads a file as the provider does.
func TestReviewKnowsReaders(t *testing.T) {
	replica := func(content string) map[string]any {
		return map[string]any{
			"files":      map[string]any{"x.yaml": map[string]any{"content": content}},
			"extra_args": map[string]any{"scheduler": map[string]any{"config": component.ConfigFilePath("x.yaml")}},
		}
	}
	reasons := reasonsIn(t, "kube_control_plane_replica", map[string]any{
		"actions": []string{"update"}, "before": replica("a"), "after": replica("b"),
	})
	if len(reasons) != 1 || reasons[0].Effect != review.Behind {
		t.Errorf("a changed file of the scheduler: %+v", reasons)
	}
}
