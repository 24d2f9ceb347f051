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
}

type ruleGroup struct {
	Category *rules.Category
	Rules    []ruleView
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
	byCategory := map[string][]ruleView{}
	for _, r := range set.Rules() {
		if hasWords(r, v.Filter) && allows(categories, r.Category.ID) {
			byCategory[r.Category.ID] = append(byCategory[r.Category.ID], viewRule(r))
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
	var err error
	v.Latest, err = s.corpus.Attempts(c.Request.Context(), corpus.Filter{Rules: []string{r.ID}, Limit: 10})
	return v, err
}
