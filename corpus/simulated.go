package corpus

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// Simulated says what a corpus was simulated from.
type Simulated struct {
	Jobs int    `json:"jobs"`
	Seed uint64 `json:"seed"`
}

const simulatedName = "simulated.json"

// Simulated returns what the corpus was simulated from, nil where its jobs are real. Whoever shows it must say so.
func (c *Corpus) Simulated() (*Simulated, error) {
	body, err := os.ReadFile(c.path(simulatedName))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := &Simulated{}
	if err := json.Unmarshal(body, s); err != nil {
		return nil, fmt.Errorf("%s: %w", simulatedName, err)
	}
	return s, nil
}

// MarkSimulated says for good that the jobs of the corpus are simulated. It is refused where there are real ones.
func (c *Corpus) MarkSimulated(s Simulated) error {
	if c.write == nil {
		return ErrReadOnly
	}
	have, err := c.Simulated()
	if err != nil {
		return err
	}
	if have == nil && c.rev.Load() > 0 {
		return errors.New("there are real attempts in it: simulated ones belong into a folder of their own")
	}
	if have != nil && *have != s {
		return fmt.Errorf("it holds a simulation of %d jobs with seed %d: another one belongs into a folder of its own", have.Jobs, have.Seed)
	}
	body, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.path(simulatedName), append(body, '\n'), 0o640); err != nil {
		return full(err)
	}
	return syncFolder(c.dir)
}
