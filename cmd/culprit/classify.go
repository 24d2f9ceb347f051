package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/spf13/cobra"

	"culprit/classifier"
)

// classifyConfig are the flags of classify.
type classifyConfig struct {
	json     bool
	together bool
	exitCode int
	signal   int
	state    string
	reason   string
	gpus     int
	runtime  time.Duration
	rules    string
}

func classifyCommand() *cobra.Command {
	var cfg classifyConfig
	cmd := &cobra.Command{
		Use:   "classify [flags] [FILE | FOLDER | -]...",
		Short: "Say why the job that wrote a log failed",
		Long: `Reads logs and prints a verdict for each: the root cause and the line that proves it, whose side the fault is on, and
whether a retry can help. A folder stands for all files below it; without arguments, or with -, the log is read from
standard input. Files ending in .gz and .zst are unpacked. With --together all files are the logs of one attempt, one
a rank. The exit code is 0 whatever the verdict, 1 where a log could not be read, 2 for wrong usage.`,
		Example: `  culprit classify --exit-code 137 --gpus 8 --runtime 2h10m slurm-4711.err
  kubectl logs train-0 | culprit classify --json | jq -r .summary
  culprit classify --together job-4711/rank-*.err`,
		RunE: func(cmd *cobra.Command, args []string) error { return classify(cmd, cfg, args) },
	}
	f := cmd.Flags()
	f.BoolVar(&cfg.json, "json", false, "print one JSON object a verdict, one a line")
	f.BoolVar(&cfg.together, "together", false, "the files are the logs of one attempt, one a rank")
	f.IntVar(&cfg.exitCode, "exit-code", -1, "exit `code` of the job, 0 to 255 (PBS: 256 + signal)")
	f.IntVar(&cfg.signal, "signal", 0, "`number` of the signal that ended the job")
	f.StringVar(&cfg.state, "state", "", "the scheduler's `state`: FAILED, OUT_OF_MEMORY, NODE_FAIL, OOMKilled …")
	f.StringVar(&cfg.reason, "reason", "", "the scheduler's `reason`")
	f.IntVar(&cfg.gpus, "gpus", 0, "`number` of GPUs that the job held, for the cost")
	f.DurationVar(&cfg.runtime, "runtime", 0, "how long the job ran (2h10m), for the cost")
	f.StringVar(&cfg.rules, "rules", "", "`folder` of rule packs to use instead of the built-in ones")
	return cmd
}

// exit is what the flags say of the attempt's end.
func (cfg classifyConfig) exit(cmd *cobra.Command) (classifier.Exit, error) {
	e := classifier.Exit{Signal: cfg.signal, State: cfg.state, Reason: cfg.reason}
	if cmd.Flags().Changed("exit-code") {
		if cfg.exitCode < 0 || cfg.exitCode > classifier.MaxExitCode {
			return e, usagef("--exit-code %d: must be between 0 and %d", cfg.exitCode, classifier.MaxExitCode)
		}
		e.Code = &cfg.exitCode
	}
	if cfg.signal < 0 || cfg.signal > 255 {
		return e, usagef("--signal %d: must be between 0 and 255", cfg.signal)
	}
	if cfg.gpus < 0 {
		return e, usagef("--gpus %d: must not be negative", cfg.gpus)
	}
	if cfg.runtime < 0 {
		return e, usagef("--runtime %s: must not be negative", cfg.runtime)
	}
	return e, nil
}

func classify(cmd *cobra.Command, cfg classifyConfig, args []string) error {
	exit, err := cfg.exit(cmd)
	if err != nil {
		return err
	}
	c, err := loadClassifier(cfg.rules)
	if err != nil {
		return err
	}
	if len(args) == 0 {
		args = []string{"-"}
	}
	files, problems := expand(args)
	out := verdictPrinter{w: cmd.OutOrStdout(), cfg: cfg, many: len(files) > 1}
	if cfg.together {
		v, err := c.Classify(cmd.Context(), exit, openAll(cmd.InOrStdin(), files))
		if err != nil {
			return err
		}
		v.File = strings.Join(args, " ")
		return errors.Join(append(problems, out.print(v))...)
	}
	for _, file := range files {
		v, err := classifyFile(cmd.Context(), c, exit, cmd.InOrStdin(), file)
		if err != nil {
			if cmd.Context().Err() != nil {
				return err
			}
			problems = append(problems, err)
			continue
		}
		if err := out.print(v); err != nil {
			return err
		}
	}
	return errors.Join(problems...)
}

func classifyFile(ctx context.Context, c *classifier.Classifier, exit classifier.Exit, stdin io.Reader, file string) (classifier.Verdict, error) {
	r, err := openLog(stdin, file)
	if err != nil {
		return classifier.Verdict{}, err
	}
	defer r.Close()
	v, err := c.Classify(ctx, exit, classifier.One(classifier.Log{Reader: r}))
	if err != nil {
		return v, fmt.Errorf("%s: %w", file, err)
	}
	v.File = file
	return v, nil
}

// openAll opens the files one after the other, each when the one before has been read.
func openAll(stdin io.Reader, files []string) iter.Seq2[classifier.Log, error] {
	return func(yield func(classifier.Log, error) bool) {
		for _, file := range files {
			r, err := openLog(stdin, file)
			if err != nil {
				yield(classifier.Log{}, err)
				return
			}
			more := yield(classifier.Log{Name: file, Reader: r}, nil)
			r.Close()
			if !more {
				return
			}
		}
	}
}

// openLog opens a file, or standard input for "-", and unpacks .gz and .zst.
func openLog(stdin io.Reader, file string) (io.ReadCloser, error) {
	if file == "-" {
		return io.NopCloser(stdin), nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	switch filepath.Ext(file) {
	case ".gz":
		z, err := gzip.NewReader(f)
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		return unpacked{z, []io.Closer{z, f}}, nil
	case ".zst":
		z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		return unpacked{z, []io.Closer{z.IOReadCloser(), f}}, nil
	}
	return f, nil
}

// unpacked reads a compressed file and closes both.
type unpacked struct {
	io.Reader
	closers []io.Closer
}

func (u unpacked) Close() error {
	var errs []error
	for _, c := range u.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// expand turns folders into the files below them, in order of their names. What cannot be read is a problem, but no
// reason to leave the rest.
func expand(args []string) (files []string, problems []error) {
	for _, arg := range args {
		if arg == "-" {
			files = append(files, arg)
			continue
		}
		err := filepath.WalkDir(arg, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				problems = append(problems, err)
			case d.Type().IsRegular(), path == arg && !d.IsDir():
				files = append(files, path)
			}
			return nil
		})
		if err != nil {
			problems = append(problems, err)
		}
	}
	return files, problems
}

// verdictPrinter prints verdicts for people or as JSON lines.
type verdictPrinter struct {
	w    io.Writer
	cfg  classifyConfig
	many bool
	n    int
}

func (p *verdictPrinter) print(v classifier.Verdict) error {
	if p.cfg.json {
		return json.NewEncoder(p.w).Encode(v)
	}
	if p.n++; p.n > 1 {
		fmt.Fprintln(p.w)
	}
	if p.many {
		fmt.Fprintln(p.w, v.File)
	}
	_, err := io.WriteString(p.w, verdictText(v, p.cfg.gpus, p.cfg.runtime))
	return err
}
