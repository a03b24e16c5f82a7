package docs

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// privateWords are words for which etcd, Kubernetes or Go have a usual term: a look is an
// observation, what was found is the observed state, a standing is a status, faults are problems.
const privateWords = `
amiss approach aside asker askers beside born came comers coming conversation conversations departure
departures fault faults forlorn found founded founding gather gathers given goers look looked looks masters
mend mended mends ours patience reading readings rejoin relief said settled sighting sightings standing
successor survival told traps untold vain
`

// usualTerms are identifiers that contain such a word, and are usual terms.
var usualTerms = []string{"SystemMasters", "exitNotFound"}

// TestNames checks that identifiers have the terms of etcd, Kubernetes and Go.
func TestNames(t *testing.T) {
	private := strings.Fields(privateWords)
	names := 0
	sources(t, func(file string, parsed *ast.File) {
		ast.Inspect(parsed, func(node ast.Node) bool {
			if selector, ok := node.(*ast.SelectorExpr); ok { // declared elsewhere
				_, qualified := selector.X.(*ast.Ident)
				return !qualified
			}
			name, ok := node.(*ast.Ident)
			if !ok || name.Obj != nil && name.Obj.Pos() != name.Pos() || slices.Contains(usualTerms, name.Name) {
				return true
			}
			names++
			for _, word := range wordsOf(name.Name) {
				if slices.Contains(private, word) {
					t.Errorf("%s: %s has the word %q", file, name.Name, word)
				}
			}
			return true
		})
	})
	if names < 1000 {
		t.Errorf("read only %d identifiers: the sources are not where this test expects them", names)
	}
}

// wordsOf splits an identifier: HTTPServerName is "http", "server" and "name".
func wordsOf(identifier string) []string {
	var words []string
	begin, letters := 0, []rune(identifier)
	for i := 1; i <= len(letters); i++ {
		ends := i == len(letters) || unicode.IsUpper(letters[i]) &&
			(unicode.IsLower(letters[i-1]) || i+1 < len(letters) && unicode.IsLower(letters[i+1]))
		if ends {
			words = append(words, strings.ToLower(string(letters[begin:i])))
			begin = i
		}
	}
	return words
}

func TestWordsOf(t *testing.T) {
	for identifier, want := range map[string][]string{
		"found":          {"found"},
		"lookAt":         {"look", "at"},
		"HTTPServerName": {"http", "server", "name"},
		"TestFoundHTTP":  {"test", "found", "http"},
		"background":     {"background"},
	} {
		if got := wordsOf(identifier); !slices.Equal(got, want) {
			t.Errorf("%s is split into %q, want %q", identifier, got, want)
		}
	}
}
