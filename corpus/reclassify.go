package corpus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"culprit/classifier"
)

// PassState is how far a pass has come.
type PassState string

// The states. A pass that is running or paused is unfinished; there is one of those at most.
const (
	PassRunning   PassState = "running"
	PassPaused    PassState = "paused"
	PassDone      PassState = "done"
	PassCancelled PassState = "cancelled"
	PassFailed    PassState = "failed"
)

// Pass is one reading of the kept logs with new rules, and what it changed so far.
type Pass struct {
	ID           int64      `json:"id"`
	State        PassState  `json:"state"`
	RulesVersion string     `json:"rules_version"`
	All          bool       `json:"all"`
	DryRun       bool       `json:"dry_run"`
	Total        int64      `json:"total"`  // attempts to be read; 0 until they are counted
	Done         int64      `json:"done"`   // attempts read, failed ones included
	Failed       int64      `json:"failed"` // attempts whose logs could not be read; they keep their verdict
	Bytes        int64      `json:"bytes"`  // of the text of the logs read
	Moved        int64      `json:"moved"`  // attempts whose category, fault, retry or rule changed
	Moves        []Move     `json:"moves"`  // the same by category, the most first
	Started      time.Time  `json:"started"`
	Ended        *time.Time `json:"ended,omitempty"`
	Problem      string     `json:"problem,omitempty"` // why it failed

	position, last int64
}

// Unfinished says that the pass can go on.
func (p *Pass) Unfinished() bool { return p.State == PassRunning || p.State == PassPaused }

// Move is how many attempts went from one category to another, or to another rule, fault or retry within one.
type Move struct {
	From     string `json:"from"`
	To       string `json:"to"`
	Attempts int64  `json:"attempts"`
}

// Moved is an attempt whose verdict a pass changed; in a dry run, would change.
type Moved struct {
	ID      int64  `json:"id"`
	Cluster string `json:"cluster,omitempty"`
	Job     string `json:"job"`
	Number  int    `json:"attempt"`
	From    Said   `json:"from"`
	To      Said   `json:"to"`
}

// Said is what of a verdict is acted on.
type Said struct {
	Category string `json:"category"`
	Fault    string `json:"fault"`
	Retry    string `json:"retry"`
	Rule     string `json:"rule,omitempty"`
}

func saidOf(v *classifier.Verdict) Said {
	return Said{v.Category, string(v.Fault), string(v.Retry), v.Rule}
}

// PassOptions are what a pass reads and does. The zero value reads the attempts whose verdict is by other rules.
type PassOptions struct {
	All    bool // read all attempts
	DryRun bool // leave the verdicts as they are, and only say what would change
}

const (
	passAttempts = 512      // attempts that are committed together at most
	passBytes    = 64 << 20 // of logs, after which no further attempt joins them: what a crash costs
	keptPasses   = 10       // older ones are forgotten
)

// passControl is the pass at work in this process.
type passControl struct {
	mu   sync.Mutex // held while a pass begins or is stopped
	stop context.CancelFunc
	done chan struct{} // closed when it has stopped; nil where none ran
}

// StartPass begins to read the kept logs again, in the background, and returns at once. An unfinished pass is a
// ConflictError.
func (c *Corpus) StartPass(ctx context.Context, cl *classifier.Classifier, opt PassOptions) (Pass, error) {
	c.pass.mu.Lock()
	defer c.pass.mu.Unlock()
	p, err := c.LastPass(ctx)
	switch {
	case err == nil && p.Unfinished():
		return p, conflict("state", "pass %d is %s: resume or cancel it first", p.ID, p.State)
	case err != nil && !errors.Is(err, ErrNotFound):
		return p, err
	}
	return c.beginPass(ctx, cl, opt)
}

func (c *Corpus) beginPass(ctx context.Context, cl *classifier.Classifier, opt PassOptions) (Pass, error) {
	err := c.commit(ctx, func(b *batch) error {
		res, err := b.exec(`INSERT INTO pass (state, rules_version, every, dry_run, position, last, total, done, failed, bytes, started, problem)
			SELECT 'running', ?, ?, ?, 0, coalesce(max(id), 0), 0, 0, 0, 0, ?, '' FROM attempt`, cl.Rules().Version(), opt.All, opt.DryRun, time.Now().UnixMilli())
		if err != nil {
			return err
		}
		id, err := res.LastInsertId()
		if err == nil {
			_, err = b.exec("DELETE FROM pass WHERE id <= ?", id-keptPasses)
		}
		return err
	})
	if err != nil {
		return Pass{}, err
	}
	return c.workOn(ctx, cl)
}

// ResumePass goes on with an unfinished pass where it was paused or cut off. Where the rules are others than those it
// began with, a new pass with the same options takes its place. There being nothing to resume is a ConflictError.
func (c *Corpus) ResumePass(ctx context.Context, cl *classifier.Classifier) (Pass, error) {
	c.pass.mu.Lock()
	defer c.pass.mu.Unlock()
	p, err := c.LastPass(ctx)
	switch {
	case err != nil:
		return p, err
	case !p.Unfinished():
		return p, conflict("state", "pass %d is %s: start a new one", p.ID, p.State)
	case c.passWorks():
		return p, nil
	case p.RulesVersion != cl.Rules().Version():
		if err := c.endPass(ctx, p.ID, PassCancelled, "the rules changed"); err != nil {
			return p, err
		}
		return c.beginPass(ctx, cl, PassOptions{p.All, p.DryRun})
	}
	if err := c.setPassState(ctx, p.ID, PassRunning); err != nil {
		return p, err
	}
	return c.workOn(ctx, cl)
}

// ContinuePass goes on with a pass that the end of a process cut off, if there is one.
func (c *Corpus) ContinuePass(ctx context.Context, cl *classifier.Classifier) error {
	p, err := c.LastPass(ctx)
	if errors.Is(err, ErrNotFound) || err == nil && p.State != PassRunning || c.write == nil {
		return nil
	}
	if err == nil {
		_, err = c.ResumePass(ctx, cl)
	}
	return err
}

// PausePass stops a running pass; what it has read stays done. It returns when the pass has stopped.
func (c *Corpus) PausePass(ctx context.Context) (Pass, error) {
	return c.stopPass(ctx, PassPaused)
}

// CancelPass ends an unfinished pass. The verdicts that it changed stay changed.
func (c *Corpus) CancelPass(ctx context.Context) (Pass, error) {
	return c.stopPass(ctx, PassCancelled)
}

func (c *Corpus) stopPass(ctx context.Context, state PassState) (Pass, error) {
	c.pass.mu.Lock()
	defer c.pass.mu.Unlock()
	p, err := c.LastPass(ctx)
	switch {
	case err != nil:
		return p, err
	case !p.Unfinished():
		return p, conflict("state", "pass %d is %s already", p.ID, p.State)
	}
	if c.pass.done != nil {
		c.pass.stop()
		<-c.pass.done
	}
	if state == PassCancelled {
		err = c.endPass(ctx, p.ID, state, "")
	} else {
		err = c.setPassState(ctx, p.ID, state)
	}
	if err != nil {
		return p, err
	}
	return c.LastPass(ctx)
}

// WaitPass returns when no pass is at work in this process, or with ctx's error.
func (c *Corpus) WaitPass(ctx context.Context) error {
	c.pass.mu.Lock()
	done := c.pass.done
	c.pass.mu.Unlock()
	if done == nil {
		return nil
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Corpus) passWorks() bool {
	if c.pass.done == nil {
		return false
	}
	select {
	case <-c.pass.done:
		return false
	default:
		return true
	}
}

// workOn works on the last pass in the background. c.pass.mu is held.
func (c *Corpus) workOn(ctx context.Context, cl *classifier.Classifier) (Pass, error) {
	p, err := c.LastPass(ctx)
	if err != nil {
		return p, err
	}
	c.queueing.RLock() // Close waits for it
	defer c.queueing.RUnlock()
	if c.life.Err() != nil {
		return p, errClosed
	}
	work, stop := context.WithCancel(c.life)
	done := make(chan struct{})
	c.pass.stop, c.pass.done = stop, done
	c.workers.Go(func() {
		defer close(done)
		defer stop()
		c.workPass(work, cl, p)
	})
	return p, nil
}

// workPass reads to the pass's end. Where ctx ends before, what the pass was told to be stays as it is.
func (c *Corpus) workPass(ctx context.Context, cl *classifier.Classifier, p Pass) {
	err := c.readPass(ctx, cl, p)
	if ctx.Err() != nil {
		return
	}
	state, problem := PassDone, ""
	if err != nil {
		state, problem = PassFailed, err.Error()
		c.log.Error("reclassifying failed", "pass", p.ID, "err", err)
	}
	if err := c.endPass(ctx, p.ID, state, problem); err != nil && ctx.Err() == nil {
		c.log.Error("could not note the end of reclassifying", "pass", p.ID, "err", err)
	}
}

func (c *Corpus) readPass(ctx context.Context, cl *classifier.Classifier, p Pass) error {
	if p.Total == 0 {
		if err := c.countPass(ctx, p); err != nil {
			return err
		}
	}
	for ctx.Err() == nil {
		list, err := c.nextReadings(ctx, p)
		if err != nil || len(list) == 0 {
			return err
		}
		if err := c.readAgain(ctx, cl, p, list); err != nil {
			return err
		}
		p.position = list[len(list)-1].id
	}
	return ctx.Err()
}

// wantedBy is the SQL condition for the attempts of a pass, with its arguments position, last, every and rules_version.
const wantedBy = `a.id > ? AND a.id <= ? AND (? OR coalesce(json_extract(v.body, '$.rules_version'), '') <> ?)`

func (c *Corpus) countPass(ctx context.Context, p Pass) error {
	var total int64
	err := c.read.QueryRowContext(ctx, "SELECT count(*) FROM attempt a JOIN verdict v ON v.attempt_id = a.id WHERE "+wantedBy,
		p.position, p.last, p.All, p.RulesVersion).Scan(&total)
	if err != nil {
		return err
	}
	return c.commit(ctx, func(b *batch) error {
		_, err := b.exec("UPDATE pass SET total = done + ? WHERE id = ?", total, p.ID)
		return err
	})
}

// reading is an attempt that is read again.
type reading struct {
	id      int64
	rev     int64 // of the attempt as it was read
	attempt Attempt
	verdict classifier.Verdict
	err     error // the logs could not be read
}

// nextReadings are the attempts after the pass's position that are committed together.
func (c *Corpus) nextReadings(ctx context.Context, p Pass) ([]*reading, error) {
	rows, err := c.read.QueryContext(ctx, `SELECT a.id, coalesce((SELECT sum(l.bytes) FROM attempt_log al JOIN log l ON l.digest = al.digest WHERE al.attempt_id = a.id), 0)
		FROM attempt a JOIN verdict v ON v.attempt_id = a.id WHERE `+wantedBy+` ORDER BY a.id LIMIT ?`,
		p.position, p.last, p.All, p.RulesVersion, passAttempts)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []*reading
	for total := int64(0); total < passBytes && rows.Next(); {
		r := &reading{}
		var size int64
		if err := rows.Scan(&r.id, &size); err != nil {
			return nil, err
		}
		list = append(list, r)
		total += size
	}
	return list, rows.Err()
}

// readAgain reads attempts and commits what their verdicts are now. Those that change meanwhile are read once more, so
// that no verdict is given for less than what is kept.
func (c *Corpus) readAgain(ctx context.Context, cl *classifier.Classifier, p Pass, list []*reading) error {
	for stale := list; len(stale) > 0; {
		if err := c.classifyAll(ctx, cl, stale); err != nil {
			return err
		}
		if c.index != nil && !p.DryRun {
			if err := c.index.waitForRoom(ctx); err != nil {
				return err
			}
		}
		err := c.commit(ctx, func(b *batch) (err error) {
			if stale, err = b.stale(list); err != nil || len(stale) > 0 {
				return err
			}
			return b.keepReadings(p, list)
		})
		if err != nil {
			return err
		}
	}
	for _, r := range list {
		if r.err != nil {
			c.log.Warn("could not read an attempt's logs again", "pass", p.ID, "attempt", r.id, "err", r.err)
		}
	}
	return nil
}

// classifyAll classifies several attempts at a time.
func (c *Corpus) classifyAll(ctx context.Context, cl *classifier.Classifier, list []*reading) error {
	if err := c.readReadings(ctx, list); err != nil {
		return err
	}
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, r := range list {
		g.Go(func() error {
			v, err := cl.Classify(ctx, r.attempt.Exit, c.keptLogs(&r.attempt))
			r.verdict, r.err = normalVerdict(v), err
			return ctx.Err()
		})
	}
	return g.Wait()
}

// readReadings reads the attempts as they are now, each after its rev: what changes in between is stale.
func (c *Corpus) readReadings(ctx context.Context, list []*reading) error {
	ids := make([]int64, len(list))
	at := make(map[int64]*reading, len(list))
	for i, r := range list {
		ids[i], at[r.id] = r.id, r
	}
	wanted, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	rows, err := c.read.QueryContext(ctx, "SELECT a.id, a.rev FROM json_each(?) w JOIN attempt a ON a.id = w.value", string(wanted))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id, rev int64
		if err := rows.Scan(&id, &rev); err != nil {
			return err
		}
		at[id].rev = rev
	}
	if err := rows.Err(); err != nil {
		return err
	}
	attempts, err := readAttempts(c.reader(ctx), ids)
	if err == nil && len(attempts) != len(list) {
		err = fmt.Errorf("of %d attempts only %d could be read", len(list), len(attempts))
	}
	for i := range attempts {
		at[attempts[i].ID].attempt = attempts[i]
	}
	return err
}

// keptLogs are the logs of an attempt, as they were sent.
func (c *Corpus) keptLogs(a *Attempt) iter.Seq2[classifier.Log, error] {
	return func(yield func(classifier.Log, error) bool) {
		for _, f := range a.Logs {
			r, err := c.openDigest(f.Digest)
			if err != nil {
				yield(classifier.Log{}, err)
				return
			}
			goOn := yield(classifier.Log{Name: f.Name, Reader: r}, nil)
			r.Close()
			if !goOn {
				return
			}
		}
	}
}

// stale are the attempts that have changed since they were read.
func (b *batch) stale(list []*reading) (stale []*reading, err error) {
	for _, r := range list {
		var rev int64
		if _, err := b.row("SELECT rev FROM attempt WHERE id = ?", []any{r.id}, &rev); err != nil {
			return nil, err
		}
		if rev != r.rev {
			stale = append(stale, r)
		}
	}
	return stale, nil
}

// keepReadings writes verdicts, what moved, and how far the pass has come.
func (b *batch) keepReadings(p Pass, list []*reading) error {
	var failed, size int64
	for _, r := range list {
		if r.err != nil {
			failed++
			continue
		}
		size += r.verdict.Bytes
		if err := b.keepReading(p, r); err != nil {
			return err
		}
	}
	_, err := b.exec("UPDATE pass SET position = ?, done = done + ?, failed = failed + ?, bytes = bytes + ? WHERE id = ?",
		list[len(list)-1].id, len(list), failed, size, p.ID)
	return err
}

func (b *batch) keepReading(p Pass, r *reading) error {
	from, to := saidOf(&r.attempt.Verdict), saidOf(&r.verdict)
	if from != to {
		_, err := b.exec(`INSERT INTO moved (pass_id, attempt_id, from_category, from_fault, from_retry, from_rule, to_category, to_fault, to_retry, to_rule)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			p.ID, r.id, from.Category, from.Fault, from.Retry, from.Rule, to.Category, to.Fault, to.Retry, to.Rule)
		if err != nil {
			return err
		}
	}
	if p.DryRun {
		return nil
	}
	if err := b.keepVerdict(r.id, r.verdict); err != nil || sameButRules(r.attempt.Verdict, r.verdict) {
		return err // without a new rev: the index and the facts have nothing to follow
	}
	_, err := b.exec("UPDATE attempt SET category = ?, fault = ?, retry = ?, rule = ?, fingerprint = ?, rev = ? WHERE id = ?",
		to.Category, to.Fault, to.Retry, to.Rule, r.verdict.Fingerprint, b.nextRev(), r.id)
	return err
}

// sameButRules says that two verdicts differ in nothing but the rules that they are by.
func sameButRules(v, w classifier.Verdict) bool {
	v.RulesVersion, w.RulesVersion = "", ""
	a, err := json.Marshal(v)
	b, err2 := json.Marshal(w)
	return err == nil && err2 == nil && bytes.Equal(a, b)
}

func (c *Corpus) setPassState(ctx context.Context, id int64, state PassState) error {
	return c.commit(ctx, func(b *batch) error {
		_, err := b.exec("UPDATE pass SET state = ? WHERE id = ? AND state IN ('running', 'paused')", string(state), id)
		return err
	})
}

func (c *Corpus) endPass(ctx context.Context, id int64, state PassState, problem string) error {
	return c.commit(ctx, func(b *batch) error {
		_, err := b.exec("UPDATE pass SET state = ?, problem = ?, ended = ? WHERE id = ? AND state IN ('running', 'paused')",
			string(state), problem, time.Now().UnixMilli(), id)
		return err
	})
}

// LastPass returns the newest pass, at work or not. ErrNotFound where there never was one.
func (c *Corpus) LastPass(ctx context.Context) (Pass, error) {
	rows, err := c.read.QueryContext(ctx, `SELECT id, state, rules_version, every, dry_run, position, last, total, done, failed, bytes, started, ended, problem
		FROM pass ORDER BY id DESC LIMIT 1`)
	if err != nil {
		return Pass{}, err
	}
	defer rows.Close()
	if !rows.Next() {
		return Pass{}, errors.Join(rows.Err(), fmt.Errorf("no logs were read again yet: %w", ErrNotFound))
	}
	p := Pass{Moves: []Move{}}
	var started int64
	var ended *int64
	err = rows.Scan(&p.ID, &p.State, &p.RulesVersion, &p.All, &p.DryRun, &p.position, &p.last, &p.Total, &p.Done, &p.Failed, &p.Bytes, &started, &ended, &p.Problem)
	if err != nil {
		return p, err
	}
	p.Started = time.UnixMilli(started).UTC()
	if ended != nil {
		t := time.UnixMilli(*ended).UTC()
		p.Ended = &t
	}
	return p, c.readMoves(ctx, &p)
}

func (c *Corpus) readMoves(ctx context.Context, p *Pass) error {
	rows, err := c.read.QueryContext(ctx, `SELECT from_category, to_category, count(*) FROM moved WHERE pass_id = ?
		GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2`, p.ID)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var m Move
		if err := rows.Scan(&m.From, &m.To, &m.Attempts); err != nil {
			return err
		}
		p.Moves = append(p.Moves, m)
		p.Moved += m.Attempts
	}
	return rows.Err()
}

// MovedBy lists the attempts whose verdict a pass changed, by their id, from the first after one on.
func (c *Corpus) MovedBy(ctx context.Context, pass, after int64, limit int) ([]Moved, error) {
	rows, err := c.read.QueryContext(ctx, `SELECT a.id, j.cluster, j.job, a.number, from_category, from_fault, from_retry, from_rule, to_category, to_fault, to_retry, to_rule
		FROM moved m JOIN attempt a ON a.id = m.attempt_id JOIN job j ON j.id = a.job_id
		WHERE m.pass_id = ? AND m.attempt_id > ? ORDER BY m.attempt_id LIMIT ?`, pass, after, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []Moved{}
	for rows.Next() {
		var m Moved
		err := rows.Scan(&m.ID, &m.Cluster, &m.Job, &m.Number, &m.From.Category, &m.From.Fault, &m.From.Retry, &m.From.Rule,
			&m.To.Category, &m.To.Fault, &m.To.Retry, &m.To.Rule)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, rows.Err()
}
