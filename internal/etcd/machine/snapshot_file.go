package machine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// SnapshotFile is a snapshot on a machine.
type SnapshotFile struct {
	Size     int64
	Saved    time.Time
	Revision int64 // 0: no program on the machine can read it, or not within SnapshotLimit
}

// SnapshotLimit is how long a plan may read a snapshot. A gigabyte takes a second or two.
const SnapshotLimit = 5 * time.Second

// snapshotQuestion prints size, time and, if etcdutl is installed, the revision of $file.
const snapshotQuestion host.Script = `[ -f "$file" ] || exit 0
stat -c '%s %Y' "$file"
for program in /opt/kube/etcd/*/etcdutl; do
  [ ! -x "$program" ] || timeout "$limit" "$program" snapshot status "$file" --write-out=json |
    sed -n 's/.*"revision":\([0-9]*\).*/\1/p'
  break
done
`

// SnapshotAt reads what can be told of a snapshot without changing anything; nil if there
// is none.
func SnapshotAt(ctx context.Context, m Machine, path string) (*SnapshotFile, error) {
	facts, err := m.Observe(ctx, host.Query{Script: snapshotQuestion, Vars: map[string]string{
		"file": path, "limit": strconv.Itoa(int(SnapshotLimit / time.Second)),
	}})
	if err != nil {
		return nil, err
	}
	file, err := snapshotFileIn(facts.Output)
	if err != nil {
		return nil, fmt.Errorf("read the snapshot %s: %w", path, err)
	}
	return file, nil
}

var errIncomplete = errors.New("the report of the machine is incomplete")

// snapshotFileIn parses what snapshotQuestion prints; nil if there is no file.
func snapshotFileIn(output string) (*SnapshotFile, error) {
	words := strings.Fields(output)
	if len(words) == 0 {
		return nil, nil
	}
	var numbers []int64
	for _, word := range words {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%s is not a number of it", problem.Quote(word))
		}
		numbers = append(numbers, n)
	}
	if len(numbers) < 2 {
		return nil, errIncomplete
	}
	file := &SnapshotFile{Size: numbers[0], Saved: time.Unix(numbers[1], 0)}
	if len(numbers) > 2 {
		file.Revision = numbers[2]
	}
	return file, nil
}

// newestQuestion prints the path and the time of the newest snapshot of $data: a scheduled or requested one, one from
// before an upgrade, or the last one of a destroyed cluster. Only the last is on the disk of the data. One that was
// saved later than $ahead seconds from now is left out: a clock was wrong.
var newestQuestion = snapshot.OwnFunctions + `for file in "$data-archive"/scheduled/*.db "$data-archive"/upgrades/*.db \
  "$data-archive"/requested/*.db "$data-archive"/*/snapshot.db "$data/archive"/*/snapshot.db; do
  case $file in "$data/archive"/*) owned "$data/archive" || continue ;; esac
  [ ! -f "$file" ] || [ -L "$file" ] || stat -c '%Y %n' -- "$file"
done | awk -v latest="$(($(date +%s) + ahead))" '$1 <= latest' | sort -n | tail -n 1
`

// newestVars returns the variables of newestQuestion. A clock may be ahead of another one by $ahead seconds.
func newestVars(dataDir string) map[string]string {
	return map[string]string{"data": dataDir, "ahead": strconv.Itoa(int(snapshot.MostAhead / time.Second))}
}

// ArchivedSnapshot is a snapshot in the archive of a machine.
type ArchivedSnapshot struct {
	Path  string
	Saved time.Time
}

// NewestSnapshot finds the newest snapshot in the archives of a data directory; nil if there is none.
func NewestSnapshot(ctx context.Context, m Machine, dataDir string) (*ArchivedSnapshot, error) {
	facts, err := m.Observe(ctx, host.Query{Script: newestQuestion, Vars: newestVars(dataDir)})
	if err != nil {
		return nil, err
	}
	return archivedSnapshotIn(facts.Output)
}

// archivedSnapshotIn parses what newestQuestion prints.
func archivedSnapshotIn(output string) (*ArchivedSnapshot, error) {
	at, file, cut := strings.Cut(strings.TrimSpace(output), " ")
	if at == "" {
		return nil, nil
	}
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || !cut || !strings.HasPrefix(file, "/") || !layout.PlainPath.MatchString(file) {
		return nil, fmt.Errorf("find the newest snapshot: %s is not a time and a path", problem.Quote(output))
	}
	return &ArchivedSnapshot{Path: file, Saved: time.Unix(seconds, 0)}, nil
}
