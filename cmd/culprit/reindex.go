package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"culprit/corpus"
)

func reindexCommand() *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use:   "reindex",
		Short: "Drop the text index and build it again from what is kept",
		Long: `Drops the text index and builds it again from the database and the logs. Nothing but the index is touched; the server
must not be running on the same folder. A server whose index is gone builds it by itself.`,
		Example: "  culprit reindex --data /var/lib/culprit",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := os.Stat(data); err != nil {
				return err
			}
			kept, err := corpus.Open(cmd.Context(), data, corpus.Options{})
			if err != nil {
				return err
			}
			defer kept.Close()
			p := newProgress(cmd.ErrOrStderr())
			if err := kept.Reindex(cmd.Context(), p.update); err != nil {
				return err
			}
			p.end()
			stats, err := kept.Stats(cmd.Context())
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "indexed %d attempts\n", stats.Attempts)
			return nil
		},
	}
	cmd.Flags().StringVar(&data, "data", "culprit-data", "`folder` of the database, the logs and the index")
	return cmd
}

// progress is a line on a terminal that counts long work. Elsewhere it prints nothing.
type progress struct {
	w     io.Writer // nil: not a terminal
	shown time.Time
}

func newProgress(w io.Writer) *progress {
	f, ok := w.(*os.File)
	if !ok {
		return &progress{}
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return &progress{}
	}
	return &progress{w: w}
}

func (p *progress) update(done, total int64) {
	if p.w == nil || time.Since(p.shown) < 100*time.Millisecond {
		return
	}
	p.shown = time.Now()
	fmt.Fprintf(p.w, "\r%d of %d (%.0f%%)\x1b[K", done, total, 100*float64(done)/max(1, float64(total)))
}

func (p *progress) end() {
	if p.w != nil {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
