package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// reopenPause is the pause after a failed attempt to open a stream.
const reopenPause = 100 * time.Millisecond

// watch follows the run's ConfigMaps, from before the first one. When its stream ends, it
// resumes after the last received revision.
type watch struct {
	name string
	api  api
	via  *link
	log  *watchLog
}

// event contains the used fields of a watch event: an object, a bookmark, or a Status.
type event struct {
	Type   string
	Object struct {
		Metadata struct {
			Name            string
			ResourceVersion string
		}
		Code    int // of a Status
		Message string
	}
}

func (w *watch) work(ctx context.Context, revision string) {
	w.log.start(revision)
	for ctx.Err() == nil {
		if err := w.follow(ctx); err != nil && ctx.Err() == nil {
			if answered(err, http.StatusGone) {
				w.skip(ctx)
			}
			_ = Sleep(ctx, reopenPause)
		}
	}
}

// skip continues from the current revision: the events in between are lost.
func (w *watch) skip(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if page, err := w.api.page(ctx, w.via, ""); err == nil {
		w.log.start(page.ResourceVersion)
	}
}

// follow opens one stream and reads it until it ends, which is normal. It returns an error if
// the stream cannot be opened, or if the server sends an error.
func (w *watch) follow(ctx context.Context) error {
	opening, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	counted, tries := countAttempts(opening)
	stream, err := w.open(counted, cancel)
	if ctx.Err() == nil { // an opening that the end of the load interrupts does not count
		w.log.opened(tries.outcome(err))
	}
	if err != nil {
		return err
	}
	defer stream.Close()
	return w.read(ctx, stream)
}

// open opens a stream within the time of a request. cancel ends ctx.
func (w *watch) open(ctx context.Context, cancel context.CancelCauseFunc) (io.ReadCloser, error) {
	slow := time.AfterFunc(requestTimeout, func() { cancel(context.DeadlineExceeded) })
	stream, err := w.api.watch(ctx, w.via, w.log.revision())
	if !slow.Stop() && err == nil {
		stream.Close()
		err = context.DeadlineExceeded
	}
	if err == nil {
		return stream, nil
	}
	if cause := context.Cause(ctx); errors.Is(cause, context.DeadlineExceeded) {
		err = cause
	}
	return nil, fmt.Errorf("open: %w", err)
}

// read reads a stream until it ends.
func (w *watch) read(ctx context.Context, stream io.Reader) error {
	for decoder := json.NewDecoder(stream); ; {
		var e event
		if err := decoder.Decode(&e); err != nil {
			if ctx.Err() == nil {
				w.log.ended(err)
			}
			return nil
		}
		if err := w.log.add(e); err != nil {
			w.log.fail(err)
			return err
		}
	}
}
