package trace

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"culprit/classifier/loggen"
	"culprit/rules"
)

// The paper's cluster: jobs by how they ended (Table 6) and the share of GPU time of each.
const (
	paperJobs         = 96_260
	paperPassed       = 66_696
	paperKilled       = 12_996
	paperUnsuccessful = 16_568

	paperPassedGPU       = 0.445
	paperKilledGPU       = 0.377
	paperUnsuccessfulGPU = 0.178
)

// Simulation is a cluster that never was, of the size and the mix of failures of the paper's: two months, 320 nodes of 8
// GPUs, four of which are bad, and an outage of its storage. The same seed gives the same cluster.
type Simulation struct {
	Jobs int       // 0 for the paper's 96,260
	Seed uint64    //
	From time.Time // when the first jobs are submitted; zero: 1 September 2026
}

// SimulatedRun is an attempt of a simulated job with what is true of it.
type SimulatedRun struct {
	Record
	Category string          // why it failed; none where it did not
	Failure  *loggen.Failure // its log; nil where it has none
}

const (
	simDays      = 61
	simUsers     = 319
	simVCs       = 14
	simRacks     = 40
	simRackNodes = 8
	meanRTF      = 3 * time.Hour // of failed attempts
	spreadRTF    = 1.5           // sigma of the logarithm of runtimes
	maxRTF       = 14 * 24 * time.Hour
	outageBegins = 40*24*time.Hour + 9*time.Hour
	outageLasts  = 6 * time.Hour
	firstSimDay  = "2026-09-01"
)

// BadNodes are the nodes of a simulation that fail more than others.
var BadNodes = []string{"gpu-r03-n5", "gpu-r11-n2", "gpu-r27-n8", "gpu-r34-n1"}

// badNodeCategories are the failures that a bad node causes.
var badNodeCategories = []string{"gpu-ecc-error", "cuda-init-failed", "mpi-error", "mpi-runtime-failure"}

// demands are how many GPUs jobs of a category ask for: shares of 1, of 2 to 4, of more than 4. The paper tells those of
// two categories; the empty one is all others.
var demands = map[string][3]float64{
	"":                      {0.66, 0.22, 0.12},
	"cuda-failure":          {0.15, 0.78, 0.07},
	"cuda-version-mismatch": {0.02, 0.02, 0.96},
	"semantic-error":        {0.52, 0.22, 0.26},
	"mpi-error":             {0.0, 0.5, 0.5},
	"mpi-runtime-failure":   {0.0, 0.45, 0.55},
}

// episode is one or more attempts of a job that fail in the same way.
type episode struct {
	category string
	attempts int
	variant  int
}

// simJob is a job before it is placed in time.
type simJob struct {
	number   int
	episodes []episode
	end      string // state of the attempt after the episodes; empty: there is none
}

type simulator struct {
	sim   Simulation
	rand  *rand.Rand
	mean  map[string]float64 // runtime to failure in seconds, by category
	whole map[string]float64 // mean runtime of passed and killed attempts, by state
}

// Runs yields the attempts of all jobs, those of one job in their order.
func (s Simulation) Runs() iter.Seq2[SimulatedRun, error] {
	return func(yield func(SimulatedRun, error) bool) {
		if s.Jobs <= 0 {
			s.Jobs = paperJobs
		}
		if s.From.IsZero() {
			s.From, _ = time.Parse(time.DateOnly, firstSimDay)
		}
		m := &simulator{sim: s, rand: rand.New(rand.NewPCG(s.Seed, 0x73696d))}
		taxonomy, err := rules.DefaultTaxonomy()
		if err != nil {
			yield(SimulatedRun{}, err)
			return
		}
		jobs := m.jobs(m.failures(taxonomy))
		m.balance(jobs)
		for i := range jobs {
			for _, run := range m.runs(&jobs[i]) {
				if !yield(run, nil) {
					return
				}
			}
		}
	}
}

// scaled is a count of the paper for this many jobs.
func (m *simulator) scaled(n int) int {
	return int(math.Round(float64(n) * float64(m.sim.Jobs) / paperJobs))
}

// failures draws the episodes: as many failed attempts of each category as the paper has, and at least an episode for each
// unsuccessful job. It sets the mean runtimes, in the proportions of the paper's shares.
func (m *simulator) failures(t *rules.Taxonomy) []episode {
	var list []episode
	var trials float64
	m.mean = map[string]float64{}
	for _, c := range t.Categories {
		trials += float64(c.Trials)
	}
	for _, c := range t.Categories {
		n := m.scaled(c.Trials)
		if c.Trials > 0 && n == 0 {
			n = 1
		}
		if n == 0 {
			continue
		}
		share := float64(c.Trials) / trials * 100
		if c.RTFShare != nil {
			share = max(*c.RTFShare, 0.005)
		}
		m.mean[c.ID] = share / 100 * trials * meanRTF.Seconds() / float64(c.Trials)
		list = append(list, m.episodes(c, n)...)
	}
	return list
}

// episodes parts n attempts of a category. What is deterministic fails on each of the retries that the scheduler makes.
func (m *simulator) episodes(c *rules.Category, n int) []episode {
	sizes := []int{1, 1, 1, 2, 2, 3}
	if c.Retry == rules.RetryNever {
		sizes = []int{1, 1, 2, 2, 3, 3, 3, 4}
	}
	var list []episode
	for n > 0 {
		e := episode{c.ID, min(n, sizes[m.rand.IntN(len(sizes))]), m.rand.IntN(loggen.Variants(c.ID))}
		list = append(list, e)
		n -= e.attempts
	}
	return list
}

// meanDemand is the mean number of GPUs of a category's jobs.
func meanDemand(category string) float64 {
	d := demandOf(category)
	return d[0] + 3*d[1] + 12*d[2]
}

func demandOf(category string) [3]float64 {
	if d, ok := demands[category]; ok {
		return d
	}
	return demands[""]
}

// jobs gives each unsuccessful job an episode to end with, and the others to jobs that failed before they passed, were
// killed, or failed again.
func (m *simulator) jobs(episodes []episode) []simJob {
	unsuccessful, killed := max(1, m.scaled(paperUnsuccessful)), m.scaled(paperKilled)
	jobs := make([]simJob, m.sim.Jobs)
	for i := range jobs {
		jobs[i].end = "COMPLETED"
		switch {
		case i < unsuccessful:
			jobs[i].end = ""
		case i < unsuccessful+killed:
			jobs[i].end = "CANCELLED"
		}
	}
	m.rand.Shuffle(len(episodes), func(i, j int) { episodes[i], episodes[j] = episodes[j], episodes[i] })
	slices.SortStableFunc(episodes, func(a, b episode) int { return cmp.Compare(transient(a.category), transient(b.category)) })
	episodes = split(episodes, unsuccessful)
	unsuccessful = min(unsuccessful, len(episodes))
	for i, e := range episodes {
		at := i
		if i >= unsuccessful { // what passes by itself passes on a retry
			if at = unsuccessful + m.rand.IntN(len(jobs)-unsuccessful+1); at == len(jobs) {
				at = m.rand.IntN(unsuccessful)
			}
		}
		jobs[at].episodes = append([]episode{e}, jobs[at].episodes...)
	}
	m.rand.Shuffle(len(jobs), func(i, j int) { jobs[i], jobs[j] = jobs[j], jobs[i] })
	for i := range jobs {
		jobs[i].number = i + 1
	}
	return jobs
}

// balance sets the mean runtimes of attempts that passed or were killed, so that jobs of each outcome have the paper's share
// of GPU time, their failed attempts included.
func (m *simulator) balance(jobs []simJob) {
	lost, count := map[string]float64{}, map[string]float64{} // by the state that jobs end with
	for i := range jobs {
		j := &jobs[i]
		count[j.end]++
		for _, e := range j.episodes {
			lost[j.end] += float64(e.attempts) * m.mean[e.category] * meanDemand(j.episodes[0].category)
		}
	}
	m.whole = map[string]float64{}
	for end, share := range map[string]float64{"COMPLETED": paperPassedGPU, "CANCELLED": paperKilledGPU} {
		total := lost[""] * share / paperUnsuccessfulGPU
		m.whole[end] = max(total-lost[end], total/10) / max(1, count[end]) / meanDemand("")
	}
}

// transient is 1 for failures that a retry gets over.
func transient(category string) int {
	if slices.Contains([]string{"model-checkpoint-error", "mpi-error", "mpi-runtime-failure", "job-preempted", "gpu-ecc-error", "cuda-init-failed"}, category) {
		return 1
	}
	return 0
}

// split parts episodes until there are n, as far as their attempts go.
func split(episodes []episode, n int) []episode {
	for i := 0; len(episodes) < n && i < len(episodes); i++ {
		if e := &episodes[i]; e.attempts > 1 {
			e.attempts--
			episodes = append(episodes, episode{e.category, 1, e.variant})
			i--
		}
	}
	return episodes
}

// runs places the attempts of a job in time and on nodes.
func (m *simulator) runs(j *simJob) []SimulatedRun {
	category := ""
	if len(j.episodes) > 0 {
		category = j.episodes[0].category
	}
	user := m.user(category)
	gpus := m.gpus(category)
	submitted := m.submission()
	at := submitted.Add(m.around(4*time.Minute, 1.2))
	var list []SimulatedRun
	add := func(run SimulatedRun, runtime time.Duration) {
		a := &run.Attempt
		a.Job, a.Number, a.GPUs = fmt.Sprintf("application_%d_%05d", m.sim.From.UnixMilli(), j.number), len(list)+1, gpus
		a.Name, a.User, a.VC = fmt.Sprintf("train-%03d", user%97), fmt.Sprintf("user-%03d", user), fmt.Sprintf("team-%02d", user%simVCs+1)
		a.Nodes, a.GPUType = m.nodes(run.Category, gpus)
		if len(list) == 0 {
			a.Submitted = new(submitted)
			if run.Category == "model-checkpoint-error" && m.rand.IntN(6) == 0 {
				at = m.inOutage(runtime)
				a.Submitted = new(at.Add(-time.Minute))
			}
		}
		a.Start, a.End = new(at), new(at.Add(runtime))
		run.Owner = -1
		at = a.End.Add(m.around(2*time.Minute, 0.5))
		list = append(list, run)
	}
	for _, e := range j.episodes {
		for range e.attempts {
			add(m.failed(e))
		}
	}
	if j.end != "" {
		run := SimulatedRun{Category: rules.CategoryNone}
		run.Attempt.State = j.end
		if j.end == "CANCELLED" {
			run.Category = "cancelled"
		} else {
			run.Attempt.Code = new(0)
		}
		add(run, m.around(time.Duration(m.whole[j.end]*float64(time.Second)), spreadRTF))
	}
	return list
}

// failed draws an attempt of an episode.
func (m *simulator) failed(e episode) (SimulatedRun, time.Duration) {
	runtime := m.around(time.Duration(m.mean[e.category]*float64(time.Second)), spreadRTF)
	f := &loggen.Failure{Category: e.category, Variant: e.variant, Seed: m.rand.Uint64() % 100_000,
		Steps: 10 + min(120, int(runtime/(10*time.Minute))), Ranks: 1}
	run := SimulatedRun{Category: e.category, Failure: f}
	end, err := f.End()
	if err != nil {
		panic(err) // episodes are made of categories that have messages
	}
	a := &run.Attempt
	a.State = end.State
	if end.Code >= 0 {
		a.Code = new(end.Code)
	}
	a.Signal = end.Signal
	return run, runtime
}

// around draws a whole number of seconds from a log-normal distribution of that mean.
func (m *simulator) around(mean time.Duration, sigma float64) time.Duration {
	x := mean.Seconds() * math.Exp(sigma*m.rand.NormFloat64()-sigma*sigma/2)
	return time.Duration(max(1, math.Round(min(x, maxRTF.Seconds())))) * time.Second
}

// user draws who submits a job: a few submit most, and memory runs out over and over for some.
func (m *simulator) user(category string) int {
	users := simUsers
	if category == "cpu-oom" {
		users = 65
	}
	return int(float64(users) * math.Pow(m.rand.Float64(), 2.2))
}

func (m *simulator) gpus(category string) int {
	d := demandOf(category)
	switch x := m.rand.Float64(); {
	case x < d[0]:
		return 1
	case x < d[0]+d[1]:
		return []int{2, 4}[m.rand.IntN(2)]
	}
	return []int{8, 8, 8, 8, 16, 32}[m.rand.IntN(6)]
}

// submission draws a time: fewer at night and on weekends.
func (m *simulator) submission() time.Time {
	for {
		t := m.sim.From.Add(time.Duration(m.rand.Int64N(simDays*24*3600)) * time.Second)
		weight := 0.55 - 0.45*math.Cos(float64(t.Hour()-3)/24*2*math.Pi)
		if t.Weekday() == time.Saturday || t.Weekday() == time.Sunday {
			weight *= 0.55
		}
		if m.rand.Float64() < weight {
			return t
		}
	}
}

// inOutage returns the start of an attempt that ends while the storage is out.
func (m *simulator) inOutage(runtime time.Duration) time.Time {
	end := m.sim.From.Add(outageBegins + time.Duration(m.rand.Int64N(int64(outageLasts/time.Second)))*time.Second)
	return end.Add(-runtime)
}

// nodes draws where an attempt runs, and the type of GPU there. Racks to 24 have one type, those after it another.
func (m *simulator) nodes(category string, gpus int) ([]string, string) {
	n := max(1, (gpus+7)/8)
	rack := m.rand.IntN(simRacks)
	first := m.rand.IntN(simRackNodes)
	list := make([]string, n)
	for i := range list {
		list[i] = simNode(rack, (first+i)%simRackNodes)
	}
	if slices.Contains(badNodeCategories, category) && m.rand.IntN(100) < 45 {
		bad := m.rand.IntN(len(BadNodes))
		list[0] = BadNodes[bad]
		if _, err := fmt.Sscanf(list[0], "gpu-r%d-n%d", &rack, &first); err != nil {
			panic(err) // they are our own
		}
		rack--
		for i := range list[1:] {
			list[i+1] = simNode(rack, (first+i)%simRackNodes)
		}
	}
	if rack < 24 {
		return list, "V100"
	}
	return list, "P100"
}

func simNode(rack, node int) string { return fmt.Sprintf("gpu-r%02d-n%d", rack+1, node+1) }
