package loggen_test

import (
	"bytes"
	"testing"

	"culprit/classifier"
	"culprit/classifier/loggen"
	"culprit/rules"
)

// TestFailures: each message is classified as what it stands for, whatever precedes it, and two attempts of one job have
// one fingerprint.
func TestFailures(t *testing.T) {
	set, err := rules.Default()
	if err != nil {
		t.Fatal(err)
	}
	c := classifier.New(set)
	for _, category := range loggen.FailureCategories() {
		for variant := range loggen.Variants(category) {
			fingerprint := ""
			for seed := range uint64(24) {
				f := loggen.Failure{Category: category, Variant: variant, Seed: seed, Steps: int(seed%4) * 20, Ranks: int(seed % 3)}
				end, err := f.End()
				if err != nil {
					t.Fatal(err)
				}
				exit := classifier.Exit{Signal: end.Signal, State: end.State}
				if end.Code >= 0 {
					exit.Code = &end.Code
				}
				var log bytes.Buffer
				if err := f.Write(&log); err != nil {
					t.Fatal(err)
				}
				text := log.String()
				v, err := c.Classify(t.Context(), exit, classifier.One(classifier.Log{Reader: &log}))
				if err != nil {
					t.Fatal(err)
				}
				if fingerprint == "" {
					fingerprint = v.Fingerprint
				}
				if v.Category != category || v.Fingerprint != fingerprint {
					t.Errorf("%s variant %d seed %d: %s (rule %s, fingerprint %s), want fingerprint %s, log:\n%s", category, variant, seed, v.Category, v.Rule, v.Fingerprint, fingerprint, text[max(0, len(text)-600):])
					break
				}
			}
		}
	}
}

// TestFailuresCoverThePaper: every reason of the paper's table has a message.
func TestFailuresCoverThePaper(t *testing.T) {
	taxonomy, err := rules.DefaultTaxonomy()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range taxonomy.Categories {
		if c.Trials > 0 && loggen.Variants(c.ID) == 0 {
			t.Errorf("there is no failure of category %s", c.ID)
		}
	}
	if err := (loggen.Failure{Category: "none"}).Write(&bytes.Buffer{}); err == nil {
		t.Error("a failure of category none can be written")
	}
}
