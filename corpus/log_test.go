package corpus

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/klauspost/compress/zstd"

	"culprit/classifier"
)

// writeLog writes a text as a kept log and returns its path.
func writeLog(t testing.TB, c *Corpus, text io.Reader) stagedFile {
	t.Helper()
	l, err := c.NewLog()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Discard)
	for log, err := range l.Tee(func(yield func(classifier.Log, error) bool) { yield(classifier.Log{Reader: text}, nil) }) {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, log.Reader); err != nil {
			t.Fatal(err)
		}
	}
	if l.err != nil {
		t.Fatal(l.err)
	}
	return l.files[0]
}

// slowLines is how lines are defined: by an editor, reading everything.
func slowLines(text string, from, to int64) []string {
	all := strings.Split(text, "\n")
	if all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	lines := []string{}
	for n := from; n <= to && n <= int64(len(all)); n++ {
		line := all[n-1]
		lines = append(lines, clipped([]byte(line[:min(len(line), maxLineBytes)]), int64(len(line))))
	}
	return lines
}

func TestLines(t *testing.T) {
	c := open(t, t.TempDir(), Options{NoIndex: true})
	rng := rand.New(rand.NewPCG(1, 2))
	var long strings.Builder
	for n := 1; long.Len() < 5*frameSize; n++ {
		switch n % 5000 {
		case 7:
			long.WriteString(strings.Repeat("x", 40_000))
		case 8:
			long.WriteString(strings.Repeat("é", 3*frameSize/4))
		default:
			fmt.Fprintf(&long, "line %d %s", n, strings.Repeat("y", rng.IntN(300)))
		}
		long.WriteString([]string{"\n", "\r\n", "\n\n"}[n%3])
	}
	for _, tt := range []struct{ name, text string }{
		{"empty", ""},
		{"one newline", "\n"},
		{"no newline at the end", "a\nb"},
		{"carriage returns", "10%\r20%\rdone\r\nnext\n"},
		{"invalid UTF-8", "a\xff\xfe\nb\x00\n"},
		{"a line that ends with a frame", strings.Repeat("z", frameSize-1) + "\nsecond\n"},
		{"a line that begins with a frame", strings.Repeat("z\n", frameSize/2) + "second\n"},
		{"long", long.String()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := writeLog(t, c, iotest.HalfReader(strings.NewReader(tt.text)))
			r, err := c.codec.openLogFile(f.path)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if f.Bytes != int64(len(tt.text)) || f.Lines != int64(len(slowLines(tt.text, 1, 1<<40))) {
				t.Errorf("%d bytes, %d lines; want %d, %d", f.Bytes, f.Lines, len(tt.text), len(slowLines(tt.text, 1, 1<<40)))
			}
			if body, err := io.ReadAll(r); err != nil || string(body) != tt.text {
				t.Errorf("read %d bytes that differ, or %v", len(body), err)
			}
			for i := range 40 {
				from := 1 + rng.Int64N(f.Lines+2)
				if i < 4 {
					from = int64(i) + 1
				}
				to := from + rng.Int64N(20)
				got, err := r.lines(from, to)
				if want := slowLines(tt.text, from, to); err != nil || strings.Join(got, "\n") != strings.Join(want, "\n") || len(got) != len(want) {
					t.Fatalf("lines %d to %d: %d lines, %v; want %d", from, to, len(got), err, len(want))
				}
			}
		})
	}
}

// A log is read by any tool that reads zstd.
func TestLogIsPlainZstd(t *testing.T) {
	c := open(t, t.TempDir(), Options{NoIndex: true})
	text := strings.Repeat("epoch 1 loss 0.5\n", 200_000)
	f := writeLog(t, c, strings.NewReader(text))
	packed, err := os.ReadFile(f.path)
	if err != nil {
		t.Fatal(err)
	}
	dec, err := zstd.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	defer dec.Close()
	if got, err := io.ReadAll(dec); err != nil || string(got) != text {
		t.Errorf("%d bytes, %v; want %d", len(got), err, len(text))
	}
	if f.stored != int64(len(packed)) || len(packed) > len(text)/50 {
		t.Errorf("stored %d, file %d, text %d", f.stored, len(packed), len(text))
	}
}

func TestLinesStopAtTheirBound(t *testing.T) {
	c := open(t, t.TempDir(), Options{NoIndex: true})
	line := strings.Repeat("x", 10_000) + "\n"
	a := add(t, c, Attempt{Job: "1"}, "", strings.Repeat(line, 2000))
	got, err := c.Lines(t.Context(), a.ID, "", 1, 1<<60)
	if err != nil || len(got) < maxLinesBytes/len(line) || len(got) > maxLinesBytes/len(line)+1 {
		t.Errorf("%d lines, %v; want as many as fill %d bytes", len(got), err, maxLinesBytes)
	}
	for _, bad := range [][2]int64{{0, 5}, {-1, 5}, {5, 4}} {
		var field *FieldError
		if _, err := c.Lines(t.Context(), a.ID, "", bad[0], bad[1]); !errors.As(err, &field) {
			t.Errorf("lines %v: %v, want a FieldError", bad, err)
		}
	}
}

// oneLine is a log of n bytes that is one line.
func oneLine(n int64) io.Reader { return io.LimitReader(xs{}, n) }

type xs struct{}

func (xs) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestOneHugeLine(t *testing.T) {
	c := open(t, t.TempDir(), Options{})
	const size = 300 << 20
	l := stage(t, c, func(yield func(classifier.Log, error) bool) {
		yield(classifier.Log{Reader: io.MultiReader(oneLine(size), strings.NewReader("\nlast words\n"))}, nil)
	})
	a := Attempt{Job: "1", Verdict: oom(2)}
	if _, err := c.Add(t.Context(), &a, l); err != nil {
		t.Fatal(err)
	}
	waitIndexed(t, c)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	lines, err := c.Lines(t.Context(), a.ID, "", 1, 10)
	runtime.ReadMemStats(&after)
	if err != nil || len(lines) != 2 || lines[1] != "last words" {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	if want := fmt.Sprintf("x … [%d bytes more]", size-maxLineBytes); !strings.HasSuffix(lines[0], want) {
		t.Errorf("the first line ends in %q, want %q", lines[0][len(lines[0])-40:], want)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
		t.Errorf("reading two lines allocated %d bytes", used)
	}
	if h, err := c.Search(t.Context(), `"last words"`, 0, ""); err != nil || h.Total != 1 {
		t.Errorf("the line after the huge one: %d hits, %v", h.Total, err)
	}
}

func TestTeeFailures(t *testing.T) {
	c := open(t, t.TempDir(), Options{NoIndex: true})
	cut := errors.New("the connection was cut")
	for _, tt := range []struct {
		name string
		seq  func(func(classifier.Log, error) bool)
		want func(error) bool
	}{
		{"a reader that fails", func(yield func(classifier.Log, error) bool) {
			yield(classifier.Log{Reader: io.MultiReader(strings.NewReader("half"), iotest.ErrReader(cut))}, nil)
		}, func(err error) bool { return errors.Is(err, cut) }},
		{"a sequence that fails", func(yield func(classifier.Log, error) bool) {
			if yield(classifier.Log{Reader: strings.NewReader("whole")}, nil) {
				yield(classifier.Log{}, cut)
			}
		}, func(err error) bool { return errors.Is(err, cut) }},
		{"two logs of one name", logs("a", "x", "a", "y"), func(err error) bool {
			var field *FieldError
			return errors.As(err, &field) && field.Field == "logs"
		}},
		{"a name with a newline", logs("a\nb", "x"), func(err error) bool {
			var field *FieldError
			return errors.As(err, &field) && field.Field == "logs"
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := stage(t, c, tt.seq)
			_, err := c.Add(t.Context(), &Attempt{Job: "1", Verdict: oom(0)}, l)
			if err == nil || !tt.want(err) {
				t.Errorf("Add: %v", err)
			}
			l.Discard()
			noFiles(t, c, "staging")
			if s, err := c.Stats(t.Context()); err != nil || s.Attempts != 0 {
				t.Errorf("%d attempts, %v; want none", s.Attempts, err)
			}
		})
	}
}

// noFiles fails the test where a folder of the corpus, or one in it, holds a file.
func noFiles(t testing.TB, c *Corpus, name string) {
	t.Helper()
	err := filepath.WalkDir(c.path(name), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Errorf("there is %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestDiscard(t *testing.T) {
	c := open(t, t.TempDir(), Options{NoIndex: true})
	l := stage(t, c, logs("a", "x", "b", "y"))
	l.Discard()
	noFiles(t, c, "staging")
	if _, err := c.Add(t.Context(), &Attempt{Job: "1", Verdict: oom(0)}, l); err == nil {
		t.Error("discarded logs were added")
	}
	kept := stage(t, c, logs("a", "x"))
	a := Attempt{Job: "1", Verdict: oom(0)}
	if _, err := c.Add(t.Context(), &a, kept); err != nil {
		t.Fatal(err)
	}
	kept.Discard()
	if got, err := c.Lines(t.Context(), a.ID, "a", 1, 1); err != nil || len(got) != 1 {
		t.Errorf("after Discard: %q, %v", got, err)
	}
	if _, err := c.Add(t.Context(), &Attempt{Job: "2", Verdict: oom(0)}, kept); err == nil {
		t.Error("logs were added twice")
	}
}

// A full disk keeps nothing and says so, and what was kept before is there.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	c := open(t, dir, Options{NoIndex: true})
	before := add(t, c, Attempt{Job: "before"}, "", "a small log\n")

	noise := func(n int64) io.Reader { return io.LimitReader(rand.NewChaCha8([32]byte{1}), n) }
	l, err := c.NewLog()
	if err != nil {
		t.Fatal(err)
	}
	var readErr error
	for log, err := range l.Tee(func(yield func(classifier.Log, error) bool) { yield(classifier.Log{Reader: noise(20 << 20)}, nil) }) {
		if err == nil {
			_, readErr = io.Copy(io.Discard, log.Reader)
		}
	}
	if !errors.Is(readErr, ErrFull) {
		t.Errorf("reading through Tee: %v, want ErrFull", readErr)
	}
	if _, err := c.Add(t.Context(), &Attempt{Job: "big", Verdict: oom(0)}, l); !errors.Is(err, ErrFull) {
		t.Errorf("Add: %v, want ErrFull", err)
	}
	l.Discard()
	noFiles(t, c, "staging")

	// Now the rows do not fit either.
	fill, err := os.Create(filepath.Join(dir, "fill"))
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(fill, noise(20<<20))
	fill.Close()
	kept := 0
	for i := range 2000 {
		a := Attempt{Job: fmt.Sprint(i), Name: strings.Repeat("n", 1000), Verdict: oom(0)}
		if _, err = c.Add(t.Context(), &a, nil); err != nil {
			break
		}
		kept++
	}
	if !errors.Is(err, ErrFull) {
		t.Fatalf("after %d records: %v, want ErrFull", kept, err)
	}
	s, err := c.Stats(t.Context())
	if err != nil || s.Attempts != int64(1+kept) {
		t.Errorf("%d attempts, %v; want %d", s.Attempts, err, 1+kept)
	}
	if got, err := c.Lines(t.Context(), before.ID, "", 1, 1); err != nil || got[0] != "a small log" {
		t.Errorf("the log kept before: %q, %v", got, err)
	}
	if err := os.Remove(filepath.Join(dir, "fill")); err != nil {
		t.Fatal(err)
	}
	add(t, c, Attempt{Job: "after"}, "", "there is space again\n")
}

// A log that was renamed but never got its row is swept; one that has a row, or is new, is not.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, Options{NoIndex: true})
	a := add(t, c, Attempt{Job: "1"}, "", "kept\n")
	orphan := writeLog(t, c, strings.NewReader("orphan\n"))
	path := c.logPath(orphan.Digest)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(orphan.path, path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.path("staging/log-left"), []byte("half"), 0o640); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	for _, p := range []string{path, c.logPath(a.Logs[0].Digest)} {
		if err := os.Chtimes(p, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c = open(t, dir, Options{NoIndex: true})
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the log without a row is still there")
		}
	}
	noFiles(t, c, "staging")
	if got, err := c.Lines(t.Context(), a.ID, "", 1, 1); err != nil || got[0] != "kept" {
		t.Errorf("the log with a row: %q, %v", got, err)
	}
}

func TestDamagedLog(t *testing.T) {
	c := open(t, t.TempDir(), Options{NoIndex: true})
	text := strings.Repeat("some text that is long enough\n", 100)
	f := writeLog(t, c, strings.NewReader(text))
	whole, err := os.ReadFile(f.path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		body := bytes.Clone(whole)
		body[i] ^= 0x40
		checkDamaged(t, c, body, text)
	}
	for n := range whole {
		checkDamaged(t, c, whole[:n], text)
	}
}

// checkDamaged fails the test where a damaged log reads as another text without an error.
func checkDamaged(t *testing.T, c *Corpus, body []byte, text string) {
	t.Helper()
	r, err := c.codec.newLogReader(bytes.NewReader(body), int64(len(body)), "test")
	if err != nil {
		return
	}
	if got, err := io.ReadAll(r); err == nil && string(got) != text {
		t.Fatalf("a damaged log reads as %d bytes of other text without an error", len(got))
	}
}

// Content that is kept already is not kept twice, and sending it again mends a damaged file.
func TestSameContentOnce(t *testing.T) {
	c := open(t, t.TempDir(), Options{NoIndex: true})
	a := add(t, c, Attempt{Job: "1"}, "", "the same\n")
	if err := os.WriteFile(c.logPath(a.Logs[0].Digest), []byte("damage"), 0o640); err != nil {
		t.Fatal(err)
	}
	b := add(t, c, Attempt{Job: "2"}, "rank0", "the same\n")
	if a.Logs[0].Digest != b.Logs[0].Digest {
		t.Fatalf("digests %s and %s", a.Logs[0].Digest, b.Logs[0].Digest)
	}
	if got, err := c.Lines(t.Context(), a.ID, "", 1, 1); err != nil || got[0] != "the same" {
		t.Errorf("%q, %v", got, err)
	}
	if s, err := c.Stats(t.Context()); err != nil || s.Logs != 1 || s.LogBytes != 9 {
		t.Errorf("%d logs of %d bytes, %v; want one of 9", s.Logs, s.LogBytes, err)
	}
	noFiles(t, c, "staging")
}

// The process is killed while it adds; what Add had answered is all there.
func TestKilled(t *testing.T) {
	if dir := os.Getenv("CORPUS_TEST_KILL"); dir != "" {
		addUntilKilled(t, dir)
		return
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), "CORPUS_TEST_KILL="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(1500*time.Millisecond, func() { cmd.Process.Kill() })
	said, _ := io.ReadAll(out)
	cmd.Wait()

	c := open(t, dir, Options{})
	answered := 0
	for _, line := range strings.Split(string(said), "\n") {
		var id int64
		var digest string
		if n, _ := fmt.Sscanf(line, "kept %d %s", &id, &digest); n != 2 || len(digest) != 64 {
			continue
		}
		answered++
		a, err := c.Attempt(t.Context(), id)
		if err != nil || a.Logs[0].Digest != digest {
			t.Fatalf("attempt %d: %v, logs %v", id, err, a.Logs)
		}
		if _, err := c.Lines(t.Context(), id, "", 1, 1); err != nil {
			t.Fatal(err)
		}
	}
	if answered == 0 {
		t.Fatalf("nothing was added before the kill: %q", said)
	}
	waitIndexed(t, c)
	s, err := c.Stats(t.Context())
	if err != nil || s.Attempts < int64(answered) {
		t.Fatalf("%d attempts, %v; want %d at least", s.Attempts, err, answered)
	}
	if h, err := c.Search(t.Context(), "unlucky", 0, ""); err != nil || h.Total != s.Attempts {
		t.Errorf("%d hits of %d attempts, %v", h.Total, s.Attempts, err)
	}
}

func addUntilKilled(t *testing.T, dir string) {
	c, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		go func() {
			for n := 0; ; n++ {
				a := Attempt{Job: fmt.Sprintf("%d-%d", i, n), Verdict: oom(0)}
				if _, err := c.Add(t.Context(), &a, stage(t, c, logs("", fmt.Sprintf("unlucky %d of %d\n", n, i)))); err != nil {
					return
				}
				fmt.Printf("kept %d %s\n", a.ID, a.Logs[0].Digest)
			}
		}()
	}
	time.Sleep(time.Minute)
}

func FuzzLogReader(f *testing.F) {
	c, err := newCodec()
	if err != nil {
		f.Fatal(err)
	}
	pack := func(texts ...string) []byte {
		var b []byte
		var frames []frame
		for _, text := range texts {
			packed := c.encoder.EncodeAll([]byte(text), nil)
			b = append(b, packed...)
			frames = append(frames, frame{packed: len(packed), text: len(text), newlines: strings.Count(text, "\n")})
		}
		return appendTable(b, frames)
	}
	f.Add(pack(), int64(1), int64(1))
	f.Add(pack("a\nb\n", "c", "d\r\n"), int64(2), int64(3))
	f.Add([]byte(trailerMagic), int64(1), int64(9))
	f.Fuzz(func(t *testing.T, body []byte, from, to int64) {
		r, err := c.newLogReader(bytes.NewReader(body), int64(len(body)), "fuzz")
		if err != nil {
			return
		}
		text, err := io.ReadAll(r)
		if err != nil {
			return
		}
		if int64(len(text)) != r.size() {
			t.Fatalf("%d bytes read, %d said", len(text), r.size())
		}
		from = 1 + from&0xff
		to = from + to&0xf
		got, err := r.lines(from, to)
		if want := slowLines(string(text), from, to); err != nil || strings.Join(got, "\x00") != strings.Join(want, "\x00") {
			t.Fatalf("lines %d to %d of %q: %q, %v; want %q", from, to, text, got, err, want)
		}
	})
}

// Uploads reuse their buffers: what they allocate does not grow with what is uploaded.
func TestStagingMemory(t *testing.T) {
	c := open(t, t.TempDir(), Options{NoIndex: true})
	text := trainingLog(4<<20, 1)
	upload := func(times int) {
		var readers []io.Reader
		for range times {
			readers = append(readers, strings.NewReader(text))
		}
		writeLog(t, c, io.MultiReader(readers...))
	}
	upload(4)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	upload(64)
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 32<<20 {
		t.Errorf("staging a log of 256 MB allocated %d MB", used>>20)
	}
}
