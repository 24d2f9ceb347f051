package main

import (
	"io"

	"github.com/spf13/cobra"
)

// relayCommand copies what grandchildren of a job say after its end; run starts it.
func relayCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "relay",
		Short:  "Copy standard input to standard output",
		Hidden: true,
		Args:   usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.Copy(cmd.OutOrStdout(), cmd.InOrStdin())
			return err
		},
	}
}
