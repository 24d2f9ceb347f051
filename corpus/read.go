package corpus

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// querier is what reads: the pool of readers or the writing connection.
type querier func(query string, args ...any) (*sql.Rows, error)

func (c *Corpus) reader(ctx context.Context) querier {
	return func(query string, args ...any) (*sql.Rows, error) { return c.read.QueryContext(ctx, query, args...) }
}

func (b *batch) query(query string, args ...any) (*sql.Rows, error) {
	s, err := b.stmt(query)
	if err != nil {
		return nil, err
	}
	return s.Query(args...)
}

// attempt reads an attempt as the transaction sees it.
func (b *batch) attempt(id int64) (Attempt, error) { return oneAttempt(b.query, id) }

// Attempt returns one attempt. ErrNotFound where there is none of that id.
func (c *Corpus) Attempt(ctx context.Context, id int64) (Attempt, error) {
	return oneAttempt(c.reader(ctx), id)
}

func oneAttempt(query querier, id int64) (Attempt, error) {
	list, err := readAttempts(query, []int64{id})
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("attempt %d: %w", id, ErrNotFound)
	}
	if err != nil {
		return Attempt{}, err
	}
	return list[0], nil
}

// History returns all attempts of a job, in the order of their numbers. An unknown job has none.
func (c *Corpus) History(ctx context.Context, cluster, job string) ([]Attempt, error) {
	ids, err := c.readIDs(ctx, `SELECT id FROM attempt
		WHERE job_id = (SELECT id FROM job WHERE cluster = ? AND job = ?) ORDER BY number`, cluster, job)
	if err != nil {
		return nil, err
	}
	return readAttempts(c.reader(ctx), ids)
}

// readAttempts reads attempts in the order of ids; those that are not there are left out.
func readAttempts(query querier, ids []int64) ([]Attempt, error) {
	list := []Attempt{}
	if len(ids) == 0 {
		return list, nil
	}
	wanted, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	rows, err := query(`SELECT a.id, j.cluster, j.job, a.number, a.run_id, a.name, j.user, a.vc, a.gpus, a.gpu_type, a.nodes,
			a.submitted, a.started, a.ended, a.exit_code, a.signal, a.state, a.reason, a.cost_class, a.created, v.body
		FROM json_each(?) w JOIN attempt a ON a.id = w.value JOIN job j ON j.id = a.job_id JOIN verdict v ON v.attempt_id = a.id
		ORDER BY w.key`, string(wanted))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		a, err := scanAttempt(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return list, readLogs(query, string(wanted), list)
}

func scanAttempt(rows *sql.Rows) (Attempt, error) {
	var a Attempt
	var nodes, verdict []byte
	var submitted, started, ended, code sql.NullInt64
	var created int64
	err := rows.Scan(&a.ID, &a.Cluster, &a.Job, &a.Number, &a.RunID, &a.Name, &a.User, &a.VC, &a.GPUs, &a.GPUType, &nodes,
		&submitted, &started, &ended, &code, &a.Signal, &a.State, &a.Reason, &a.CostClass, &created, &verdict)
	if err != nil {
		return a, err
	}
	if len(nodes) > 0 {
		err = json.Unmarshal(nodes, &a.Nodes)
	}
	if err = errors.Join(err, json.Unmarshal(verdict, &a.Verdict)); err != nil {
		return a, fmt.Errorf("attempt %d: %w", a.ID, err)
	}
	if code.Valid {
		n := int(code.Int64)
		a.Code = &n
	}
	a.Submitted, a.Start, a.End = timeOf(submitted), timeOf(started), timeOf(ended)
	a.Created = time.UnixMilli(created).UTC()
	if a.Start != nil && a.End != nil {
		a.RTFSeconds = a.End.Sub(*a.Start).Seconds()
		a.GPUSeconds = a.RTFSeconds * float64(a.GPUs)
	}
	a.Logs = []LogFile{}
	return a, nil
}

func timeOf(ms sql.NullInt64) *time.Time {
	if !ms.Valid {
		return nil
	}
	t := time.UnixMilli(ms.Int64).UTC()
	return &t
}

// readLogs reads which logs the attempts have.
func readLogs(query querier, wanted string, list []Attempt) error {
	at := make(map[int64]*Attempt, len(list))
	for i := range list {
		at[list[i].ID] = &list[i]
	}
	rows, err := query(`SELECT al.attempt_id, al.name, lower(hex(al.digest)), l.bytes, l.lines
		FROM json_each(?) w JOIN attempt_log al ON al.attempt_id = w.value JOIN log l ON l.digest = al.digest
		ORDER BY al.attempt_id, al.position`, wanted)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		var f LogFile
		if err := rows.Scan(&id, &f.Name, &f.Digest, &f.Bytes, &f.Lines); err != nil {
			return err
		}
		if a := at[id]; a != nil {
			a.Logs = append(a.Logs, f)
		}
	}
	return rows.Err()
}

// logOf returns a log of an attempt. An empty name also stands for the only log, whatever its name.
func (c *Corpus) logOf(ctx context.Context, id int64, name string) (LogFile, error) {
	a, err := c.Attempt(ctx, id)
	if err != nil {
		return LogFile{}, err
	}
	for _, f := range a.Logs {
		if f.Name == name || name == "" && len(a.Logs) == 1 {
			return f, nil
		}
	}
	return LogFile{}, fmt.Errorf("log %q of attempt %d: %w", name, id, ErrNotFound)
}

// Lines returns lines of a log of an attempt, counted from 1, from and to included. It unpacks only what they are in.
//
// A line is as it was received, without its \r\n, and need not be UTF-8; of one of over 16 KiB the start is returned with
// a mark of how much is missing. There are fewer lines than asked for where the log ends, and where they come to 8 MiB.
func (c *Corpus) Lines(ctx context.Context, id int64, file string, from, to int64) ([]string, error) {
	if from < 1 {
		return nil, invalid("from", "%d is below 1, the first line", from)
	}
	if to < from {
		return nil, invalid("to", "%d is before the first line wanted, %d", to, from)
	}
	r, _, err := c.OpenLog(ctx, id, file)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.(*logReader).lines(from, to)
}

// OpenLog opens a log of an attempt as it was received, to be read as a stream.
func (c *Corpus) OpenLog(ctx context.Context, id int64, file string) (io.ReadCloser, LogFile, error) {
	f, err := c.logOf(ctx, id, file)
	if err != nil {
		return nil, f, err
	}
	r, err := c.openDigest(f.Digest)
	if err != nil {
		return nil, f, fmt.Errorf("attempt %d: %w", id, err)
	}
	return r, f, nil
}
