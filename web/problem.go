package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"syscall"

	"culprit/corpus"
)

// problem is an answer that is not the one asked for, in the shape of RFC 9457. As an error it is what a handler
// returns when the request is at fault.
type problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail,omitempty"`
	Field     string `json:"field,omitempty"` // the query parameter, form field or JSON member at fault
	RequestID string `json:"request_id,omitempty"`

	allow string // value of the header that says what would have been accepted, for 415 and 429
}

func (p *problem) Error() string {
	if p.Field != "" {
		return p.Field + ": " + p.Detail
	}
	return p.Detail
}

// statusClientClosed is nginx's word for a client that left before the answer; no client ever reads it, logs do.
const statusClientClosed = 499

func refuse(status int, format string, args ...any) *problem {
	return &problem{Status: status, Detail: fmt.Sprintf(format, args...)}
}

func badField(field, format string, args ...any) *problem {
	return &problem{Status: http.StatusBadRequest, Field: field, Detail: fmt.Sprintf(format, args...)}
}

// statuses maps the errors of other packages to what a client is told; the first that matches counts. An empty say
// shows the error's own text.
var statuses = []struct {
	err    error
	status int
	say    string
}{
	{corpus.ErrNotFound, http.StatusNotFound, ""},
	{corpus.ErrConflict, http.StatusConflict, ""},
	{corpus.ErrFull, http.StatusInsufficientStorage, "the server's disk is full; nothing of this request was kept"},
	{corpus.ErrReadOnly, http.StatusServiceUnavailable, "this server only reads; send it to the one that writes"},
	{syscall.ENOSPC, http.StatusInsufficientStorage, "the server's disk is full; nothing of this request was kept"},
	{syscall.EDQUOT, http.StatusInsufficientStorage, "the server's disk quota is used up; nothing of this request was kept"},
	{os.ErrDeadlineExceeded, http.StatusRequestTimeout, "the body came too slowly; send it again"},
	{context.Canceled, statusClientClosed, "the client went away"},
	{context.DeadlineExceeded, http.StatusServiceUnavailable, "it took too long; try again later"},
}

// problemOf says what a client is told about err. What it does not know is internal: the text stays in the log.
func problemOf(err error) *problem {
	p := &problem{Status: http.StatusInternalServerError, Detail: "internal error; the server's log says more under this request id"}
	var known *problem
	var field *corpus.FieldError
	var conflict *corpus.ConflictError
	switch {
	case errors.As(err, &known):
		p = new(*known)
	case errors.As(err, &field):
		p = badField(field.Field, "%s", field.Problem)
	case errors.As(err, &conflict):
		p = &problem{Status: http.StatusConflict, Field: conflict.Field, Detail: conflict.Problem}
	default:
		for _, s := range statuses {
			if errors.Is(err, s.err) {
				p = refuse(s.status, "%s", s.say)
				if s.say == "" {
					p.Detail = err.Error()
				}
				break
			}
		}
	}
	p.Type, p.Title = "about:blank", http.StatusText(p.Status)
	if p.Status == statusClientClosed {
		p.Title = "Client Closed Request"
	}
	return p
}
