package corpus

import (
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"

	"culprit/classifier"
)

type Options struct {
	Log      *slog.Logger
	NoIndex  bool
	ReadOnly bool
}
type Corpus struct{}
type StagedLog struct{}

var errSoon = errors.New("not there yet")

func Open(ctx context.Context, dir string, opt Options) (*Corpus, error) { return nil, errSoon }
func (c *Corpus) Close() error                                           { return nil }
func (c *Corpus) NewLog() (*StagedLog, error)                            { return nil, errSoon }
func (l *StagedLog) Tee(logs iter.Seq2[classifier.Log, error]) iter.Seq2[classifier.Log, error] {
	return logs
}
func (l *StagedLog) Discard() {}
func (c *Corpus) Add(ctx context.Context, a *Attempt, l *StagedLog) (existed bool, err error) {
	return false, errSoon
}
func (c *Corpus) SetVerdict(ctx context.Context, id int64, v classifier.Verdict) error { return errSoon }
func (c *Corpus) Attempt(ctx context.Context, id int64) (Attempt, error) {
	return Attempt{}, errSoon
}
func (c *Corpus) History(ctx context.Context, cluster, job string) ([]Attempt, error) {
	return nil, errSoon
}
func (c *Corpus) Lines(ctx context.Context, id int64, file string, from, to int64) ([]string, error) {
	return nil, errSoon
}
func (c *Corpus) OpenLog(ctx context.Context, id int64, file string) (io.ReadCloser, LogFile, error) {
	return nil, LogFile{}, errSoon
}
func (c *Corpus) Attempts(ctx context.Context, f Filter) (Page, error) { return Page{}, errSoon }
func (c *Corpus) Search(ctx context.Context, query string, limit int, cursor string) (Hits, error) {
	return Hits{}, errSoon
}
func (c *Corpus) Waste(ctx context.Context, f Filter, by Grouping) (Report, error) {
	return Report{}, errSoon
}
func (c *Corpus) Reindex(ctx context.Context, progress func(done, total int64)) error { return errSoon }
func (c *Corpus) Stats(ctx context.Context) (Stats, error)                            { return Stats{}, errSoon }
