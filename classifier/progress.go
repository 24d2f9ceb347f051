package classifier

import "strings"

// advance is what a line of training progress says.
type advance struct {
	step   int64 // -1 where it names none
	isStep bool  // step is a step or an iteration rather than a batch of an epoch
	finish bool  // the job says that it has ended well
	n, of  int64 // of a progress bar: "12/100"; 0 of where there is none
}

// progressScan is how many bytes of a line are looked at for progress.
const progressScan = 600

// progressOf reads a line of progress: a step, an iteration or a batch with a figure beside it, a progress bar, a
// dictionary of metrics. It asks for two signs, a counter and a measure, because a single "step 100" stands in many a
// message that is none.
func progressOf(text string) (advance, bool) {
	a := advance{step: -1}
	if len(text) > progressScan {
		text = text[:progressScan]
	}
	if first := strings.TrimLeft(text, " "); strings.HasPrefix(first, "Total ") || strings.HasPrefix(first, "Overall ") {
		return a, false // a summary at the end, which comes after a failure too
	}
	var counter, ofTotal, measure bool
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case isLetter(c):
			j := i + 1
			for j < len(text) && (isLetter(text[j]) || text[j] == '_') {
				j++
			}
			word := text[i:j]
			n, end, total := numberAfter(text, j)
			if n < 0 && !saysEnd(word) {
				i = j
				continue
			}
			switch kind := progressWord(word, i > 0 && text[i-1] == '/'); {
			case kind == wordStop:
				return a, false
			case kind == wordFinish && finishes(text):
				return advance{step: -1, finish: true}, true
			case n < 0:
			case kind == wordStep:
				counter, ofTotal = true, ofTotal || total
				a.step, a.isStep = n, true
				j = end
			case kind == wordEpoch:
				counter, ofTotal = true, ofTotal || total
				if !a.isStep && total && n >= 0 && a.step < 0 && strings.HasPrefix(strings.ToLower(word), "batch") {
					a.step = n
				}
				j = end
			case kind == wordMeasure:
				measure = true
				j = end
			}
			if word == "it" && strings.HasPrefix(text[j:], "/s") || word == "s" && strings.HasPrefix(text[j:], "/it") {
				measure = true
			}
			i = j
		case c >= '0' && c <= '9':
			n, end := number(text, i)
			if end < len(text) && text[end] == '/' && end+1 < len(text) && isDigit(text[end+1]) {
				total, tend := number(text, end+1)
				if total > 0 && n <= total && barAfter(text, tend) {
					ofTotal, measure, counter = true, true, true
					a.n, a.of = n, total
					if !a.isStep {
						a.step = n
					}
				} else if total > 0 && n <= total {
					ofTotal = true
				}
				end = tend
			} else if strings.HasPrefix(text[end:], "%|") {
				measure, counter = true, true
			}
			i = end
		default:
			i++
		}
	}
	return a, counter && (measure || ofTotal) || measure && (ofTotal || strings.HasPrefix(strings.TrimLeft(text, " "), "{'") || rateAlone(text))
}

// saysEnd reports whether a word without a number after it can be one of those that mean an end: a cheap look before
// progressWord.
func saysEnd(word string) bool {
	if len(word) < 4 || len(word) > 13 {
		return len(word) <= 2 // it/s, s/it
	}
	switch word[len(word)-1] | 0x20 {
	case 'd', 'e', 'k', 'l', 'n', 't':
		return true
	}
	return false
}

type wordKind uint8

const (
	wordNone wordKind = iota
	wordStep
	wordEpoch
	wordMeasure
	wordFinish
	wordStop
)

// progressWord says what a word of a log line means for progress.
func progressWord(word string, afterSlash bool) wordKind {
	if len(word) > 24 {
		return wordNone
	}
	switch strings.ToLower(word) {
	case "step", "steps", "iter", "iteration", "global_step", "it", "itr", "update", "num_updates", "global_steps":
		if word == "steps" || word == "it" {
			return wordNone
		}
		return wordStep
	case "epoch", "batch", "minibatch", "eval", "train", "training", "validation", "valid", "val", "test", "round", "episode", "sample", "samples":
		return wordEpoch
	case "loss", "lr", "learning_rate", "acc", "accuracy", "ppl", "perplexity", "grad_norm", "gnorm", "eta", "elapsed", "lm", "reward",
		"time", "speed", "throughput", "train_loss", "val_loss", "eval_loss", "mfu", "tps", "tflops", "wps", "ups", "auc", "map", "bleu",
		"top", "prec", "error_rate", "pg_loss", "mean", "ce", "crossentropy", "languagecrossentropy", "pass", "consumed", "nll", "kl", "score", "metric", "objective", "cost":
		return wordMeasure
	case "sec", "second":
		if afterSlash {
			return wordMeasure
		}
	case "finished", "completed", "complete", "done", "train_runtime", "saved", "succeeded":
		return wordFinish
	case "failed", "exception", "traceback", "fatal", "cannot", "unable", "aborted", "killed", "timeout", "refused":
		return wordStop
	}
	if strings.HasSuffix(word, "loss") || strings.HasSuffix(word, "_acc") {
		return wordMeasure
	}
	return wordNone
}

// finishPhrases are how trainers say that they came to their end.
var finishPhrases = [...]string{
	"training finished", "finished training", "training completed", "training complete", "training is done", "training done",
	"'train_runtime'", "job finished", "job completed", "run completed", "optimization done", "saved final model", "done training",
	"end of training", "training has finished", "completed successfully", "finished successfully",
}

func finishes(text string) bool {
	text = strings.ToLower(text)
	for _, p := range finishPhrases {
		if strings.Contains(text, p) {
			return true
		}
	}
	return false
}

// rateAlone reports lines such as "global_step/sec: 3.2".
func rateAlone(text string) bool { return strings.Contains(text, "/sec") }

// numberAfter reads the number that a counter or a measure is followed by, over what stands between ("=", ": [", "'").
// It returns -1 where there is none, else the integer part, where the number ends, and whether "of total" follows.
func numberAfter(text string, i int) (n int64, end int, total bool) {
	for k := 0; k < 8 && i < len(text) && strings.IndexByte(" =:[('\"#\t", text[i]) >= 0; k++ {
		i++
	}
	if i < len(text) && (text[i] == '-' || text[i] == '+') {
		i++
	}
	if i >= len(text) || !isDigit(text[i]) {
		return -1, i, false
	}
	n, end = number(text, i)
	rest := strings.TrimLeft(text[end:], " ")
	if strings.HasPrefix(rest, "/") {
		rest = strings.TrimLeft(rest[1:], " ")
		total = rest != "" && isDigit(rest[0])
	} else if strings.HasPrefix(rest, "of ") {
		total = true
	}
	if end < len(text) && (text[end] == '.' || text[end] == 'e') { // a decimal: skip its fraction
		for end < len(text) && (isDigit(text[end]) || text[end] == '.' || text[end] == 'e' || text[end] == '-') {
			end++
		}
	}
	return n, end, total
}

// number reads digits and thousands separators at i.
func number(text string, i int) (n int64, end int) {
	for end = i; end < len(text) && end < i+18; end++ {
		if c := text[end]; isDigit(c) {
			n = n*10 + int64(c-'0')
		} else if c != ',' || end+3 >= len(text) || !isDigit(text[end+1]) || !isDigit(text[end+2]) || !isDigit(text[end+3]) {
			break
		}
	}
	return n, end
}

// barAfter reports whether the brackets of a progress bar follow "12/100": "[00:01<00:12", "[=====>", "━━━".
func barAfter(text string, i int) bool {
	rest := strings.TrimLeft(text[i:], " ")
	if len(rest) < 2 {
		return false
	}
	return rest[0] == '[' && (isDigit(rest[1]) || rest[1] == '=' || rest[1] == '.' || rest[1] == '>' || rest[1] == '?') ||
		strings.HasPrefix(rest, "━") || strings.HasPrefix(rest, "█")
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// checkpointOf reads the step of a line that says that a checkpoint was written.
func checkpointOf(text string) (int64, bool) {
	l := strings.ToLower(text)
	i := strings.Index(l, "checkpoint")
	if i < 0 || !strings.Contains(l, "sav") && !strings.Contains(l, "wrote") && !strings.Contains(l, "written") {
		return 0, false
	}
	if strings.Contains(l, "fail") || strings.Contains(l, "error") || strings.Contains(l, "will be saved") || strings.Contains(l, "unable") {
		return 0, false
	}
	for _, key := range [...]string{"checkpoint-", "global_step", "iteration", "step", "iter_", "checkpoints for", "ckpt-", "step_", "iter"} {
		k := strings.LastIndex(l, key)
		if k < 0 {
			continue
		}
		if n, _, _ := numberAfter(l, k+len(key)); n >= 0 {
			return n, true
		}
	}
	return 0, false
}
