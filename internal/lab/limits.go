package lab

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// inotifyInstances is how many inotify instances all machines may have together. systemd in each needs about ten, and
// what lacks one fails without a word about it. All run as root of this computer, whose limit is 128 by default.
const inotifyInstances = 4096

const inotifyLimit = "/proc/sys/fs/inotify/max_user_instances"

// raiseLimits raises the limits of this computer's kernel that machines share, until its next boot.
func raiseLimits() error {
	text, err := os.ReadFile(inotifyLimit)
	if err != nil {
		return fmt.Errorf("the limit of inotify instances: %w", err)
	}
	limit, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("the limit of inotify instances: %w", err)
	}
	if limit >= inotifyInstances {
		return nil
	}
	if err := os.WriteFile(inotifyLimit, []byte(strconv.Itoa(inotifyInstances)), 0o644); err != nil {
		return fmt.Errorf("raise the limit of inotify instances from %d: %w", limit, err)
	}
	return nil
}
