package release

import (
	"strconv"
	"strings"
)

// Quota returns the quota in bytes that etcd derives from --quota-backend-bytes.
func Quota(value string) int64 {
	bytes, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	if err != nil || bytes == 0 {
		return DefaultQuota
	}
	return bytes
}

// DefaultQuota is etcd's own default (storage.DefaultQuotaBytes), which it uses for zero.
const DefaultQuota = 2 << 30
