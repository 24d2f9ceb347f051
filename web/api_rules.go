package web

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"culprit/rules"
)

// ruleView is a rule as it is shown.
type ruleView struct {
	ID         string      `json:"id"`
	Category   string      `json:"category"`
	Title      string      `json:"title"` // of the category
	Role       rules.Role  `json:"role"`
	Generic    bool        `json:"generic,omitempty"`
	Block      string      `json:"block,omitempty"`
	Fault      rules.Fault `json:"fault"`
	Retry      rules.Retry `json:"retry"`
	Literals   []string    `json:"literals"`
	Pattern    string      `json:"pattern,omitempty"`
	IgnoreCase bool        `json:"ignore_case,omitempty"`
	Summary    string      `json:"summary"`
	Advice     string      `json:"advice,omitempty"`
	Source     string      `json:"source"`
	Pack       string      `json:"pack"`
	Line       int         `json:"line"` // of the rule in its pack
}

func viewRule(r *rules.Rule) ruleView {
	v := ruleView{ID: r.ID, Category: r.Category.ID, Title: r.Category.Title, Role: r.Role, Generic: r.Generic, Block: r.Block, Fault: r.Fault, Retry: r.Retry,
		Literals: r.Literals(), Pattern: r.Pattern(), IgnoreCase: r.IgnoreCase(), Summary: r.Summary, Advice: r.Advice, Source: r.Source, Pack: r.File, Line: r.Line}
	if v.Literals == nil {
		v.Literals = []string{}
	}
	return v
}

// ruleList is the answer of GET /rules.
type ruleList struct {
	Version string     `json:"rules_version"`
	Rules   []ruleView `json:"rules"`
}

func (s *Server) getRules(c *gin.Context) (any, error) {
	q := newQuery(c.Request, "category", "role")
	categories, roles := q.list("category"), q.choices("role", string(rules.Cause), string(rules.Symptom), string(rules.Fact))
	if q.err != nil {
		return nil, q.err
	}
	set := s.classifier.Load().Rules()
	list := ruleList{set.Version(), []ruleView{}}
	for _, r := range set.Rules() {
		if allows(categories, r.Category.ID) && allows(roles, string(r.Role)) {
			list.Rules = append(list.Rules, viewRule(r))
		}
	}
	return list, nil
}

func (s *Server) getRule(c *gin.Context) (any, error) {
	r, ok := s.classifier.Load().Rules().Rule(param(c, "id"))
	if !ok {
		return nil, refuse(http.StatusNotFound, "rule %s: not found", quote(param(c, "id")))
	}
	return viewRule(r), nil
}

// taxonomyView is the answer of GET /taxonomy.
type taxonomyView struct {
	Categories []*rules.Category `json:"categories"`
}

func (s *Server) getTaxonomy(*gin.Context) (any, error) {
	return taxonomyView{s.classifier.Load().Rules().Taxonomy().Categories}, nil
}
