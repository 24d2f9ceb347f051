package corpus

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"culprit/classifier"
	"culprit/rules"
)

// Add keeps an attempt with its verdict and logs; l is nil for a record without logs. When it returns, both survive a
// power cut, and a is as Attempt returns it.
//
// The attempt is found by cluster, job and run id where a run id is given, else by cluster, job and number. Where
// neither is, it is the attempt for which the very same was sent before; else the oldest one of the job that lacks its
// log when this is one, or its record when this is a record with an end; else the job's next attempt.
//
// Of an attempt that is there already (existed) Add fills in the fields that were unknown and the logs where it has
// none; with logs comes the verdict of those logs. What contradicts is a ConflictError and changes nothing, as is a
// user who is not the job's. A field that cannot be right is a FieldError, a full disk is ErrFull.
func (c *Corpus) Add(ctx context.Context, a *Attempt, l *StagedLog) (existed bool, err error) {
	if c.write == nil {
		return false, ErrReadOnly
	}
	var files []stagedFile
	if l != nil {
		if files, err = l.take(); err != nil {
			return false, err
		}
		defer l.remove()
	}
	sent := a.normal()
	if err := sent.check(); err != nil {
		return false, err
	}
	if c.index != nil {
		if err := c.index.waitForRoom(ctx); err != nil {
			return false, err
		}
	}
	err = c.commit(ctx, func(b *batch) (err error) {
		sent, existed, err = c.add(b, sent, files)
		return err
	})
	if err != nil {
		return false, err
	}
	*a = sent
	return existed, nil
}

// Added is what has come of one attempt of AddAll.
type Added struct {
	Existed bool
	Err     error
}

// AddAll adds records without logs, each as Add does and in their order, with few transactions for all of them. An error
// of one is in its place and does not keep the others from being added.
func (c *Corpus) AddAll(ctx context.Context, list []*Attempt) []Added {
	results := make([]Added, len(list))
	waiting := make([]*addition, len(list))
	for i, a := range list {
		r := &results[i]
		sent := a.normal()
		if r.Err = sent.check(); r.Err == nil && c.index != nil {
			r.Err = c.index.waitForRoom(ctx)
		}
		if r.Err != nil {
			continue
		}
		waiting[i] = &addition{ctx: ctx, done: make(chan struct{}), do: func(b *batch) error {
			kept, existed, err := c.add(b, sent, nil)
			if err == nil {
				*a, r.Existed = kept, existed
			}
			return err
		}}
		r.Err = c.enqueue(waiting[i])
	}
	for i, w := range waiting {
		if w != nil && results[i].Err == nil {
			<-w.done
			results[i].Err = w.err
		}
	}
	return results
}

// take hands the staged logs over, once.
func (l *StagedLog) take() ([]stagedFile, error) {
	l.finish()
	if l.err != nil {
		return nil, fmt.Errorf("the logs are incomplete: %w", l.err)
	}
	if l.added {
		return nil, fmt.Errorf("these staged logs have been added before")
	}
	l.added = true
	return l.files, nil
}

// normal returns what was sent in the form in which it is kept and compared.
func (a *Attempt) normal() Attempt {
	n := *a
	n.ID, n.RTFSeconds, n.GPUSeconds, n.Logs, n.Created = 0, 0, 0, nil, time.Time{}
	n.Verdict = normalVerdict(n.Verdict)
	for _, t := range []**time.Time{&n.Submitted, &n.Start, &n.End} {
		if *t != nil {
			ms := (*t).UTC().Truncate(time.Millisecond)
			*t = &ms
		}
	}
	return n
}

// normalVerdict leaves no side and no advice open: unknown, and one retry that tells more.
func normalVerdict(v classifier.Verdict) classifier.Verdict {
	if v.Fault == "" {
		v.Fault = rules.FaultUnknown
	}
	if v.Retry == "" {
		v.Retry = rules.RetryOnce
	}
	return v
}

// maxText bounds every string of an attempt, maxNodes how many nodes it can have.
const (
	maxText  = 1024
	maxNodes = 100_000
	maxGPUs  = 1_000_000
)

// check says what cannot be right.
func (a *Attempt) check() error {
	texts := []struct{ field, value string }{{"job", a.Job}, {"cluster", a.Cluster}, {"run_id", a.RunID}, {"name", a.Name},
		{"user", a.User}, {"vc", a.VC}, {"gpu_type", a.GPUType}, {"state", a.State}, {"reason", a.Reason}, {"cost_class", a.CostClass}}
	for _, t := range texts {
		if err := checkText(t.field, t.value); err != nil {
			return err
		}
	}
	for _, node := range a.Nodes {
		if err := checkText("nodes", node); err != nil {
			return err
		}
		if node == "" {
			return invalid("nodes", "a node has no name")
		}
	}
	switch {
	case a.Job == "":
		return invalid("job", "is missing")
	case a.Number < 0:
		return invalid("attempt", "%d is below 1", a.Number)
	case a.GPUs < 0 || a.GPUs > maxGPUs:
		return invalid("gpus", "%d is not from 0 to %d", a.GPUs, maxGPUs)
	case a.Code != nil && (*a.Code < 0 || *a.Code > classifier.MaxExitCode):
		return invalid("exit_code", "%d is not from 0 to %d", *a.Code, classifier.MaxExitCode)
	case a.Signal < 0 || a.Signal > 255:
		return invalid("signal", "%d is not from 0 to 255", a.Signal)
	case len(a.Nodes) > maxNodes:
		return invalid("nodes", "%d are more than %d", len(a.Nodes), maxNodes)
	}
	if err := checkVerdict(&a.Verdict); err != nil {
		return err
	}
	return a.checkTimes()
}

func checkVerdict(v *classifier.Verdict) error {
	switch v.Fault {
	case rules.FaultUser, rules.FaultInfrastructure, rules.FaultUnknown:
	default:
		return invalid("verdict", "%q is no fault", v.Fault)
	}
	switch v.Retry {
	case rules.RetryNever, rules.RetryOnce, rules.RetryAlways, rules.RetryElsewhere:
	default:
		return invalid("verdict", "%q is no advice on a retry", v.Retry)
	}
	if v.Category == "" {
		return invalid("verdict", "has no category")
	}
	return nil
}

func (a *Attempt) checkTimes() error {
	for _, t := range []struct {
		field string
		value *time.Time
	}{{"submitted", a.Submitted}, {"start", a.Start}, {"end", a.End}} {
		if t.value != nil && (t.value.Year() < 1970 || t.value.Year() > 9999) {
			return invalid(t.field, "the year %d is not from 1970 to 9999", t.value.Year())
		}
	}
	if a.Start != nil && a.End != nil && a.End.Before(*a.Start) {
		return invalid("end", "%s is before the start, %s", a.End.Format(time.RFC3339), a.Start.Format(time.RFC3339))
	}
	return nil
}

// checkText refuses what cannot be a name: bytes that are no UTF-8, control characters, and what is far too long.
func checkText(field, s string) error {
	switch {
	case len(s) > maxText:
		return invalid(field, "%d bytes are more than %d", len(s), maxText)
	case !utf8.ValidString(s):
		return invalid(field, "%q is not UTF-8", s)
	case strings.ContainsFunc(s, unicode.IsControl):
		return invalid(field, "%q has control characters", s)
	}
	return nil
}

// add keeps what was sent in the transaction b.
func (c *Corpus) add(b *batch, sent Attempt, files []stagedFile) (kept Attempt, existed bool, err error) {
	job, err := b.keepJob(&sent)
	if err != nil {
		return kept, false, err
	}
	hash := sentHash(&sent, files)
	id, err := b.find(job, &sent, files, hash)
	if err != nil {
		return kept, false, err
	}
	if id == 0 {
		kept, err = c.addNew(b, job, sent, files)
	} else {
		kept, err = c.addTo(b, id, sent, files)
	}
	if err == nil && sent.anonymous() {
		_, err = b.exec("INSERT OR IGNORE INTO sent (job_id, hash, attempt_id) VALUES (?, ?, ?)", job, hash, kept.ID)
	}
	return kept, id != 0, err
}

// anonymous says that what was sent does not say which attempt it is.
func (a *Attempt) anonymous() bool { return a.RunID == "" && a.Number == 0 }

// sentHash is the same for the same fields with the same logs. The verdict is no part: it is ours.
func sentHash(sent *Attempt, files []stagedFile) []byte {
	fields := *sent
	fields.Verdict = classifier.Verdict{}
	for _, f := range files {
		fields.Logs = append(fields.Logs, f.LogFile)
	}
	body, err := json.Marshal(fields)
	if err != nil {
		panic(err) // strings, numbers and times always can be written
	}
	sum := sha256.Sum256(body)
	return sum[:]
}

// keepJob returns the id of the attempt's job and sets the attempt's user to the job's.
func (b *batch) keepJob(sent *Attempt) (id int64, err error) {
	var user string
	found, err := b.row("SELECT id, user FROM job WHERE cluster = ? AND job = ?", []any{sent.Cluster, sent.Job}, &id, &user)
	switch {
	case err != nil:
		return 0, err
	case !found:
		res, err := b.exec("INSERT INTO job (cluster, job, user) VALUES (?, ?, ?)", sent.Cluster, sent.Job, sent.User)
		if err != nil {
			return 0, err
		}
		return res.LastInsertId()
	case sent.User == "" || sent.User == user:
		return id, nil
	case user != "":
		return 0, conflict("user", "job %s is another user's", sent.Job)
	}
	return id, b.nameUser(id, sent.User)
}

// nameUser says whose job it is. All its attempts change with that.
func (b *batch) nameUser(job int64, user string) error {
	if _, err := b.exec("UPDATE job SET user = ? WHERE id = ?", user, job); err != nil {
		return err
	}
	ids, err := b.ids("SELECT id FROM attempt WHERE job_id = ? ORDER BY number", job)
	for _, id := range ids {
		if _, err := b.exec("UPDATE attempt SET rev = ? WHERE id = ?", b.nextRev(), id); err != nil {
			return err
		}
	}
	return err
}

func (b *batch) ids(query string, args ...any) ([]int64, error) {
	s, err := b.stmt(query)
	if err != nil {
		return nil, err
	}
	rows, err := s.Query(args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// find returns the attempt of the job that was sent, 0 where there is none yet.
func (b *batch) find(job int64, sent *Attempt, files []stagedFile, hash []byte) (id int64, err error) {
	if sent.RunID != "" {
		if _, err = b.row("SELECT id FROM attempt WHERE job_id = ? AND run_id = ? AND run_id <> ''", []any{job, sent.RunID}, &id); err != nil || id != 0 {
			return id, err
		}
	}
	if sent.Number > 0 {
		_, err = b.row("SELECT id FROM attempt WHERE job_id = ? AND number = ?", []any{job, sent.Number}, &id)
		return id, err
	}
	if sent.RunID == "" {
		if _, err = b.row("SELECT attempt_id FROM sent WHERE job_id = ? AND hash = ?", []any{job, hash}, &id); err != nil || id != 0 {
			return id, err
		}
	}
	return b.otherHalf(job, sent, files)
}

// otherHalf returns the oldest attempt of the job that what was sent completes: a log that came without its record, or
// a record without its log. Slurm's job completion plugin, for one, says no number of the attempt.
func (b *batch) otherHalf(job int64, sent *Attempt, files []stagedFile) (int64, error) {
	query := `SELECT id FROM attempt a WHERE job_id = ? AND (run_id <> '' OR ended IS NOT NULL)
		AND NOT EXISTS (SELECT 1 FROM attempt_log WHERE attempt_id = a.id) ORDER BY number`
	if len(files) == 0 {
		if sent.End == nil {
			return 0, nil
		}
		query = `SELECT id FROM attempt a WHERE job_id = ? AND run_id = '' AND ended IS NULL
			AND EXISTS (SELECT 1 FROM attempt_log WHERE attempt_id = a.id) ORDER BY number`
	}
	ids, err := b.ids(query, job)
	for _, id := range ids {
		stored, err := b.attempt(id)
		if err != nil {
			return 0, err
		}
		if _, err := stored.merge(sent); err == nil {
			return id, nil
		}
	}
	return 0, err
}

// addNew keeps a new attempt of a job.
func (c *Corpus) addNew(b *batch, job int64, a Attempt, files []stagedFile) (Attempt, error) {
	if a.Number == 0 {
		if _, err := b.row("SELECT coalesce(max(number), 0) + 1 FROM attempt WHERE job_id = ?", []any{job}, &a.Number); err != nil {
			return a, err
		}
	}
	created := time.Now().UTC().UnixMilli()
	columns := append(a.columns(), b.nextRev(), job, created)
	res, err := b.exec(`INSERT INTO attempt (number, run_id, name, vc, gpus, gpu_type, nodes, submitted, started, ended,
		exit_code, signal, state, reason, cost_class, category, fault, retry, rule, fingerprint, rev, job_id, created)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, columns...)
	if err != nil {
		return a, err
	}
	if a.ID, err = res.LastInsertId(); err != nil {
		return a, err
	}
	if err := b.keepVerdict(a.ID, a.Verdict); err != nil {
		return a, err
	}
	if err := c.keepLogs(b, a.ID, files); err != nil {
		return a, err
	}
	return b.attempt(a.ID)
}

// addTo adds what was sent to an attempt that is there.
func (c *Corpus) addTo(b *batch, id int64, sent Attempt, files []stagedFile) (Attempt, error) {
	stored, err := b.attempt(id)
	if err != nil {
		return stored, err
	}
	changed, err := stored.merge(&sent)
	if err != nil {
		return stored, err
	}
	newLogs, err := stored.mergeLogs(files)
	if err != nil {
		return stored, err
	}
	if newLogs || changed && len(stored.Logs) == 0 {
		stored.Verdict = sent.Verdict
		if err := b.keepVerdict(id, sent.Verdict); err != nil {
			return stored, err
		}
	}
	if newLogs {
		if err := c.keepLogs(b, id, files); err != nil {
			return stored, err
		}
	}
	if changed || newLogs {
		if err := b.update(id, &stored); err != nil {
			return stored, err
		}
	}
	return b.attempt(id)
}

// update writes all fields of an attempt that is there.
func (b *batch) update(id int64, a *Attempt) error {
	_, err := b.exec(`UPDATE attempt SET number = ?, run_id = ?, name = ?, vc = ?, gpus = ?, gpu_type = ?, nodes = ?, submitted = ?,
		started = ?, ended = ?, exit_code = ?, signal = ?, state = ?, reason = ?, cost_class = ?, category = ?, fault = ?, retry = ?,
		rule = ?, fingerprint = ?, rev = ? WHERE id = ?`, append(a.columns(), b.nextRev(), id)...)
	return err
}

// columns returns the values of the attempt's columns from number to fingerprint.
func (a *Attempt) columns() []any {
	nodes := ""
	if len(a.Nodes) > 0 {
		body, err := json.Marshal(a.Nodes)
		if err != nil {
			panic(err) // strings can always be written
		}
		nodes = string(body)
	}
	var code any
	if a.Code != nil {
		code = int64(*a.Code)
	}
	v := &a.Verdict
	return []any{a.Number, a.RunID, a.Name, a.VC, a.GPUs, a.GPUType, nodes, millis(a.Submitted), millis(a.Start), millis(a.End),
		code, a.Signal, a.State, a.Reason, a.CostClass, v.Category, string(v.Fault), string(v.Retry), v.Rule, v.Fingerprint}
}

func millis(t *time.Time) any {
	if t == nil {
		return nil
	}
	return t.UnixMilli()
}

func (b *batch) keepVerdict(id int64, v classifier.Verdict) error {
	v.File = "" // a name on the machine that classified
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("the verdict cannot be written: %w", err)
	}
	_, err = b.exec("INSERT INTO verdict (attempt_id, body) VALUES (?, ?) ON CONFLICT DO UPDATE SET body = excluded.body", id, string(body))
	return err
}

// keepLogs puts staged logs in their places and names them as the attempt's. The rows come first: where they are
// refused no file has moved.
func (c *Corpus) keepLogs(b *batch, id int64, files []stagedFile) error {
	for i, f := range files {
		_, err := b.exec(`INSERT INTO log (digest, bytes, lines, stored) VALUES (?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET stored = excluded.stored`, f.sum[:], f.Bytes, f.Lines, f.stored)
		if err != nil {
			return err
		}
		if _, err := b.exec("INSERT INTO attempt_log (attempt_id, position, name, digest) VALUES (?, ?, ?, ?)", id, i, f.Name, f.sum[:]); err != nil {
			return err
		}
	}
	for _, f := range files {
		if err := c.place(b, f); err != nil {
			return err
		}
	}
	return nil
}

// SetVerdict gives a kept attempt another verdict, as when its logs are classified by new rules.
func (c *Corpus) SetVerdict(ctx context.Context, id int64, v classifier.Verdict) error {
	v = normalVerdict(v)
	if err := checkVerdict(&v); err != nil {
		return err
	}
	return c.commit(ctx, func(b *batch) error {
		a, err := b.attempt(id)
		if err != nil {
			return err
		}
		a.Verdict = v
		if err := b.keepVerdict(id, a.Verdict); err != nil {
			return err
		}
		return b.update(id, &a)
	})
}

// merge fills in what the attempt does not know yet and says whether anything was. What contradicts is a ConflictError.
func (a *Attempt) merge(sent *Attempt) (changed bool, err error) {
	m := merger{attempt: a}
	mergeField(&m, "attempt", &a.Number, sent.Number)
	mergeField(&m, "run_id", &a.RunID, sent.RunID)
	mergeField(&m, "name", &a.Name, sent.Name)
	mergeField(&m, "vc", &a.VC, sent.VC)
	mergeField(&m, "gpus", &a.GPUs, sent.GPUs)
	mergeField(&m, "gpu_type", &a.GPUType, sent.GPUType)
	mergeTime(&m, "submitted", &a.Submitted, sent.Submitted)
	mergeTime(&m, "start", &a.Start, sent.Start)
	mergeTime(&m, "end", &a.End, sent.End)
	mergeField(&m, "signal", &a.Signal, sent.Signal)
	mergeField(&m, "state", &a.State, sent.State)
	mergeField(&m, "reason", &a.Reason, sent.Reason)
	mergeField(&m, "cost_class", &a.CostClass, sent.CostClass)
	m.mergeCode(sent.Code)
	m.mergeNodes(sent.Nodes)
	if m.err == nil && a.checkTimes() != nil {
		m.err = conflict("end", "the end, %s, would be before the start, %s", a.End.Format(time.RFC3339), a.Start.Format(time.RFC3339))
	}
	return m.changed, m.err
}

// merger is what merging the fields of one attempt has come to.
type merger struct {
	attempt *Attempt
	changed bool
	err     error // the first contradiction
}

func (m *merger) differs(field string, kept, sent any) {
	if m.err == nil {
		m.err = conflict(field, "attempt %d of job %s has %v, not %v", m.attempt.Number, m.attempt.Job, kept, sent)
	}
}

func mergeField[T cmp.Ordered](m *merger, field string, kept *T, sent T) {
	var unknown T
	switch {
	case sent == unknown || sent == *kept:
	case *kept == unknown:
		*kept, m.changed = sent, true
	default:
		m.differs(field, *kept, sent)
	}
}

func mergeTime(m *merger, field string, kept **time.Time, sent *time.Time) {
	switch {
	case sent == nil:
	case *kept == nil:
		*kept, m.changed = sent, true
	case !(*kept).Equal(*sent):
		m.differs(field, (*kept).Format(time.RFC3339Nano), sent.Format(time.RFC3339Nano))
	}
}

func (m *merger) mergeCode(sent *int) {
	switch kept := m.attempt.Code; {
	case sent == nil:
	case kept == nil:
		m.attempt.Code, m.changed = sent, true
	case *kept != *sent:
		m.differs("exit_code", *kept, *sent)
	}
}

func (m *merger) mergeNodes(sent []string) {
	switch kept := m.attempt.Nodes; {
	case len(sent) == 0:
	case len(kept) == 0:
		m.attempt.Nodes, m.changed = sent, true
	case !slices.Equal(slices.Sorted(slices.Values(kept)), slices.Sorted(slices.Values(sent))):
		m.differs("nodes", strings.Join(kept, ","), strings.Join(sent, ","))
	}
}

// mergeLogs says whether the staged logs are the first of the attempt. Others than those it has are a conflict.
func (a *Attempt) mergeLogs(files []stagedFile) (added bool, err error) {
	if len(files) == 0 || len(a.Logs) == 0 {
		return len(files) > 0, nil
	}
	has := map[string]string{}
	for _, l := range a.Logs {
		has[l.Name] = l.Digest
	}
	for _, f := range files {
		switch digest, ok := has[f.Name]; {
		case !ok:
			return false, conflict("logs", "attempt %d of job %s has its logs, and none named %q", a.Number, a.Job, f.Name)
		case digest != f.Digest:
			return false, conflict("logs", "log %q of attempt %d of job %s is kept with other content", f.Name, a.Number, a.Job)
		}
	}
	if len(files) != len(a.Logs) {
		return false, conflict("logs", "attempt %d of job %s has %d logs, not %d", a.Number, a.Job, len(a.Logs), len(files))
	}
	return false, nil
}
