package client

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrNoAnswer means that no member returned a linearizable answer, so no quorum can be
// reached.
var ErrNoAnswer = errors.New("no member of the cluster returns an answer that is backed by a quorum")

// temporary lists the errors of etcd that clear without intervention: its checks of
// membership changes, and everything related to an election.
var temporary = []error{
	rpctypes.ErrUnhealthy, rpctypes.ErrTooManyLearners, rpctypes.ErrMemberNotEnoughStarted,
	rpctypes.ErrMemberLearnerNotReady,
	rpctypes.ErrNoLeader, rpctypes.ErrNotLeader, rpctypes.ErrLeaderChanged, rpctypes.ErrGRPCNotSupportedForLearner,
	rpctypes.ErrStopped,
	rpctypes.ErrTimeout, rpctypes.ErrTimeoutDueToLeaderFail, rpctypes.ErrTimeoutDueToConnectionLost,
	rpctypes.ErrTimeoutWaitAppliedIndex,
	rpctypes.ErrTooManyRequests, rpctypes.ErrNotCapable,
}

// Transient reports whether a failed call may succeed if repeated.
func Transient(err error) bool {
	if errors.Is(err, ErrNoAnswer) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	for _, p := range temporary {
		if SameError(err, p) {
			return true
		}
	}
	var known rpctypes.EtcdError
	if errors.As(err, &known) {
		return known.Code() == codes.Unavailable
	}
	return unavailable(err)
}

// SameError compares by text, as rpctypes itself does: its errors are values of a code and
// a text, and it does not know all of the server's errors.
func SameError(err, want error) bool {
	return err != nil && rpctypes.ErrorDesc(err) == rpctypes.ErrorDesc(want)
}

// unavailable reports whether a call did not reach a server that could decide.
func unavailable(err error) bool {
	var known rpctypes.EtcdError
	if errors.As(err, &known) {
		return false
	}
	code := codeOf(err)
	return code == codes.Unavailable || code == codes.DeadlineExceeded
}

// codeOf returns the code of a failed call. A client returns the error of an ended context
// unchanged.
func codeOf(err error) codes.Code {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return status.FromContextError(err).Code()
	}
	return status.Code(err)
}

// IsAnswer reports whether an error came from a server of the cluster, rather than from
// failing to reach one.
func IsAnswer(err error) bool {
	var known rpctypes.EtcdError
	if errors.As(err, &known) {
		return true
	}
	switch codeOf(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return false
	}
	return true
}
