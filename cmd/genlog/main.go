// Command genlog writes the log of a healthy training job to standard output: seeded, of any size, for benchmarks.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"culprit/classifier/loggen"
)

func main() {
	var l loggen.Log
	flag.StringVar(&l.Framework, "framework", "torchrun", "one of "+strings.Join(loggen.Frameworks(), ", "))
	flag.Uint64Var(&l.Seed, "seed", 1, "the same seed gives the same bytes")
	flag.IntVar(&l.Ranks, "ranks", 1, "speakers that take turns")
	flag.IntVar(&l.Lines, "lines", 0, "stop after so many lines")
	flag.Int64Var(&l.Bytes, "bytes", 0, "stop after the line that reaches so many bytes")
	flag.Parse()
	if err := l.Write(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "genlog:", err)
		os.Exit(1)
	}
}
