package rules

import (
	"path"
	"strings"
	"testing"
	"testing/fstest"
)

// builtin is the built-in packs and their cases, for tests that need all of them.
func builtin(t testing.TB) (*Set, Cases) {
	t.Helper()
	set, err := Default()
	if err != nil {
		t.Skip("the built-in packs do not load: see TestDefaultLoads")
	}
	cases, err := DefaultCases()
	if err != nil {
		t.Skip("the built-in cases do not load: see TestPacks")
	}
	return set, cases
}

// The built-in packs load together. The message names file, line and rule of each mistake.
func TestDefaultLoads(t *testing.T) {
	if _, err := Default(); err != nil {
		t.Fatalf("built-in packs:\n%v", err)
	}
	if _, err := DefaultCases(); err != nil {
		t.Fatalf("built-in cases:\n%v", err)
	}
}

// Each built-in pack alone loads, passes its cases and lints without an error. With -v the warnings are printed too:
// go test -v -run TestPacks/nccl ./rules
func TestPacks(t *testing.T) {
	files, err := yamlFiles(embedded, "packs")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if isCaseFile(file) {
			continue
		}
		t.Run(strings.TrimSuffix(path.Base(file), ".yaml"), func(t *testing.T) {
			packs := fstest.MapFS{}
			for _, f := range []string{file, strings.TrimSuffix(file, ".yaml") + "_test.yaml"} {
				if data, err := embedded.ReadFile(f); err == nil {
					packs[f] = &fstest.MapFile{Data: data}
				}
			}
			checkPack(t, packs)
		})
	}
}

func checkPack(t *testing.T, packs fstest.MapFS) {
	set, err := load(packs, "packs", false)
	if err != nil {
		t.Errorf("rules:\n%v", err)
	}
	cases, caseErr := loadCases(packs, "packs")
	if caseErr != nil {
		t.Errorf("cases:\n%v", caseErr)
	}
	if err != nil || caseErr != nil {
		return
	}
	for _, f := range Check(set, cases) {
		t.Errorf("%v", f)
	}
	for _, f := range Lint(set, cases) {
		if f.Severity == SeverityError {
			t.Errorf("%v", f)
		} else {
			t.Log(f)
		}
	}
}

// No rule takes all lines of another, over all packs. What a rule does badly by itself, TestPacks tells.
func TestDefaultOverlaps(t *testing.T) {
	set, cases := builtin(t)
	l := linter{set: set, cases: casesByRule(cases)}
	l.overlaps()
	for _, f := range l.findings {
		if f.Severity == SeverityError {
			t.Errorf("%v", f)
		} else {
			t.Log(f)
		}
	}
}
