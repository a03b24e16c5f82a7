package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// reopenPause is between an attempt to open a stream that failed and the next.
const reopenPause = 100 * time.Millisecond

// watch follows the run's ConfigMaps, from before the first one. When its stream
// ends it resumes after the last revision that it saw.
type watch struct {
	name      string
	api       api
	via       *link
	sightings *sightings
}

// event is what matters of a watch event: an object, a bookmark, or a Status.
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
	w.sightings.start(revision)
	for ctx.Err() == nil {
		if err := w.follow(ctx); err != nil && ctx.Err() == nil {
			w.sightings.fail(err)
			if refused(err, http.StatusGone) {
				w.skip(ctx)
			}
			_ = Sleep(ctx, reopenPause)
		}
	}
}

// skip goes on from now: what lies between is lost to this watch.
func (w *watch) skip(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if page, err := w.api.page(ctx, w.via, ""); err == nil {
		w.sightings.start(page.ResourceVersion)
	}
}

// follow opens one stream and takes what it brings until it ends, which is
// normal. Its error is a failure to open it, or one that the server sent.
func (w *watch) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slow := time.AfterFunc(requestTimeout, func() { cancel(context.DeadlineExceeded) })
	stream, err := w.api.watch(ctx, w.via, w.sightings.revision())
	if !slow.Stop() && err == nil {
		stream.Close()
		err = context.DeadlineExceeded
	}
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, context.DeadlineExceeded) {
			err = cause
		}
		return fmt.Errorf("open: %w", err)
	}
	defer stream.Close()
	w.sightings.opened()
	for decoder := json.NewDecoder(stream); ; {
		var e event
		if err := decoder.Decode(&e); err != nil {
			if ctx.Err() == nil {
				w.sightings.ended(err)
			}
			return nil
		}
		if err := w.sightings.see(e); err != nil {
			return err
		}
	}
}
