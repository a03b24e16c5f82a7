package load

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
)

// Requests counts operations of one kind: requests to the API, writes into etcd, or openings of
// watches. Excused and Refused are parts of Failed, and may overlap. Repeated ones may have
// succeeded or failed.
type Requests struct {
	Tried int `json:"tried"`
	// Failed counts all operations that failed for the caller: those without a success within five
	// seconds. For HTTP, a success is a 2xx answer. Excused and refused operations are included, and
	// so are those that were not sent because too many earlier ones were unanswered.
	Failed int `json:"failed"`
	// Excused counts the failed operations for which the Criteria have an Excuse, and which
	// therefore do not violate them.
	Excused int `json:"excused"`
	// Repeated counts the operations that the client's library began more than once without telling
	// the caller: it had another connection for a request whose first connection ended, or got a
	// GOAWAY, before the server processed it.
	Repeated int `json:"repeated"`
	// Refused counts the operations that failed because a connection to the address was refused, or
	// because the server answered that it does not serve now: HTTP 429 or 503, or from etcd
	// Unavailable or ResourceExhausted.
	Refused int `json:"refused"`
	// Gap is the longest time without a success. Openings of watches have none.
	Gap Gap `json:"gap"`
}

// Unexcused returns the number of failed operations that are not excused.
func (r Requests) Unexcused() int { return r.Failed - r.Excused }

// String returns a text such as "3 of 100 failed (1 excused, 2 refused), 4 repeated".
func (r Requests) String() string {
	return fmt.Sprintf("%d of %d failed (%d excused, %d refused), %d repeated", r.Failed, r.Tried, r.Excused, r.Refused,
		r.Repeated)
}

// Plus returns the sum of two counts, with the longer gap.
func (r Requests) Plus(o Requests) Requests {
	sum := Requests{
		Tried: r.Tried + o.Tried, Failed: r.Failed + o.Failed, Excused: r.Excused + o.Excused,
		Repeated: r.Repeated + o.Repeated, Refused: r.Refused + o.Refused, Gap: r.Gap,
	}
	if o.Gap.Length > r.Gap.Length {
		sum.Gap = o.Gap
	}
	return sum
}

// isRefusal reports whether err is a refusal, as Requests defines it. gRPC reports a refused
// connection only in the text of its errors.
func isRefusal(err error) bool {
	var answer *statusError
	if errors.As(err, &answer) {
		return answer.code == http.StatusTooManyRequests || answer.code == http.StatusServiceUnavailable
	}
	var etcd rpctypes.EtcdError
	if errors.As(err, &etcd) {
		return etcd.Code() == codes.Unavailable || etcd.Code() == codes.ResourceExhausted
	}
	return errors.Is(err, syscall.ECONNREFUSED) || strings.Contains(err.Error(), syscall.ECONNREFUSED.Error())
}
