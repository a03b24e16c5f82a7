package release

import (
	"strconv"
	"strings"
)

// Quota is what etcd makes of --quota-backend-bytes.
func Quota(value string) int64 {
	bytes, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	if err != nil || bytes == 0 {
		return DefaultQuota
	}
	return bytes
}

// DefaultQuota is etcd's own (storage.DefaultQuotaBytes), which it takes for zero.
const DefaultQuota = 2 << 30
