package corpus

import (
	"context"
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"
)

var attemptColumns = []string{"id", "cluster", "job", "attempt", "user", "vc", "gpus", "gpu_type", "nodes", "start", "end", "rtf_s", "gpu_s", "exit_code", "state",
	"category", "fault", "retry", "rule", "fingerprint", "summary"}

// WriteAttempts writes all attempts that pass the filter as CSV, in the filter's order. Its Limit and Cursor do not count.
func (c *Corpus) WriteAttempts(ctx context.Context, w io.Writer, filter Filter) error {
	out := csv.NewWriter(w)
	if err := out.Write(attemptColumns); err != nil {
		return err
	}
	filter.Limit, filter.Cursor = 1000, ""
	for {
		page, err := c.Attempts(ctx, filter)
		if err != nil {
			return err
		}
		for i := range page.Attempts {
			if err := out.Write(page.Attempts[i].csv()); err != nil {
				return err
			}
		}
		if filter.Cursor = page.Next; page.Next == "" {
			break
		}
	}
	out.Flush()
	return out.Error()
}

func (a *Attempt) csv() []string {
	f := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	when := func(t *time.Time) string {
		if t == nil {
			return ""
		}
		return t.Format(time.RFC3339)
	}
	code := ""
	if a.Code != nil {
		code = strconv.Itoa(*a.Code)
	}
	v := &a.Verdict
	return []string{strconv.FormatInt(a.ID, 10), csvText(a.Cluster), csvText(a.Job), strconv.Itoa(a.Number), csvText(a.User), csvText(a.VC), strconv.Itoa(a.GPUs),
		csvText(a.GPUType), csvText(strings.Join(a.Nodes, " ")), when(a.Start), when(a.End), f(a.RTFSeconds), f(a.GPUSeconds), code, csvText(a.State),
		v.Category, string(v.Fault), string(v.Retry), v.Rule, v.Fingerprint, csvText(v.Summary)}
}
