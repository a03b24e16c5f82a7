package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// namespace belongs to the load. It stays, because the next run uses it too.
	namespace = "kube-load"
	// runLabel distinguishes the ConfigMaps of different runs.
	runLabel = "run"
	// pageSize limits one list request.
	pageSize = 500
)

// api contains the clients' requests to the API server. It is plain HTTP: client-go would
// throttle, and retry requests that the server rejected.
type api struct {
	server *url.URL
	run    string
}

// statusError is an answer other than success.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return fmt.Sprintf("HTTP %d: %s", e.code, e.text) }

// answered reports whether err is an answer with that code.
func answered(err error, code int) bool {
	var answer *statusError
	return errors.As(err, &answer) && answer.code == code
}

func (a api) configMaps() string { return "/api/v1/namespaces/" + namespace + "/configmaps" }

func (a api) selected(more url.Values) url.Values {
	query := url.Values{"labelSelector": {runLabel + "=" + a.run}}
	for name, values := range more {
		query[name] = values
	}
	return query
}

// create creates one ConfigMap.
func (a api) create(ctx context.Context, via *link, name string) error {
	return a.call(ctx, via, http.MethodPost, a.configMaps(), nil, core.ConfigMap{
		ObjectMeta: meta.ObjectMeta{Name: name, Labels: map[string]string{runLabel: a.run}},
		Data:       map[string]string{"name": name},
	}, nil)
}

// get reads one ConfigMap.
func (a api) get(ctx context.Context, via *link, name string) error {
	return a.call(ctx, via, http.MethodGet, a.configMaps()+"/"+name, nil, nil, nil)
}

// ensureNamespace creates the namespace if needed and returns the revision before the first write.
func (a api) ensureNamespace(ctx context.Context, via *link) (revision string, err error) {
	err = retry(ctx, func(ctx context.Context) error {
		wanted := core.Namespace{ObjectMeta: meta.ObjectMeta{Name: namespace}}
		err := a.call(ctx, via, http.MethodPost, "/api/v1/namespaces", nil, wanted, nil)
		if err != nil && !answered(err, http.StatusConflict) {
			return fmt.Errorf("create namespace %s: %w", namespace, err)
		}
		page, err := a.page(ctx, via, "")
		revision = page.ResourceVersion
		return err
	})
	return revision, err
}

// page lists a page of the run's ConfigMaps.
func (a api) page(ctx context.Context, via *link, next string) (page meta.PartialObjectMetadataList, err error) {
	query := a.selected(url.Values{"limit": {strconv.Itoa(pageSize)}})
	if next != "" {
		query.Set("continue", next)
	}
	if err := a.call(ctx, via, http.MethodGet, a.configMaps(), query, nil, &page); err != nil {
		return page, fmt.Errorf("list ConfigMaps of namespace %s: %w", namespace, err)
	}
	return page, nil
}

// names lists the run's ConfigMaps. It retries until the list is complete.
func (a api) names(ctx context.Context, via *link) (map[string]bool, error) {
	var names map[string]bool
	err := retry(ctx, func(ctx context.Context) error {
		names = map[string]bool{}
		for next, more := "", true; more; more = next != "" {
			page, err := a.page(ctx, via, next)
			if err != nil {
				return err
			}
			for _, item := range page.Items {
				names[item.Name] = true
			}
			next = page.Continue
		}
		return nil
	})
	return names, err
}

// clean deletes the run's ConfigMaps.
func (a api) clean(ctx context.Context, via *link) error {
	return a.call(ctx, via, http.MethodDelete, a.configMaps(), a.selected(nil), nil, nil)
}

// watch opens a stream of the run's events after revision. The caller closes it.
func (a api) watch(ctx context.Context, via *link, revision string) (io.ReadCloser, error) {
	query := a.selected(url.Values{"watch": {"1"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {revision}})
	response, err := a.send(ctx, via, http.MethodGet, a.configMaps(), query, nil)
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

// call sends one request and reads the whole answer.
func (a api) call(ctx context.Context, via *link, method, path string, query url.Values, in, out any) error {
	response, err := a.send(ctx, via, method, path, query, in)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if out == nil {
		_, err := io.Copy(io.Discard, response.Body)
		return err
	}
	return json.NewDecoder(response.Body).Decode(out)
}

// send sends one request: no redirect is followed, no cookie kept, nothing retried. What Go's HTTP
// library repeats by itself is counted by countAttempts. An answer other than 2xx is an error.
func (a api) send(
	ctx context.Context, via *link, method, path string, query url.Values, in any,
) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		body = bytes.NewReader(text)
	}
	where := a.server.JoinPath(path)
	where.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, method, where.String(), body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "kube-load")
	response, err := via.transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 == 2 {
		return response, nil
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1024)) // the code is what counts
	return nil, &statusError{response.StatusCode, string(bytes.TrimSpace(text))}
}
