package main

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"culprit/classifier"
)

// verdictText is a verdict for a terminal: what, whose, whether again; the proof; what to do; what followed.
func verdictText(v classifier.Verdict, gpus int, runtime time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s)\n", v.Title, v.Category)
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "  %-11s %s\n", name, value)
		}
	}
	field("summary", printable(v.Summary, 400))
	if v.Category != "none" {
		field("fault", string(v.Fault))
		field("retry", retryText(v))
	}
	field("sure", fmt.Sprintf("%.0f%%", v.Confidence*100))
	if v.Root != nil {
		field("proof", place(*v.Root)+printable(v.Root.Text, 300))
	}
	field("advice", wrap(v.Advice, 100, 14))
	field("rule", v.Rule)
	for i, e := range v.Others {
		field(first(i, "also"), place(e)+e.Rule+": "+printable(e.Text, 120))
	}
	for i, e := range v.Cascade {
		if i == 5 {
			field("", fmt.Sprintf("… %d more", len(v.Cascade)-i))
			break
		}
		field(first(i, "then"), place(e)+e.Rule+": "+printable(e.Text, 120))
	}
	field("progress", progressText(v.Progress))
	if gpus > 0 && runtime > 0 && v.Category != "none" {
		field("cost", fmt.Sprintf("%.2f GPU-hours (%d GPUs for %s)", runtime.Hours()*float64(gpus), gpus, runtime))
	}
	field("fingerprint", v.Fingerprint)
	return b.String()
}

// first is name for the first of several lines, and spaces for the others.
func first(i int, name string) string {
	if i == 0 {
		return name
	}
	return " "
}

func retryText(v classifier.Verdict) string {
	switch v.Retry {
	case "never":
		return "never: it fails again until something is changed"
	case "once":
		return "once: the same failure twice means never"
	case "elsewhere":
		return "elsewhere: on other nodes"
	}
	return "always: with back-off"
}

func place(e classifier.Evidence) string {
	s := fmt.Sprintf("line %d", e.Line)
	if e.File != "" {
		s = e.File + ":" + s
	}
	if e.Rank != "" {
		s += ", rank " + e.Rank
	}
	return s + ": "
}

func progressText(p classifier.Progress) string {
	var parts []string
	if p.Step != nil {
		parts = append(parts, fmt.Sprintf("step %d", *p.Step))
	}
	if p.CheckpointStep != nil {
		parts = append(parts, fmt.Sprintf("last checkpoint at step %d", *p.CheckpointStep))
	}
	if p.LastLine > 0 {
		parts = append(parts, fmt.Sprintf("last seen on line %d", p.LastLine))
	}
	return strings.Join(parts, ", ")
}

// printable is s on one line without what a terminal would act on, at most n runes.
func printable(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if r == '\t' {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.TrimSpace(s))
	if utf8.RuneCountInString(s) > n {
		return string([]rune(s)[:n]) + "…"
	}
	return s
}

// wrap breaks s into lines of at most width runes, each but the first indented.
func wrap(s string, width, indent int) string {
	var b strings.Builder
	n := 0
	for i, word := range strings.Fields(s) {
		l := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case n+1+l > width:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			n = 0
		default:
			b.WriteByte(' ')
			n++
		}
		b.WriteString(word)
		n += l
	}
	return b.String()
}
