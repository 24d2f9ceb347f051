package trace

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"
)

// Acme reads trace_seren.csv or trace_kalos.csv of AcmeTrace. Its times have their zone.
//
// The duration column of Kalos is end minus submission, and gpu_time is a product of that: both count the queue. Runtime
// is reckoned from start and end, with a note where the column says otherwise.
func Acme(r io.Reader, opt Options) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		y := newYielder(opt, yield)
		rows, err := newTable(r)
		if err == nil {
			err = rows.need("job_id", "user", "gpu_num", "state", "submit_time", "start_time", "end_time", "duration")
		}
		if err != nil {
			yield(Record{}, fmt.Errorf("AcmeTrace: %w", err))
			return
		}
		rows.each(y, func() (Record, error) { return acmeRecord(rows, opt.zone(time.UTC)) })
	}
}

func acmeRecord(row *table, zone *time.Location) (Record, error) {
	r := Record{Owner: -1}
	a := &r.Attempt
	a.Job, a.Number, a.User, a.VC = row.get("job_id"), 1, row.get("user"), row.get("type")
	a.State = strings.ToUpper(row.get("state"))
	if notEnded[a.State] {
		return r, &Skip{Job: a.Job, Reason: skipRunning}
	}
	if a.State == "COMPLETED" {
		a.Code = new(0)
	}
	gpus, err := number(row.get("gpu_num"))
	if err != nil {
		return r, fmt.Errorf("gpu_num: %w", err)
	}
	a.GPUs = gpus
	if err := r.setTimes(zone, row.get("submit_time"), row.get("start_time"), row.get("end_time"), -1); err != nil {
		return r, err
	}
	if a.Start == nil && (a.State == "CANCELLED" || a.End == nil) {
		return r, &Skip{Job: a.Job, Reason: skipNeverRan}
	}
	duration, err := strconv.ParseFloat(row.get("duration"), 64)
	if err == nil && a.Start != nil && a.End != nil && math.Abs(a.End.Sub(*a.Start).Seconds()-duration) >= 1 {
		r.note(noteDuration)
	}
	return r, nil
}

// number reads a whole number; tables also write 8.0. An empty one is 0.
func number(s string) (int, error) {
	if unknown(s) {
		return 0, nil
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || n != math.Trunc(n) || math.Abs(n) > 1e9 {
		return 0, fmt.Errorf("%q is no whole number", s)
	}
	return int(n), nil
}

// table is CSV with a header.
type table struct {
	csv    *csv.Reader
	column map[string]int
	row    []string
}

func newTable(r io.Reader) (*table, error) {
	in := bufio.NewReaderSize(r, 256<<10)
	if _, err := firstByte(in); err != nil && err != io.EOF {
		return nil, err
	}
	t := &table{csv: csv.NewReader(in), column: map[string]int{}}
	t.csv.ReuseRecord = true
	header, err := t.csv.Read()
	if err == io.EOF {
		return nil, fmt.Errorf("there is no header: the file is empty")
	}
	if err != nil {
		return nil, err
	}
	for i, name := range header {
		t.column[strings.TrimSpace(strings.Clone(name))] = i
	}
	return t, nil
}

// need says which columns are missing.
func (t *table) need(names ...string) error {
	var missing []string
	for _, n := range names {
		if _, ok := t.column[n]; !ok {
			missing = append(missing, n)
		}
	}
	if missing != nil {
		return fmt.Errorf("the header has no column %s", strings.Join(missing, ", "))
	}
	return nil
}

// next reads a row and returns its line. With an error and a line, only that row cannot be read.
func (t *table) next() (line int, err error) {
	t.row, err = t.csv.Read()
	if parse, ok := err.(*csv.ParseError); ok {
		return parse.StartLine, err
	}
	if err != nil {
		return 0, err
	}
	line, _ = t.csv.FieldPos(0)
	return line, nil
}

// each gives y what record makes of each row. A row that cannot be read is given with its error; reading ends where the
// file cannot be read, or nobody wants more.
func (t *table) each(y *yielder, record func() (Record, error)) {
	for {
		line, err := t.next()
		if err == io.EOF {
			return
		}
		if err != nil && line == 0 {
			y.yield(Record{}, err)
			return
		}
		var rec Record
		if err == nil {
			rec, err = record()
		}
		if !y.give(where("line", line), rec, err) {
			return
		}
	}
}

func (t *table) get(name string) string {
	if i, ok := t.column[name]; ok && i < len(t.row) {
		return strings.Clone(t.row[i])
	}
	return ""
}
