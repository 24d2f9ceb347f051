package trace

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	maxNodes    = 10_000
	maxHostlist = 64 << 10 // bytes of a list that is not expanded yet
)

// Hostlist splits a list of nodes at commas and expands Slurm's short form: gpu-[01-03,7],cpu1 is gpu-01, gpu-02,
// gpu-03, gpu-7 and cpu1.
func Hostlist(list string) ([]string, error) {
	if len(list) > maxHostlist {
		return nil, fmt.Errorf("longer than %d bytes", maxHostlist)
	}
	var names []string
	for list != "" {
		var item string
		item, list = nextHost(list)
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		if strings.Count(item, "[") > 4 {
			return nil, fmt.Errorf("more than 4 brackets in one name")
		}
		var err error
		if names, err = expandHost(names, item); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// nextHost cuts at the first comma outside brackets.
func nextHost(list string) (item, rest string) {
	depth := 0
	for i := range len(list) {
		switch list[i] {
		case '[':
			depth++
		case ']':
			depth--
		case ',':
			if depth <= 0 {
				return list[:i], list[i+1:]
			}
		}
	}
	return list, ""
}

// expandHost appends what one item stands for.
func expandHost(names []string, item string) ([]string, error) {
	prefix, rest, ok := strings.Cut(item, "[")
	if !ok {
		if len(names) == maxNodes {
			return nil, fmt.Errorf("more than %d nodes", maxNodes)
		}
		if len(item) > maxText {
			return nil, fmt.Errorf("a node's name is longer than %d bytes", maxText)
		}
		return append(names, item), nil
	}
	ranges, suffix, ok := strings.Cut(rest, "]")
	if !ok {
		return nil, fmt.Errorf("a bracket is not closed")
	}
	for part := range strings.SplitSeq(ranges, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.ParseUint(first, 10, 32)
		to, err2 := strconv.ParseUint(last, 10, 32)
		if err1 != nil || err2 != nil || to < from || to-from >= maxNodes {
			return nil, fmt.Errorf("%q is not a range of nodes", part)
		}
		for n := from; n <= to; n++ {
			var err error
			if names, err = expandHost(names, fmt.Sprintf("%s%0*d%s", prefix, len(first), n, suffix)); err != nil {
				return nil, err
			}
		}
	}
	return names, nil
}
