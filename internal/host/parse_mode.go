package host

import (
	"fmt"
	"io/fs"
	"strconv"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// parseMode parses a hexadecimal st_mode.
func parseMode(text string) (fs.FileMode, error) {
	raw, err := strconv.ParseUint(text, 16, 16)
	if err != nil {
		return 0, fmt.Errorf("mode reads %s", problem.Quote(text))
	}
	return goMode(raw), nil
}

// goMode converts st_mode (inode(7)).
func goMode(raw uint64) fs.FileMode {
	mode := fs.FileMode(raw & 0o777)
	switch raw & 0o170000 {
	case 0o040000:
		mode |= fs.ModeDir
	case 0o120000:
		mode |= fs.ModeSymlink
	case 0o140000:
		mode |= fs.ModeSocket
	case 0o010000:
		mode |= fs.ModeNamedPipe
	case 0o060000:
		mode |= fs.ModeDevice
	case 0o020000:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	}
	for bit, flag := range map[uint64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if raw&bit != 0 {
			mode |= flag
		}
	}
	return mode
}
