package secretscan

import (
	_ "embed"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
)

var (
	// FindVolumes begins a script. It sets $volumes to the mount points of members' volumes.
	//
	//go:embed volumes.sh
	FindVolumes string
	//go:embed keys.sh
	keysScript string
	// KeysScript is the script whose output ParseKeys reads.
	KeysScript = FindVolumes + keysScript
)

// KeyFile is a file with a private key on a machine.
type KeyFile struct {
	Path string
	Mode uint64 // permissions
	Text string
}

// Exposed reports whether others than the owner can read, change or execute the file.
func (f KeyFile) Exposed() bool { return f.Mode&0o077 != 0 }

// ParseKeys parses the output of KeysScript.
func ParseKeys(out string) ([]KeyFile, error) {
	var all []KeyFile
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			return nil, fmt.Errorf("read the files with private keys: %d fields in a line", len(fields))
		}
		mode, err := strconv.ParseUint(fields[0], 8, 32)
		if err != nil {
			return nil, fmt.Errorf("read the files with private keys: %s: %w", fields[1], err)
		}
		text, err := base64.StdEncoding.DecodeString(fields[2])
		if err != nil {
			return nil, fmt.Errorf("read the files with private keys: %s: %w", fields[1], err)
		}
		all = append(all, KeyFile{Path: fields[1], Mode: mode, Text: string(text)})
	}
	return all, nil
}
