package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

func healthcheckCommand() *cobra.Command {
	var url string
	cmd := &cobra.Command{
		Use:     "healthcheck",
		Short:   "Ask a server whether it is ready, for containers without curl",
		Example: "  culprit healthcheck --url http://127.0.0.1:8080",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			req, err := http.NewRequestWithContext(cmd.Context(), http.MethodGet, url+"/readyz", nil)
			if err != nil {
				return usageError{err}
			}
			client := http.Client{Timeout: 3 * time.Second}
			res, err := client.Do(req)
			if err != nil {
				return err
			}
			defer res.Body.Close()
			if res.StatusCode != http.StatusOK {
				return fmt.Errorf("%s is not ready: %s", url, res.Status)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&url, "url", "http://127.0.0.1:8080", "`address` of the server")
	return cmd
}
