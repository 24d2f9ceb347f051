package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"culprit/classifier"
	"culprit/corpus"
)

// reclassifyConfig are the flags of reclassify.
type reclassifyConfig struct {
	data, rules, format string
	list                bool
	opt                 corpus.PassOptions
}

func reclassifyCommand() *cobra.Command {
	var cfg reclassifyConfig
	cmd := &cobra.Command{
		Use:   "reclassify",
		Short: "Read the kept logs again with other rules, and say which verdicts moved",
		Long: `Reads the kept logs of all attempts whose verdict is by other rules than these, several at a time, changes their verdicts and
says how many moved from what to what. Interrupted, by Ctrl-C or by a crash, the same command goes on where it was.

No server must be running on the folder. One that runs does the same on request, beside its other work:
  curl -X POST http://127.0.0.1:8080/api/v1/reclassify
  curl http://127.0.0.1:8080/api/v1/reclassify`,
		Example: `  culprit reclassify --dry-run --list          what would the new rules change?
  culprit reclassify --data /var/lib/culprit --rules packs`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return reclassify(cmd, cfg) },
	}
	f := cmd.Flags()
	f.StringVar(&cfg.data, "data", "culprit-data", "`folder` of the database, the logs and the index")
	f.StringVar(&cfg.rules, "rules", "", "`folder` of rule packs to use instead of the built-in ones")
	f.BoolVar(&cfg.opt.All, "all", false, "read all attempts, also those whose verdict is by these rules")
	f.BoolVar(&cfg.opt.DryRun, "dry-run", false, "change nothing, only say what would move")
	f.BoolVar(&cfg.list, "list", false, "name each attempt that moved")
	f.StringVar(&cfg.format, "format", "table", "`format`: table or json")
	return cmd
}

func reclassify(cmd *cobra.Command, cfg reclassifyConfig) (err error) {
	if cfg.format != "table" && cfg.format != "json" {
		return usagef("--format %q: must be table or json", cfg.format)
	}
	if _, err := os.Stat(cfg.data); err != nil {
		return fmt.Errorf("%w (--data names the folder of a server)", err)
	}
	cl, err := loadClassifier(cfg.rules)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	kept, err := corpus.Open(context.WithoutCancel(cmd.Context()), cfg.data, corpus.Options{Log: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kept.Close()) }()
	p, err := runPass(cmd.Context(), cmd.ErrOrStderr(), kept, cl, cfg.opt)
	if err != nil {
		return err
	}
	if err := printPass(cmd, kept, p, cfg); err != nil {
		return err
	}
	if p.State == corpus.PassFailed {
		return errors.New(p.Problem)
	}
	return nil
}

// runPass goes on with an unfinished pass of the same options, or begins one, and follows it to its end.
func runPass(ctx context.Context, stderr io.Writer, kept *corpus.Corpus, cl *classifier.Classifier, opt corpus.PassOptions) (corpus.Pass, error) {
	p, err := kept.LastPass(ctx)
	if err != nil && !errors.Is(err, corpus.ErrNotFound) {
		return p, err
	}
	unfinished := err == nil && p.Unfinished()
	same := p.All == opt.All && p.DryRun == opt.DryRun
	switch {
	case unfinished && same:
		p, err = kept.ResumePass(ctx, cl)
	case unfinished:
		fmt.Fprintf(stderr, "culprit: pass %d, begun with other flags, was unfinished after %d of %d attempts and is cancelled\n", p.ID, p.Done, p.Total)
		if _, err := kept.CancelPass(ctx); err != nil {
			return p, err
		}
		fallthrough
	default:
		p, err = kept.StartPass(ctx, cl, opt)
	}
	if err != nil {
		return p, err
	}
	return followPass(ctx, stderr, kept)
}

// followPass shows the progress of the pass at work until it ends; when ctx does, it pauses the pass.
func followPass(ctx context.Context, stderr io.Writer, kept *corpus.Corpus) (corpus.Pass, error) {
	line := newProgress(stderr)
	defer line.end()
	background := context.WithoutCancel(ctx)
	for {
		step, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		err := kept.WaitPass(step)
		cancel()
		if ctx.Err() != nil {
			p, err := kept.PausePass(background)
			var over *corpus.ConflictError
			if errors.As(err, &over) {
				return p, nil // it ended just before
			}
			if err == nil {
				err = fmt.Errorf("paused after %d of %d attempts; the same command goes on", p.Done, p.Total)
			}
			return p, err
		}
		p, readErr := kept.LastPass(ctx)
		if err == nil || readErr != nil {
			return p, readErr
		}
		line.update(p.Done, p.Total)
	}
}

// movedPage is how many changes are read at once.
const movedPage = 1000

func printPass(cmd *cobra.Command, kept *corpus.Corpus, p corpus.Pass, cfg reclassifyConfig) error {
	var changes []corpus.Moved
	for after := int64(0); cfg.list; after = changes[len(changes)-1].ID {
		page, err := kept.MovedBy(cmd.Context(), p.ID, after, movedPage)
		if err != nil {
			return err
		}
		if changes = append(changes, page...); len(page) < movedPage {
			break
		}
	}
	out := cmd.OutOrStdout()
	if cfg.format == "json" {
		return json.NewEncoder(out).Encode(struct {
			corpus.Pass
			Changes []corpus.Moved `json:"changes,omitempty"`
		}{p, changes})
	}
	verb := "moved"
	if p.DryRun {
		verb = "would move"
	}
	fmt.Fprintf(out, "read %d attempts, %.1f MB of logs: %d %s", p.Done, float64(p.Bytes)/1e6, p.Moved, verb)
	if p.Failed > 0 {
		fmt.Fprintf(out, ", %d could not be read and stay as they are", p.Failed)
	}
	fmt.Fprintln(out)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, m := range p.Moves {
		fmt.Fprintf(t, "  %d\t%s\t→ %s\n", m.Attempts, m.From, m.To)
	}
	for _, m := range changes {
		fmt.Fprintf(t, "job %s, attempt %d\t%s\t→ %s\n", m.Job, m.Number, saidText(m.From), saidText(m.To))
	}
	return t.Flush()
}

func saidText(s corpus.Said) string {
	text := fmt.Sprintf("%s (%s, retry %s)", s.Category, s.Fault, s.Retry)
	if s.Rule != "" {
		text += " by " + s.Rule
	}
	return text
}
