package web

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/gin-gonic/gin"

	"culprit/corpus"
)

func groupings() (names []string) {
	for _, g := range corpus.Groupings {
		names = append(names, string(g))
	}
	return names
}

// getReport answers where the GPU time went, as JSON or CSV with the same numbers.
func (s *Server) getReport(c *gin.Context) (any, error) {
	q := newQuery(c.Request, append(filterNames, "by", "limit", "format")...)
	f := q.filter()
	f.Limit = int(q.number("limit", 0, 0, 1<<31-1))
	by, format := q.choice("by", groupings()...), q.choice("format", "json", "csv")
	if by == "" {
		by = string(corpus.ByCategory)
	}
	if q.err != nil {
		return nil, q.err
	}
	report, err := s.corpus.Waste(c.Request.Context(), f, corpus.Grouping(by))
	if err != nil {
		return nil, err
	}
	if report.Rows == nil {
		report.Rows = []corpus.WasteRow{}
	}
	if format == "csv" || format == "" && prefers(c, "text/csv") {
		return csvFile(report)
	}
	return report, nil
}

func csvFile(r corpus.Report) (file, error) {
	var b bytes.Buffer
	if err := r.WriteCSV(&b); err != nil {
		return file{}, err
	}
	return file{contentType: "text/csv; charset=utf-8; header=present", download: fmt.Sprintf("culprit-%s.csv", r.By),
		length: int64(b.Len()), body: io.NopCloser(&b)}, nil
}

func textFile(s string) file {
	return file{contentType: "text/plain; charset=utf-8", length: int64(len(s)), body: io.NopCloser(strings.NewReader(s))}
}
