package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/minio/minio-go/v7"
)

// explain says what an answer of the server means and what to do. Its own text is left out, or shown
// without control characters.
func (s *store) explain(err error) error {
	var answer minio.ErrorResponse
	if !errors.As(err, &answer) {
		return err
	}
	what := "the request failed"
	if f := (failure{}); errors.As(err, &f) {
		what = f.what
	}
	return failure{what, errors.New(s.meaning(answer))}
}

// failure is a request that failed.
type failure struct {
	what string
	err  error
}

func (f failure) Error() string { return f.what + ": " + f.err.Error() }
func (f failure) Unwrap() error { return f.err }

// failed wraps the error of a request.
func failed(err error, format string, args ...any) error {
	return failure{fmt.Sprintf(format, args...), err}
}

// meaning returns the cause and the next step for an answer.
func (s *store) meaning(answer minio.ErrorResponse) string {
	code := visible(answer.Code)
	switch answer.Code {
	case minio.RequestTimeTooSkewed:
		return s.skew()
	case minio.NoSuchBucket:
		return fmt.Sprintf("the bucket %s does not exist at %s: create it, or correct the name", s.Bucket, s.Endpoint)
	case minio.InvalidAccessKeyID, minio.SignatureDoesNotMatch, "InvalidToken", "ExpiredToken", "TokenRefreshRequired",
		"InvalidSecurity", "InvalidClientTokenId", "XAdminUserNotFound":
		return fmt.Sprintf("the server rejects the credentials (%s): replace %s", code, s.CredentialsFile)
	case minio.AccessDenied, "AllAccessDisabled", "AccountProblem":
		return fmt.Sprintf("the credentials in %s lack the permission (%s): %s", s.CredentialsFile, code,
			visible(answer.Message))
	case minio.InvalidRegion, "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException":
		return fmt.Sprintf("the bucket is in another region (%s): set region: %s", code, visible(answer.Message))
	case "InvalidRequest", "ObjectLockConfigurationNotFoundError", "InvalidBucketState":
		return fmt.Sprintf("the server refuses the request (%s): %s (object_lock needs a bucket that was created with it)",
			code, visible(answer.Message))
	}
	if busy(answer) {
		return fmt.Sprintf("the server is overloaded or has an error (status %d, %s), and stayed so in %d attempts: the "+
			"next run tries again", answer.StatusCode, code, attempts)
	}
	return fmt.Sprintf("the server answers with status %d, %s: %s", answer.StatusCode, code, visible(answer.Message))
}

// busy reports whether a server may answer differently later.
func busy(answer minio.ErrorResponse) bool {
	return answer.StatusCode >= http.StatusInternalServerError || answer.StatusCode == http.StatusTooManyRequests ||
		answer.Code == "SlowDown"
}

// skew describes a wrong clock.
func (s *store) skew() string {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	text := "the clock of this machine is wrong (RequestTimeTooSkewed)"
	if s.server.noticed && s.server.offset.Abs() > time.Minute {
		text += fmt.Sprintf(": it differs by %s from the server's", s.server.offset.Abs().Round(time.Second))
	}
	return text + ": correct the time, for example with a time server (timedatectl)"
}

// longestText is how much of what a server says is shown.
const longestText = 300

// visible returns the text of a server on one line, without control characters.
func visible(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, " "))
	if len(text) > longestText {
		text = strings.ToValidUTF8(text[:longestText], "") + "…"
	}
	return strings.TrimSpace(text)
}
