package classifier

import (
	"bytes"
	"encoding/binary"
	"flag"
	"maps"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"culprit/classifier/loggen"
)

var makeCommon = flag.Bool("make-common", false, "make common.bin anew from generated logs and the labelled corpus")

// TestCommonWords makes common.bin, or holds that the one at hand knows what is common.
func TestCommonWords(t *testing.T) {
	if *makeCommon {
		if err := os.WriteFile("common.bin", countWords(t), 0o644); err != nil {
			t.Fatal(err)
		}
		t.Skip("made common.bin; run again without the flag")
	}
	for word, common := range map[string]bool{"loss": true, "[rank"[1:]: true, "erro": true, "step": true, "zq#x": false, "xid[": false} {
		n := commonWord(binary.LittleEndian.Uint32([]byte(word)) | caseBits)
		if (n > 0) != common {
			t.Errorf("commonWord(%q) = %d; common: %v", word, n, common)
		}
	}
}

// countWords counts the words of equal shares of each framework's log and of the labelled corpus.
func countWords(t *testing.T) []byte {
	const share = 200 << 10
	var logs [][]byte
	for _, framework := range loggen.Frameworks() {
		var b bytes.Buffer
		if err := (loggen.Log{Framework: framework, Seed: 3, Ranks: 8, Bytes: share}).Write(&b); err != nil {
			t.Fatal(err)
		}
		logs = append(logs, b.Bytes())
	}
	files, err := filepath.Glob("../../shared/corpus/logs/*.log")
	if err != nil || len(files) == 0 {
		t.Fatalf("no labelled corpus: %v", err)
	}
	var words []byte // the labelled logs are short: together they are one log of words rather than numbers
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		words = append(words, data[:min(len(data), 16<<10)]...)
	}
	logs = append(logs, words)
	// How common a word is in the log that has it most: a scan is as slow as its literals are common in the log at hand.
	most := map[uint32]int{}
	for _, log := range logs {
		counts := map[uint32]int{}
		for i := 0; i+wordBytes <= len(log); i++ {
			counts[binary.LittleEndian.Uint32(log[i:])|caseBits]++
		}
		for word, n := range counts {
			most[word] = max(most[word], n*1_000_000/len(log))
		}
	}
	var table []byte
	for _, word := range slices.Sorted(maps.Keys(most)) {
		if perMillion := most[word]; perMillion > 100 { // rarer ones do not slow the scan
			table = binary.LittleEndian.AppendUint32(table, word)
			table = append(table, byte(bits.Len(uint(perMillion))))
		}
	}
	return table
}
