package snapshot

import (
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/etcdtest"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

const testRecipient = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"

// stored returns a member whose snapshots go to a bucket.
func stored() Member {
	return Member{
		Name: "cp1", ClusterID: strings.Repeat("ab", 16), ClusterName: "prod", ClientURL: "https://10.0.0.11:2379",
		DataDir: "/var/lib/etcd", StoreVersion: "1.2.3",
		Settings: &Settings{Schedule: "hourly", Kept: 3, S3: &S3{
			Endpoint: "https://s3.example.com", Region: "eu-central-1", Bucket: "backups", Prefix: "etcd/prod",
			CredentialsFile: "/etc/s3", Recipients: []string{testRecipient}, Kept: 168,
			ObjectLock: &ObjectLock{Mode: "compliance", Days: 30},
		}},
	}
}

// TestStoreFiles renders the files and derives the configuration from them again.
func TestStoreFiles(t *testing.T) {
	m := stored()
	files := map[string]host.FileState{}
	for _, f := range m.Files() {
		files[f.Path] = host.FileState{Content: string(f.Content), Mode: f.Mode}
	}
	if got := SettingsIn(files); !reflect.DeepEqual(got, m.Settings) {
		t.Errorf("derived %+v, want %+v", got, m.Settings)
	}
	if mode := files[StorePath].Mode; mode != 0o600 {
		t.Errorf("the configuration has mode %v", mode)
	}
	script := files[ScriptPath].Content
	for _, want := range []string{
		"\nstore=/opt/kube/kube-snapshot-store/1.2.3/kube-snapshot-store\n", "\nstore_kept=168\n",
		"\nupload=" + StorePath + "\n",
	} {
		if !strings.Contains(script, want) {
			t.Errorf("the script lacks %q:\n%s", want, script)
		}
	}
	for _, content := range []string{
		"", "{", `{"endpoint":"x"}`, `{"endpoint":"https://x","bucket":"../x","credentials_file":"/x"}`,
	} {
		if got := storeIn(content); got != nil {
			t.Errorf("of %s: %+v", content, got)
		}
	}
}

// TestStorePrograms removes what nothing uses, and only that.
func TestStorePrograms(t *testing.T) {
	with, without := stored(), stored()
	without.Settings.S3 = nil
	facts := host.Facts{Dirs: map[string][]string{storeRoot: {"1.2.3", "1.1.0"}}}
	if left := with.LeftPrograms(facts); !slices.Equal(left, []string{"1.1.0"}) {
		t.Errorf("left: %q", left)
	}
	if left := without.LeftPrograms(facts); len(left) != 2 {
		t.Errorf("left without a bucket: %q", left)
	}
	for _, c := range []struct {
		m    Member
		want []string
	}{{with, []string{"1.2.3"}}, {without, nil}} {
		root := t.TempDir()
		for _, version := range []string{"1.2.3", "1.1.0", "it's $odd"} {
			if err := os.MkdirAll(filepath.Join(root, storeRoot, version), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		script := strings.ReplaceAll(string(c.m.RemovePrograms()), "/opt/kube", root+"/opt/kube")
		if out, err := exec.CommandContext(t.Context(), "sh", "-euc", script).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		var have []string
		entries, _ := os.ReadDir(filepath.Join(root, storeRoot))
		for _, e := range entries {
			have = append(have, e.Name())
		}
		if !slices.Equal(have, c.want) {
			t.Errorf("there is %q, want %q", have, c.want)
		}
	}
}

// TestStoreQuestions asks this computer as a machine is asked.
func TestStoreQuestions(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("not root: the owner of the credentials is not checked")
	}
	m := stored()
	file := filepath.Join(t.TempDir(), "credentials")
	m.Settings.S3.CredentialsFile = file
	script, vars := m.Questions()
	ask := func() string {
		text := host.Assignments(vars) + "\n" + script
		out, err := exec.CommandContext(t.Context(), "sh", "-euc", string(text)).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	if got := m.answers(ask()); len(got) != 1 || !strings.Contains(got[0], "does not exist") {
		t.Errorf("no file: %q", got)
	}
	for mode, want := range map[fs.FileMode]int{0o600: 0, 0o400: 0, 0o640: 1, 0o604: 1} {
		if os.Geteuid() != 0 {
			want = 1
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		if got := m.answers(ask()); len(got) != want || want > 0 && !strings.Contains(got[0], "is open to other users") {
			t.Errorf("mode %o: %q", mode, got)
		}
		_ = os.Remove(file)
	}
}

// unhurried are the variables of a run that has just begun.
const unhurried = "started=$(cut -d . -f 1 /proc/uptime) upload_limit=2700\n"

// TestStoreScript runs the parts of the timer's script that send and sweep, with a stand-in for the
// program that fails as it is told.
func TestStoreScript(t *testing.T) {
	_, send, _ := strings.Cut(string(scheduledScript), "# send uploads")
	send, _, _ = strings.Cut("# "+send, "# removable lists")
	for what, c := range map[string]struct {
		kept, fails, want, calls string
		sent                     bool
	}{
		"uploaded":     {"7", "", "was uploaded", "put prune", true},
		"not uploaded": {"7", "put", "was not uploaded; the next run tries again", "put prune", false},
		"not swept":    {"7", "prune", "old snapshots in the bucket were not removed", "put prune", true},
		"never swept":  {"0", "", "was uploaded", "put", true},
	} {
		dir := t.TempDir()
		const name = "20260101T000000Z-cp1.db"
		program := "#!/bin/sh\necho \"$3\" >>" + dir + "/calls\n[ \"$3\" != \"" + c.fails + "\" ]\n"
		for file, content := range map[string]string{name: "", "program": program} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		script := "dir=" + dir + " store=" + dir + "/program store_kept=" + c.kept + " upload=/conf tried='' failed=''\n" +
			unhurried + "fail() { echo \"$*\"; }\nsnapshots() { echo " + name + "; }\n" + send + "\nsend\nsweep\n"
		out, err := exec.CommandContext(t.Context(), "sh", "-euc", script).CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v\n%s", what, err, out)
		}
		calls, _ := os.ReadFile(filepath.Join(dir, "calls"))
		if got := strings.Join(strings.Fields(string(calls)), " "); got != c.calls {
			t.Errorf("%s: called %q, want %q", what, got, c.calls)
		}
		if _, err := os.Stat(filepath.Join(dir, name+".sent")); (err == nil) != c.sent {
			t.Errorf("%s: marked as sent: %v", what, err == nil)
		}
	}
}

// TestPruneFirst: snapshots on the machine are removed before uploads and before those in the bucket, which can take
// longer than a run may.
func TestPruneFirst(t *testing.T) {
	_, end, ok := strings.Cut(string(scheduledScript), "\n    fail \"no snapshot saved\"\n  fi\nfi\n")
	if !ok {
		t.Fatal("the script does not send")
	}
	const stubs = "upload=/conf failed=''\nsend() { echo send; }\nsweep() { echo sweep; exit 1; }\n" +
		"prune() { echo prune \"$@\"; }\n"
	out, err := exec.CommandContext(t.Context(), "sh", "-euc", stubs+end).CombinedOutput()
	if err == nil || string(out) != "prune uploaded\nsend\nprune\nsweep\n" {
		t.Errorf("%v, %s", err, out)
	}
}

// TestUploadHangs: an upload that does not end fails like another one, and the run goes on. Until it ends, only
// snapshots that were uploaded are removed.
func TestUploadHangs(t *testing.T) {
	_, functions, _ := strings.Cut(string(scheduledScript), "# snapshots [DIRECTORY]")
	functions, _, _ = strings.Cut("# "+functions, "# part moves")
	for _, store := range []bool{true, false} {
		dir := t.TempDir()
		write := func(name, text string) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		const first, second, third = "20260101T000000Z-cp1.db", "20260102T000000Z-cp1.db", "20260103T000000Z-cp1.db"
		for _, name := range []string{first, second, second + ".sent", third} {
			write(name, "")
		}
		write("program", "#!/bin/sh\necho called >>"+dir+"/calls\nsleep 60\n")
		program := ""
		if store {
			program = dir + "/program"
		}
		script := "dir=" + dir + " store=" + program + " upload=" + dir + "/program kept=1 cluster=prod member=cp1\n" +
			"tried='' failed='' file=" + third + " started=$(cut -d . -f 1 /proc/uptime) upload_limit=3\n" +
			"fail() { echo \"$*\"; }\n" + functions +
			"\nprune uploaded\necho --\n(cd \"$dir\" && echo *.db)\nsend\nprune\n(cd \"$dir\" && echo *.db)\n"
		begun := time.Now()
		out, err := exec.CommandContext(t.Context(), "sh", "-euc", script).CombinedOutput()
		want := "--\n" + first + " " + third + "\n" + third + " was not uploaded: the uploads must end 0 minutes after the " +
			"start of a run; the next run tries again\n" + first + " was never uploaded and is removed: at most 1 snapshots " +
			"are kept\n" + third + "\n"
		if err != nil || string(out) != want || time.Since(begun) > 20*time.Second {
			t.Errorf("store %v: %v after %s\n%s", store, err, time.Since(begun), out)
		}
		if calls, _ := os.ReadFile(filepath.Join(dir, "calls")); string(calls) != "called\n" {
			t.Errorf("store %v: calls %q", store, calls)
		}
	}
}

// TestUploadLimit derives the time for uploads from the limit of the unit, which a drop-in can change.
func TestUploadLimit(t *testing.T) {
	_, limit, _ := strings.Cut(string(scheduledScript), "\nlimit() {")
	limit, _, _ = strings.Cut("limit() {"+limit, "# remaining prints")
	for shown, want := range map[string]string{
		"1h": "2700", "1h 30min": "4050", "2d 45s": "129633", "infinity": "23668200", "": "2700", "500ms": "2700",
	} {
		script := "systemctl() { printf '%s\\n' '" + shown + "'; }\n" + limit + "\nlimit\n"
		out, err := exec.CommandContext(t.Context(), "sh", "-euc", script).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%q: %v, %s, want %s", shown, err, got, want)
		}
	}
}

// TestSendGoesOn: a snapshot that cannot be uploaded does not keep the others from it. A server that takes nothing is
// not asked for each of them.
func TestSendGoesOn(t *testing.T) {
	_, send, _ := strings.Cut(string(scheduledScript), "# send uploads")
	send, _, _ = strings.Cut("# "+send, "# sweep removes")
	for what, c := range map[string]struct {
		store    bool
		statuses string // of the uploads of a to d
		tried    string
		sent     string
		noted    string
	}{
		"bucket": {true, "0 0 0 0", "d a b c", "a b c d", ""},
		"bucket, damaged": {
			true, "3 0 3 0", "d a b c", "b d", "a in DIR is damaged: remove it\nc in DIR is damaged: remove it\n",
		},
		"bucket, newest damaged": {true, "0 0 0 3", "d a b c", "a b c", "d in DIR is damaged: remove it\n"},
		"bucket, the oldest fails": {
			true, "1 0 0 0", "d a b c", "b c d", "a was not uploaded; the next run tries again\n",
		},
		"bucket, fails each": {
			true, "1 1 1 1", "d a", "", "d was not uploaded; the next run tries again\n" +
				"a was not uploaded; the next run tries again\n",
		},
		"bucket, damaged, and two fail": {
			true, "3 1 1 0", "d a b c", "d", "a in DIR is damaged: remove it\n" +
				"b was not uploaded; the next run tries again\n" +
				"c was not uploaded; the next run tries again\n",
		},
		"commands": {false, "0 0 0 0", "d a b c", "a b c d", ""},
		"commands, one fails": {
			false, "0 3 0 0", "d a b c", "a c d", "b was not uploaded; the next run tries again\n",
		},
		"commands, all fail": {
			false, "1 1 1 1", "d a", "", "d was not uploaded; the next run tries again\n" +
				"a was not uploaded; the next run tries again\n",
		},
	} {
		dir := t.TempDir()
		// Called as the program with -config FILE put FILE, or as the commands with SNAPSHOT.
		program := "#!/bin/sh\nfile=${SNAPSHOT:-$4}\necho \"${file##*/}\" >>" + dir + "/tried\nset -- " + c.statuses +
			"\ncase $file in */b) shift ;; */c) shift 2 ;; */d) shift 3 ;; esac\nexit $1\n"
		if err := os.WriteFile(filepath.Join(dir, "program"), []byte(program), 0o700); err != nil {
			t.Fatal(err)
		}
		store := ""
		if c.store {
			store = dir + "/program"
		}
		script := "dir=" + dir + " store=" + store + " upload=" + dir + "/program cluster=prod member=cp1 tried=''\n" +
			unhurried + "fail() { echo \"$*\" >&2; }\nsnapshots() { printf 'a\\nb\\nc\\nd\\n'; }\n" + send + "\nsend\n"
		command := exec.CommandContext(t.Context(), "sh", "-euc", script)
		var noted strings.Builder
		command.Stderr = &noted
		if err := command.Run(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if got := strings.ReplaceAll(noted.String(), dir, "DIR"); got != c.noted {
			t.Errorf("%s: says\n%swant\n%s", what, got, c.noted)
		}
		tried, _ := os.ReadFile(filepath.Join(dir, "tried"))
		marks, _ := filepath.Glob(dir + "/*.sent")
		for i, mark := range marks {
			marks[i] = strings.TrimSuffix(filepath.Base(mark), ".sent")
		}
		if got := strings.Join(strings.Fields(string(tried)), " "); got != c.tried || strings.Join(marks, " ") != c.sent {
			t.Errorf("%s: tried %s, sent %s; want %s, %s", what, got, marks, c.tried, c.sent)
		}
	}
}

// TestSendNewestFirst: the newest snapshot is uploaded also if the time of the run is used up after one.
func TestSendNewestFirst(t *testing.T) {
	_, send, _ := strings.Cut(string(scheduledScript), "# send uploads")
	send, _, _ = strings.Cut("# "+send, "# sweep removes")
	dir := t.TempDir()
	script := "dir=" + dir + " store=/program tried=''\nupload_limit=2700\nfail() { echo \"$*\"; }\n" +
		"snapshots() { printf 'a\\nb\\nc\\nd\\ne\\n'; }\n" + send +
		"\nremaining() { [ -n \"$tried\" ] && echo 0 || echo 9; }\n" +
		"deliver() { [ \"$(remaining)\" -gt 0 ]; }\nsend\n"
	out, err := exec.CommandContext(t.Context(), "sh", "-euc", script).CombinedOutput()
	marks, _ := filepath.Glob(dir + "/*.sent")
	if err != nil || len(marks) != 1 || filepath.Base(marks[0]) != "e.sent" {
		t.Errorf("%v: sent %v\n%s", err, marks, out)
	}
}

func TestValidateStore(t *testing.T) {
	good := *stored().Settings.S3
	changes := map[string]struct {
		change func(*S3)
		want   string
	}{
		"good":       {func(*S3) {}, ""},
		"bare":       {func(s *S3) { s.Region, s.Prefix, s.Recipients, s.ObjectLock = "", "", nil, nil }, ""},
		"scheme":     {func(s *S3) { s.Endpoint = "s3://x" }, "is not the URL"},
		"path":       {func(s *S3) { s.Endpoint = "https://x/y" }, "is not the URL"},
		"slash":      {func(s *S3) { s.Endpoint = "https://x/" }, "is not the URL"},
		"password":   {func(s *S3) { s.Endpoint = "https://a:b@x" }, "is not the URL"},
		"bucket":     {func(s *S3) { s.Bucket = "A" }, "name of a bucket"},
		"prefix":     {func(s *S3) { s.Prefix = "/x" }, "is not a path"},
		"up":         {func(s *S3) { s.Prefix = "../x" }, "is not a path"},
		"region":     {func(s *S3) { s.Region = "a b" }, "name of a region"},
		"file":       {func(s *S3) { s.CredentialsFile = "x" }, "clean absolute path"},
		"identity":   {func(s *S3) { s.Recipients = []string{"AGE-SECRET-KEY-1QQ"} }, "is not a public key of age"},
		"two":        {func(s *S3) { s.Recipients = []string{testRecipient + "\n" + testRecipient} }, "public key of age"},
		"all clear":  {func(s *S3) { s.Endpoint, s.Recipients = "http://x", nil }, "use https, or encrypt"},
		"http + age": {func(s *S3) { s.Endpoint = "http://x:9000" }, ""},
	}
	for _, what := range slices.Sorted(maps.Keys(changes)) {
		s := good
		changes[what].change(&s)
		err := s.Validate()
		etcdtest.WantError(t, what, err, changes[what].want)
		if err != nil && strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: the error shows a secret: %v", what, err)
		}
	}
}

// TestStoredAt reads the time in the names that kube-snapshot-store gives to snapshots.
func TestStoredAt(t *testing.T) {
	saved, err := StoredAt("20260102T030405Z-cp1.db")
	if want := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC); err != nil || !saved.Equal(want) {
		t.Errorf("read %s, %v; want %s", saved, err, want)
	}
	for _, name := range []string{
		"", "newest", "20260102T030405Z-cp1.db.age", "20261302T030405Z-cp1.db", "x/20260102T030405Z-cp1.db",
		"20260102T030405Z-cp1.db\n",
	} {
		if _, err := StoredAt(name); err == nil {
			t.Errorf("%q is accepted", name)
		}
	}
}

// TestStoreManaged tells the configuration of the provider from somebody's file with its name.
func TestStoreManaged(t *testing.T) {
	m := stored()
	m.Settings.S3 = nil
	managed := map[string]host.FileState{TimerPath: {Content: systemd.Managed}, StorePath: {Content: "{}"}}
	change, _ := m.Job().Repair(host.Facts{Files: managed})
	if !slices.Contains(change.Remove, StorePath) {
		t.Errorf("the configuration stays: %q", change.Remove)
	}
	change, _ = m.Job().Repair(host.Facts{Files: map[string]host.FileState{StorePath: {Content: "{}"}}})
	if slices.Contains(change.Remove, StorePath) {
		t.Errorf("somebody's file is removed: %q", change.Remove)
	}
}

// FuzzStoreIn verifies that the configuration of a store that a machine has is a valid one, or none.
func FuzzStoreIn(f *testing.F) {
	f.Add(`{"endpoint": "https://s3.example.com", "bucket": "etcd", "region": "eu", "credentials_file": "/etc/etcd/s3"}`)
	f.Add(`{"endpoint": "file:///etc/passwd", "bucket": "$(id)"}`)
	f.Fuzz(func(t *testing.T, text string) {
		if store := storeIn(text); store != nil && store.Validate() != nil {
			t.Errorf("%q is parsed as %+v", text, store)
		}
	})
}

// TestFormerCluster runs the part of the timer's script that parts the snapshots of the machine's clusters.
func TestFormerCluster(t *testing.T) {
	_, list, _ := strings.Cut(string(scheduledScript), "# snapshots [DIRECTORY]")
	list, _, _ = strings.Cut("# "+list, "# send uploads")
	_, send, _ := strings.Cut(string(scheduledScript), "# send uploads")
	send, _, _ = strings.Cut("# "+send, "# removable lists")
	_, part, _ := strings.Cut(string(scheduledScript), "# part moves")
	part, _, _ = strings.Cut("# "+part, "umask 077")
	dir := filepath.Join(t.TempDir(), "scheduled")
	record := filepath.Join(filepath.Dir(dir), "member.json")
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	there := func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	}
	const first, second = "20260101T000000Z-cp1.example.com.db", "20260102T000000Z-cp1.db"
	etcdCluster := ""
	run := func(cluster string) {
		t.Helper()
		write(record, "{\n  \"version\": 1,\n  \"cluster_id\": \""+cluster+"\",\n"+etcdCluster+"  \"name\": \"cp1\"\n}\n")
		script := "dir=" + dir + " record=" + record + "\n" + list + "\n" + part + "\npart\n"
		if out, err := exec.CommandContext(t.Context(), "sh", "-euc", script).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	write(dir+"/"+first, "")
	write(dir+"/"+first+".sent", "")
	run("aaaa") // the first run with this script: they count as its own
	run("aaaa")
	if !there(dir+"/"+first) || !there(dir+"/"+first+".sent") {
		t.Error("the cluster's own snapshot is moved")
	}
	run("bbbb")
	write(dir+"/"+second, "")
	run("bbbb")
	if there(dir+"/"+first) || !there(dir+"-aaaa/"+first) || there(dir+"/"+first+".sent") || !there(dir+"/"+second) {
		t.Error("the snapshot of the earlier cluster is not moved away")
	}
	for _, id := range []string{"c1", "c1", "c2"} { // the bundle stays
		if id == "c2" && !there(dir+"/"+second) {
			t.Error("the etcd cluster's own snapshot is moved")
		}
		etcdCluster = "  \"etcd_cluster_id\": \"" + id + "\",\n"
		run("bbbb")
	}
	if there(dir+"/"+second) || !there(dir+"-c1/"+second) {
		t.Error("the snapshot of the earlier etcd cluster is not moved away")
	}

	// Those of an earlier etcd cluster that were not uploaded still are, the newest one first, right after the newest of
	// all. Those of an earlier cluster of the machine never are.
	const oldest, third = "20260102T120000Z-cp1.db", "20260103T000000Z-cp1.db"
	const fourth, fifth = "20260104T000000Z-cp1.db", "20260105T000000Z-cp1.db"
	const sixth, last = "20260106T000000Z-cp1.db", "20260107T000000Z-cp1.db"
	upload := func(takes string) string {
		t.Helper()
		script := "dir=" + dir + " store=/program upload=/conf\n" + list + "\n" + send + "\nremaining() { echo 9; }\n" +
			"fail() { echo \"$*\"; }\ndeliver() { echo \"$1\" >>" + dir + "/calls; [ " + takes + " ]; }\nsend >&2\n"
		if out, err := exec.CommandContext(t.Context(), "sh", "-euc", script).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		calls, _ := os.ReadFile(dir + "/calls")
		_ = os.Remove(dir + "/calls")
		return strings.ReplaceAll(strings.Join(strings.Fields(string(calls)), " "), dir, "DIR")
	}
	write(dir+"/"+oldest, "") // the bucket would not keep it
	write(dir+"/"+third, "")
	write(dir+"/"+third+".sent", "")
	write(dir+"/"+fourth, "")
	write(dir+"/"+fifth, "")
	if err := os.Remove(dir + "-c1/.upload"); err != nil { // as the script before has left it
		t.Fatal(err)
	}
	etcdCluster = "  \"etcd_cluster_id\": \"c3\",\n"
	run("bbbb")
	write(dir+"/"+sixth, "")
	write(dir+"/"+last, "")
	want := "DIR/" + last + " DIR-c2/" + fifth
	if got := upload("no = yes"); got != want {
		t.Errorf("a server that takes nothing is asked to take %s, want %s", got, want)
	}
	if got, want := upload("yes = yes"), want+" DIR-c2/"+fourth+" DIR/"+sixth; got != want {
		t.Errorf("uploaded %s, want %s", got, want)
	}
	if got := upload("yes = yes"); got != "" || !there(dir+"-c2/"+fourth) {
		t.Errorf("uploaded again: %s", got)
	}
	write(dir+"/"+first, "")
	etcdCluster = "  \"etcd_cluster_id\": \"c4\",\n"
	run("bbbb") // it is not uploaded yet
	run("cccc") // and is not of this cluster
	if got := upload("yes = yes"); got != "" || !there(dir+"-c3/"+first) {
		t.Errorf("of another cluster: %s", got)
	}
}

// TestNameOfCluster: the name of a scheduled snapshot has the ID of its etcd cluster, in hex.
func TestNameOfCluster(t *testing.T) {
	_, value, _ := strings.Cut(string(scheduledScript), "\nvalue() {")
	value, _, _ = strings.Cut("value() {"+value, "# ask waits")
	_, name, _ := strings.Cut(string(scheduledScript), "# The name says which etcd cluster")
	name, _, ok := strings.Cut("# "+name, "  rm -f")
	if !ok {
		t.Fatal("the script makes no name")
	}
	for id, want := range map[string]string{
		"14841639068965178418": ".etcd-cdf818194e3a8c32.db", "10": ".etcd-a.db", "": ".db", "$(id)": ".db", "1; id": ".db",
	} {
		script := "member=cp1.example.com\n" + value + "said='\"ClusterID\" : " + id + "\n\"MemberID\" : 7'\n" + name +
			"\necho \"${file#*-}\"\n"
		out, err := exec.CommandContext(t.Context(), "sh", "-euc", script).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != "cp1.example.com"+want {
			t.Errorf("%q: %v, %s, want %s", id, err, got, want)
		}
	}
	longest := "20260102T030405Z-" + strings.Repeat("m", 64) + ".etcd-" + strings.Repeat("f", 16) + ".db"
	if _, err := StoredAt(longest); err != nil {
		t.Error(err)
	}
}
