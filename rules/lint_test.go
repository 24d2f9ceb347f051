package rules

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// One finding an archive. A wanted line may be cut short where the rest is a figure of the machine.
func TestLint(t *testing.T) {
	eachArchive(t, "testdata/lint/*.txtar", func(t *testing.T, packs fs.FS, want string) {
		set, err := Load(packs)
		if err != nil {
			t.Fatal(err)
		}
		cases, err := LoadCases(packs)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range Check(set, cases) {
			if f.Got != "no such rule" {
				t.Errorf("case fails: %v", f)
			}
		}
		var got []string
		wanted := strings.Split(want, "\n")
		for i, f := range Lint(set, cases) {
			text := f.String()
			if i < len(wanted) && wanted[i] != "" && strings.HasPrefix(text, wanted[i]) {
				text = wanted[i]
			}
			got = append(got, text)
		}
		if diff := cmp.Diff(want, strings.Join(got, "\n")); diff != "" {
			t.Errorf("findings (-want +got):\n%s", diff)
		}
	})
}

const onePack = `
- id: app-down
  category: network-error
  literals: ["step "]
  pattern: 'step \d+ lost (?<what>\w+)'
  summary: "lost {what}"
  advice: Start it again.
  source: owner/app main.go
- id: app-up
  category: network-error
  ignore_case: true
  literals: ["Step 7 "]
  pattern: 'step 7 won'
  summary: "won"
  advice: Start it again.
  source: owner/app main.go
`

func TestLintFrequency(t *testing.T) {
	set, err := Load(fstest.MapFS{"pack.yaml": {Data: []byte(onePack)}})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&log, "epoch 1 step %d loss 2.5\n", i)
	}
	log.WriteString("STEP 7 Won the lottery")
	var got []string
	for _, f := range LintFrequency(set, []byte(log.String())) {
		got = append(got, f.String())
	}
	want := []string{
		`pack.yaml:2: warning: app-down: literal "step " stands in 2000 of 2001 healthy lines`,
		`pack.yaml:9: warning: app-up: matches healthy lines, as "STEP 7 Won the lottery"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}
