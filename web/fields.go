package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"culprit/classifier"
	"culprit/corpus"
	"culprit/corpus/trace"
)

// fields are an attempt's metadata under the names that query, form and JSON share.
var fields = map[string]func(a *corpus.Attempt, value string) error{
	"cluster":    func(a *corpus.Attempt, v string) error { return setText(&a.Cluster, v) },
	"job":        func(a *corpus.Attempt, v string) error { return setText(&a.Job, v) },
	"attempt":    func(a *corpus.Attempt, v string) error { return setCount(&a.Number, v, 1) },
	"run_id":     func(a *corpus.Attempt, v string) error { return setText(&a.RunID, v) },
	"name":       func(a *corpus.Attempt, v string) error { return setText(&a.Name, v) },
	"user":       func(a *corpus.Attempt, v string) error { return setText(&a.User, v) },
	"vc":         func(a *corpus.Attempt, v string) error { return setText(&a.VC, v) },
	"gpus":       func(a *corpus.Attempt, v string) error { return setCount(&a.GPUs, v, 0) },
	"gpu_type":   func(a *corpus.Attempt, v string) error { return setText(&a.GPUType, v) },
	"node":       setNodes,
	"nodes":      setNodes,
	"submitted":  func(a *corpus.Attempt, v string) error { return setTime(&a.Submitted, v) },
	"start":      func(a *corpus.Attempt, v string) error { return setTime(&a.Start, v) },
	"end":        func(a *corpus.Attempt, v string) error { return setTime(&a.End, v) },
	"exit_code":  setExitCode,
	"signal":     setSignal,
	"state":      func(a *corpus.Attempt, v string) error { return setText(&a.Exit.State, v) },
	"reason":     func(a *corpus.Attempt, v string) error { return setText(&a.Exit.Reason, v) },
	"cost_class": func(a *corpus.Attempt, v string) error { return setText(&a.CostClass, v) },
}

// metadata fills an attempt field by field and refuses a field that is given twice with two values.
type metadata struct {
	attempt *corpus.Attempt
	given   map[string]string
}

func newMetadata() *metadata {
	return &metadata{attempt: &corpus.Attempt{}, given: map[string]string{}}
}

// set takes one field as text. An empty value is the same as none, so that a hook may pass on what it does not have.
func (m *metadata) set(name, value string) error {
	set, ok := fields[name]
	if !ok {
		return unknownField(name, slices.Collect(maps.Keys(fields)))
	}
	value = strings.TrimSpace(value)
	if value == "" {
		return nil
	}
	if before, ok := m.given[name]; ok {
		if before == value {
			return nil
		}
		return badField(name, "given twice, as %s and as %s", quote(before), quote(value))
	}
	m.given[name] = value
	if err := set(m.attempt, value); err != nil {
		return badField(name, "%s: %v", quote(value), err)
	}
	return nil
}

// setJSON takes one field as a member of a JSON object: text, a number, or for nodes a list.
func (m *metadata) setJSON(name string, raw json.RawMessage) error {
	if _, ok := fields[name]; !ok {
		return unknownField(name, append(slices.Collect(maps.Keys(fields)), "log", "logs"))
	}
	var text string
	var list []string
	var number json.Number
	switch {
	case json.Unmarshal(raw, &text) == nil: // null too
		return m.set(name, text)
	case json.Unmarshal(raw, &number) == nil:
		return m.set(name, number.String())
	case name == "nodes" && json.Unmarshal(raw, &list) == nil:
		return m.set(name, strings.Join(list, ","))
	}
	return badField(name, "text or a number is wanted here, not %s", clip(string(raw), 60))
}

// check says what no field says alone. It runs before the logs are read where the metadata come first.
func (m *metadata) check(needJob bool) error {
	a := m.attempt
	switch {
	case needJob && a.Job == "":
		return badField("job", "missing: say which job the log is of, as in ?job=4711")
	case a.Start != nil && a.End != nil && a.End.Before(*a.Start):
		return badField("end", "%s is before start %s", a.End.Format(time.RFC3339), a.Start.Format(time.RFC3339))
	}
	return nil
}

const maxText = 1024 // bytes of a metadata field

func setText(to *string, v string) error {
	switch {
	case len(v) > maxText:
		return fmt.Errorf("longer than %d bytes", maxText)
	case !utf8.ValidString(v):
		return fmt.Errorf("not valid UTF-8")
	case strings.ContainsFunc(v, hidden):
		return fmt.Errorf("contains control or direction characters")
	}
	*to = v
	return nil
}

// hidden tells whether a character would change a line without being seen in it.
func hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}

func setCount(to *int, v string, least int) error {
	n, err := strconv.Atoi(v)
	if err != nil || n > math.MaxInt32 {
		return fmt.Errorf("not a whole number")
	}
	if n < least {
		return fmt.Errorf("less than %d", least)
	}
	*to = n
	return nil
}

func setNodes(a *corpus.Attempt, v string) error {
	names, err := trace.Hostlist(v)
	if err != nil {
		return err
	}
	for _, name := range names {
		var node string
		if err := setText(&node, name); err != nil {
			return err
		}
		if !slices.Contains(a.Nodes, node) {
			a.Nodes = append(a.Nodes, node)
		}
	}
	return nil
}

func setTime(to **time.Time, v string) error {
	t, err := parseTime(v)
	if err == nil {
		*to = &t
	}
	return err
}

// setExitCode reads what schedulers call an exit code: 1, Slurm's code:signal, and -9 for signal 9 as Python has it.
// Code becomes what a shell would report, 128 + signal, where a signal ended the job.
func setExitCode(a *corpus.Attempt, v string) error {
	codeText, signalText, both := strings.Cut(v, ":")
	code, err := strconv.Atoi(codeText)
	if err != nil {
		return fmt.Errorf("not an exit code: 0 to %d, code:signal, or -signal", classifier.MaxExitCode)
	}
	if code < 0 && !both {
		code, signalText, both = 0, strconv.Itoa(-code), true
	}
	if code < 0 || code > classifier.MaxExitCode {
		return fmt.Errorf("exit codes are 0 to %d", classifier.MaxExitCode)
	}
	a.Exit.Code = &code
	if !both && a.Exit.Signal > 0 {
		signalText, both = strconv.Itoa(a.Exit.Signal), true
	}
	if !both || signalText == "0" {
		return nil
	}
	return setSignal(a, signalText)
}

// setSignal takes the signal that ended the job, by number or name. Slurm writes 125 for out of memory, which is no
// signal of the kernel and gives no exit code.
func setSignal(a *corpus.Attempt, v string) error {
	n, err := strconv.Atoi(v)
	if err != nil {
		n = signalNumbers[strings.TrimPrefix(strings.ToUpper(v), "SIG")]
	}
	if n < 0 || n > 127 || err != nil && n == 0 {
		return fmt.Errorf("not a signal: 1 to 127, or a name such as SIGKILL")
	}
	a.Exit.Signal = n
	if code := a.Exit.Code; n > 0 && (code == nil || *code == 0) {
		a.Exit.Code = nil
		if n <= 64 {
			a.Exit.Code = new(128 + n)
		}
	}
	return nil
}

var signalNumbers = map[string]int{"HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "TRAP": 5, "ABRT": 6, "BUS": 7, "FPE": 8,
	"KILL": 9, "USR1": 10, "SEGV": 11, "USR2": 12, "PIPE": 13, "ALRM": 14, "TERM": 15, "XCPU": 24, "XFSZ": 25, "SYS": 31}

// parseTime reads RFC 3339 or seconds since 1970. Years outside 1980 to 2200 are mistakes: milliseconds, zero times.
func parseTime(v string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, v)
	if err != nil {
		seconds, numErr := strconv.ParseFloat(v, 64)
		if numErr != nil {
			return time.Time{}, fmt.Errorf("not a time: RFC 3339 with a zone (2026-12-01T18:30:00Z) or seconds since 1970 is wanted")
		}
		if !(seconds > 0 && seconds < 1e10) {
			return time.Time{}, fmt.Errorf("not a time in seconds since 1970")
		}
		t = time.UnixMilli(int64(math.Round(seconds * 1000))).UTC()
	}
	if t.Year() < 1980 || t.Year() > 2200 {
		return time.Time{}, fmt.Errorf("not a time of a job: the year is %d", t.Year())
	}
	return t, nil
}

func unknownField(name string, known []string) error {
	if len(known) == 0 {
		return badField(clip(name, 60), "unknown; no parameters are taken here")
	}
	if best := nearest(name, known); best != "" {
		return badField(clip(name, 60), "unknown; did you mean %s?", best)
	}
	slices.Sort(known)
	return badField(clip(name, 60), "unknown; known are %s", strings.Join(known, ", "))
}

// nearest finds the known name that a misspelt one most likely means; "" where none is near.
func nearest(name string, known []string) string {
	name = strings.ToLower(strings.ReplaceAll(clip(name, 60), "-", "_"))
	slices.Sort(known)
	best := slices.MinFunc(known, func(a, b string) int { return cmp.Compare(distance(name, a), distance(name, b)) })
	if distance(name, best) > max(1, len(name)/3) {
		return ""
	}
	return best
}

// distance counts the letters to add, drop, change or swap to get from a to b.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			change := last[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}

func quote(s string) string { return strconv.Quote(clip(s, 60)) }

// clip cuts s to n bytes, at a character's border.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
