package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"culprit/corpus"
	"culprit/rules"
	"culprit/web"
)

// serveConfig are the flags of serve.
type serveConfig struct {
	listen    string
	data      string
	rules     string
	policy    string
	logRoots  []string
	url       string
	maxMB     int64
	uploads   int
	logFormat string
	drain     time.Duration
}

func serveCommand() *cobra.Command {
	var cfg serveConfig
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the API and the web pages",
		Long: `Serves the API and the pages, and keeps what is posted in a folder. SIGTERM and Ctrl-C let running requests end first;
SIGHUP reads the rule packs of --rules and the policy of --policy again, and keeps the old ones where the new ones do not load.`,
		Example: `  culprit serve
  culprit serve --listen :8080 --data /var/lib/culprit
  curl --data-binary @err.log 'http://127.0.0.1:8080/api/v1/attempts?job=123&gpus=8&exit_code=1'`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), cmd.ErrOrStderr(), cfg, nil) },
	}
	f := cmd.Flags()
	f.StringVar(&cfg.listen, "listen", "127.0.0.1:8080", "`address` to serve on; there are no accounts yet, so keep it where only your users reach it")
	f.StringVar(&cfg.data, "data", "culprit-data", "`folder` of the database, the logs and the index")
	f.StringVar(&cfg.rules, "rules", "", "`folder` of rule packs to use instead of the built-in ones")
	f.StringVar(&cfg.policy, "policy", "", "`file` of the gate's policy (default the built-in one)")
	f.StringArrayVar(&cfg.logRoots, "log-root", nil, "`folder` below which logs are read that Slurm's records name (may be given again; default none)")
	f.StringVar(&cfg.url, "url", "", "where clients reach the server, for the command lines that pages show (default http:// and --listen)")
	f.Int64Var(&cfg.maxMB, "max-upload-mb", 4096, "most `megabytes` of log in one upload, unpacked")
	f.IntVar(&cfg.uploads, "max-uploads", 32, "most uploads read at once; further ones wait a little, then get 429")
	f.StringVar(&cfg.logFormat, "log-format", "text", "`format` of the server's own log: text or json")
	f.DurationVar(&cfg.drain, "drain", 20*time.Second, "how long running requests may take to end after SIGTERM")
	return cmd
}

// serve runs the server until ctx ends. ready, where not nil, is told the address that it listens on.
func serve(ctx context.Context, stderr io.Writer, cfg serveConfig, ready func(net.Addr)) (err error) {
	log, err := serverLog(stderr, cfg.logFormat)
	if err != nil {
		return err
	}
	c, err := loadClassifier(cfg.rules)
	if err != nil {
		return err
	}
	kept, err := corpus.Open(ctx, cfg.data, corpus.Options{Log: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kept.Close()) }()
	listener, err := net.Listen("tcp", cfg.listen)
	if err != nil {
		return err
	}
	if cfg.url == "" {
		cfg.url = "http://" + listener.Addr().String()
	}
	server, err := web.New(web.Config{Corpus: kept, Classifier: c, Log: log, Version: version(), URL: cfg.url,
		MaxBytes: cfg.maxMB << 20, MaxUploads: cfg.uploads, LogRoots: cfg.logRoots})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	if err := kept.ContinuePass(ctx, c); err != nil {
		log.WarnContext(ctx, "could not go on with reclassifying", "err", err)
	}
	if err := setPolicy(server, cfg.policy, c.Rules(), log); err != nil {
		return errors.Join(err, listener.Close())
	}
	stop := reloadOnHangup(ctx, server, cfg, log)
	defer stop()
	log.InfoContext(ctx, "serving", "url", cfg.url, "data", cfg.data, "rules", len(c.Rules().Rules()), "rules_version", c.Rules().Version())
	if ready != nil {
		ready(listener.Addr())
	}
	return serveHTTP(ctx, &http.Server{Handler: server.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}, listener, cfg.drain, log)
}

// serveHTTP serves until ctx ends, then lets running requests end.
func serveHTTP(ctx context.Context, server *http.Server, listener net.Listener, drain time.Duration, log *slog.Logger) error {
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	log.Info("stopping", "drain", drain)
	end, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	if err := server.Shutdown(end); err != nil {
		return errors.Join(fmt.Errorf("requests still running after %s were cut off: %w", drain, err), server.Close())
	}
	return nil
}

func serverLog(w io.Writer, format string) (*slog.Logger, error) {
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, nil)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, nil)), nil
	}
	return nil, usagef("--log-format %q: must be text or json", format)
}

// setPolicy loads the gate's policy. Rules that it names and nobody has are said in the log.
func setPolicy(server *web.Server, file string, set *rules.Set, log *slog.Logger) error {
	p, err := loadPolicy(file)
	if err != nil {
		return err
	}
	if unknown := p.UnknownRules(set); len(unknown) > 0 {
		log.Warn("the policy names rules that do not exist", "rules", unknown)
	}
	server.SetPolicy(p)
	return nil
}

// reloadOnHangup reads the rule packs and the policy again at each SIGHUP until the returned function is called.
func reloadOnHangup(ctx context.Context, server *web.Server, cfg serveConfig, log *slog.Logger) (stop func()) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangup:
			}
			c, err := loadClassifier(cfg.rules)
			if err != nil {
				log.Error("kept the old rules: the new ones do not load", "err", err)
				continue
			}
			server.SetClassifier(c)
			log.Info("loaded rules", "rules", len(c.Rules().Rules()), "rules_version", c.Rules().Version())
			if err := setPolicy(server, cfg.policy, c.Rules(), log); err != nil {
				log.Error("kept the old policy: the new one does not load", "err", err)
			}
		}
	}()
	return func() {
		signal.Stop(hangup)
		cancel()
	}
}
