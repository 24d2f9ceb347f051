package main

import (
	"strings"
	"testing"
	"time"
)

func TestNumbers(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{thousands(0), "0"},
		{thousands(999), "999"},
		{thousands(1000), "1,000"},
		{thousands(1234567), "1,234,567"},
		{mbs(3.14159), "3.14 MB/s"},
		{mbs(1840), "1,840 MB/s"},
		{mbs(0), "-"},
		{times(1.5), "1.50×"},
		{times(2500), "2,500×"},
		{millis(1500 * time.Microsecond), "1.5 ms"},
		{millis(5920 * time.Millisecond), "5.92 s"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func TestMedianAndPercentile(t *testing.T) {
	var s samples
	var list []time.Duration
	for i := range 100 {
		d := time.Duration(100-i) * time.Millisecond
		s, list = append(s, sample{wall: d, cpu: 2 * d}), append(list, d)
	}
	if s.wall() != 51*time.Millisecond || s.cpu() != 102*time.Millisecond {
		t.Errorf("medians %v and %v, want 51 ms and 102 ms", s.wall(), s.cpu())
	}
	if p := percentile(list, 95); p != 95*time.Millisecond {
		t.Errorf("95th percentile of 1 to 100 ms is %v", p)
	}
	if p := percentile(list[:1], 99); p != time.Millisecond {
		t.Errorf("99th percentile of one is %v", p)
	}
}

// TestWrite holds that a table tells what was met, what was not and what nothing was demanded of, and that it owns up to
// a busy machine.
func TestWrite(t *testing.T) {
	b := &bench{began: time.Now()}
	b.row("fast work", "5 MB/s", "1 MB/s", "5.00×", "4×", true)
	b.row("slow work", "1 MB/s", "1 MB/s", "1.00×", "4×", false)
	b.row("other work", "1 MB/s", "", "", "", false)
	b.note("%s is missing.", "rg")
	var out strings.Builder
	if err := b.write(&out, machine{load: "3.00"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| fast work | 5 MB/s | 1 MB/s | 5.00× | 4× | yes |",
		"| slow work | 1 MB/s | 1 MB/s | 1.00× | 4× | no |",
		"| other work | 1 MB/s |  |  | - | - |",
		"- rg is missing.",
		"The machine was busy",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}

// TestLogs holds that the logs are the same in each run.
func TestLogs(t *testing.T) {
	for seed := range 12 {
		a, err := failedLog(seed, 5000)
		if err != nil {
			t.Fatal(err)
		}
		again, err := failedLog(seed, 5000)
		if err != nil || string(a) != string(again) || len(a) < 3000 {
			t.Errorf("log %d: %d and %d bytes, %v; want the same text twice", seed, len(a), len(again), err)
		}
	}
	var out strings.Builder
	if err := repeat(&out, []byte("ab\n"), 100_000); err != nil || out.Len() < 100_000 || out.Len() > 200_000 || !strings.HasPrefix(out.String(), "ab\nab\n") {
		t.Errorf("repeating: %d bytes, %v", out.Len(), err)
	}
}
