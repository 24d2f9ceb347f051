package rules

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "record the digest of the built-in packs in proved.txt once they are proved")

// TestProved proves the built-in packs the long way and holds that the recorded digest is theirs, and that a trusted load
// gives the same set.
func TestProved(t *testing.T) {
	set, err := load(embedded, "packs", false)
	if err != nil {
		t.Fatal(err)
	}
	digest := packsDigest(embedded)
	if *update {
		if err := os.WriteFile("proved.txt", []byte(digest+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if digest+"\n" != proved {
		t.Errorf("the built-in packs have changed since they were proved: go test ./rules -run TestProved -update records it")
	}
	trusted, err := load(embedded, "packs", true)
	if err != nil {
		t.Fatal(err)
	}
	if trusted.Version() != set.Version() {
		t.Errorf("trusted load has version %s, proved load %s", trusted.Version(), set.Version())
	}
	if diff := cmp.Diff(set.Gates(), trusted.Gates()); diff != "" {
		t.Errorf("gates differ (-proved +trusted):\n%s", diff)
	}
	for _, r := range trusted.Rules() {
		if r.Block == "" && len(r.Literals()) == 0 {
			t.Errorf("%s:%d: %s: a built-in rule writes its literals down", r.File, r.Line, r.ID)
		}
	}
}
