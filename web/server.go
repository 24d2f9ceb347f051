package web

import (
	"cmp"
	"context"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"

	"culprit/classifier"
	"culprit/corpus"
	"culprit/corpus/trace"
)

// Config is what a server needs. Corpus and Classifier are required; a zero value elsewhere means the default.
type Config struct {
	Corpus     *corpus.Corpus
	Classifier *classifier.Classifier
	Log        *slog.Logger // default: nothing is logged
	Version    string       // of the program
	URL        string       // where clients reach the server, for the command lines that pages show; default http://127.0.0.1:8080
	MaxBytes   int64        // most bytes of log in one upload, unpacked; default 4 GiB
	MaxUploads int          // most uploads read at once; default 32
	LogRoots   []string     // folders below which logs are read that Slurm names; default: none
}

// Server answers requests from a corpus and a classifier.
type Server struct {
	corpus     *corpus.Corpus
	classifier atomic.Pointer[classifier.Classifier]
	policy     atomic.Pointer[classifier.Policy] // of the gate
	log        *slog.Logger
	version    string
	started    time.Time
	url        string
	simulated  bool
	maxBytes   int64
	logRoots   *trace.Roots

	uploads    chan struct{} // a place for each upload that is being read
	uploadWait time.Duration // how long an upload waits for a place

	pages   map[string]*template.Template
	metrics *metrics
	engine  *gin.Engine
}

// New makes a server. It fails where a template or the configuration is broken.
func New(cfg Config) (*Server, error) {
	if cfg.Corpus == nil || cfg.Classifier == nil {
		return nil, errors.New("web: a corpus and a classifier are needed")
	}
	s := &Server{
		corpus:     cfg.Corpus,
		log:        cfg.Log,
		version:    cfg.Version,
		started:    time.Now(),
		url:        cmp.Or(strings.TrimSuffix(cfg.URL, "/"), "http://127.0.0.1:8080"),
		maxBytes:   cfg.MaxBytes,
		uploadWait: 10 * time.Second,
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.maxBytes <= 0 {
		s.maxBytes = 4 << 30
	}
	if cfg.MaxUploads <= 0 {
		cfg.MaxUploads = 32
	}
	s.uploads = make(chan struct{}, cfg.MaxUploads)
	s.classifier.Store(cfg.Classifier)
	s.SetPolicy(classifier.DefaultPolicy())
	simulated, err := cfg.Corpus.Simulated()
	if err != nil {
		return nil, err
	}
	s.simulated = simulated != nil
	if s.pages, err = loadPages(); err != nil {
		return nil, err
	}
	if s.logRoots, err = trace.OpenRoots(cfg.LogRoots); err != nil {
		return nil, err
	}
	s.metrics = newMetrics(s)
	s.engine = s.routes()
	return s, nil
}

// SetClassifier makes requests from now on use another classifier; those under way end with the one they began with.
func (s *Server) SetClassifier(c *classifier.Classifier) { s.classifier.Store(c) }

// Handler answers all requests of the server.
func (s *Server) Handler() http.Handler { return s.engine }

// routes are all routes there are, the API in the order of openapi.yaml, then the pages in that of their navigation.
func (s *Server) routes() *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.HandleMethodNotAllowed = true
	r.RedirectTrailingSlash = false // it would believe X-Forwarded-Prefix
	r.ForwardedByClientIP = false
	r.UseEscapedPath = true      // a job's id may contain a slash, as %2F
	r.UnescapePathValues = false // gin makes a space of +; see param
	r.Use(s.observe, s.recover, secure, s.sameOrigin)
	r.NoRoute(s.notFound)
	r.NoMethod(s.notAllowed)

	get := func(path string, h gin.HandlerFunc) {
		r.GET(path, h)
		r.HEAD(path, h)
	}

	r.POST("/api/v1/classify", s.json(s.postClassify))
	r.POST("/api/v1/attempts", s.json(s.postAttempt))
	get("/api/v1/attempts", s.json(s.getAttempts))
	get("/api/v1/attempts/:id", s.json(s.getAttempt))
	get("/api/v1/attempts/:id/log", s.json(s.getLog))
	get("/api/v1/jobs/:job", s.json(s.getJob))
	r.POST("/api/v1/gate", s.json(s.postGate))
	r.POST("/api/v1/reclassify", s.json(s.postReclassify))
	get("/api/v1/reclassify", s.json(s.getReclassify))
	r.POST("/api/v1/reclassify/pause", s.json(s.pauseReclassify))
	r.POST("/api/v1/reclassify/resume", s.json(s.resumeReclassify))
	r.POST("/api/v1/reclassify/cancel", s.json(s.cancelReclassify))
	get("/api/v1/search", s.json(s.getSearch))
	get("/api/v1/report", s.json(s.getReport))
	get("/api/v1/report/paper", s.json(s.getPaper))
	get("/api/v1/report/nodes", s.json(s.getNodes))
	get("/api/v1/report/repetition", s.json(s.getRepetition))
	get("/api/v1/rules", s.json(s.getRules))
	get("/api/v1/rules/:id", s.json(s.getRule))
	get("/api/v1/taxonomy", s.json(s.getTaxonomy))
	get("/healthz", s.json(s.getHealth))
	get("/readyz", s.json(s.getReady))
	get("/metrics", s.metrics.handler())
	get("/openapi.yaml", s.json(getOpenAPI))
	r.POST("/slurm/_doc", s.json(s.postSlurm))

	get("/", s.page("overview", s.overviewPage))
	get("/attempts", s.page("attempts", s.attemptsPage))
	get("/attempts.csv", s.json(s.attemptsCSV))
	get("/attempts/:id", s.page("attempt", s.attemptPage))
	get("/attempts/:id/lines", s.page("lines", s.linesPage))
	r.POST("/attempts/:id/verdict", s.page("attempt", s.postVerdict))
	get("/search", s.page("search", s.searchPage))
	get("/fingerprints", s.page("fingerprints", s.fingerprintsPage))
	get("/fingerprints/:id", s.page("fingerprint", s.fingerprintPage))
	r.POST("/fingerprints/:id", s.page("fingerprint", s.postFingerprint))
	get("/nodes", s.page("nodes", s.nodesPage))
	get("/report", s.page("report", s.reportPage))
	get("/gate", s.page("gate", s.gatePage))
	get("/rules", s.page("rules", s.rulesPage))
	get("/rules/:id", s.page("rule", s.rulePage))
	get("/submit", s.page("submit", s.submitPage))
	r.POST("/submit", s.page("submit", s.postSubmit))
	get("/status", s.page("status", s.statusPage))
	get("/static/:file", s.json(getStatic))
	return r
}

// takePlace waits for one of the places for uploads, and for no longer than uploadWait.
func (s *Server) takePlace(ctx context.Context) (leave func(), err error) {
	timer := time.NewTimer(s.uploadWait)
	defer timer.Stop()
	select {
	case s.uploads <- struct{}{}:
		return func() { <-s.uploads }, nil
	case <-timer.C:
		return nil, refuse(http.StatusTooManyRequests, "%d uploads are being read already; try again in a few seconds", cap(s.uploads))
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
