package client

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// An API server stores everything below the prefix path.Join("/", PREFIX) + "/", where PREFIX is its --etcd-prefix. The
// first element of what follows is a resource or a group. masterLeasesDir has the registrations.
const (
	defaultPrefix   = "/registry/"
	masterLeasesDir = "masterleases/"
)

// resourceDirs are other directories that are below the prefix of every API server that has ever served.
var resourceDirs = []string{"configmaps/", "namespaces/", "services/"}

// Limits of the search for registrations.
const (
	// MaxPrefixSegments is the largest number of segments of an --etcd-prefix whose API servers are found.
	MaxPrefixSegments = 3

	// maxDirQueries is enough for the events of two thousand namespaces, which an etcd of events alone has.
	maxDirQueries = 5000
)

// errTooManyDirs means that a search has not looked everywhere.
var errTooManyDirs = errors.New("etcd has too many directories of other programs")

// registration is the key of an API server, below a directory that ends with masterLeasesDir.
type registration struct{ Dir, Key string }

// dirQuery asks for the keys of a directory from a key on. If that is the beginning of the directory, it also asks what
// shows that the directory is the prefix of API servers.
type dirQuery struct {
	Dir  string // ends with "/"
	From string
	Keys int64 // how many; 0: only what shows a prefix
}

func (q dirQuery) begins() bool { return q.From == q.Dir }

// dirContent answers a dirQuery.
type dirContent struct {
	Leases    []string // the keys of registrations; only if the query begins the directory
	Resources bool     // it has all resourceDirs; as Leases
	Keys      []string // the first ones from the query's key on, in order
	More      bool     // there are more behind Keys
}

// registrationSearch looks for registrations of API servers below any prefix of up to MaxPrefixSegments segments, first
// below the default one. It skips from directory to directory, and does not look into those of API servers. A prefix
// below that of other API servers is therefore not found.
type registrationSearch struct {
	pending []dirQuery // the last one is next
	queries int
	all     []registration
}

func newRegistrationSearch() *registrationSearch {
	return &registrationSearch{pending: []dirQuery{{Dir: "/", From: "/", Keys: 1}, beginOf(defaultPrefix)}}
}

// next returns what to ask next. more is false if the search is complete. The error is errTooManyDirs, with what was
// looked for.
func (s *registrationSearch) next() (q dirQuery, more bool, err error) {
	if len(s.pending) == 0 {
		return dirQuery{}, false, nil
	}
	last := len(s.pending) - 1
	q, s.pending = s.pending[last], s.pending[:last]
	if s.queries++; s.queries > maxDirQueries {
		return dirQuery{}, false, fmt.Errorf("%w: %s of an --etcd-prefix of up to %d segments was looked for with %d "+
			"requests, the last ones in %s", errTooManyDirs, masterLeasesDir, MaxPrefixSegments, maxDirQueries,
			problem.Quote(q.Dir))
	}
	return q, true, nil
}

// see takes the answer to a query.
func (s *registrationSearch) see(q dirQuery, c dirContent) {
	for _, key := range c.Leases {
		s.all = append(s.all, registration{Dir: q.Dir + masterLeasesDir, Key: key})
	}
	if len(c.Leases) > 0 || c.Resources && q.Dir != "/" { // "/" may also have what former API servers have left
		return
	}
	for _, key := range c.Keys {
		segment, _, isDir := strings.Cut(key[len(q.Dir):], "/")
		if !isDir {
			continue
		}
		sub := q.Dir + segment
		if c.More || key != c.Keys[len(c.Keys)-1] {
			s.pending = append(s.pending, dirQuery{Dir: q.Dir, From: sub + "0", Keys: 1}) // "0" follows "/"
		}
		if sub += "/"; sub != defaultPrefix { // which was asked for first
			s.pending = append(s.pending, beginOf(sub))
		}
		return
	}
	if c.More && len(c.Keys) > 0 { // of keys without directories, there may be many
		next := c.Keys[len(c.Keys)-1] + "\x00"
		s.pending = append(s.pending, dirQuery{Dir: q.Dir, From: next, Keys: PageKeys})
	}
}

// beginOf returns the first query of a directory below "/".
func beginOf(dir string) dirQuery {
	q := dirQuery{Dir: dir, From: dir}
	if strings.Count(dir, "/")-1 < MaxPrefixSegments {
		q.Keys = 1
	}
	return q
}
