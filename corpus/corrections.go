package corpus

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"culprit/rules"
)

// Correction is what a person says of an attempt's verdict. It is kept beside the verdict and never changes it; one with
// the verdict's own category and fault says that the verdict is right.
type Correction struct {
	Attempt  int64     `json:"attempt"`
	Category string    `json:"category"`
	Fault    string    `json:"fault"`
	Why      string    `json:"why,omitempty"`
	Who      string    `json:"who,omitempty"` // as the person said it: nobody checks
	At       time.Time `json:"at"`
}

// Agrees tells whether the correction says what a verdict says.
func (k Correction) Agrees(a Attempt) bool {
	return k.Category == a.Verdict.Category && k.Fault == string(a.Verdict.Fault)
}

// maxNote bounds what a person writes, in bytes.
const maxNote = 4096

// Correct keeps what a person says of a verdict, in the place of what was said before. ErrNotFound where there is no such
// attempt. The caller checks that the category is one of the taxonomy.
func (c *Corpus) Correct(ctx context.Context, k Correction) error {
	switch rules.Fault(k.Fault) {
	case rules.FaultUser, rules.FaultInfrastructure, rules.FaultUnknown:
	default:
		return invalid("fault", "%q is no fault", k.Fault)
	}
	if k.Category == "" {
		return invalid("category", "is missing")
	}
	if err := errors.Join(checkNote("why", k.Why), checkText("who", k.Who)); err != nil {
		return err
	}
	if _, err := c.Attempt(ctx, k.Attempt); err != nil {
		return err
	}
	return c.commit(ctx, func(b *batch) error {
		_, err := b.exec(`INSERT INTO correction (attempt_id, category, fault, why, who, at) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (attempt_id) DO UPDATE SET category = excluded.category, fault = excluded.fault, why = excluded.why,
			who = excluded.who, at = excluded.at`, k.Attempt, k.Category, k.Fault, k.Why, k.Who, time.Now().UnixMilli())
		return err
	})
}

// checkNote is checkText for what may have lines.
func checkNote(field, text string) error {
	if len(text) > maxNote {
		return invalid(field, "longer than %d bytes", maxNote)
	}
	for line := range strings.Lines(text) {
		if err := checkText(field, strings.TrimRight(line, "\r\n")); err != nil {
			return err
		}
	}
	return nil
}

// Withdraw removes what was said of a verdict. It does nothing where nothing was.
func (c *Corpus) Withdraw(ctx context.Context, attempt int64) error {
	return c.commit(ctx, func(b *batch) error {
		_, err := b.exec("DELETE FROM correction WHERE attempt_id = ?", attempt)
		return err
	})
}

// Correction returns what a person says of an attempt's verdict, nil for nothing.
func (c *Corpus) Correction(ctx context.Context, attempt int64) (*Correction, error) {
	k := Correction{Attempt: attempt}
	var at int64
	err := c.read.QueryRowContext(ctx, "SELECT category, fault, why, who, at FROM correction WHERE attempt_id = ?", attempt).
		Scan(&k.Category, &k.Fault, &k.Why, &k.Who, &at)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("correction of attempt %d: %w", attempt, err)
	}
	k.At = time.UnixMilli(at).UTC()
	return &k, nil
}

// Accuracy is how often people agreed with verdicts and how often they did not.
type Accuracy struct {
	Right int `json:"right"`
	Wrong int `json:"wrong"`
}

// Share is the part of right ones, of all that people said something of; 0 where nobody did.
func (a Accuracy) Share() float64 {
	if a.Right+a.Wrong == 0 {
		return 0
	}
	return float64(a.Right) / float64(a.Right+a.Wrong)
}

// Accuracy holds the verdicts of now against corrections, by rule; "" are verdicts without a rule.
func (c *Corpus) Accuracy(ctx context.Context) (map[string]Accuracy, error) {
	rows, err := c.read.QueryContext(ctx, `SELECT a.rule, sum(k.category = a.category AND k.fault = a.fault), count(*)
		FROM correction k JOIN attempt a ON a.id = k.attempt_id GROUP BY a.rule`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	byRule := map[string]Accuracy{}
	for rows.Next() {
		var rule string
		var right, all int
		if err := rows.Scan(&rule, &right, &all); err != nil {
			return nil, err
		}
		byRule[rule] = Accuracy{right, all - right}
	}
	return byRule, rows.Err()
}

// All is how many verdicts people said something of.
func (a Accuracy) All() int { return a.Right + a.Wrong }
