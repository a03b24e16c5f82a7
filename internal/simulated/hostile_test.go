package simulated

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/crypto/ssh"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// mark is part of everything that the hostile machine sends. It must never be sent to another
// machine.
const mark = "owned7f3a"

// payloads are what the hostile machine sends instead of its values, or appended to them.
var payloads = map[string]string{
	"shell": "zz';touch /tmp/" + mark + ";:' $(touch /tmp/" + mark + ") `touch /tmp/" + mark + "`",
	"lines": "zz\nfile\t8180\troot\troot\t5\t/etc/shadow-" + mark + "\nentry\t" + mark + "\n    server " + mark +
		" 10.9.9.9:6443\n=== /etc/" + mark + "\n",
	"terminal": mark + "\x1b[31m\x1b]0;" + mark + "\x07\u009b2J\u202e\u2066\u200b\r\b",
	"bytes":    mark + "\xff\xfe\x9b\x00\xc3\x28",
	"long":     mark + strings.Repeat("x", 100_000),
	"number":   "-9223372036854775809" + mark,
	"path":     "../../../../etc/" + mark,
}

// The keys of an answer to an observation. Each is forged separately, because a rejected one
// hides the others.
var observationKeys = []string{
	"machine-id", "boot-id", "hostname", "machine", "os", "systemd", "clock", "file", "digest", "recorded", "contents",
	"notes", "dir", "entry", "unit", "disk", "command", "output",
}

// watch records what is sent to a machine.
type watch struct {
	mu       sync.Mutex
	received bytes.Buffer
}

func (w *watch) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.received.Write(p)
}

func (w *watch) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.received.String()
}

// on makes the machine execute what it is sent, and records it. Commands that are not simulated
// succeed without output, so that the following commands are sent too.
func (w *watch) on(m *machine) {
	f := front(func(line string, channel ssh.Channel, honest func(io.Reader, io.Writer) error) error {
		_, _ = io.WriteString(w, line+"\n")
		err := honest(io.TeeReader(channel, w), channel)
		if err != nil && (strings.Contains(err.Error(), "not simulated") || strings.Contains(err.Error(), "not a command")) {
			return nil
		}
		return err
	})
	m.front.Store(&f)
}

// forgeAnswers makes a machine answer each command with the result of lie, which receives the honest
// answer. Leases are granted, so that more commands follow.
func forgeAnswers(m *machine, forge func(honest string) string) {
	f := front(func(line string, channel ssh.Channel, honest func(io.Reader, io.Writer) error) error {
		if strings.Contains(line, leaseMark) {
			return honest(channel, channel)
		}
		var answer bytes.Buffer
		err := honest(channel, &answer)
		_, _ = io.WriteString(channel, forge(answer.String()))
		if err != nil {
			return errors.New(forge(err.Error()))
		}
		return nil
	})
	m.front.Store(&f)
}

// forged returns an answer to an observation with a word appended to, or in place of, the
// values of one key.
func forged(answer, key, payload string, instead bool) string {
	var b strings.Builder
	for line := range strings.Lines(answer) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if name != key {
			b.WriteString(line)
			continue
		}
		switch {
		case key == "contents":
			value = changedBase64(value, func(text string) string { return forgedContents(text, payload, instead) })
		case key == "output":
			value = changedBase64(value, func(text string) string { return forgedText(text, payload, instead) })
		case key == "notes":
			mark, encoded, _ := strings.Cut(value, "\t")
			value = mark + "\t" + changedBase64(encoded, func(text string) string { return forgedText(text, payload, false) })
		case instead:
			value = payload
		default:
			value += payload
		}
		b.WriteString(name + "\t" + value + "\n")
	}
	return b.String()
}

func changedBase64(encoded string, change func(string) string) string {
	text, _ := base64.StdEncoding.DecodeString(encoded)
	return base64.StdEncoding.EncodeToString([]byte(change(string(text))))
}

// fileHeader is what head -v prints before each file.
var fileHeader = regexp.MustCompile(`(?:^|\n)==> [^\n]+ <==\n`)

// forgedContents poisons the content of each file.
func forgedContents(text, payload string, instead bool) string {
	var b strings.Builder
	heads := fileHeader.FindAllStringIndex(text, -1)
	for i, head := range heads {
		end := len(text)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		b.WriteString(text[head[0]:head[1]] + forgedText(text[head[1]:end], payload, instead))
	}
	return b.String()
}

// forgedText poisons text: each string of JSON, each line of other text.
func forgedText(text, payload string, instead bool) string {
	var document any
	var out string
	switch {
	case instead:
		out = payload
	case json.Unmarshal([]byte(text), &document) == nil:
		changed, _ := json.Marshal(forgeJSON(document, payload))
		out = string(changed)
	default:
		for line := range strings.Lines(text) {
			out += strings.TrimSuffix(line, "\n") + " " + payload + "\n"
		}
		out += "    server " + payload + " 10.9.9.9:6443\n" // a line of HAProxy's configuration
	}
	return out
}

func forgeJSON(value any, payload string) any {
	switch value := value.(type) {
	case string:
		return value + payload
	case []any:
		for i := range value {
			value[i] = forgeJSON(value[i], payload)
		}
	case map[string]any:
		for key, child := range value {
			value[key] = forgeJSON(child, payload)
		}
		value[payload] = payload
	}
	return value
}

// operation is one of the provider's operations on the plane.
type operation struct {
	name string
	run  func(ctx context.Context) (answer any, err error)
}

func (p plane) reads() []operation {
	registrars := haproxy.NewRegistrars(p.machine) // one without earlier observations
	all := []operation{{"read endpoint", func(ctx context.Context) (any, error) {
		return registrars.Read(ctx, p.endpoint)
	}}}
	for _, s := range p.members {
		all = append(all, operation{"read member " + s.Name, func(ctx context.Context) (any, error) {
			return p.clusters.Read(ctx, s)
		}})
	}
	for _, s := range p.servers {
		s.Registrar = registrars.For(p.endpoint.Registration())
		all = append(all, operation{"read replica " + s.Name, func(ctx context.Context) (any, error) {
			return p.replicas.Read(ctx, s)
		}})
	}
	return all
}

func (p plane) changes() []operation {
	var all []operation
	add := func(name string, run func(ctx context.Context) (any, error)) { all = append(all, operation{name, run}) }
	for _, s := range p.members {
		s.ExtraArgs = map[string]string{"max-txn-ops": "256"}
		add("update member "+s.Name, func(ctx context.Context) (any, error) { return p.clusters.Update(ctx, s) })
	}
	after := p.endpoint
	after.DrainTimeout = 7 * time.Second
	add("update endpoint", func(ctx context.Context) (any, error) { return haproxy.Update(ctx, p.endpoint, after) })
	for _, s := range p.servers {
		s.ExtraArgs = map[string]map[string]string{release.APIServer: {"max-requests-inflight": "500"}}
		add("update replica "+s.Name, func(ctx context.Context) (any, error) { return p.replicas.Update(ctx, s) })
	}
	return all
}

func (p plane) creates() []operation {
	all := []operation{{"create endpoint", func(ctx context.Context) (any, error) {
		return haproxy.Create(ctx, p.endpoint)
	}}}
	for _, s := range p.members {
		all = append(all, operation{"create member " + s.Name, func(ctx context.Context) (any, error) {
			return p.clusters.Create(ctx, s)
		}})
	}
	for _, s := range p.servers {
		all = append(all, operation{"create replica " + s.Name, func(ctx context.Context) (any, error) {
			return p.replicas.Create(ctx, s)
		}})
	}
	return all
}

func (p plane) deletes() []operation {
	var all []operation
	for _, s := range p.servers {
		all = append(all, operation{"delete replica " + s.Name, func(ctx context.Context) (any, error) {
			return nil, p.replicas.Delete(ctx, s, controlplane.DeleteOptions{})
		}})
	}
	for _, s := range p.members {
		all = append(all, operation{"delete member " + s.Name, func(ctx context.Context) (any, error) {
			return nil, p.clusters.Delete(ctx, s, etcd.DeleteOptions{})
		}})
	}
	return append(all, operation{"delete endpoint", func(ctx context.Context) (any, error) {
		return nil, haproxy.Delete(ctx, p.endpoint, haproxy.DeleteOptions{})
	}})
}

// runAll runs operations in parallel, each within a timeout, and checks their visible errors and
// how long they take.
func runAll(t *testing.T, what string, timeout time.Duration, operations []operation) {
	t.Helper()
	var group sync.WaitGroup
	for _, o := range operations {
		group.Go(func() {
			shown := watchLines(t, what+": "+o.name)
			ctx, cancel := context.WithTimeout(problem.WithReport(t.Context(), problem.Report{Progress: shown, Detail: shown}),
				timeout)
			defer cancel()
			begun := time.Now()
			_, err := o.run(ctx)
			if took := time.Since(begun); took > timeout+10*time.Second {
				t.Errorf("%s: %s took %s, of %s", what, o.name, took, timeout)
			}
			if err != nil {
				inert(t, what+": "+o.name, asShown(err), 200<<10)
			}
		})
	}
	group.Wait()
}

// asShown returns the text of a failure, as the provider puts it into a diagnostic.
func asShown(err error) string {
	var p *problem.Problem
	if errors.As(err, &p) {
		return p.Error()
	}
	return (&problem.Problem{Summary: "failed", Cause: err.Error()}).Error()
}

func watchLines(t *testing.T, what string) func(string) {
	return func(line string) { inert(t, what+", log", strings.ReplaceAll(line, "\n", "\x00"), 16<<10) }
}

// inert checks that text has no effect on a terminal and is of limited length.
func inert(t *testing.T, what, text string, most int) {
	t.Helper()
	if len(text) > most {
		t.Errorf("%s: %d bytes", what, len(text))
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }) ||
		strings.ContainsRune(text, unicode.ReplacementChar) {
		t.Errorf("%s: it is not plain text: %.300q", what, text)
	}
}

// hostilePlane returns a plane whose last machine is hostile, and whose other machines are watched.
func hostilePlane(t *testing.T) (p plane, hostile *machine, received *watch) {
	t.Helper()
	testrun.Slow(t)
	fleet, p := planeOn(t, 1)
	return p, fleet.clusters[0].machines[perCluster-1], watched(fleet)
}

func watched(fleet *Fleet) *watch {
	received := &watch{}
	for _, m := range fleet.clusters[0].machines[:perCluster-1] {
		received.on(m)
	}
	return received
}

func (w *watch) expectNoTrace(t *testing.T, what string) {
	t.Helper()
	text := w.text()
	if at := strings.Index(text, mark); at >= 0 {
		t.Errorf("%s: what the hostile machine said reaches another one: %.400q", what, text[max(0, at-200):])
	}
	t.Logf("%s: the other machines were told %d bytes, in %d changes", what, len(text),
		strings.Count(text, "reload_units"))
	if text == "" {
		t.Errorf("%s: the other machines were told nothing: nothing is tested", what)
	}
}

// TestHostileObservations: whichever value of a machine's answer is forged, a Read of each resource
// ends, with plain text, and nothing of it is sent to the other machines.
func TestHostileObservations(t *testing.T) {
	p, hostile, received := hostilePlane(t)
	for _, key := range observationKeys {
		for name, payload := range payloads {
			for _, instead := range []bool{true, false} {
				forgeAnswers(hostile, func(honest string) string { return forged(honest, key, payload, instead) })
				runAll(t, fmt.Sprintf("%s, %s, instead %v", key, name, instead), 5*time.Second, p.reads())
			}
		}
	}
	received.expectNoTrace(t, "reads")
}

// TestHostileMembers: what a member lists about the others is untrusted too.
func TestHostileMembers(t *testing.T) {
	t.Parallel()
	p, hostile, received := hostilePlane(t)
	for name, payload := range payloads {
		valid := strings.ToValidUTF8(payload, "?") // protobuf carries nothing else
		hostile.listed.Store(&pb.Member{
			ID: 7, Name: valid, PeerURLs: []string{"https://10.9.9.9:2380" + valid},
			ClientURLs: []string{valid, "https://" + valid},
		})
		runAll(t, name, 5*time.Second, append(p.reads(), p.changes()...))
	}
	received.expectNoTrace(t, "members")
}

// TestHostileChanges: the machine forges its answers during every Create, Update and Delete of
// the plane, in the most important places: its records and files, and the output of its
// programs.
func TestHostileChanges(t *testing.T) {
	for _, key := range []string{"contents", "notes", "output", "entry", "unit"} {
		for name, payload := range map[string]string{
			"shell": payloads["shell"], "lines": payloads["lines"],
			"terminal": payloads["terminal"] + payloads["bytes"],
		} {
			t.Run(key+", "+name, func(t *testing.T) {
				t.Parallel()
				p, hostile, received := hostilePlane(t)
				forgeAnswers(hostile, func(honest string) string { return forged(honest, key, payload, false) })
				runAll(t, "update", 5*time.Second, p.changes())
				runAll(t, "create", 5*time.Second, p.creates())
				runAll(t, "delete", 5*time.Second, p.deletes())
				received.expectNoTrace(t, "changes")
			})
		}
	}
}

// floods are answers of a gigabyte, a hang, and errors with terminal escape sequences.
func floods(stop <-chan struct{}) map[string]front {
	pour := func(to func(ssh.Channel) io.Writer, with []byte) front {
		return func(_ string, channel ssh.Channel, _ func(io.Reader, io.Writer) error) error {
			for range 1 << 30 / len(with) {
				if _, err := to(channel).Write(with); err != nil {
					return nil
				}
			}
			return nil
		}
	}
	out := func(c ssh.Channel) io.Writer { return c }
	errs := func(c ssh.Channel) io.Writer { return c.Stderr() }
	random := make([]byte, 1<<20)
	_, _ = rand.Read(random)
	lines := bytes.Repeat([]byte("entry\t"+mark+"\n"), 1<<16)
	return map[string]front{
		"a gigabyte of lines":    pour(out, lines),
		"a gigabyte of bytes":    pour(out, random),
		"a gigabyte of one line": pour(out, bytes.Repeat([]byte(mark), 1<<17)),
		"a gigabyte of errors":   pour(errs, lines),
		"a hang": func(string, ssh.Channel, func(io.Reader, io.Writer) error) error {
			<-stop
			return nil
		},
		"errors of a terminal": func(_ string, channel ssh.Channel, _ func(io.Reader, io.Writer) error) error {
			_, _ = io.WriteString(channel, payloads["terminal"]+payloads["bytes"])
			return errors.New(payloads["terminal"] + payloads["bytes"] + payloads["lines"])
		},
	}
}

// TestHostileFloods: no endless answer exhausts memory, or exceeds the timeout of an operation.
func TestHostileFloods(t *testing.T) {
	testrun.Long(t) // it mostly waits, for two seconds a time
	const timeout, most = 2 * time.Second, 100 << 20
	stop := make(chan struct{})
	defer close(stop)
	for name, flood := range floods(stop) {
		t.Run(name, func(t *testing.T) {
			p, hostile, received := hostilePlane(t)
			peak := peakMemory(t)
			hostile.front.Store(&flood)
			for _, operations := range [][]operation{p.reads(), p.changes(), p.creates(), p.deletes()} {
				runAll(t, name, timeout, operations)
			}
			received.expectNoTrace(t, name)
			if more := peak(); more > most {
				t.Errorf("the memory grew by %d MiB", more>>20)
			} else {
				t.Logf("the memory grew by %d MiB at most", more>>20)
			}
		})
	}
}

// peakMemory measures the peak growth of the memory in use until the returned function is
// called.
func peakMemory(t *testing.T) func() uint64 {
	t.Helper()
	inUse := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse
	}
	runtime.GC()
	collect := debug.SetGCPercent(50) // garbage does not count as memory in use
	start, highest := inUse(), uint64(0)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			highest = max(highest, inUse())
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() uint64 {
		close(done)
		debug.SetGCPercent(collect)
		<-ended
		return highest - min(start, highest)
	}
}

// TestHostileRecords: a machine whose records belong to another cluster, or contradict each
// other, is detected, and nothing of it reaches the others.
func TestHostileRecords(t *testing.T) {
	t.Parallel()
	p, hostile, received := hostilePlane(t)
	other := strings.Repeat("0f", 16)
	replace := func(answer string, pairs ...string) string {
		var b strings.Builder
		for line := range strings.Lines(answer) {
			encoded, isContents := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "contents\t")
			text, err := base64.StdEncoding.DecodeString(encoded)
			if !isContents || err != nil {
				b.WriteString(line)
				continue
			}
			b.WriteString("contents\t" +
				base64.StdEncoding.EncodeToString([]byte(strings.NewReplacer(pairs...).Replace(string(text)))) + "\n")
		}
		return b.String()
	}
	for name, pairs := range map[string][]string{
		"another cluster": {p.members[0].Bundle.ClusterID, other, `"prod"`, `"` + mark + `"`},
		"another name":    {`"cp3"`, `"cp1"`},
		"another machine": {"10.100.0.13", "10.100.0.11"},
		"a stranger":      {`"cp3"`, `"` + mark + `"`, "10.100.0.13", "10.9.9.9"},
	} {
		forgeAnswers(hostile, func(honest string) string { return replace(honest, pairs...) })
		runAll(t, name, 5*time.Second, p.reads())
		runAll(t, name, 5*time.Second, p.changes())
	}
	received.expectNoTrace(t, "records")
}
