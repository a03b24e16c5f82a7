package textfile

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// scripted is a writer whose script runs on this computer.
type scripted struct {
	Writer
	dir string
}

func newScripted(t *testing.T) scripted {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"out", "work", "snapshots"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return scripted{Writer{Resource: "kube_etcd_member", Name: "etcd-facts", Directory: dir + "/out"}, dir}
}

func (s scripted) write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// run runs one round, and returns the series by name.
func (s scripted) run(t *testing.T, arguments ...string) map[string]string {
	t.Helper()
	script := strings.ReplaceAll(s.script(), "work=/run/"+s.Name, "work="+s.dir+"/work")
	path := s.write(t, "facts.sh", script)
	if out, err := exec.Command("/bin/sh", append([]string{path}, arguments...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(s.Output())
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return parsed(t, string(text))
}

var sampleForm = regexp.MustCompile(`^(kube_[a-z_]+)\{([a-z]+="[^"\\]*",?)+\} -?[0-9.e+-]+$`)

// parsed checks the text: each series has its value once, and follows the description of its metric.
func parsed(t *testing.T, text string) map[string]string {
	t.Helper()
	series, described, last := map[string]string{}, map[string]bool{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			last, _, _ = strings.Cut(name, " ")
			if described[last] {
				t.Errorf("%s is described twice", last)
			}
			described[last] = true
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		match := sampleForm.FindStringSubmatch(line)
		if match == nil || match[1] != last {
			t.Fatalf("%q is no sample of %s", line, last)
		}
		at := strings.LastIndex(line, " ")
		if _, twice := series[line[:at]]; twice {
			t.Errorf("%s is there twice", line[:at])
		}
		series[line[:at]] = line[at+1:]
	}
	return series
}

// certificate returns a certificate that ends at a time, and its key.
func certificate(t *testing.T, end time.Time) (string, tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return text, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// serve serves a certificate to whoever has a certificate of his own, as etcd does.
func serve(t *testing.T, served tls.Certificate) string {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{served}, ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func(conn net.Conn) {
				_ = conn.(*tls.Conn).Handshake()
				_ = conn.Close()
			}(conn)
		}
	}()
	return listener.Addr().String()
}

// TestCertificates: the end of a certificate on disk, in a kubeconfig, and as it is served.
func TestCertificates(t *testing.T) {
	s := newScripted(t)
	old, new := time.Now().Add(time.Hour).Truncate(time.Second), time.Now().Add(48*time.Hour).Truncate(time.Second)
	_, pair := certificate(t, old)
	text, _ := certificate(t, new)
	renewed := s.write(t, "server.crt", text)
	login := s.write(t, "user.conf", "users:\n- name: x\n  user:\n    client-certificate-data: "+
		base64.StdEncoding.EncodeToString([]byte(text))+"\n    client-key-data: none\n")
	broken := s.write(t, "broken.crt", "no certificate")
	s.Certificates = []Certificate{
		{File: renewed, At: serve(t, pair)}, {File: login}, {File: broken, At: "127.0.0.1:1"}, {File: s.dir + "/missing.crt"},
	}
	got := s.run(t)
	of := func(metric, file string) string {
		return got[fmt.Sprintf(`kube_%s_timestamp_seconds{resource="kube_etcd_member",file="%s"}`, metric, file)]
	}
	for _, c := range []struct{ metric, file, want string }{
		{"certificate_not_after", renewed, fmt.Sprint(new.Unix())},
		{"served_certificate_not_after", renewed, fmt.Sprint(old.Unix())},
		{"certificate_not_after", login, fmt.Sprint(new.Unix())},
		{"certificate_not_after", broken, ""},
		{"served_certificate_not_after", broken, ""},
		{"certificate_not_after", s.dir + "/missing.crt", ""},
	} {
		if value := of(c.metric, c.file); value != c.want {
			t.Errorf("%s of %s is %q, want %q", c.metric, c.file, value, c.want)
		}
	}
}

// TestSnapshots: what was saved last, sent last, and waits longest to be sent.
func TestSnapshots(t *testing.T) {
	s := newScripted(t)
	at := func(name string, modified int64) {
		path := s.write(t, name, "x")
		if err := os.Chtimes(path, time.Unix(modified, 0), time.Unix(modified, 0)); err != nil {
			t.Fatal(err)
		}
	}
	at("snapshots/20260101T000000Z-cp1.db", 1000)
	at("snapshots/20260101T000000Z-cp1.db.sent", 1010)
	at("snapshots/20260102T000000Z-cp1.db", 2000)
	at("snapshots/20260103T000000Z-cp1.example.com.db", 3000)
	at("snapshots/20260104T000000Z-cp1.db.part", 4000)
	at("snapshots/20990101T000000Z-cp1.db", 4070908800) // by a wrong clock
	at("snapshots/20990101T000000Z-cp1.db.sent", 4070908800)
	at("timer", 500)
	s.Snapshots = &Snapshots{
		Dir: s.dir + "/snapshots", Calendar: "daily", Timer: s.dir + "/timer", Service: "none.service", Upload: true,
		Ahead: 10 * time.Minute,
	}
	want := map[string]string{"s_scheduled": "500", "_saved": "3000", "_sent": "1010", "_unsent_since": "2000"}
	if _, err := exec.LookPath("systemd-analyze"); err == nil {
		want["_interval"] = "86400"
	}
	got := s.run(t)
	for name, value := range want {
		metric := "kube_etcd_snapshot" + name + "_timestamp_seconds"
		if name == "_interval" {
			metric = "kube_etcd_snapshot_interval_seconds"
		}
		if have := got[metric+`{resource="kube_etcd_member"}`]; have != value {
			t.Errorf("%s is %q, want %s", metric, have, value)
		}
	}
}

// TestUnsentSnapshots: the snapshots that are uploaded from directories of former etcd clusters wait too.
func TestUnsentSnapshots(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]int64 // modification times
		want  string
	}{
		"all sent": {map[string]int64{
			"snapshots/20260105T000000Z-cp1.db": 5000, "snapshots/20260105T000000Z-cp1.db.sent": 5010,
			"snapshots-a1/.upload": 4500, "snapshots-a1/20260102T000000Z-cp1.db": 2000,
			"snapshots-a1/20260102T000000Z-cp1.db.sent": 2010,
		}, ""},
		"one of a former cluster": {map[string]int64{
			"snapshots/20260105T000000Z-cp1.db": 5000, "snapshots/20260105T000000Z-cp1.db.sent": 5010,
			"snapshots-a1/.upload": 4500, "snapshots-a1/20260102T000000Z-cp1.db": 2000,
		}, "2000"},
		"without the mark": {map[string]int64{
			"snapshots/20260105T000000Z-cp1.db": 5000, "snapshots-a1/20260102T000000Z-cp1.db": 2000,
		}, "5000"},
		"the newest three of each": {map[string]int64{
			"snapshots/20260105T000000Z-cp1.db": 5000, "snapshots-a1/.upload": 4500,
			"snapshots-a1/20260101T000000Z-cp1.db": 1000, "snapshots-a1/20260102T000000Z-cp1.db": 2000,
			"snapshots-a1/20260103T000000Z-cp1.db": 3000, "snapshots-a1/20260104T000000Z-cp1.db": 4000,
			"snapshots-b2/.upload": 4500, "snapshots-b2/20260104T120000Z-cp1.db": 4200,
		}, "2000"},
		"the present one waits longer": {map[string]int64{
			"snapshots/20260101T000000Z-cp1.db": 1000, "snapshots-a1/.upload": 4500,
			"snapshots-a1/20260104T000000Z-cp1.db": 4000,
		}, "1000"},
		"none at present": {map[string]int64{
			"snapshots-a1/.upload": 4500, "snapshots-a1/20260104T000000Z-cp1.db": 4000,
		}, "4000"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScripted(t)
			for name, modified := range c.files {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(s.dir, name)), 0o700); err != nil {
					t.Fatal(err)
				}
				path := s.write(t, name, "x")
				if err := os.Chtimes(path, time.Unix(modified, 0), time.Unix(modified, 0)); err != nil {
					t.Fatal(err)
				}
			}
			s.Snapshots = &Snapshots{
				Dir: s.dir + "/snapshots", Calendar: "daily", Timer: s.dir + "/timer", Service: "none.service", Upload: true,
			}
			const series = `kube_etcd_snapshot_unsent_since_timestamp_seconds{resource="kube_etcd_member"}`
			if have := s.run(t)[series]; have != c.want {
				t.Errorf("one waits since %q, want %q", have, c.want)
			}
		})
	}
}

// TestBeginnings: what lasts keeps its beginning from round to round, and counts go on.
func TestBeginnings(t *testing.T) {
	s := newScripted(t)
	s.Addresses = []string{"127.0.0.1", "192.0.2.1"}
	s.Record = s.write(t, "replica.json", `{
  "port": 6443,
  "generations": {
    "kubernetes": 4,
    "service-account": 3
  },
  "configured": {
    "early": 5
  }
}`)
	since := `kube_rotation_since_timestamp_seconds{resource="kube_etcd_member",part="kubernetes",generation="4"}`
	held := `kube_virtual_ip_held{resource="kube_etcd_member",address="127.0.0.1"}`
	moves := `kube_virtual_ip_moves_total{resource="kube_etcd_member",address="127.0.0.1"}`
	first := s.run(t)
	if first[since] == "" || first[held] != "1" || first[moves] != "0" ||
		first[strings.ReplaceAll(held, "127.0.0.1", "192.0.2.1")] != "0" {
		t.Fatalf("at first: %v", first)
	}
	for series := range first {
		ended := strings.Contains(series, "since") && strings.Contains(series, "account")
		if ended || strings.Contains(series, `part="early"`) {
			t.Errorf("no rotation: %s", series)
		}
	}
	text, err := os.ReadFile(s.Output())
	if err != nil {
		t.Fatal(err)
	}
	edited := strings.NewReplacer(since+" "+first[since], since+" 1000", held+" 1", held+" 0", moves+" 0", moves+" 6").
		Replace(string(text))
	if err := os.WriteFile(s.Output(), []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
	second := s.run(t)
	if second[since] != "1000" || second[held] != "1" || second[moves] != "7" {
		t.Errorf("then: since %s, held %s, moves %s", second[since], second[held], second[moves])
	}
	s.Record = s.write(t, "member.json", "{\n  \"generation\": 6\n}\n")
	third := s.run(t)
	if _, still := third[since]; still ||
		third[`kube_rotation_generation{resource="kube_etcd_member",part="etcd"}`] != "6" || third[moves] != "7" {
		t.Errorf("at last: %v", third)
	}
}

// TestVersionOfPods: the version of a static pod is in the tag of the image of its container that runs.
func TestVersionOfPods(t *testing.T) {
	for image, want := range map[string]string{
		"registry.k8s.io/etcd:3.6.16-0":                    "3.6.16",
		"r.example:5000/kubernetes/etcd:v1.36.0-rc.1":      "1.36.0-rc.1",
		"registry.k8s.io/etcd@sha256:" + "1234":            "",
		"registry.k8s.io/etcd:latest":                      "",
		"r.example:5000/etcd":                              "",
		"r.example/etcd:3.6.16\",component=\"etcd\"} 1\n#": "",
	} {
		s := newScripted(t)
		s.Programs = []Program{{Name: "etcd"}}
		bin := t.TempDir()
		path := filepath.Join(bin, "ctr")
		script := "#!/bin/sh\ncase \"$*\" in\n*\"tasks ls\") echo 'TASK PID STATUS\nold 1 STOPPED\nnew 2 RUNNING' ;;\n" +
			"*--quiet*) echo 'old\nnew' ;;\n*\"id==new\") printf '%s\\n' 'CONTAINER IMAGE RUNTIME' 'new " + image +
			" io.containerd.runc.v2' ;;\nesac\n"
		if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", bin+":/usr/bin:/bin")
		var got []string
		for series := range s.run(t) {
			if version, ok := strings.CutPrefix(series,
				`kube_component_version_info{resource="kube_etcd_member",component="etcd",version="`); ok {
				got = append(got, strings.TrimSuffix(version, `"}`))
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", image, got, want)
		}
	}
}

// TestAnnounced: an address is announced while bird, or kube-vip, has it and a session.
func TestAnnounced(t *testing.T) {
	const sessions = `kube_vip_manager_bgp_session_info{peer="10.0.0.1:179",state="SESSION_STATE_`
	metrics := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(metrics))
	}))
	t.Cleanup(server.Close)
	s := newScripted(t)
	// In birdc's place: it prints what bird 2.0.12 has printed.
	program := s.write(t, "birdc", "#!/bin/sh\n[ \"$*\" = '-s /run/bird.ctl show protocols' ] && cat "+s.dir+"/shown\n")
	if err := os.Chmod(program, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", s.dir+":"+os.Getenv("PATH"))
	s.Announced = []Announced{{"10.200.0.1", "bird:/run/bird.ctl"}, {"10.200.0.2", server.URL}}
	const (
		up      = "endpoint   Direct     ---        up     10:00:00.000  \n"
		down    = "endpoint   Direct     ---        down   10:00:00.000  \n"
		session = "peer1      BGP        ---        up     10:00:00.000  Established   \n"
		none    = "peer1      BGP        ---        start  10:00:00.000  Connect       \n"
	)
	for name, c := range map[string]struct{ shown, metrics, bird, kubeVIP string }{
		"both":       {up + session, sessions + "ESTABLISHED\"} 1\n", "1", "1"},
		"two":        {session + up + none + session, sessions + "ACTIVE\"} 1\n" + sessions + "ESTABLISHED\"} 1\n", "1", "1"},
		"withdrawn":  {down + session, sessions + "ESTABLISHED\"} 0\n", "0", "0"},
		"no session": {up + none, sessions + "ACTIVE\"} 1\n", "0", "0"},
		"silent":     {"", "", "0", "0"},
	} {
		s.write(t, "shown", c.shown)
		metrics = c.metrics
		got := s.run(t)
		for address, want := range map[string]string{"10.200.0.1": c.bird, "10.200.0.2": c.kubeVIP} {
			series := `kube_endpoint_announced{resource="kube_etcd_member",address="` + address + `"}`
			if got[series] != want {
				t.Errorf("%s: %s is %q, want %q", name, series, got[series], want)
			}
		}
	}
}

// TestOutput: nothing is written without the directory, a link there is replaced and not followed,
// and an end leaves nothing.
func TestOutput(t *testing.T) {
	s := newScripted(t)
	victim := s.write(t, "victim", "kept")
	for _, name := range []string{s.Output(), s.Output() + ".new"} {
		if err := os.Symlink(victim, name); err != nil {
			t.Fatal(err)
		}
	}
	got := s.run(t)
	if content, err := os.ReadFile(victim); err != nil || string(content) != "kept" {
		t.Errorf("a link was followed: %q, %v", content, err)
	}
	if got[`kube_facts_written_timestamp_seconds{resource="kube_etcd_member"}`] == "" {
		t.Errorf("wrote %v", got)
	}
	if info, err := os.Lstat(s.Output()); err != nil || info.Mode() != 0o644 {
		t.Errorf("%v, %v", info, err)
	}
	if left := s.run(t, "remove"); left != nil {
		t.Errorf("left after the end: %v", left)
	}
	if err := os.Remove(s.Directory); err != nil {
		t.Fatal(err)
	}
	if got := s.run(t); got != nil {
		t.Errorf("wrote without a directory: %v", got)
	}
}

// TestDrill: what the record of the last restore drill says, and nothing of a record that says something else.
func TestDrill(t *testing.T) {
	const record = `{
  "cluster_id": "c1",
  "finished": 1767323125,
  "succeeded": true,
  "last_success": 1767323125,
  "saved": 1767323045,
  "rpo_seconds": 60,
  "rto_seconds": 12.5,
  "steps": {
    "finished": 7
  }
}
`
	failed := func(lastSuccess string) string {
		return strings.NewReplacer(`"succeeded": true`, `"succeeded": false`, `"last_success": 1767323125`,
			lastSuccess).Replace(record)
	}
	s := newScripted(t)
	s.Drill = s.dir + "/drill.json"
	if got := s.run(t); got[`kube_etcd_restore_drill_success{resource="kube_etcd_member"}`] != "" {
		t.Errorf("without a record: %v", got)
	}
	for name, c := range map[string]struct {
		record string
		want   map[string]string
	}{
		"succeeded": {record, map[string]string{
			"timestamp": "1767323125", "success": "1", "last_success_timestamp": "1767323125", "rto": "12.5", "rpo": "60",
		}},
		"failed": {
			failed(`"last_success": 5`),
			map[string]string{"timestamp": "1767323125", "success": "0", "last_success_timestamp": "5"},
		},
		"never": {
			failed(`"last_success": 0`),
			map[string]string{"timestamp": "1767323125", "success": "0"},
		},
		"of unknown age": {strings.Replace(record, `"saved": 1767323045`, `"saved": 0`, 1), map[string]string{
			"timestamp": "1767323125", "success": "1", "last_success_timestamp": "1767323125", "rto": "12.5",
		}},
		"something else": {"{\n  \"finished\": \"1\nkube_x 1\",\n  \"succeeded\": maybe\n}\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s.write(t, "drill.json", c.record)
			got := map[string]string{}
			for series, value := range s.run(t) {
				if metric, ok := strings.CutPrefix(series, "kube_etcd_restore_drill_"); ok {
					metric, _, _ = strings.Cut(metric, "{")
					got[strings.TrimSuffix(metric, "_seconds")] = value
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) && len(got)+len(c.want) > 0 {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
