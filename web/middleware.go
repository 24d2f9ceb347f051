package web

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
)

const requestIDKey = "request_id"

// aRequestID is what is taken over from a client or proxy that names its requests.
var aRequestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// observe names the request, and counts and logs it when it is answered.
func (s *Server) observe(c *gin.Context) {
	id := c.GetHeader("X-Request-Id")
	if !aRequestID.MatchString(id) {
		id = rand.Text()[:16]
	}
	c.Set(requestIDKey, id)
	c.Header("X-Request-Id", id)
	start := time.Now()
	defer s.observed(c, id, start)
	c.Next()
}

func (s *Server) observed(c *gin.Context, id string, start time.Time) {
	took := time.Since(start)
	route := c.FullPath()
	if route == "" {
		route = "none"
	}
	status := c.Writer.Status()
	s.metrics.requests.WithLabelValues(knownMethod(c.Request.Method), route, strconv.Itoa(status)).Inc()
	s.metrics.requestTime.WithLabelValues(route).Observe(took.Seconds())
	s.log.InfoContext(c.Request.Context(), "answered", "method", c.Request.Method, "path", clip(c.Request.URL.Path, 200), "status", status,
		"bytes", c.Writer.Size(), "took", took, "request", id)
}

// knownMethod keeps a client from filling the metrics with words of its own.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}

// recover answers a panic as any internal error. Nothing a user sends should get here.
func (s *Server) recover(c *gin.Context) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if v == http.ErrAbortHandler {
			panic(v)
		}
		s.fail(c, fmt.Errorf("panic: %v\n%s", v, debug.Stack()))
	}()
	c.Next()
}

// policy lets pages load the server's own style sheet, script and pictures and nothing else: log text that finds a way
// into a page as markup still does nothing.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func secure(c *gin.Context) {
	h := c.Writer.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// sameOrigin refuses what another site's page makes a browser send. Requests of programs carry neither Origin nor
// Sec-Fetch-Site and pass.
func (s *Server) sameOrigin(c *gin.Context) {
	if err := http.NewCrossOriginProtection().Check(c.Request); err != nil {
		s.fail(c, refuse(http.StatusForbidden, "a page of another site sent this; open the form on this server"))
	}
}

func (s *Server) notFound(c *gin.Context) {
	s.fail(c, refuse(http.StatusNotFound, "there is nothing at %s", clip(c.Request.URL.Path, 200)))
}

func (s *Server) notAllowed(c *gin.Context) {
	s.fail(c, refuse(http.StatusMethodNotAllowed, "%s is not for this path; %s is", knownMethod(c.Request.Method), c.Writer.Header().Get("Allow")))
}

// param is a part of the path that a route names.
func param(c *gin.Context, name string) string {
	raw := c.Param(name)
	if v, err := url.PathUnescape(raw); err == nil {
		return v
	}
	return raw
}

// wantsPage tells a person's browser from a program.
func wantsPage(c *gin.Context) bool {
	return !strings.HasPrefix(c.Request.URL.Path, "/api/") && strings.Contains(c.GetHeader("Accept"), "text/html")
}
