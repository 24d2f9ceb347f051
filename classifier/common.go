package classifier

import (
	_ "embed"
	"encoding/binary"
	"sort"
)

// commonWords lists the words of 4 bytes that are common in logs, folded, ascending, each followed by one byte: the
// binary logarithm of how often it stands in a million bytes of the log that has it most. TestCommonWords makes it from generated logs and the labelled
// corpus.
//
//go:embed common.bin
var commonWords []byte

const commonEntry = wordBytes + 1

// commonWord says how often a folded word of 4 bytes occurs in a million bytes of logs, roughly; 0 for a rare one.
func commonWord(word uint32) int {
	n := len(commonWords) / commonEntry
	i := sort.Search(n, func(i int) bool { return binary.LittleEndian.Uint32(commonWords[i*commonEntry:]) >= word })
	if i == n || binary.LittleEndian.Uint32(commonWords[i*commonEntry:]) != word {
		return 0
	}
	return 1 << commonWords[i*commonEntry+wordBytes]
}
