package web

import (
	"context"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"culprit/corpus"
)

// metrics are what an operator acts on. Their registry is the server's own.
type metrics struct {
	registry     *prometheus.Registry
	requests     *prometheus.CounterVec
	requestTime  *prometheus.HistogramVec
	classifyTime prometheus.Histogram
	logBytes     prometheus.Counter
	verdicts     *prometheus.CounterVec
	decisions    *prometheus.CounterVec
}

func newMetrics(s *Server) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "culprit_http_requests_total",
			Help: "Requests answered."}, []string{"method", "route", "status"}),
		requestTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "culprit_http_request_duration_seconds",
			Help: "From a request's header to the end of its answer.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 9)}, []string{"route"}),
		classifyTime: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "culprit_classify_duration_seconds",
			Help: "From the first byte of an upload's logs to their verdict, waiting for the client included.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 9)}),
		logBytes: prometheus.NewCounter(prometheus.CounterOpts{Name: "culprit_classified_bytes_total",
			Help: "Bytes of log classified, unpacked."}),
		verdicts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "culprit_verdicts_total",
			Help: "Verdicts given, by category, fault and retry advice."}, []string{"category", "fault", "retry"}),
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "culprit_gate_decisions_total",
			Help: "Decisions of the gate; would is what they would be if everything were enforced."}, []string{"verdict", "would", "mode", "category"}),
	}
	uploads := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "culprit_uploads_active",
		Help: "Uploads that are being read."}, func() float64 { return float64(len(s.uploads)) })
	places := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "culprit_uploads_limit",
		Help: "Uploads that may be read at once."}, func() float64 { return float64(cap(s.uploads)) })
	m.registry.MustRegister(m.requests, m.requestTime, m.classifyTime, m.logBytes, m.verdicts, m.decisions, uploads, places, &state{s: s},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) handler() gin.HandlerFunc {
	return gin.WrapH(promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
}

// state reports the corpus and the rules as they are at the time of a scrape.
type state struct{ s *Server }

func gauge(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	buildInfo   = gauge("culprit_build_info", "Always 1; the version and the rules in use are its labels.", "version", "rules_version")
	corpusUp    = gauge("culprit_corpus_up", "1 where the corpus answers.")
	corpusState = []struct {
		desc  *prometheus.Desc
		value func(corpus.Stats) float64
	}{
		{gauge("culprit_attempts", "Attempts kept."), func(st corpus.Stats) float64 { return float64(st.Attempts) }},
		{gauge("culprit_jobs", "Jobs kept."), func(st corpus.Stats) float64 { return float64(st.Jobs) }},
		{gauge("culprit_log_bytes", "Bytes of kept logs, unpacked."), func(st corpus.Stats) float64 { return float64(st.LogBytes) }},
		{gauge("culprit_stored_bytes", "Bytes of kept logs on disk."), func(st corpus.Stats) float64 { return float64(st.StoredBytes) }},
		{gauge("culprit_database_bytes", "Bytes of the database on disk."), func(st corpus.Stats) float64 { return float64(st.DatabaseBytes) }},
		{gauge("culprit_index_bytes", "Bytes of the text index on disk."), func(st corpus.Stats) float64 { return float64(st.IndexBytes) }},
		{gauge("culprit_index_lag_attempts", "Attempts kept that the text index has not read yet."), func(st corpus.Stats) float64 { return float64(st.IndexLagAttempts) }},
		{gauge("culprit_index_lag_seconds", "Age of the oldest attempt that the text index has not read yet."), func(st corpus.Stats) float64 { return st.IndexLagSeconds }},
	}
)

// Describe names what Collect reports.
func (st *state) Describe(out chan<- *prometheus.Desc) {
	out <- buildInfo
	out <- corpusUp
	for _, m := range corpusState {
		out <- m.desc
	}
}

// Collect asks the corpus for its state.
func (st *state) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(buildInfo, prometheus.GaugeValue, 1, st.s.version, st.s.classifier.Load().Rules().Version())
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	stats, err := st.s.corpus.Stats(ctx)
	if err != nil {
		st.s.log.Error("failed", "metric", "culprit_corpus_up", "err", err)
		out <- prometheus.MustNewConstMetric(corpusUp, prometheus.GaugeValue, 0)
		return
	}
	out <- prometheus.MustNewConstMetric(corpusUp, prometheus.GaugeValue, 1)
	for _, m := range corpusState {
		out <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, m.value(stats))
	}
}

// health is the answer of /healthz and /readyz.
type health struct {
	Status       string        `json:"status"`
	Version      string        `json:"version"`
	RulesVersion string        `json:"rules_version,omitempty"`
	Rules        int           `json:"rules,omitempty"`
	Corpus       *corpus.Stats `json:"corpus,omitempty"`
}

// getHealth says that the process answers; it asks nothing of the disk.
func (s *Server) getHealth(*gin.Context) (any, error) {
	return health{Status: "ok", Version: s.version}, nil
}

// getReady says whether requests can be served: the corpus answers. An index that lags behind is no reason to send
// clients away, since logs are kept without it.
func (s *Server) getReady(c *gin.Context) (any, error) {
	set := s.classifier.Load().Rules()
	h := health{Status: "ready", Version: s.version, RulesVersion: set.Version(), Rules: len(set.Rules())}
	ctx, cancel := context.WithTimeout(c.Request.Context(), 5*time.Second)
	defer cancel()
	stats, err := s.corpus.Stats(ctx)
	if err != nil {
		s.log.ErrorContext(ctx, "failed", "path", "/readyz", "err", err)
		h.Status = "the corpus does not answer"
		return notReady{h}, nil
	}
	h.Corpus = &stats
	return h, nil
}
