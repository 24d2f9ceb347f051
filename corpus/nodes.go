package corpus

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"culprit/rules"
)

// NodeReport says which nodes fail more than others.
type NodeReport struct {
	Rate  float64   `json:"rate"`  // charged failures per 1,000 node hours, of all nodes
	Nodes []NodeRow `json:"nodes"` // suspects first, then by charged failures
}

// NodeRow is a node. A failure at infrastructure's charge counts for the node that its root cause names, else for each of
// the attempt's nodes in equal parts. Preemptions are nobody's failure.
type NodeRow struct {
	Node     string   `json:"node"`
	Hours    float64  `json:"hours"` // that attempts ran on it
	Attempts int      `json:"attempts"`
	Failed   int      `json:"failed"`   // at anybody's charge
	Charged  float64  `json:"charged"`  // at infrastructure's
	Jobs     int      `json:"jobs"`     // of the charged failures
	Users    int      `json:"users"`    // likewise
	Expected float64  `json:"expected"` // charged failures, were it as the other nodes are
	Rate     float64  `json:"rate"`     // charged failures per 1,000 hours
	RateLow  float64  `json:"rate_low"` // its 95% interval
	RateHigh float64  `json:"rate_high"`
	P        float64  `json:"p"`       // how likely as many or more are, were it as the others are
	Suspect  bool     `json:"suspect"` // p is below 1% after correction for the number of nodes, by failures of several jobs
	Reasons  []Reason `json:"reasons"` // categories of the charged failures, the most frequent first
	Latest   []int64  `json:"latest"`  // attempts with charged failures, the latest first, at most 5
}

// Reason is how often a category came up.
type Reason struct {
	Category string  `json:"category"`
	Charged  float64 `json:"charged"`
}

const (
	suspectP        = 0.01
	suspectFailures = 3 // no fewer charged failures make a suspect
	suspectJobs     = 2 // nor do those of one job, which may be its own fault
	latestFailures  = 5
)

// nodeCount is what is counted of a node.
type nodeCount struct {
	NodeRow
	milliseconds int64
	jobs         map[uint32]bool
	users        map[term]bool
	reasons      map[string]float64
}

// Nodes reports on the nodes of the attempts that pass the filter, whose Outcome and Limit do not count.
func (c *Corpus) Nodes(ctx context.Context, filter Filter) (NodeReport, error) {
	named, err := c.namedNodes(ctx)
	if err != nil {
		return NodeReport{}, err
	}
	jobs, err := c.jobsOf(ctx, &filter)
	if err != nil {
		return NodeReport{}, err
	}
	f, err := c.current(ctx)
	if err != nil {
		return NodeReport{}, err
	}
	defer f.mu.RUnlock()
	counts := map[string]*nodeCount{}
	matches := f.matcher(&filter, jobs, OutcomeAll)
	for i := range f.list {
		if r := &f.list[i]; matches(r) {
			f.countNodes(counts, r, named[r.id])
		}
	}
	return nodeReport(counts), nil
}

// namedNodes returns the node that the root cause names, by attempt, of failures at infrastructure's charge.
func (c *Corpus) namedNodes(ctx context.Context) (map[int64]string, error) {
	rows, err := c.read.QueryContext(ctx, `SELECT a.id, json_extract(v.body, '$.root.node') AS node FROM attempt a
		JOIN verdict v ON v.attempt_id = a.id WHERE a.fault = ? AND node IS NOT NULL`, string(rules.FaultInfrastructure))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	named := map[int64]string{}
	for rows.Next() {
		var id int64
		var node string
		if err := rows.Scan(&id, &node); err != nil {
			return nil, err
		}
		named[id] = node
	}
	return named, rows.Err()
}

func (f *facts) countNodes(counts map[string]*nodeCount, r *fact, named string) {
	nodes := f.nodesOf(r.nodes)
	category := f.text[r.category]
	charged := f.text[r.fault] == string(rules.FaultInfrastructure) && category != "job-preempted"
	if i := slices.IndexFunc(nodes, func(n string) bool { return sameHost(n, named) }); i >= 0 {
		named = nodes[i]
	} else {
		named = ""
	}
	for _, node := range nodes {
		n := counts[node]
		if n == nil {
			n = &nodeCount{NodeRow: NodeRow{Node: node}, jobs: map[uint32]bool{}, users: map[term]bool{}, reasons: map[string]float64{}}
			counts[node] = n
		}
		n.Attempts++
		n.milliseconds += max(0, r.rtf)
		if category != rules.CategoryNone {
			n.Failed++
		}
		if charged && (named == "" || named == node) {
			part := 1.0
			if named == "" {
				part /= float64(len(nodes))
			}
			n.charge(r, category, part)
		}
	}
}

// sameHost says that two names are of one host, with or without its domain.
func sameHost(a, b string) bool {
	a, _, _ = strings.Cut(a, ".")
	b, _, _ = strings.Cut(b, ".")
	return a == b && a != ""
}

func (n *nodeCount) charge(r *fact, category string, part float64) {
	n.Charged += part
	n.jobs[r.job], n.users[r.user] = true, true
	n.reasons[category] += part
	n.Latest = append(n.Latest, r.id)
}

func nodeReport(counts map[string]*nodeCount) NodeReport {
	var charged, hours float64
	for _, n := range counts {
		n.Hours = float64(n.milliseconds) / 3.6e6
		charged, hours = charged+n.Charged, hours+n.Hours
	}
	report := NodeReport{Nodes: []NodeRow{}}
	if hours > 0 {
		report.Rate = charged / hours * 1000
	}
	for _, n := range counts {
		report.Nodes = append(report.Nodes, n.row(charged-n.Charged, hours-n.Hours, len(counts)))
	}
	slices.SortFunc(report.Nodes, func(a, b NodeRow) int {
		switch {
		case a.Suspect != b.Suspect && a.Suspect:
			return -1
		case a.Suspect != b.Suspect:
			return 1
		}
		return cmp.Or(-cmp.Compare(a.Charged, b.Charged), cmp.Compare(a.P, b.P), cmp.Compare(a.Node, b.Node))
	})
	return report
}

// row compares a node with the others, which had so many charged failures in so many hours.
func (n *nodeCount) row(charged, hours float64, nodes int) NodeRow {
	r := n.NodeRow
	r.Jobs, r.Users, r.P, r.Reasons = len(n.jobs), len(n.users), 1, []Reason{}
	if r.Hours > 0 {
		low, high := poissonInterval(r.Charged)
		r.Rate, r.RateLow, r.RateHigh = r.Charged/r.Hours*1000, low/r.Hours*1000, high/r.Hours*1000
	}
	if hours > 0 && r.Charged > 0 {
		// Half a failure for the others, so that a cluster of which one node alone fails says how unlikely that is.
		r.Expected = max(charged, 0.5) / hours * r.Hours
		r.P = gammaP(r.Charged, r.Expected)
		r.Suspect = r.P*float64(nodes) < suspectP && r.Charged >= suspectFailures && r.Jobs >= suspectJobs
	}
	for category, part := range n.reasons {
		r.Reasons = append(r.Reasons, Reason{category, part})
	}
	slices.SortFunc(r.Reasons, func(a, b Reason) int {
		return cmp.Or(-cmp.Compare(a.Charged, b.Charged), cmp.Compare(a.Category, b.Category))
	})
	slices.Sort(r.Latest)
	slices.Reverse(r.Latest)
	if r.Latest = r.Latest[:min(len(r.Latest), latestFailures)]; r.Latest == nil {
		r.Latest = []int64{}
	}
	return r
}

// poissonInterval is the exact 95% interval of the mean of a Poisson variable that was seen to be k, which may be a
// fraction.
func poissonInterval(k float64) (low, high float64) {
	if k > 0 {
		low = gammaQuantile(k, 0.025)
	}
	return low, gammaQuantile(k+1, 0.975)
}

// gammaQuantile is the x at which gammaP(a, x) is p.
func gammaQuantile(a, p float64) float64 {
	low, high := 0.0, a+10*math.Sqrt(a)+20
	for range 100 {
		if mid := (low + high) / 2; gammaP(a, mid) < p {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}

// gammaP is the regularized lower incomplete gamma function: the chance that a Poisson variable of mean x is a or more.
// By its series where that is short, else by its continued fraction.
func gammaP(a, x float64) float64 {
	if x <= 0 {
		return 0
	}
	lg, _ := math.Lgamma(a)
	scale := math.Exp(a*math.Log(x) - x - lg)
	if x < a+1 {
		term := 1 / a
		sum := term
		for n := 1.0; n < 10_000 && term > sum*1e-16; n++ {
			term *= x / (a + n)
			sum += term
		}
		return sum * scale
	}
	const tiny = 1e-300
	b := x + 1 - a
	c, d := 1/tiny, 1/b
	h := d
	for i := 1.0; i < 10_000; i++ {
		an := -i * (i - a)
		b += 2
		if d = an*d + b; math.Abs(d) < tiny {
			d = tiny
		}
		if c = b + an/c; math.Abs(c) < tiny {
			c = tiny
		}
		d = 1 / d
		delta := d * c
		h *= delta
		if math.Abs(delta-1) < 1e-15 {
			break
		}
	}
	return 1 - scale*h
}
