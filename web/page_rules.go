package web

import (
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"culprit/corpus"
	"culprit/rules"
)

type rulesView struct {
	layout
	RulesVersion string
	Filter       string
	Groups       []ruleGroup // categories in the order of the taxonomy
	Shown, Total int
	Accuracy     corpus.Accuracy // of all rules
}

type ruleGroup struct {
	Category *rules.Category
	Rules    []ruleRow
}

// ruleRow is a rule with what it has explained so far.
type ruleRow struct {
	ruleView
	Hits       int
	GPUSeconds float64
	Accuracy   corpus.Accuracy
}

// rulesPage lists the rules as loaded, a category at a time.
func (s *Server) rulesPage(c *gin.Context) (any, error) {
	q := newQuery(c.Request, "filter", "category")
	v := rulesView{layout: s.layout("Rules", "rules"), Filter: q.text("filter")}
	categories := q.list("category")
	if q.err != nil {
		return nil, q.err
	}
	set := s.classifier.Load().Rules()
	v.RulesVersion, v.Total = set.Version(), len(set.Rules())
	byCategory := map[string][]ruleRow{}
	used, err := s.corpus.Waste(c.Request.Context(), corpus.Filter{}, corpus.ByRule)
	if err != nil {
		return nil, err
	}
	hits := map[string]corpus.WasteRow{}
	for _, row := range used.Rows {
		hits[row.Key] = row
	}
	accuracy, err := s.corpus.Accuracy(c.Request.Context())
	if err != nil {
		return nil, err
	}
	for _, a := range accuracy {
		v.Accuracy.Right, v.Accuracy.Wrong = v.Accuracy.Right+a.Right, v.Accuracy.Wrong+a.Wrong
	}
	for _, r := range set.Rules() {
		if hasWords(r, v.Filter) && allows(categories, r.Category.ID) {
			row := ruleRow{viewRule(r), hits[r.ID].Attempts, hits[r.ID].GPUSeconds, accuracy[r.ID]}
			byCategory[r.Category.ID] = append(byCategory[r.Category.ID], row)
			v.Shown++
		}
	}
	for _, category := range set.Taxonomy().Categories {
		if list := byCategory[category.ID]; len(list) > 0 {
			v.Groups = append(v.Groups, ruleGroup{category, list})
		}
	}
	return v, nil
}

// hasWords tells whether all words of a filter stand somewhere in a rule.
func hasWords(r *rules.Rule, filter string) bool {
	text := strings.ToLower(strings.Join([]string{r.ID, r.Category.ID, r.Category.Title, r.Summary, r.Pattern(), r.Source, strings.Join(r.Literals(), " ")}, " "))
	for word := range strings.FieldsSeq(strings.ToLower(filter)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

type rulePageView struct {
	layout
	Rule   ruleView
	Means  string // what the category stands for
	Waste  corpus.WasteRow
	Said   corpus.Accuracy
	Latest corpus.Page
	All    string
}

// rulePage shows one rule and the last failures that it explained.
func (s *Server) rulePage(c *gin.Context) (any, error) {
	if q := newQuery(c.Request); q.err != nil {
		return nil, q.err
	}
	r, ok := s.classifier.Load().Rules().Rule(param(c, "id"))
	if !ok {
		return nil, refuse(http.StatusNotFound, "rule %s: not found", quote(param(c, "id")))
	}
	v := rulePageView{layout: s.layout("Rule "+r.ID, "rules"), Rule: viewRule(r), Means: r.Category.Means, All: link("/attempts", "rule", r.ID, "range", "all")}
	ctx, f := c.Request.Context(), corpus.Filter{Rules: []string{r.ID}, Limit: 10}
	report, err := s.corpus.Waste(ctx, f, corpus.ByRule)
	if err != nil {
		return nil, err
	}
	accuracy, err := s.corpus.Accuracy(ctx)
	if err != nil {
		return nil, err
	}
	v.Waste, v.Said = report.Total, accuracy[r.ID]
	v.Latest, err = s.corpus.Attempts(ctx, f)
	return v, err
}
