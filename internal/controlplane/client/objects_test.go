package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// TestRewrite: every object is updated with its current content, even if it changes meanwhile.
// The lab test uses the API server.
func TestRewrite(t *testing.T) {
	resource := schema.GroupResource{Resource: "secrets"}
	conflict, gone := apierrors.NewConflict(resource, "x", nil), apierrors.NewNotFound(resource, "x")
	expired, broken := apierrors.NewResourceExpired("too old"), errors.New("broken")
	resumed := apierrors.NewResourceExpired("too old")
	resumed.ErrStatus.Continue = "1"
	for _, c := range []struct {
		name    string
		pages   int
		expires error // of the second page, once
		stale   []string
		answers map[string][]error // of update, by object
		fresh   error              // of get
		want    []string           // updates
		err     error
	}{
		{name: "none"},
		{name: "pages", pages: 2, want: []string{"s0", "s1"}},
		{name: "some are stale", pages: 3, stale: []string{"a/s0", "a/s2", "b/s1"}, want: []string{"s0", "s2"}},
		{name: "none is stale any more", pages: 3, stale: []string{}},
		{name: "a list that became too old goes on", pages: 2, expires: resumed, want: []string{"s0", "s1"}},
		{name: "a list that became too old begins again", pages: 2, expires: expired, want: []string{"s0", "s0", "s1"}},
		{
			name: "changed meanwhile", pages: 1, answers: map[string][]error{"s0": {conflict, conflict}},
			want: []string{"s0", "fresh s0", "fresh s0"},
		},
		{name: "deleted meanwhile", pages: 2, answers: map[string][]error{"s0": {gone}}, want: []string{"s0", "s1"}},
		{
			name: "changed, then deleted", pages: 1, answers: map[string][]error{"s0": {conflict}}, fresh: gone,
			want: []string{"s0"},
		},
		{
			name: "changed without end", pages: 1, answers: map[string][]error{"s0": slices.Repeat([]error{conflict}, 99)},
			want: append([]string{"s0"}, slices.Repeat([]string{"fresh s0"}, rewriteTries-1)...), err: conflict,
		},
		{name: "broken", pages: 2, answers: map[string][]error{"s0": {broken}}, want: []string{"s0"}, err: broken},
	} {
		t.Run(c.name, func(t *testing.T) {
			var updates []string
			secret := func(name, note string) *core.Secret {
				return &core.Secret{
					ObjectMeta: meta.ObjectMeta{Name: name, Namespace: "a"}, StringData: map[string]string{"note": note},
				}
			}
			_, err := objects[*core.Secret]{
				list: func(_ context.Context, o meta.ListOptions) ([]*core.Secret, string, error) {
					page := 0
					if o.Continue != "" {
						if err := c.expires; err != nil {
							c.expires = nil
							return nil, "", err
						}
						if _, err := fmt.Sscan(o.Continue, &page); err != nil {
							return nil, "", err
						}
					}
					if page >= c.pages {
						return nil, "", nil
					}
					return []*core.Secret{secret(fmt.Sprintf("s%d", page), "")}, fmt.Sprint(page + 1), nil
				},
				get: func(_ context.Context, _, name string) (*core.Secret, error) {
					return secret(name, "fresh "), c.fresh
				},
				update: func(_ context.Context, s *core.Secret) error {
					updates = append(updates, s.StringData["note"]+s.Name)
					if answers := c.answers[s.Name]; len(answers) > 0 {
						c.answers[s.Name] = answers[1:]
						return answers[0]
					}
					return nil
				},
			}.rewrite(t.Context(), c.stale)
			if !errors.Is(err, c.err) || !slices.Equal(updates, c.want) {
				t.Errorf("%v, updates %q, want %v, %q", err, updates, c.err, c.want)
			}
		})
	}
}

// TestRewriteExpired: the client takes from the answer of an API server where an expired list goes on.
func TestRewriteExpired(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next := r.URL.Query().Get("continue")
		asked = append(asked, next)
		list := core.SecretList{TypeMeta: meta.TypeMeta{Kind: "SecretList", APIVersion: "v1"}}
		var answer any = &list
		w.Header().Set("Content-Type", "application/json")
		switch next {
		case "":
			list.Continue = "old"
		case "old":
			expired := apierrors.NewResourceExpired("too old").ErrStatus
			expired.TypeMeta, expired.Continue = meta.TypeMeta{Kind: "Status", APIVersion: "v1"}, "new"
			answer = expired
			w.WriteHeader(http.StatusGone)
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	defer server.Close()
	api, err := typedcore.NewForConfigAndClient(&rest.Config{Host: server.URL}, server.Client())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := secretsOf(api).rewrite(t.Context(), nil); err != nil || !slices.Equal(asked, []string{"", "old", "new"}) {
		t.Errorf("asked for %q, %v", asked, err)
	}
}
