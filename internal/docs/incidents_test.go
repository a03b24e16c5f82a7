package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/soak"
)

// incidents are the incidents of other projects that the guide must cover.
const incidents = `
etcd#19557 etcd#20793 etcd#20967 etcd#10254 etcd#21178 etcd#21694 etcd#16028 kubernetes#107457
kops#6764 etcd-manager#299 kubeadm#3269 kubeadm#3287 kubeadm#2005 k8s-snap#2813 wksctl#284 k3s#4865 k0sctl#603
kubernetes#138403 cluster-api#11138 cluster-api#10934 cluster-api#4365 cluster-api#10125 cluster-api#4239
talos#9153 kube-vip#684 kube-vip#1176 pharos#260 kubernetes#118216
`

// findings is the number of findings in this project.
const findings = 25

// row is a row of a table in the guide.
type row struct {
	line  int
	cells []string
}

// rowsOf returns the rows of the tables in a document, without their heads.
func rowsOf(text string) []row {
	var rows []row
	head := true
	for number, line := range strings.Split(text, "\n") {
		inside := strings.HasPrefix(line, "| ")
		switch {
		case strings.HasPrefix(line, "|--"):
			head = false
		case !inside:
			head = true
		case !head:
			var cells []string
			for _, cell := range strings.Split(strings.Trim(line, "|"), "|") {
				cells = append(cells, strings.TrimSpace(cell))
			}
			rows = append(rows, row{number + 1, cells})
		}
	}
	return rows
}

var (
	goTest   = regexp.MustCompile("`([a-z/]+)\\.(Test\\w+)`")
	scenario = regexp.MustCompile("`soak \"([^\"]+)\"`")
	backed   = regexp.MustCompile("`[^`]*`")
)

// TestIncidents checks that the guide has a row for each known incident, and that
// every test that it names exists.
func TestIncidents(t *testing.T) {
	file := filepath.Join(root(t), "templates", "guides", "incidents.md")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tests := declaredTests(t)
	var scenarios []string
	for _, s := range soak.Scenarios() {
		scenarios = append(scenarios, s.Name)
	}
	var named []string
	for _, r := range rowsOf(string(text)) {
		for _, problem := range r.problems(tests, scenarios) {
			t.Errorf("%s:%d %s", file, r.line, problem)
		}
		named = append(named, strings.Split(r.cells[0], ", ")...)
	}
	want := strings.Fields(incidents)
	for n := range findings {
		want = append(want, strconv.Itoa(n+1))
	}
	slices.Sort(named)
	slices.Sort(want)
	if !slices.Equal(named, want) {
		t.Errorf("the guide has rows for\n%q, want\n%q", named, want)
	}
}

// problems returns the problems of a row.
func (r row) problems(tests map[string]bool, scenarios []string) []string {
	if len(r.cells) != 4 || slices.Contains(r.cells, "") {
		return []string{"does not fill four columns: " + strings.Join(r.cells, " | ")}
	}
	var out []string
	shown := r.cells[3]
	if len(backed.FindAllString(shown, -1)) == 0 {
		out = append(out, "names no test")
	}
	for _, text := range backed.FindAllString(shown, -1) {
		test, run := goTest.FindStringSubmatch(text), scenario.FindStringSubmatch(text)
		switch {
		case test != nil && !tests[test[1]+"."+test[2]]:
			out = append(out, "names "+text+", which does not exist")
		case run != nil && !slices.Contains(scenarios, run[1]):
			out = append(out, "names "+text+", and make soak has no such scenario")
		case test == nil && run == nil:
			out = append(out, text+" is neither a test nor a scenario")
		}
	}
	return out
}

func TestIncidentProblems(t *testing.T) {
	tests := map[string]bool{"etcd.TestA": true}
	for cell, want := range map[string]int{
		"`etcd.TestA`": 0, "`etcd.TestA`, `soak \"b\"`": 0, "none": 1, "`etcd.TestB`": 1, "`host.TestA`": 1,
		"`soak \"c\"`": 1, "`TestA`": 1, "": 1,
	} {
		r := row{1, []string{"1", "a", "b", cell}}
		if got := r.problems(tests, []string{"b"}); len(got) != want {
			t.Errorf("%q has the problems %q, want %d", cell, got, want)
		}
	}
	got := rowsOf("| a | b |\n|---|---|\n| 1 | x |\n| 2 | y |\n\n| c |\n|---|\n| 3 |\n")
	if len(got) != 3 || got[1].line != 4 || got[1].cells[1] != "y" || got[2].cells[0] != "3" {
		t.Errorf("the rows are %v", got)
	}
}

// sources visits the parsed Go files below internal/.
func sources(t *testing.T, visit func(name string, file *ast.File)) {
	t.Helper()
	dir := filepath.Join(root(t), "internal")
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, 0)
		if err == nil {
			visit(name, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// declaredTests returns the tests as DIRECTORY.NAME, with the directory below internal/.
func declaredTests(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	sources(t, func(name string, file *ast.File) {
		for _, declaration := range file.Decls {
			f, ok := declaration.(*ast.FuncDecl)
			if ok && f.Recv == nil && strings.HasSuffix(name, "_test.go") && strings.HasPrefix(f.Name.Name, "Test") {
				out[path.Dir(name)+"."+f.Name.Name] = true
			}
		}
	})
	return out
}

// TestOnlyVotersAreUpdated checks that etcd's MemberUpdate, which corrupts the record of a learner
// (etcd#21694), is called in one place, and that its only caller refuses learners.
func TestOnlyVotersAreUpdated(t *testing.T) {
	places := map[string]string{
		"MemberUpdate": "etcd/client/members.go", "UpdatePeerURL": "etcd/volume_move.go",
	}
	calls := 0
	sources(t, func(name string, file *ast.File) {
		ast.Inspect(file, func(node ast.Node) bool {
			selected, ok := node.(*ast.SelectorExpr)
			if ok && places[selected.Sel.Name] != "" && name != places[selected.Sel.Name] {
				t.Errorf("%s calls %s", name, selected.Sel.Name)
			}
			if ok && selected.Sel.Name == "MemberPromote" {
				calls++
			}
			return true
		})
	})
	if calls == 0 {
		t.Error("found no call of MemberPromote: the sources are not where this test looks")
	}
}
