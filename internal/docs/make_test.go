package docs

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestMakePatterns checks that the lists of tests in GNUmakefile name tests that exist, and match
// nothing else: a new test is then part of make test. Long lab tests are those of testrun.Long.
func TestMakePatterns(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), "GNUmakefile"))
	if err != nil {
		t.Fatal(err)
	}
	tests, long := testsByPackage(t)
	lists := map[string][]string{}
	for name, packages := range map[string][]string{
		"TOFU": {"acceptance"}, "TOFU_ONLY": {"acceptance"}, "TOFU_LONG": {"acceptance"},
		"README": {"acceptance"}, "LONG_CHANGES": {"acceptance"},
		"LONG_PLACES": {"acceptance"}, "LONG_OPERATIONS": {"acceptance"}, "LONG_LABS": {
			"etcd", "controlplane", "controlplane/client", "controlplane/release",
			"etcd/release", "endpoint/bgp", "endpoint/haproxy", "endpoint/kubevip", "drill", "simulated",
		},
	} {
		match := regexp.MustCompile(`(?m)^` + name + ` +:= (\S+)$`).FindStringSubmatch(string(text))
		if match == nil {
			t.Fatalf("GNUmakefile has no list %s", name)
		}
		lists[name] = strings.Split(match[1], "|")
		for _, test := range lists[name] {
			if !slices.ContainsFunc(packages, func(of string) bool { return tests[of+"."+test] }) {
				t.Errorf("%s names %q, which is not a test of %v", name, test, packages)
			}
		}
	}
	uses := regexp.MustCompile(`(?m)^\t.*\$\((LONG|TOFU|README)[A-Z_]*\).*`).FindAllString(string(text), -1)
	if len(uses) == 0 {
		t.Error("no list is used")
	}
	for _, use := range uses {
		if !strings.Contains(use, "^(") || !strings.Contains(use, ")$$") {
			t.Errorf("the pattern is not anchored: %s", use)
		}
	}
	for _, test := range long {
		if !slices.Contains(lists["LONG_LABS"], test) {
			t.Errorf("%s is long, and not in LONG_LABS", test)
		}
	}
}

// testsByPackage returns the tests as "directory.name", and those that call testrun.Long.
func testsByPackage(t *testing.T) (all map[string]bool, long []string) {
	t.Helper()
	all = map[string]bool{}
	sources(t, func(file string, parsed *ast.File) {
		for _, decl := range parsed.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || !strings.HasSuffix(file, "_test.go") || !strings.HasPrefix(f.Name.Name, "Test") {
				continue
			}
			all[filepath.Dir(file)+"."+f.Name.Name] = true
			ast.Inspect(f, func(node ast.Node) bool {
				call, ok := node.(*ast.SelectorExpr)
				if ok {
					if from, isName := call.X.(*ast.Ident); isName && from.Name == "testrun" && call.Sel.Name == "Long" {
						long = append(long, f.Name.Name)
					}
				}
				return true
			})
		}
	})
	return all, long
}
