package classifier_test

import (
	"bytes"
	"context"
	"testing"

	"culprit/classifier"
	"culprit/classifier/loggen"
)

// benchmarkLog measures Classify on one log.
func benchmarkLog(b *testing.B, log []byte) {
	c := newBuiltin(b)
	one := 1
	b.SetBytes(int64(len(log)))
	for b.Loop() {
		if _, err := c.Classify(context.Background(), classifier.Exit{Code: &one}, classifier.One(classifier.Log{Reader: bytes.NewReader(log)})); err != nil {
			b.Fatal(err)
		}
	}
}

func generated(b *testing.B, framework string, ranks int) []byte {
	b.Helper()
	var log bytes.Buffer
	if err := (loggen.Log{Framework: framework, Seed: 1, Ranks: ranks, Bytes: 32 << 20}).Write(&log); err != nil {
		b.Fatal(err)
	}
	return log.Bytes()
}

// BenchmarkQuiet is a long log without a failure.
func BenchmarkQuiet(b *testing.B) {
	for _, framework := range []string{"torchrun", "megatron", "trainer", "lightning"} {
		log := generated(b, framework, 8)
		b.Run(framework, func(b *testing.B) { benchmarkLog(b, log) })
	}
}

// BenchmarkWords is the labelled corpus, again and again: logs of words rather than numbers.
func BenchmarkWords(b *testing.B) {
	_, logs := labelledLogs(b)
	benchmarkLog(b, bytes.Repeat(bytes.Join(logs, nil), 8))
}

// BenchmarkWorst are inputs made to be slow.
func BenchmarkWorst(b *testing.B) {
	line := []byte("[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 3 has a total capacity of 79.15 GiB of which 1.12 GiB is free.\n")
	var literals []byte
	for _, g := range newBuiltin(b).Rules().Gates() {
		literals = append(append(literals, g.Literal...), '\n')
	}
	for name, log := range map[string][]byte{
		"each line a hit":  bytes.Repeat(line, 16<<20/len(line)),
		"all literals":     bytes.Repeat(literals, 16<<20/len(literals)),
		"one line":         bytes.Repeat([]byte("x"), 16<<20),
		"carriage returns": bytes.Repeat([]byte("\r"), 16<<20),
		"escapes":          bytes.Repeat([]byte("\x1b[31mloss\x1b[0m "), 1<<20),
		"tracebacks":       bytes.Repeat([]byte("Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nValueError: x\n"), 16<<20/80),
	} {
		b.Run(name, func(b *testing.B) { benchmarkLog(b, log) })
	}
}
