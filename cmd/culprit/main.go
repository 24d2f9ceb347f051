// Command culprit says why GPU jobs failed: for logs at hand, and as a service.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"culprit/classifier"
	"culprit/rules"
)

// The exit codes of every command but run and gate.
const (
	exitOK    = 0
	exitFail  = 1 // could not do what was asked
	exitUsage = 2 // wrong arguments
)

func main() {
	// A signal that whoever started us wants ignored stays ignored, for the job of run too.
	ctx, stop := context.Background(), func() {}
	if ends := unignored([]os.Signal{os.Interrupt, syscall.SIGTERM}); len(ends) > 0 {
		ctx, stop = signal.NotifyContext(ctx, ends...)
	}
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// usageError is a mistake in the arguments rather than a failure of the work.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// errQuiet ends a command with exit code 1 after it has said all there is to say.
var errQuiet = errors.New("failed")

// exitCode is an error that carries the exit code of a command whose codes mean more than success and failure.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// run is the whole program: it parses args, runs the subcommand and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := rootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var code exitCode
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return int(code)
	case errors.Is(err, errQuiet):
		return exitFail
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "culprit: %v\nRun 'culprit --help' for usage.\n", err)
		return exitUsage
	}
	fmt.Fprintf(stderr, "culprit: %v\n", err)
	return exitFail
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "culprit",
		Short: "Why GPU jobs failed, whose side the fault is on, and whether a retry can help",
		Long: `culprit reads the logs of failed GPU jobs and names the root cause, whose side the fault is on (user or
infrastructure), whether a retry can help, and the line that proves it.

Every flag can be set by an environment variable: CULPRIT_LISTEN for --listen.`,
		Example: `  culprit classify err.log                     what killed this job?
  culprit classify --json logs/*.err | jq .    one verdict a line
  culprit serve --data culprit-data            the service, its API and its pages`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return flagsFromEnvironment(cmd)
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(classifyCommand(), evalCommand(), rulesCommand(), versionCommand(), serveCommand(), reportCommand(), reindexCommand(), reclassifyCommand(), healthcheckCommand(),
		runCommand(), gateCommand(), relayCommand(), importCommand(), demoCommand(), watchCommand())
	return root
}

// noCommand says which command was probably meant by one that does not exist.
func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	msg := fmt.Sprintf("unknown command %q", args[0])
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		msg += fmt.Sprintf("; did you mean %q?", near[0])
	}
	return usageError{errors.New(msg)}
}

// usageArgs makes the complaint of an argument check a mistake of usage.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}

// flagsFromEnvironment sets the flags that were not given from CULPRIT_NAME.
func flagsFromEnvironment(cmd *cobra.Command) error {
	var problems []error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		name := "CULPRIT_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value, ok := os.LookupEnv(name)
		if !ok || f.Changed || f.Name == "help" {
			return
		}
		if err := cmd.Flags().Set(f.Name, value); err != nil {
			problems = append(problems, fmt.Errorf("environment variable %s: %w", name, err))
		}
	})
	if len(problems) > 0 {
		return usageError{errors.Join(problems...)}
	}
	return nil
}

// loadRules loads the packs of a folder, or the built-in ones where dir is empty.
func loadRules(dir string) (*rules.Set, error) {
	if dir == "" {
		return rules.Default()
	}
	return rules.Load(os.DirFS(dir))
}

func loadClassifier(dir string) (*classifier.Classifier, error) {
	set, err := loadRules(dir)
	if err != nil {
		return nil, err
	}
	return classifier.New(set), nil
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of the program and of its rules",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			set, err := rules.Default()
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "culprit %s, %d rules, version %s\n", version(), len(set.Rules()), set.Version())
			return nil
		},
	}
}

// version is the program's version: that of the module, or the commit it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return s.Value[:12]
		}
	}
	return "unreleased"
}
