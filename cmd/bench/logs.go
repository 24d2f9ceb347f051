package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"culprit/classifier/loggen"
)

// logFile is an input of the scan.
type logFile struct {
	name  string
	path  string
	bytes int64
}

func (b *bench) makeLog(name string, write func(io.Writer) error) (logFile, error) {
	path, err := b.writeFile(strings.ReplaceAll(name, " ", "-")+".log", func(w io.Writer) error {
		buffered := bufio.NewWriterSize(w, 1<<20)
		if err := write(buffered); err != nil {
			return err
		}
		return buffered.Flush()
	})
	if err != nil {
		return logFile{}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return logFile{}, err
	}
	return logFile{name, path, info.Size()}, nil
}

// trainingLog is the log of a healthy training job of 8 ranks.
func (b *bench) trainingLog(name string, size int) (logFile, error) {
	return b.makeLog(name, loggen.Log{Framework: "torchrun", Seed: 1, Ranks: 8, Bytes: int64(size)}.Write)
}

// wordsLog is logs of words rather than numbers, again and again.
func (b *bench) wordsLog(size int) (logFile, error) {
	text, source, err := wordsOf(b.cfg.words)
	if err != nil || len(text) == 0 {
		if text, source, err = wordsOf("classifier/testdata/stories"); err != nil {
			return logFile{}, err
		}
	}
	b.note("The words log is %s, %d KB of text, repeated.", source, len(text)/1000)
	return b.makeLog("words", func(w io.Writer) error { return repeat(w, text, size) })
}

func wordsOf(dir string) (text []byte, source string, err error) {
	source = "the labelled corpus"
	if strings.Contains(dir, "stories") {
		source = "the golden stories"
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		text = append(append(text, data...), '\n')
		return err
	})
	return text, source, err
}

// worstLogs are inputs made to be slow.
func (b *bench) worstLogs(size int) (list []logFile, err error) {
	line := []byte("[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 3 has a total capacity of 79.15 GiB of which 1.12 GiB is free.\n")
	var literals []byte
	for _, g := range b.set.Gates() {
		literals = append(append(literals, g.Literal...), '\n')
	}
	for _, input := range []struct {
		name string
		unit []byte
	}{
		{"each line a hit", line},
		{"all literals in turn", literals},
		{"one line without end", []byte("x")},
		{"carriage returns only", []byte("\r")},
		{"escape sequences", []byte("\x1b[31mloss\x1b[0m ")},
		{"tracebacks only", []byte("Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nValueError: x\n")},
	} {
		l, err := b.makeLog(input.name, func(w io.Writer) error { return repeat(w, input.unit, size) })
		if err != nil {
			return nil, err
		}
		list = append(list, l)
	}
	quoting, err := b.makeLog("a model that writes error messages", loggen.Log{Framework: "codegen", Seed: 1, Ranks: 4, Bytes: int64(size)}.Write)
	if err != nil {
		return nil, err
	}
	list = append(list, quoting)
	random, err := b.makeLog("random bytes", func(w io.Writer) error {
		source := rand.NewChaCha8([32]byte{1})
		_, err := io.CopyN(w, source, int64(size))
		return err
	})
	return append(list, random), err
}

// repeat writes a text until it has written size bytes or a little more.
func repeat(w io.Writer, text []byte, size int) error {
	if n := 64 << 10; len(text) < n {
		text = bytes.Repeat(text, n/len(text)+1)
	}
	for done := 0; done < size; done += len(text) {
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return nil
}

// frameworks are those whose logs are uploaded. loggen's codegen is not among them: of its lines each second is the text
// of an error, and it is measured as what it is, an input made to be slow.
var frameworks = []string{"torchrun", "megatron", "deepspeed", "trainer", "lightning", "nemo"}

// failedLog is the log of an attempt that failed, of about so many bytes, another one for each seed.
func failedLog(seed, size int) ([]byte, error) {
	var text bytes.Buffer
	healthy := loggen.Log{Framework: frameworks[seed%len(frameworks)], Seed: uint64(seed), Ranks: 4, Bytes: int64(max(1, size-2000))}
	if err := healthy.Write(&text); err != nil {
		return nil, err
	}
	categories := loggen.FailureCategories()
	category := categories[seed%len(categories)]
	failure := loggen.Failure{Category: category, Variant: seed, Seed: uint64(seed), Steps: 5, Ranks: 4}
	if err := failure.Write(&text); err != nil {
		return nil, fmt.Errorf("a log of %s: %w", category, err)
	}
	return text.Bytes(), nil
}
