package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"culprit/corpus"
)

// correctionView is the form in which a person says what an attempt's verdict should have been.
type correctionView struct {
	Said       *corpus.Correction // nil: nothing so far
	Agrees     bool
	Title      string // of the category that was said
	Categories []choice
	Faults     []choice
}

func (s *Server) fillCorrection(ctx context.Context, v *attemptView) error {
	said, err := s.corpus.Correction(ctx, v.Attempt.ID)
	if err != nil {
		return err
	}
	category, fault := v.Attempt.Verdict.Category, string(v.Attempt.Verdict.Fault)
	if said != nil {
		category, fault = said.Category, said.Fault
		v.Correction.Agrees = said.Agrees(v.Attempt)
	}
	v.Correction.Said = said
	v.Correction.Categories, v.Correction.Faults = s.categories(category), choicesOf(faults, faultWord)
	for i := range v.Correction.Faults {
		v.Correction.Faults[i].Current = v.Correction.Faults[i].Value == fault
	}
	for _, c := range v.Correction.Categories {
		if c.Current {
			v.Correction.Title = c.Label
		}
	}
	return nil
}

// categories are those of the taxonomy, for a select box.
func (s *Server) categories(current string) (list []choice) {
	for _, c := range s.classifier.Load().Rules().Taxonomy().Categories {
		list = append(list, choice{Label: c.Title, Value: c.ID, Current: c.ID == current})
	}
	return list
}

const maxForm = 64 << 10 // bytes of a form without files

// readForm reads the fields of a form, each at most once; others are refused.
func readForm(c *gin.Context, known ...string) (*query, error) {
	_ = http.NewResponseController(c.Writer).SetReadDeadline(time.Now().Add(10 * time.Second)) // a recorder has none
	c.Request.Body = http.MaxBytesReader(c.Writer, c.Request.Body, maxForm)
	if err := c.Request.ParseForm(); err != nil {
		return nil, badField("", "the form cannot be read: %v", err)
	}
	q := &query{values: c.Request.PostForm}
	for name := range q.values {
		if !slices.Contains(known, name) {
			q.fail(unknownField(name, slices.Clone(known)))
		}
	}
	return q, q.err
}

// postVerdict keeps what a person says of a verdict: that it is right, what it should have been, or nothing any more.
func (s *Server) postVerdict(c *gin.Context) (any, error) {
	a, err := s.attempt(c)
	if err != nil {
		return nil, err
	}
	q, err := readForm(c, "say", "category", "fault", "why", "who")
	if err != nil {
		return nil, err
	}
	ctx := c.Request.Context()
	k := corpus.Correction{Attempt: a.ID, Category: a.Verdict.Category, Fault: string(a.Verdict.Fault), Why: q.note("why"), Who: q.text("who")}
	say := q.choice("say", "right", "wrong", "nothing")
	if say == "wrong" {
		var known []string
		for _, c := range s.categories("") {
			known = append(known, c.Value)
		}
		k.Category, k.Fault = q.choice("category", known...), q.choice("fault", faults...)
	}
	switch {
	case q.err != nil:
		return nil, q.err
	case say == "":
		return nil, badField("say", "missing: right, wrong or nothing")
	case say == "nothing":
		err = s.corpus.Withdraw(ctx, a.ID)
	default:
		err = s.corpus.Correct(ctx, k)
	}
	if err != nil {
		return nil, err
	}
	s.log.InfoContext(ctx, "corrected", "attempt", a.ID, "said", say, "category", k.Category, "machine", a.Verdict.Category, "rule", a.Verdict.Rule)
	return seeOther(fmt.Sprintf("/attempts/%d#said", a.ID)), nil
}

// note is a text of several lines.
func (q *query) note(name string) string {
	return strings.TrimSpace(strings.ReplaceAll(strings.Join(q.values[name], "\n"), "\r\n", "\n"))
}
