package client

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// storedKeys are all keys of an etcd, in order.
type storedKeys []string

func (k storedKeys) below(prefix, from string, limit int64) (out []string) {
	for _, key := range k {
		if strings.HasPrefix(key, prefix) && key >= from && int64(len(out)) < limit {
			out = append(out, key)
		}
	}
	return out
}

// content answers as etcd does.
func (k storedKeys) content(q dirQuery) dirContent {
	c := dirContent{Keys: k.below(q.Dir, q.From, q.Keys)}
	c.More = len(k.below(q.Dir, q.From, q.Keys+1)) > len(c.Keys)
	if q.begins() {
		c.Leases = k.below(q.Dir+masterLeasesDir, "", 1000)
		c.Resources = !slices.ContainsFunc(resourceDirs, func(dir string) bool {
			return len(k.below(q.Dir+dir, "", 1)) == 0
		})
	}
	return c
}

// search returns the keys of the registrations that are found, and the number of requests.
func (k storedKeys) search() (keys []string, queries int, err error) {
	slices.Sort(k)
	s := newRegistrationSearch()
	for {
		q, more, err := s.next()
		if err != nil || !more {
			for _, r := range s.all {
				keys = append(keys, strings.TrimPrefix(r.Key, r.Dir)+" "+r.Dir)
			}
			return keys, s.queries, err
		}
		s.see(q, k.content(q))
	}
}

// objects are what API servers store below a prefix, without registrations.
func objects(prefix string) (keys []string) {
	for _, key := range []string{
		"apiextensions.k8s.io/customresourcedefinitions/a", "configmaps/kube-system/kube-root-ca.crt", "minions/cp1",
		"namespaces/default", "namespaces/kube-system", "pods/default/a", "ranges/servicenodeports",
		"services/specs/default/kubernetes", "secrets/default/a",
	} {
		keys = append(keys, prefix+key)
	}
	return keys
}

// numbered are n keys that a format has with numbers.
func numbered(n int, format string) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprintf(format, i))
	}
	return keys
}

func TestRegistrationSearch(t *testing.T) {
	const one, two = "masterleases/10.0.0.1", "masterleases/fd00::2"
	for _, c := range []struct {
		name    string
		keys    []string
		want    []string
		queries int
	}{
		{name: "no key", queries: 2},
		{
			"the default prefix", append(objects("/registry/"), "compact_rev_key", "/registry/"+one, "/registry/"+two),
			[]string{"10.0.0.1 /registry/masterleases/", "fd00::2 /registry/masterleases/"},
			3,
		},
		{"registrations alone", []string{"/k8s/" + one}, []string{"10.0.0.1 /k8s/masterleases/"}, 3},
		{
			"two segments", append(objects("/prod/k8s/"), "/prod/k8s/"+one),
			[]string{"10.0.0.1 /prod/k8s/masterleases/"},
			6,
		},
		{
			"three segments", append(objects("/a/prod/k8s/"), "/a/prod/k8s/"+one),
			[]string{"10.0.0.1 /a/prod/k8s/masterleases/"},
			8,
		},
		{"four segments", append(objects("/a/b/c/d/"), "/a/b/c/d/"+one), nil, 8},
		{"no segment", append(objects("/"), "/"+one), []string{"10.0.0.1 /masterleases/"}, 2},
		{"API servers that do not run", append(objects("/registry/"), "/registry/pods/masterleases/a"), nil, 3},
		{
			"two prefixes", slices.Concat(objects("/registry/"), objects("/other/k8s/"),
				[]string{"/registry/" + one, "/other/k8s/" + two}),
			[]string{"10.0.0.1 /registry/masterleases/", "fd00::2 /other/k8s/masterleases/"},
			7,
		},
		{
			"two of one directory",
			[]string{"/registry/a/" + one, "/registry/b/" + two},
			[]string{"10.0.0.1 /registry/a/masterleases/", "fd00::2 /registry/b/masterleases/"},
			6,
		},
		{
			"after one that does not run", slices.Concat(objects("/former/"), []string{"/registry/" + one}),
			[]string{"10.0.0.1 /registry/masterleases/"},
			4,
		},
		{
			"directories of another program with names of resources",
			[]string{"/configmaps/a/b", "/namespaces/a", "/registry/" + one},
			[]string{"10.0.0.1 /registry/masterleases/"},
			7,
		},
		{
			"names that begin with one another",
			[]string{"/a", "/a-b/" + one, "/a.b", "/a/" + two, "/a0/x", "/ab/" + one},
			[]string{"10.0.0.1 /a-b/masterleases/", "fd00::2 /a/masterleases/", "10.0.0.1 /ab/masterleases/"},
			11,
		},
		{
			"an empty segment, and keys that end with a slash",
			[]string{"/", "//x/y", "/app/", "/k8s/" + one},
			[]string{"10.0.0.1 /k8s/masterleases/"},
			9,
		},
		{
			"keys without the first slash",
			[]string{"registry/" + one, "a", "\x00", "\xff", "/k8s/" + two},
			[]string{"fd00::2 /k8s/masterleases/"},
			3,
		},
		{
			"keys that no text has",
			[]string{"/\x00/a", "/\xff\xff/a/" + one},
			[]string{"10.0.0.1 /\xff\xff/a/masterleases/"},
			6,
		},
		{
			"many keys without directories", slices.Concat(numbered(20*PageKeys, "/app/%06d"), numbered(PageKeys, "/%06d"),
				[]string{"/k8s/" + one}), []string{"10.0.0.1 /k8s/masterleases/"}, 26,
		},
		{
			"events alone", append(numbered(1000, "/registry/events/ns%04d/x"), "/k8s/"+one),
			[]string{"10.0.0.1 /k8s/masterleases/"},
			2006,
		},
		{
			"what one with the prefix / has left", append(objects("/"), "/registry/"+one, "/prod/"+two),
			[]string{"10.0.0.1 /registry/masterleases/", "fd00::2 /prod/masterleases/"},
			27,
		},
		{
			"many keys deep down", slices.Concat(numbered(1000, "/app/v1/ids/%04d/a"), []string{"/k8s/" + one}),
			[]string{"10.0.0.1 /k8s/masterleases/"},
			9,
		},
	} {
		got, queries, err := storedKeys(c.keys).search()
		if err != nil || !slices.Equal(got, c.want) || queries != c.queries {
			t.Errorf("%s: %q with %d requests, %v; want %q with %d", c.name, got, queries, err, c.want, c.queries)
		}
	}
}

// TestRegistrationSearchEnds: what was not looked at may have API servers.
func TestRegistrationSearchEnds(t *testing.T) {
	keys := slices.Concat(numbered(maxDirQueries, "/app/%04d/a"), []string{
		"/aaa/masterleases/10.0.0.1", "/registry/masterleases/10.0.0.2",
	})
	got, _, err := storedKeys(keys).search()
	// The default prefix was looked at first.
	if !TooManyDirs(err) || !slices.Equal(got, []string{
		"10.0.0.2 /registry/masterleases/", "10.0.0.1 /aaa/masterleases/",
	}) {
		t.Fatalf("the search returns %q, %v", got, err)
	}
	for _, want := range []string{"masterleases/", "5000 requests", `/app/`, "up to 3 segments"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v is without %s", err, want)
		}
	}
	if TooManyDirs(errors.New("x")) || TooManyDirs(nil) {
		t.Error("another error counts")
	}
}
