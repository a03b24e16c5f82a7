package docs

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// cause is a cause of a symptom in the guide on troubleshooting.
type cause struct {
	shown  string   // what the guide says of it
	step   string   // the method of TestTroubleshooting that makes it
	alerts []string // those that it raises
}

// symptoms are the symptoms of the guide, with their causes. An alert belongs to what makes it true: the time of a
// webhook is in no alert about latency, because apiserver_request_sli_duration_seconds leaves it out.
var symptoms = []struct {
	title  string
	causes []cause
}{
	{"The API is slow", []cause{
		{"`apiserver_admission_webhook_admission` first", "slowWebhook", []string{"KubeAPIWebhookSlow"}},
		{"`etcd_request` first", "slowEtcd", []string{"KubeAPIEtcdSlow", "KubeAPILatencyHigh", "KubeAPIErrorBudgetBurn"}},
		{
			"`apiserver_flowcontrol_request_wait` first", "manyRequests",
			[]string{"KubeAPIRequestsInFlight", "KubeAPITerminatedRequests"},
		},
	}},
	{"The API answers with errors", []cause{
		{"`has alarm NOSPACE`", "fullDatabase", []string{
			"KubeAPIErrorsHigh", "KubeAPIErrorsVeryHigh", "EtcdDatabaseQuotaLowSpace", "EtcdExcessiveDatabaseGrowth",
		}},
		{"its unit or its files were changed", "brokenAPIServer", []string{"KubeAPIServerDown", "HAProxyServerDown"}},
	}},
	{"etcd has no leader", []cause{
		{"`etcd.service is inactive`", "noLeader", []string{
			"EtcdNoLeader", "EtcdInsufficientMembers", "EtcdMemberDown", "EtcdHighNumberOfFailedProposals",
		}},
	}},
	{"The leader changes", []cause{
		{"`overloaded likely from slow disk`", "leaderChanges", []string{"EtcdHighNumberOfLeaderChanges"}},
		{"the network between this machine", "lostConnection", []string{"EtcdMemberCommunicationSlow"}},
	}},
	{"Pods stay pending", []cause{
		{"Events of these Pods", "pendingPods", []string{"KubePodsPending", "KubePodsUnschedulable"}},
		{"no scheduler works", "pendingPods", []string{"KubeSchedulerDown"}},
	}},
	{"Nodes are not ready", []cause{
		{"`Kubelet never posted node status`", "nodesNotReady", []string{"KubeNodesNotReady"}},
		{"All nodes since the same time", "allNodesNotReady", []string{"KubeAllNodesNotReady"}},
		{"no controller-manager looks at nodes", "nodesNotReady", []string{"KubeControllerManagerDown"}},
	}},
	{"Certificates expire", []cause{
		{"`a certificate expires on`", "expiringCertificate", []string{
			"KubeCertificateExpires", "KubeCertificateExpiresSoon",
		}},
		{"is not served", "unservedCertificate", []string{"KubeCertificateNotServed"}},
		{"is a kubelet's or a user's", "expiringClient", []string{
			"KubeClientCertificateExpiration", "KubeClientCertificateExpiresSoon",
		}},
	}},
	{"The virtual IP does not answer", []cause{
		{"`no balancer has it`", "lostVirtualIP", []string{"KubeVirtualIPOnNoMachine", "HAProxyDown"}},
		{"there is no API server behind it", "noLeader", []string{"HAProxyNoServers"}},
		{"they do not hear each other", "twoVirtualIPs", []string{"KubeVirtualIPOnTwoMachines"}},
		{"that runs and hangs is killed", "hungBalancer", []string{"KubeVirtualIPMoves"}},
	}},
	{"The disk is slow", []cause{
		{"everything else that writes to the same disk", "slowDisk", []string{
			"EtcdHighFsyncDurations", "EtcdVeryHighFsyncDurations", "EtcdHighCommitDurations",
		}},
	}},
}

// TestSymptoms checks that each symptom of the guide on troubleshooting begins with the alerts of its causes, that a
// test of alerts makes each of them fire, and that TestTroubleshooting makes each cause and runs the commands.
func TestSymptoms(t *testing.T) {
	guide := documents(t)["templates/guides/troubleshooting.md"]
	_, text, _ := strings.Cut(guide, "\n## Symptoms\n")
	text, _, cut := strings.Cut(text, "\n## ")
	if !cut {
		t.Fatal("the guide has another form")
	}
	steps, fired := acceptanceSteps(t), firedAlerts(t)
	sections := strings.Split(text, "\n### ")[1:]
	if len(sections) != len(symptoms) {
		t.Fatalf("the guide has %d symptoms, and the table %d", len(sections), len(symptoms))
	}
	for i, section := range sections {
		title, text, _ := strings.Cut(section, "\n")
		if title != symptoms[i].title {
			t.Errorf("the guide has the symptom %q, and the table %q", title, symptoms[i].title)
		}
		if !strings.Contains(text, "<!-- run by TestTroubleshooting -->") {
			t.Errorf("%s: no command is run by a test", title)
		}
		var want []string
		for _, c := range symptoms[i].causes {
			want = append(want, c.alerts...)
			if !strings.Contains(strings.Join(strings.Fields(text), " "), c.shown) {
				t.Errorf("%s: the guide does not say %q", title, c.shown)
			}
			if !steps[c.step] {
				t.Errorf("%s: TestTroubleshooting has no step %s", title, c.step)
			}
		}
		if have := namedFirst(text); !sameSet(have, want) {
			t.Errorf("%s: the guide names the alerts %q, and its causes raise %q", title, have, want)
		}
		for _, alert := range want {
			if !fired[alert] {
				t.Errorf("%s: no acceptance test expects %s to fire", title, alert)
			}
		}
	}
}

var alertName = regexp.MustCompile(`^(?:Etcd|Kube|HAProxy)[A-Z][A-Za-z]+$`)

// namedFirst returns the alerts in the line "Alerts:" at the begin of a section, which may be wrapped.
func namedFirst(section string) []string {
	paragraph, _, _ := strings.Cut(strings.TrimSpace(section), "\n\n")
	list, ok := strings.CutPrefix(paragraph, "Alerts: ")
	if !ok {
		return nil
	}
	var names []string
	for _, word := range strings.Fields(list) {
		names = append(names, strings.Trim(word, "`,."))
	}
	return names
}

func sameSet(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}

// acceptanceSteps returns the names that TestTroubleshooting selects, among them the methods that it runs.
func acceptanceSteps(t *testing.T) map[string]bool {
	t.Helper()
	steps := map[string]bool{}
	acceptanceFunctions(t, "troubleshooting_test.go", func(f *ast.FuncDecl) {
		if f.Name.Name != "TestTroubleshooting" {
			return
		}
		ast.Inspect(f, func(node ast.Node) bool {
			if selected, ok := node.(*ast.SelectorExpr); ok {
				steps[selected.Sel.Name] = true
			}
			return true
		})
	})
	return steps
}

// firedAlerts returns the alerts that functions of the acceptance tests of monitoring expect to fire: the texts that
// are an alert's name, alone or before that of a machine. Those that are expected to end do not count.
func firedAlerts(t *testing.T) map[string]bool {
	t.Helper()
	alerts := map[string]bool{}
	collect := func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.CallExpr:
			selected, ok := n.Fun.(*ast.SelectorExpr)
			return !ok || !strings.HasSuffix(selected.Sel.Name, "End") && !strings.HasSuffix(selected.Sel.Name, "Ends")
		case *ast.BasicLit:
			text, err := strconv.Unquote(n.Value)
			name, _, _ := strings.Cut(text, " ")
			if n.Kind == token.STRING && err == nil && alertName.MatchString(name) {
				alerts[name] = true
			}
		}
		return true
	}
	for _, pattern := range []string{"alerts*_test.go", "monitoring_test.go"} {
		acceptanceFunctions(t, pattern, func(f *ast.FuncDecl) { ast.Inspect(f, collect) })
	}
	if len(alerts) < 40 {
		t.Errorf("tests expect only %d alerts", len(alerts))
	}
	return alerts
}

// acceptanceFunctions visits the functions in those files of the acceptance tests whose names match.
func acceptanceFunctions(t *testing.T, pattern string, visit func(*ast.FuncDecl)) {
	t.Helper()
	sources(t, func(name string, file *ast.File) {
		if matches, err := path.Match("acceptance/"+pattern, name); err != nil || !matches {
			return
		}
		for _, declaration := range file.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok {
				visit(f)
			}
		}
	})
}

func TestNamedFirst(t *testing.T) {
	for text, want := range map[string][]string{
		"\nAlerts: `EtcdA`,\n`EtcdB`.\n\nOthers: `EtcdC`.": {"EtcdA", "EtcdB"},
		"\nText.\n\nAlerts: `EtcdA`.":                      nil,
	} {
		if have := namedFirst(text); !slices.Equal(have, want) {
			t.Errorf("%q names %q, want %q", text, have, want)
		}
	}
}
