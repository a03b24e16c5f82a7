package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRefusals asks the real server with what it refuses, and checks that each cause is named.
func TestRefusals(t *testing.T) {
	s := newServer(t, false)
	file := writeSnapshot(t, name(1), 1<<16)
	for what, c := range map[string]struct {
		change func(*config)
		want   string
	}{
		"bucket": {func(c *config) { c.Bucket = "nowhere" }, "the bucket nowhere does not exist"},
		"secret": {
			func(c *config) { c.CredentialsFile = s.credentials(access, "other-secret") },
			"rejects the credentials (SignatureDoesNotMatch)",
		},
		"access": {
			func(c *config) { c.CredentialsFile = s.credentials("AKIAOTHER", secret) },
			"rejects the credentials (XAdminUserNotFound)",
		},
		"region": {func(c *config) { c.Region = "eu-west-7" }, "set region"},
	} {
		conf, _ := s.config(c.change)
		st := opened(t, conf)
		_, err := st.put(t.Context(), file)
		wantError(t, "put: "+what, st.explain(err), c.want)
		_, err = st.list(t.Context())
		wantError(t, "list: "+what, st.explain(err), c.want)
		_, err = st.prune(t.Context())
		wantError(t, "prune: "+what, st.explain(err), c.want)
	}
}

// TestWrongClock changes the time of requests to one of an hour ago, and has the real server judge it.
func TestWrongClock(t *testing.T) {
	s := newServer(t, false)
	c, _ := s.config()
	st := opened(t, c)
	s.with(func(w http.ResponseWriter, r *http.Request) bool {
		old := time.Now().UTC().Add(-time.Hour)
		today := time.Now().UTC().Format("20060102")
		r.Header.Set("X-Amz-Date", old.Format("20060102T150405Z"))
		signed := r.Header.Get("Authorization")
		r.Header.Set("Authorization", strings.Replace(signed, "/"+today+"/", "/"+old.Format("20060102")+"/", 1))
		return false
	}, func() {
		_, err := st.put(t.Context(), writeSnapshot(t, name(1), 1<<16))
		wantError(t, "old requests", st.explain(err), "the clock of this machine is wrong (RequestTimeTooSkewed)")
	})
	st.server.noticed, st.server.offset = true, 42*time.Minute
	if text := st.skew(); !strings.Contains(text, "it differs by 42m0s from the server's") {
		t.Error(text)
	}
}

func TestConfig(t *testing.T) {
	good := func() map[string]any {
		return map[string]any{
			"endpoint": "https://s3.example.com", "bucket": "backups", "cluster": cluster, "cluster_name": "prod",
			"credentials_file": "/etc/etcd/s3", "kept": 10,
			"recipients": []string{"age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"},
		}
	}
	for what, c := range map[string]struct {
		key   string
		value any
		want  string
	}{
		"good":         {"region", "eu-central-1", ""},
		"unknown":      {"secret_key", "x", "unknown field"},
		"no https":     {"endpoint", "ftp://x", "neither https nor http"},
		"path":         {"endpoint", "https://x/y", "not a URL of a server"},
		"password":     {"endpoint", "https://a:b@x", "not a URL of a server"},
		"bucket":       {"bucket", "../x", "not the name of a bucket"},
		"prefix":       {"prefix", "a/../b", "not a path"},
		"prefix slash": {"prefix", "/a", "not a path"},
		"cluster":      {"cluster", "a/b", "not the ID"},
		"credentials":  {"credentials_file", "s3", "not an absolute path"},
		"kept":         {"kept", -1, "kept is -1"},
		"recipient":    {"recipients", []string{"AGE-SECRET-KEY-1X"}, "recipient 1 is not"},
		"two in one": {
			"recipients", []string{"age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p\nage1x"}, "recipient 1",
		},
		"lock mode": {"object_lock", map[string]any{"mode": "x", "days": 1}, "want governance or compliance"},
		"lock days": {"object_lock", map[string]any{"mode": "governance", "days": 0}, "want 1 to"},
		"lock":      {"object_lock", map[string]any{"mode": "compliance", "days": 30}, ""},
	} {
		values := good()
		values[c.key] = c.value
		text, err := json.Marshal(values)
		if err != nil {
			t.Fatal(err)
		}
		_, err = parseConfig(text)
		if c.want == "" && err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if c.want != "" {
			wantError(t, what, err, c.want)
		}
	}
	values := good()
	delete(values, "recipients")
	values["endpoint"] = "http://s3.example.com"
	text, _ := json.Marshal(values)
	_, err := parseConfig(text)
	wantError(t, "all in the clear", err, "without recipients, whoever is on the network")
}

func TestCredentials(t *testing.T) {
	const lines = "aws_access_key_id = AKIA1\naws_secret_access_key=" + secret + "\n"
	for what, c := range map[string]struct{ text, want string }{
		"profile": {"[default]\n" + lines, ""}, "no profile": {lines, ""},
		"token":   {"# comment\n[default]\n" + lines + "aws_session_token = t\n[other]\naws_access_key_id = no\n", ""},
		"other":   {"[other]\n" + lines, "no lines"},
		"nothing": {"", "no lines"}, "half": {"aws_access_key_id = x\n", "no lines"},
		"spaces": {"aws_access_key_id = A B\naws_secret_access_key = " + secret + "\n", "spaces"},
	} {
		value, err := parseCredentials(c.text)
		if c.want != "" {
			wantError(t, what, err, c.want)
		} else if err != nil || value.AccessKeyID != "AKIA1" || value.SecretAccessKey != secret {
			t.Errorf("%s: %v, %v", what, value.AccessKeyID, err)
		}
	}
	file := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(file, []byte(lines), 0o640); err != nil {
		t.Fatal(err)
	}
	_, err := readCredentials(file)
	wantError(t, "readable by others", err, "mode 0640: others can read or change it")
	_, err = readCredentials(filepath.Dir(file))
	wantError(t, "a directory", err, "is not a file")
}

// TestRun runs the commands as the timer's script and an operator do.
func TestRun(t *testing.T) {
	s := newServer(t, false)
	c, identity := s.config()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(t.TempDir(), "store.json")
	if err := os.WriteFile(conf, text, 0o600); err != nil {
		t.Fatal(err)
	}
	file, to := writeSnapshot(t, name(1), 1<<16), filepath.Join(t.TempDir(), "out.db")
	for _, step := range []struct {
		args, in, want string
		failure        string
	}{
		{"put " + file, "", name(1) + " is in the bucket backups: 65568 bytes", ""},
		{"list", "", name(1) + "  ", ""},
		{"list --json", "", `"verified": true`, ""},
		{"get --newest -identity - -out " + to, identity.String() + "\n", name(1) + " is in " + to, ""},
		{"get -name " + name(1) + " -identity - -out " + to, "AGE-SECRET-KEY-1NONE", "", "not an identity file"},
		{"get -name " + name(2) + " -out " + to, "", "", "no verified snapshot " + name(2)},
		{"prune", "", "1 snapshots are kept, 0 objects were removed, 0 are locked", ""},
		{"get -newest -etcd a1 -identity - -out " + to, identity.String() + "\n", name(1) + " is in " + to, ""},
		{"get -newest -name x -out y", "", "", "wrong usage"},
		{"get -newest -etcd A1 -out y", "", "", "wrong usage"},
		{"get -name x -etcd a1 -out y", "", "", "wrong usage"},
		{"get -newest", "", "", "wrong usage"},
		{"put", "", "", "wrong usage"},
		{"prune x", "", "", "wrong usage"},
		{"list x", "", "", "wrong usage"},
		{"remove", "", "", "wrong usage"},
		{"version", "", version, ""},
	} {
		var out, notes bytes.Buffer
		args := append([]string{"-config", conf}, strings.Fields(step.args)...)
		err := run(t.Context(), args, strings.NewReader(step.in), &out, &notes)
		if step.failure != "" {
			wantError(t, step.args, err, step.failure)
		} else if err != nil || !strings.Contains(out.String(), step.want) {
			t.Errorf("%s: %v\n%s", step.args, err, out.String())
		}
		for _, shown := range []string{secret, identity.String()} {
			if strings.Contains(out.String()+notes.String(), shown) {
				t.Errorf("%s: the output has a secret", step.args)
			}
		}
	}
	if !same(t, file, to) {
		t.Error("what was fetched is not what was uploaded")
	}
	if err := run(t.Context(), nil, nil, io.Discard, io.Discard); !errors.Is(err, errUsage) {
		t.Errorf("no command: %v", err)
	}
}

// FuzzFiles parses what a bucket or a machine has: no panic, and nothing accepted that put would not write.
func FuzzFiles(f *testing.F) {
	f.Add([]byte(`{"format":1,"snapshot":"20260101T010000Z-cp1.db","cluster":"` + cluster +
		`","size":1,"encrypted":true}`))
	f.Add([]byte("[default]\naws_access_key_id = A\naws_secret_access_key = B\n"))
	f.Add([]byte(`{"endpoint":"https://x","bucket":"abc","cluster":"a","credentials_file":"/x"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if m, err := parseManifest(text, "p/"+name(1)+encryptedEnd, cluster); err == nil &&
			(m.Snapshot != name(1) || !m.Encrypted || m.Size <= 0 || len(m.SHA256) != 64) {
			t.Errorf("accepted %+v", m)
		}
		if c, err := parseConfig(text); err == nil &&
			(strings.Contains(c.directory(), "..") || len(c.recipients) != len(c.Recipients)) {
			t.Errorf("accepted %+v", c)
		}
		if value, err := parseCredentials(string(text)); err == nil &&
			strings.ContainsAny(value.AccessKeyID+value.SecretAccessKey, " \n") {
			t.Error("accepted credentials of several lines")
		}
		d := newEtcdDigest()
		_, _ = d.Write(text)
		if _, err := d.sum(); err == nil && len(text)%page != 32 {
			t.Errorf("%d bytes count as a snapshot", len(text))
		}
	})
}

// FuzzAnswers has a hostile server: whatever it answers, nothing is written, removed or shown unchanged.
func FuzzAnswers(f *testing.F) {
	f.Add(200, []byte(`<ListBucketResult><Contents><Key>`+cluster+
		`/20260101T010000Z-cp1.db</Key><Size>-5</Size><ETag>x</ETag></Contents></ListBucketResult>`))
	f.Add(403, []byte("<Error><Code>Access\x1b[2JDenied</Code><Message>\u202e</Message></Error>"))
	f.Add(500, []byte(""))
	f.Add(200, []byte("<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		if status < 200 || status > 599 {
			return
		}
		requests := 0
		answers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if requests++; r.Method == http.MethodDelete {
				t.Error("something is removed")
			}
			if requests > 3*attempts { // a listing that never ends
				w.WriteHeader(http.StatusNotFound)
				return
			}
			w.WriteHeader(status)
			_, _ = w.Write(body)
		}))
		defer answers.Close()
		s := &server{t: t, url: answers.URL}
		c, identity := s.config(func(c *config) { c.Kept = 1 })
		st := opened(t, c)
		identities, err := readIdentities("-", strings.NewReader(identity.String()))
		if err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), "out.db")
		for _, f := range []func() error{
			func() error { _, err := st.list(t.Context()); return err },
			func() error { _, err := st.get(t.Context(), "", out, identities); return err },
			func() error { _, err := st.prune(t.Context()); return err },
		} {
			err := st.explain(f())
			if err != nil && strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' && r != '\n' }) {
				t.Errorf("the error has control characters: %q", err)
			}
		}
		if left, _ := filepath.Glob(out + "*"); len(left) > 0 {
			t.Errorf("%q was written", left)
		}
	})
}
