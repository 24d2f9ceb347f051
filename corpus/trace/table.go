package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"
)

// Fields are the names that Options.Columns can map, those of an attempt in JSON. duration_s gives an end where only the
// start is known; log is the path of the attempt's stderr.
var Fields = []string{"cluster", "job", "attempt", "run_id", "name", "user", "vc", "gpus", "gpu_type", "nodes", "submitted", "start", "end",
	"duration_s", "exit_code", "signal", "state", "reason", "cost_class", "log"}

// CSV reads a table with a header. Columns that are named as Fields, or mapped to one, are read and others passed over.
// Times without a zone are UTC unless opt says otherwise. Without an attempt or run_id, the start identifies a run.
func CSV(r io.Reader, opt Options) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		y := newYielder(opt, yield)
		rows, err := newTable(r)
		if err == nil {
			err = rows.need(opt.column("job"))
		}
		for _, c := range opt.Columns {
			if err == nil {
				err = rows.need(c)
			}
		}
		if err != nil {
			yield(Record{}, err)
			return
		}
		rows.each(y, func() (Record, error) { return opt.record(rows.get) })
	}
}

// NDJSON reads one JSON object a line, with members as CSV has columns. A member of an inner object is named with a
// dot: status.node.
func NDJSON(r io.Reader, opt Options) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		y := newYielder(opt, yield)
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, maxLine)
		for n := 1; lines.Scan(); n++ {
			line := bytes.TrimSpace(lines.Bytes())
			if len(line) == 0 {
				continue
			}
			var object map[string]any
			d := json.NewDecoder(bytes.NewReader(line))
			d.UseNumber()
			err := d.Decode(&object)
			var rec Record
			if err == nil {
				rec, err = opt.record(func(name string) string { return member(object, name) })
			}
			if !y.give(where("line", n), rec, err) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(Record{}, err)
		}
	}
}

// member is a member of an object as text, a list with commas.
func member(object map[string]any, name string) string {
	value, ok := object[name]
	if !ok {
		outer, inner, dotted := strings.Cut(name, ".")
		if child, is := object[outer].(map[string]any); dotted && is {
			return member(child, inner)
		}
	}
	switch v := value.(type) {
	case nil:
		return ""
	case []any:
		var parts []string
		for _, p := range v {
			parts = append(parts, fmt.Sprint(p))
		}
		return strings.Join(parts, ",")
	}
	return fmt.Sprint(value)
}

// CheckColumns says which field of a mapping there is not.
func CheckColumns(columns map[string]string) error {
	for field, column := range columns {
		if !slices.Contains(Fields, field) {
			return fmt.Errorf("there is no field %q; there are %s", field, strings.Join(Fields, ", "))
		}
		if column == "" {
			return fmt.Errorf("no column is named for the field %q", field)
		}
	}
	return nil
}

// column is the source's name of a field.
func (o Options) column(field string) string {
	if c := o.Columns[field]; c != "" {
		return c
	}
	return field
}

// record makes a record of a row.
func (o Options) record(get func(column string) string) (Record, error) {
	r := Record{Owner: -1}
	a := &r.Attempt
	field := func(name string) string { return get(o.column(name)) }
	for name, to := range map[string]*string{"cluster": &a.Cluster, "job": &a.Job, "run_id": &a.RunID, "name": &a.Name, "user": &a.User,
		"vc": &a.VC, "gpu_type": &a.GPUType, "state": &a.State, "reason": &a.Reason, "cost_class": &a.CostClass, "log": &r.Log} {
		*to = known(field(name))
	}
	if notEnded[slurmState(a.State)] {
		return r, &Skip{Job: a.Job, Reason: skipRunning}
	}
	for name, to := range map[string]*int{"attempt": &a.Number, "gpus": &a.GPUs, "signal": &a.Signal} {
		n, err := number(field(name))
		if err != nil {
			return r, fmt.Errorf("%s: %w", name, err)
		}
		*to = n
	}
	if a.Number < 0 {
		return r, fmt.Errorf("attempt: %d is below 1", a.Number)
	}
	if signal := a.Signal; signal > 0 {
		setSignal(&a.Exit, signal)
	}
	if err := setExit(&a.Exit, field("exit_code")); err != nil {
		return r, err
	}
	var err error
	if a.Nodes, err = Hostlist(strings.NewReplacer(" ", ",", ";", ",").Replace(known(field("nodes")))); err != nil {
		return r, err
	}
	return r, o.setRowTimes(&r, field)
}

// setRowTimes reads the times of a row, and makes its start its identity where it has no other.
func (o Options) setRowTimes(r *Record, field func(string) string) error {
	elapsed := time.Duration(-1)
	if s := field("duration_s"); !unknown(s) {
		var seconds float64
		if _, err := fmt.Sscanf(strings.TrimSpace(s), "%g", &seconds); err != nil || seconds < 0 {
			return fmt.Errorf("duration_s: %q is no number of seconds", s)
		}
		elapsed = time.Duration(seconds * float64(time.Second))
	}
	if err := r.setTimes(o.zone(time.UTC), field("submitted"), field("start"), field("end"), elapsed); err != nil {
		return err
	}
	a := &r.Attempt
	if a.End == nil && a.Start != nil && elapsed >= 0 {
		a.End = new(a.Start.Add(elapsed))
	}
	if a.Number == 0 && a.RunID == "" && a.Start != nil {
		a.RunID = "start " + a.Start.UTC().Format(time.RFC3339)
	}
	return nil
}
