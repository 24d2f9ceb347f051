package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"culprit/classifier"
	"culprit/corpus"
)

// watchConfig are the flags of watch.
type watchConfig struct {
	data, rules, cluster, exitFile string
	idle, interval                 time.Duration
	once                           bool
}

func watchCommand() *cobra.Command {
	var cfg watchConfig
	cmd := &cobra.Command{
		Use:   "watch PATTERN",
		Short: "Pick up log files from a folder as jobs end",
		Long: `Looks for files whose path fits a pattern and keeps those of one attempt together when none of them has changed for a while.
The pattern names parts of the path: {job} (needed), {attempt}, {rank}, {user}, {vc}, {node}; * stands for anything else in one
part. Where {attempt} is no number, attempts are told apart by it and counted in the order of their logs. What has been picked
up is recognised, also after a restart. Files that change later than that are said, and left as they were picked up.`,
		Example: `  culprit watch '/logs/{job}/{attempt}/rank-{rank}.err'
  culprit watch --idle 5m --exit-file exit_code '/home/{user}/runs/{job}/stderr'`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return watchFolder(cmd, cfg, args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&cfg.data, "data", "culprit-data", "`folder` of the database; no server must be running on it")
	f.StringVar(&cfg.rules, "rules", "", "`folder` of rule packs to use instead of the built-in ones")
	f.StringVar(&cfg.cluster, "cluster", "", "`name` of the cluster, to tell equal job ids of several apart")
	f.StringVar(&cfg.exitFile, "exit-file", "", "`name` of a file beside the logs that holds the exit code; an attempt has ended when it is there")
	f.DurationVar(&cfg.idle, "idle", 2*time.Minute, "how long no log of an attempt must have changed")
	f.DurationVar(&cfg.interval, "interval", 15*time.Second, "how often to look")
	f.BoolVar(&cfg.once, "once", false, "look once and end")
	return cmd
}

func watchFolder(cmd *cobra.Command, cfg watchConfig, pattern string) (err error) {
	p, err := newPathPattern(pattern)
	if err != nil {
		return usageError{err}
	}
	if cfg.interval <= 0 || cfg.idle < 0 {
		return usagef("--interval must be over 0 and --idle not below it")
	}
	c, err := loadClassifier(cfg.rules)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
	kept, err := corpus.Open(cmd.Context(), cfg.data, corpus.Options{Log: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kept.Close()) }()
	w := &watcher{cfg: cfg, pattern: p, corpus: kept, classifier: c, log: log, done: map[string]string{}}
	for {
		if err := w.look(cmd.Context(), time.Now()); err != nil || cfg.once {
			return err
		}
		select {
		case <-cmd.Context().Done():
			return nil
		case <-time.After(cfg.interval):
		}
	}
}

// pathPattern is a pattern of paths with named parts.
type pathPattern struct {
	glob  string
	match *regexp.Regexp
}

var (
	patternPart  = regexp.MustCompile(`\{(\w+)\}|\*`)
	patternNames = []string{"job", "attempt", "rank", "user", "vc", "node"}
)

func newPathPattern(pattern string) (*pathPattern, error) {
	var glob, match strings.Builder
	seen := map[string]bool{}
	last := 0
	literal := func(s string) {
		glob.WriteString(strings.NewReplacer(`\`, `\\`, "[", `\[`, "?", `\?`).Replace(s))
		match.WriteString(regexp.QuoteMeta(s))
	}
	for _, at := range patternPart.FindAllStringSubmatchIndex(pattern, -1) {
		literal(pattern[last:at[0]])
		last = at[1]
		glob.WriteByte('*')
		if at[2] < 0 {
			match.WriteString(`[^/]*`)
			continue
		}
		name := pattern[at[2]:at[3]]
		switch {
		case !slices.Contains(patternNames, name):
			return nil, fmt.Errorf("pattern %s: {%s} is none of {%s}", pattern, name, strings.Join(patternNames, "}, {"))
		case seen[name]:
			return nil, fmt.Errorf("pattern %s: {%s} stands in it twice", pattern, name)
		}
		seen[name] = true
		match.WriteString(`(?P<` + name + `>[^/]+?)`)
	}
	literal(pattern[last:])
	if !seen["job"] {
		return nil, fmt.Errorf("pattern %s: {job} is missing, which says whose log it is", pattern)
	}
	return &pathPattern{glob.String(), regexp.MustCompile(`^` + match.String() + `$`)}, nil
}

// parts are the named parts of a path; nil where it does not fit.
func (p *pathPattern) parts(path string) map[string]string {
	m := p.match.FindStringSubmatch(path)
	if m == nil {
		return nil
	}
	parts := map[string]string{}
	for i, name := range p.match.SubexpNames() {
		if name != "" {
			parts[name] = m[i]
		}
	}
	return parts
}

// watcher picks up logs.
type watcher struct {
	cfg        watchConfig
	pattern    *pathPattern
	corpus     *corpus.Corpus
	classifier *classifier.Classifier
	log        *slog.Logger
	done       map[string]string // what was picked up, by attempt: its files with sizes and times
}

// foundAttempt is the logs of one attempt as they lie in the folder.
type foundAttempt struct {
	key     string
	parts   map[string]string
	files   []foundFile
	changed time.Time // when the last of them was
}

type foundFile struct {
	path, name string
	size       int64
	changed    time.Time
	nodes      string
}

// look picks up the attempts that have ended, the oldest first.
func (w *watcher) look(ctx context.Context, now time.Time) error {
	found, err := w.find()
	if err != nil {
		return err
	}
	for _, a := range found {
		state := a.state()
		if before, ok := w.done[a.key]; ok {
			if before != state {
				w.log.Warn("left as it was: logs changed after they were picked up; a longer --idle waits for them", "job", a.parts["job"], "attempt", a.parts["attempt"])
				w.done[a.key] = state
			}
			continue
		}
		exit, ended := w.exit(a)
		if !ended || now.Sub(a.changed) < w.cfg.idle {
			continue
		}
		if err := w.keep(ctx, a, exit); err != nil {
			if !isRefused(err) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
				return err
			}
			w.log.Warn("not picked up", "job", a.parts["job"], "attempt", a.parts["attempt"], "err", err)
		}
		w.done[a.key] = state
	}
	return ctx.Err()
}

// find groups the files that fit by attempt.
func (w *watcher) find() ([]*foundAttempt, error) {
	paths, err := filepath.Glob(w.pattern.glob)
	if err != nil {
		return nil, err
	}
	attempts := map[string]*foundAttempt{}
	for _, path := range paths {
		parts := w.pattern.parts(path)
		info, err := os.Stat(path)
		if parts == nil || err != nil || !info.Mode().IsRegular() {
			continue
		}
		key := parts["user"] + "\n" + parts["job"] + "\n" + parts["attempt"]
		a := attempts[key]
		if a == nil {
			a = &foundAttempt{key: key, parts: parts}
			attempts[key] = a
		}
		a.files = append(a.files, foundFile{path, cmp.Or(parts["rank"], parts["node"]), info.Size(), info.ModTime(), parts["node"]})
		if info.ModTime().After(a.changed) {
			a.changed = info.ModTime()
		}
	}
	list := slices.Collect(maps.Values(attempts))
	slices.SortFunc(list, func(a, b *foundAttempt) int { return cmp.Or(a.changed.Compare(b.changed), cmp.Compare(a.key, b.key)) })
	for _, a := range list {
		slices.SortFunc(a.files, func(a, b foundFile) int { return cmp.Or(byNumber(a.name, b.name), cmp.Compare(a.path, b.path)) })
	}
	return list, nil
}

// byNumber orders ranks: as numbers where both are.
func byNumber(a, b string) int {
	x, err1 := strconv.Atoi(a)
	y, err2 := strconv.Atoi(b)
	if err1 == nil && err2 == nil {
		return cmp.Compare(x, y)
	}
	return cmp.Compare(a, b)
}

// state tells two states of the logs apart.
func (a *foundAttempt) state() string {
	var b strings.Builder
	for _, f := range a.files {
		fmt.Fprintln(&b, f.path, f.size, f.changed.UnixNano())
	}
	return b.String()
}

// exit reads the exit code beside the logs. Without --exit-file an attempt has ended when its logs stay as they are.
func (w *watcher) exit(a *foundAttempt) (exit classifier.Exit, ended bool) {
	if w.cfg.exitFile == "" {
		return exit, true
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(a.files[0].path), w.cfg.exitFile))
	if err != nil {
		return exit, false
	}
	code, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || code < 0 || code > 255 {
		w.log.Warn("no exit code", "file", w.cfg.exitFile, "job", a.parts["job"])
		return exit, true
	}
	exit.Code = &code
	return exit, true
}

// keep classifies the logs of an attempt and keeps them. The attempt ended when its last log changed.
func (w *watcher) keep(ctx context.Context, found *foundAttempt, exit classifier.Exit) error {
	kept, err := w.corpus.NewLog()
	if err != nil {
		return err
	}
	defer kept.Discard()
	a := &corpus.Attempt{Cluster: w.cfg.cluster, Job: found.parts["job"], User: found.parts["user"], VC: found.parts["vc"], Exit: exit, End: &found.changed}
	if n, err := strconv.Atoi(found.parts["attempt"]); err == nil && n > 0 {
		a.Number = n
	} else {
		a.RunID = found.parts["attempt"]
	}
	for _, f := range found.files {
		if f.nodes != "" && !slices.Contains(a.Nodes, f.nodes) {
			a.Nodes = append(a.Nodes, f.nodes)
		}
	}
	if a.Verdict, err = w.classifier.Classify(ctx, exit, kept.Tee(found.logs())); err != nil {
		return err
	}
	existed, err := w.corpus.Add(ctx, a, kept)
	if err == nil && !existed {
		w.log.Info("picked up", "job", a.Job, "attempt", a.Number, "logs", len(a.Logs), "category", a.Verdict.Category, "retry", a.Verdict.Retry)
	}
	return err
}

// logs are the files, each opened when the one before has been read. Two without a name of their own get that of the file.
func (a *foundAttempt) logs() func(yield func(classifier.Log, error) bool) {
	return func(yield func(classifier.Log, error) bool) {
		for _, file := range a.files {
			f, err := os.Open(file.path)
			if err != nil {
				yield(classifier.Log{}, err)
				return
			}
			name := file.name
			if name == "" && len(a.files) > 1 {
				name = filepath.Base(file.path)
			}
			more := yield(classifier.Log{Name: name, Reader: f}, nil)
			f.Close()
			if !more {
				return
			}
		}
	}
}
