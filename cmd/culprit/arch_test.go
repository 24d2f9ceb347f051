package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// chain is the order of the packages: each imports only what stands to its right.
var chain = []string{"culprit/cmd/culprit", "culprit/web", "culprit/corpus", "culprit/classifier", "culprit/rules"}

func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "culprit/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	place := func(pkg string) int { // a package below one of the chain stands where that does
		return slices.IndexFunc(chain, func(c string) bool { return pkg == c || strings.HasPrefix(pkg, c+"/") })
	}
	for line := range strings.Lines(string(out)) {
		pkg, imports, _ := strings.Cut(strings.TrimSpace(line), " ")
		for _, imp := range strings.Fields(imports) {
			if !strings.HasPrefix(imp, "culprit/") || place(pkg) < 0 {
				continue
			}
			if place(imp) < place(pkg) {
				t.Errorf("%s imports %s, which stands before it in the chain %v", pkg, imp, chain)
			}
		}
		if strings.Contains(line, "gin-gonic") && !strings.HasPrefix(pkg, "culprit/web") {
			t.Errorf("%s imports gin; only web may", pkg)
		}
	}
}
