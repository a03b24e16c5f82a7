package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	authentication "k8s.io/api/authentication/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	typedauthentication "k8s.io/client-go/kubernetes/typed/authentication/v1"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Survey reads what an API server stores, without the content of objects.
type Survey struct {
	access adminAccess
	done   func()
}

// Survey connects to the API server of the replica. The caller closes it.
func (c Client) Survey() (Survey, error) {
	if !c.hasAdminCertificate() {
		return Survey{}, errors.New("the bundle has no key to sign an administrator's certificate with")
	}
	access, done, err := c.admin()
	return Survey{access: access, done: done}, err
}

// Close ends the connection.
func (s Survey) Close() { s.done() }

// Resource is a resource of which objects are stored.
type Resource struct {
	Name string // "secrets", "deployments.apps"
	Path string // of the list of all objects
}

// unstored are resources that the server makes up when it is asked, and events, which expire and can be
// in an etcd of their own.
var unstored = []string{"componentstatuses", "events", "events.events.k8s.io"}

// Resources lists the resources whose objects the server stores, one version of each. What others serve
// for it (APIService) and does not answer is left out.
func (s Survey) Resources() ([]Resource, error) {
	client, err := discovery.NewDiscoveryClientForConfigAndClient(s.access.rest, s.access.web)
	if err != nil {
		return nil, err
	}
	lists, err := discovery.ServerPreferredResources(client)
	if len(lists) == 0 {
		return nil, fmt.Errorf("list the resources of the API server: %w", err)
	}
	var all []Resource
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("list the resources of the API server: %w", err)
		}
		for _, r := range list.APIResources {
			name := schema.GroupResource{Group: group.Group, Resource: r.Name}.String()
			if !slices.Contains(r.Verbs, "list") || strings.Contains(r.Name, "/") || slices.Contains(unstored, name) {
				continue
			}
			root := "/apis/"
			if group.Group == "" {
				root = "/api/"
			}
			all = append(all, Resource{Name: name, Path: root + list.GroupVersion + "/" + r.Name})
		}
	}
	return all, nil
}

// Count is the number of a resource's objects, at a revision of the store.
type Count struct {
	Objects  int64
	Revision int64
}

// page is a page of a list, of which only metadata is read.
type page struct {
	Metadata struct {
		ResourceVersion    string `json:"resourceVersion"`
		Continue           string `json:"continue"`
		RemainingItemCount *int64 `json:"remainingItemCount"`
	} `json:"metadata"`
	Items []struct {
		Metadata meta.ObjectMeta `json:"metadata"`
	} `json:"items"`
}

// surveyPage is the number of objects of a page.
const surveyPage = 500

// Count counts the objects of a resource at a revision of the store; 0 means now. The server reads one of
// them, if it knows how many more there are. The error is ErrConversion if it needs a webhook to read them.
func (s Survey) Count(ctx context.Context, r Resource, revision int64) (Count, error) {
	query := url.Values{}
	if revision > 0 {
		query.Set("resourceVersion", strconv.FormatInt(revision, 10))
		query.Set("resourceVersionMatch", string(meta.ResourceVersionMatchExact))
	}
	first, err := s.page(ctx, r, 1, query)
	if err != nil {
		return Count{}, err
	}
	at, err := strconv.ParseInt(first.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return Count{}, fmt.Errorf("count %s: the list has no revision", r.Name)
	}
	n := int64(len(first.Items))
	switch {
	case first.Metadata.Continue == "":
		return Count{n, at}, nil
	case first.Metadata.RemainingItemCount != nil && *first.Metadata.RemainingItemCount >= 0:
		return Count{n + *first.Metadata.RemainingItemCount, at}, nil
	}
	n = 0
	err = s.each(ctx, r, query, func(meta.ObjectMeta) { n++ })
	return Count{n, at}, err
}

// ReadAll lets the server read every object of a resource, as it does for its clients, and returns their
// number. Only metadata leaves the server.
func (s Survey) ReadAll(ctx context.Context, r Resource) (n int64, err error) {
	err = s.each(ctx, r, nil, func(meta.ObjectMeta) { n++ })
	return n, err
}

func (s Survey) each(ctx context.Context, r Resource, query url.Values, do func(meta.ObjectMeta)) error {
	for {
		p, err := s.page(ctx, r, surveyPage, query)
		if err != nil {
			return err
		}
		for _, item := range p.Items {
			do(item.Metadata)
		}
		if p.Metadata.Continue == "" {
			return nil
		}
		query = url.Values{"continue": {p.Metadata.Continue}} // it contains the revision
	}
}

// metadataOnly asks for objects without their content.
const metadataOnly = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

// ErrConversion means that only a webhook could convert stored objects to the version that was asked for, and that it
// has not done so.
var ErrConversion = errors.New("its conversion webhook has not converted the stored objects")

// conversionFailed is in the message of an API server about a conversion webhook (k8s.io/apiextensions-apiserver).
const conversionFailed = "conversion webhook for "

// page lists a page of a resource. A server that does not know the resource has none of it.
func (s Survey) page(ctx context.Context, r Resource, limit int, query url.Values) (page, error) {
	var p page
	status, err := s.get(ctx, r.Path+"?limit="+strconv.Itoa(limit)+"&"+query.Encode(), metadataOnly, &p)
	if status == http.StatusNotFound {
		p.Metadata.ResourceVersion = "0"
		return p, nil
	}
	if err != nil {
		return page{}, fmt.Errorf("list %s: %w", r.Name, err)
	}
	return p, nil
}

// longestRefusal limits what is shown of an answer that is an error.
const longestRefusal = 4 << 10

// get decodes the answer to a request.
func (s Survey) get(ctx context.Context, path, accept string, into any) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.access.rest.Host+path, http.NoBody)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Accept", accept)
	response, err := s.access.web.Do(request)
	if err != nil {
		return 0, Cause(err)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		return response.StatusCode, json.NewDecoder(response.Body).Decode(into)
	}
	var refusal meta.Status
	body, _ := io.ReadAll(io.LimitReader(response.Body, longestRefusal)) // what there is of it
	if json.Unmarshal(body, &refusal) != nil || refusal.Message == "" {
		return response.StatusCode, fmt.Errorf("HTTP status %d", response.StatusCode)
	}
	message := problem.Block(refusal.Message)
	if response.StatusCode == http.StatusInternalServerError && strings.Contains(refusal.Message, conversionFailed) {
		return response.StatusCode, fmt.Errorf("%w: %s", ErrConversion, message)
	}
	return response.StatusCode, fmt.Errorf("HTTP status %d: %s", response.StatusCode, message)
}

// Health returns Healthy, or why the server is not ready. It asks as an administrator: nobody else may ask every
// server.
func (s Survey) Health(ctx context.Context) string {
	return Prober{client: s.access.web, url: s.access.rest.Host + "/readyz?verbose"}.Health(ctx)
}

// Keys returns the IDs of the public keys with which the server verifies the tokens of service accounts.
func (s Survey) Keys(ctx context.Context) ([]string, error) {
	var set struct {
		Keys []struct {
			ID string `json:"kid"`
		} `json:"keys"`
	}
	if _, err := s.get(ctx, "/openid/v1/jwks", "*/*", &set); err != nil {
		return nil, fmt.Errorf("read the keys of service accounts: %w", err)
	}
	var ids []string
	for _, key := range set.Keys {
		ids = append(ids, key.ID)
	}
	return ids, nil
}

// Account is a service account.
type Account struct{ Namespace, Name, UID string }

// systemNamespace has service accounts in every cluster.
const systemNamespace = "kube-system"

// Accounts lists the service accounts of the cluster's own components.
func (s Survey) Accounts(ctx context.Context) ([]Account, error) {
	var all []Account
	list := Resource{"serviceaccounts", "/api/v1/namespaces/" + systemNamespace + "/serviceaccounts"}
	err := s.each(ctx, list, nil, func(m meta.ObjectMeta) {
		all = append(all, Account{m.Namespace, m.Name, string(m.UID)})
	})
	return all, err
}

// tokenLife is the shortest life that an API server gives a token, in seconds.
const tokenLife = 600

// IssueToken lets the server issue a token of a service account. It is not stored anywhere.
func (s Survey) IssueToken(ctx context.Context, a Account) (string, error) {
	api, err := typedcore.NewForConfigAndClient(s.access.rest, s.access.web)
	if err != nil {
		return "", err
	}
	life := int64(tokenLife)
	answer, err := api.ServiceAccounts(a.Namespace).CreateToken(ctx, a.Name, &authentication.TokenRequest{
		Spec: authentication.TokenRequestSpec{ExpirationSeconds: &life},
	}, meta.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("request a token of the service account %s/%s: %w", a.Namespace, a.Name, err)
	}
	return answer.Status.Token, nil
}

// errTokenRefused means that the server does not accept a token.
var errTokenRefused = errors.New("the token is not accepted")

// AcceptsToken returns an error if the server does not accept the token as the account's.
func (s Survey) AcceptsToken(ctx context.Context, token string, a Account) error {
	api, err := typedauthentication.NewForConfigAndClient(s.access.rest, s.access.web)
	if err != nil {
		return err
	}
	answer, err := api.TokenReviews().Create(ctx, &authentication.TokenReview{
		Spec: authentication.TokenReviewSpec{Token: token},
	}, meta.CreateOptions{})
	switch {
	case err != nil:
		return fmt.Errorf("review a token: %w", err)
	case !answer.Status.Authenticated || answer.Status.User.UID != a.UID:
		return fmt.Errorf("%w as that of %s/%s: %s", errTokenRefused, a.Namespace, a.Name, problem.Line(answer.Status.Error))
	}
	return nil
}

// LastRenewal returns when a component of the cluster last renewed a Lease before a revision of the store:
// they do so every few seconds. It is zero if there is none.
func (s Survey) LastRenewal(ctx context.Context, revision int64) (time.Time, error) {
	var list struct {
		Items []struct {
			Spec struct {
				RenewTime meta.MicroTime `json:"renewTime"`
			} `json:"spec"`
		} `json:"items"`
	}
	query := url.Values{
		"resourceVersion":      {strconv.FormatInt(revision, 10)},
		"resourceVersionMatch": {string(meta.ResourceVersionMatchExact)},
	}
	path := "/apis/coordination.k8s.io/v1/namespaces/" + systemNamespace + "/leases?" + query.Encode()
	if _, err := s.get(ctx, path, "application/json", &list); err != nil {
		return time.Time{}, fmt.Errorf("list the leases: %w", err)
	}
	var last time.Time
	for _, lease := range list.Items {
		if lease.Spec.RenewTime.After(last) {
			last = lease.Spec.RenewTime.Time
		}
	}
	return last, nil
}
