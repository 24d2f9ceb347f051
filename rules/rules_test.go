package rules

import "testing"

// Every built-in pack loads. The message names file, line and rule of each mistake.
func TestDefaultLoads(t *testing.T) {
	set, err := Default()
	if err != nil {
		t.Fatalf("built-in packs:\n%v", err)
	}
	if len(set.Rules()) == 0 {
		t.Fatal("built-in packs hold no rule")
	}
}

// Every built-in rule passes its cases.
func TestDefaultCases(t *testing.T) {
	set, err := Default()
	if err != nil {
		t.Fatalf("built-in packs:\n%v", err)
	}
	cases, err := DefaultCases()
	if err != nil {
		t.Fatalf("built-in cases:\n%v", err)
	}
	for _, f := range Check(set, cases) {
		t.Errorf("%v", f)
	}
}
