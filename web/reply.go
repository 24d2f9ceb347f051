package web

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/klauspost/compress/gzip"
)

// handler answers a request with a value or an error. s.json and s.page write both.
type handler = func(*gin.Context) (any, error)

// created is a JSON reply to something that is kept now.
type created struct {
	location string
	body     any
}

// file is a reply that is no JSON. Its body is written as it comes.
type file struct {
	contentType string
	download    string // the name under which a browser would save it
	cache       string // Cache-Control; empty for none at all
	length      int64  // 0 where unknown
	body        io.ReadCloser
}

// notReady is a JSON reply that says in its status that the server cannot do its work.
type notReady struct{ body any }

// seeOther is a page's reply to a form: look there.
type seeOther string

// rejected is a page whose form could not be taken; it shows why.
type rejected struct {
	err  error
	page any
}

// json makes a handler of the API answer: what it returns as JSON, an error as application/problem+json.
func (s *Server) json(h handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		v, err := h(c)
		if err != nil {
			s.fail(c, err)
			return
		}
		switch v := v.(type) {
		case file:
			s.writeFile(c, v)
		case created:
			c.Header("Location", v.location)
			s.writeJSON(c, http.StatusCreated, "application/json", v.body)
		case notReady:
			s.writeJSON(c, http.StatusServiceUnavailable, "application/json", v.body)
		default:
			s.writeJSON(c, http.StatusOK, "application/json", v)
		}
	}
}

// page makes a handler of a page answer: what it returns is what the template of that name prints.
func (s *Server) page(name string, h handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		v, err := h(c)
		if err != nil {
			s.fail(c, err)
			return
		}
		switch v := v.(type) {
		case seeOther:
			c.Header("Location", string(v))
			c.Status(http.StatusSeeOther)
			c.Writer.WriteHeaderNow()
		case rejected:
			p := s.problem(c, v.err)
			s.writePage(c, p.Status, name, v.page)
		default:
			s.writePage(c, http.StatusOK, name, v)
		}
	}
}

// fail ends a request with what its error means, as a page for a person and as problem+json for a program.
func (s *Server) fail(c *gin.Context, err error) {
	c.Abort()
	p := s.problem(c, err)
	if c.Writer.Written() {
		return // too late to say anything; the client sees a cut answer
	}
	if p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable {
		c.Header("Retry-After", "5")
	}
	if p.allow != "" {
		c.Header("Accept-Encoding", p.allow)
	}
	if wantsPage(c) {
		s.writePage(c, p.Status, "error", errorView{layout: s.layout(p.Title, ""), Problem: p})
		return
	}
	s.writeJSON(c, p.Status, "application/problem+json", p)
}

// problem is what the client is told of an error; the log is told what the client is not.
func (s *Server) problem(c *gin.Context, err error) *problem {
	p := problemOf(err)
	p.RequestID = c.GetString(requestIDKey)
	if p.Status >= 500 {
		s.log.ErrorContext(c.Request.Context(), "failed", "method", c.Request.Method, "path", clip(c.Request.URL.Path, 200), "request", p.RequestID, "err", err)
	}
	return p
}

func (s *Server) writeJSON(c *gin.Context, status int, contentType string, v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // nobody reads application/json as HTML, and log lines are full of < and &
	if err := e.Encode(v); err != nil {
		s.fail(c, err)
		return
	}
	c.Data(status, contentType, b.Bytes())
}

func (s *Server) writePage(c *gin.Context, status int, name string, v any) {
	var b bytes.Buffer
	if err := s.pages[name].ExecuteTemplate(&b, "layout", v); err != nil {
		s.log.ErrorContext(c.Request.Context(), "failed", "page", name, "request", c.GetString(requestIDKey), "err", err)
		c.Data(http.StatusInternalServerError, "text/plain; charset=utf-8", []byte("internal error; request id "+c.GetString(requestIDKey)+"\n"))
		return
	}
	s.writeHTML(c, status, b.Bytes())
}

// writeHTML packs what a browser unpacks: lists and logs shrink to a tenth. Pages hold no secrets that their packed length
// could tell.
func (s *Server) writeHTML(c *gin.Context, status int, text []byte) {
	const small = 2 << 10
	c.Header("Vary", "Accept-Encoding")
	if len(text) < small || !strings.Contains(c.GetHeader("Accept-Encoding"), "gzip") {
		c.Data(status, "text/html; charset=utf-8", text)
		return
	}
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	c.Header("Content-Encoding", "gzip")
	c.Data(status, "text/html; charset=utf-8", b.Bytes())
}

func (s *Server) writeFile(c *gin.Context, f file) {
	defer f.body.Close()
	h := c.Writer.Header()
	h.Set("Content-Type", f.contentType)
	if f.download != "" {
		h.Set("Content-Disposition", mime.FormatMediaType("inline", map[string]string{"filename": f.download}))
	}
	if f.cache != "" {
		h.Set("Cache-Control", f.cache)
	}
	if f.length > 0 {
		h.Set("Content-Length", strconv.FormatInt(f.length, 10))
	}
	c.Status(http.StatusOK)
	if c.Request.Method == http.MethodHead {
		return
	}
	if _, err := io.Copy(c.Writer, f.body); err != nil {
		s.log.WarnContext(c.Request.Context(), "cut", "path", clip(c.Request.URL.Path, 200), "request", c.GetString(requestIDKey), "err", err)
		panic(http.ErrAbortHandler) // the client must not take the part for the whole
	}
}
