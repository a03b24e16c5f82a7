package drill

import (
	"strings"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// together runs two drills of two processes at the same time, of which one fails: they wait for each other, and
// whichever is the second one, the success stays known.
func (st *stage) together() {
	st.Helper()
	var (
		both    sync.WaitGroup
		good    snapshot.Drill
		goodErr error
		badErr  error
	)
	other := st.spec
	other.Host, other.Source = st.connect(), Source{Fetch: "sleep 1; exit 3"}
	both.Go(func() { good, goodErr = Run(st.ctx, st.spec) })
	both.Go(func() { _, badErr = Run(st.ctx, other) })
	both.Wait()
	st.nothingLeft()
	if goodErr != nil || badErr == nil || !strings.Contains(badErr.Error(), "the fetch commands failed") {
		st.Errorf("the drills at the same time: %v; %v", goodErr, badErr)
	}
	if r := st.recorded(); r.LastSuccess != good.Finished {
		st.Errorf("the last success was at %d, and the record has %d", good.Finished, r.LastSuccess)
	}
}

// commandName is the name of a directory that a shell would execute.
const commandName = "9$(touch executed);touch executed"

// hostileBucket drills from the bucket while a directory of programs has a name that is a command. The store is
// the newest version by that name.
func (st *stage) hostileBucket(source Source) {
	st.Helper()
	directory := host.Words("/opt/kube/" + snapshot.StoreProduct + "/" + commandName)
	st.run("cp -a /opt/kube/" + snapshot.StoreProduct + "/" + storeVersion + " " + directory)
	st.succeeds(source)
	st.run("rm -r " + directory)
	st.notExecuted()
}

// hostile drills on a machine that lies: programs, names and the last record have quotes, escapes and commands, or
// are endless.
func (st *stage) hostile() {
	st.Helper()
	st.run(`cd /var/lib/etcd-archive/scheduled
touch '20990101T000000Z-$(touch executed).db' '20990101T000000Z-a
b.db' "20990101T000000Z-';touch executed;'.db"`)
	st.succeeds(Source{})
	st.run("cd /var/lib/etcd-archive/scheduled; rm 2099*")

	const util = "util=$(echo /opt/kube/etcd/*/etcdutl)\n"
	st.run(util + `cp "$util" /root/etcdutl
cat >/root/liar <<'END'
#!/bin/sh
printf '{"revision":1$(touch executed),"totalKey":"\033]0;owned\007"}'
printf '\033[2J"; touch executed\n' >&2
exit 0
END
cat /root/liar >"$util"`)
	_, err := st.drill(Source{})
	st.run(util + `cat /root/etcdutl >"$util"`)
	const escapes = "\x1b\x07"
	if err == nil || strings.ContainsAny(err.Error(), escapes) || strings.ContainsAny(st.recorded().Problem, escapes) {
		st.Errorf("a program that lies: %q", err)
	}
	st.succeeds(Source{})

	for name, content := range map[string]host.Script{
		"commands": `printf '{"problem":"$(touch executed)\\u001b[2J","member":"\047;touch executed"}'`,
		"endless":  "head -c 1G /dev/zero",
		"nothing":  "true",
	} {
		st.run(content + " >" + layout.DrillPath)
		begun := time.Now()
		_, err := st.drill(Source{})
		st.Logf("a record of %s: %v", name, err)
		if name != "endless" && err != nil {
			st.Errorf("a record of %s: %v", name, err)
		}
		if err != nil && (strings.ContainsAny(err.Error(), "\x1b\x00") || time.Since(begun) > time.Minute) {
			st.Errorf("a record of %s after %s: %.200q", name, time.Since(begun), err)
		}
		st.run("rm -f " + layout.DrillPath)
	}
	st.succeeds(Source{})
	st.notExecuted()
}

// notExecuted expects that nothing that the machine says became a command, here or there.
func (st *stage) notExecuted() {
	st.Helper()
	if left := st.run("find / -xdev -name executed -not -path '/proc/*'"); left != "" {
		st.Errorf("executed: %s", left)
	}
}
