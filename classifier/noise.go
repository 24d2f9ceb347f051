package classifier

import (
	"strings"

	"culprit/rules"
)

// quoted reports whether a line only quotes a message: source code, a rule, a prompt, a command that is echoed.
func quoted(text string, rule *rules.Rule) bool {
	t := strings.TrimLeft(text, " \t│|+>❱")
	if t == "" {
		return false
	}
	for _, start := range quoteStarts {
		if strings.HasPrefix(t, start) {
			return true
		}
	}
	if rule.Role == rules.Fact {
		return false
	}
	return codeLike(t)
}

// quoteStarts begin lines of source code, of rule packs, of data and of shell traces.
var quoteStarts = [...]string{
	"# ", "#!", "//", "/*", `"""`, ">>> ", "raise ", "print(", "printf(", "echo ", "assert ", "except ", "elif ", "else:", "return ", "def ", "class ",
	"log.", "logger.", "logging.", "warnings.warn(", "self.", "sys.", "os.", "TORCH_CHECK(", "throw ", "std::cerr", "LOG(",
	"- line:", "line:", "example:", "match:", "- match", "sample:", "want:", "expect", "pattern:", "literals:", "summary:", "advice:", "why:", "regex:", "- pattern", "- id:", "message_regex",
	"grep ", "sed ", "awk ", "if ", "while ", "for ", "case ", "try:",
	`{"text"`, `{"prompt"`, `{"instruction"`, `{"input"`, `{"content"`, `{"messages"`, `{"question"`, "prompt", "completion", "Prompt", "Completion", "eval prompt", "Q: ", "A: ",
}

// codeLike reports whether a line has the shape of a statement of source code.
func codeLike(t string) bool {
	if strings.HasSuffix(t, ");") || strings.HasSuffix(t, "):") && strings.Contains(t, "(") && strings.Contains(t, "\"") {
		return true
	}
	if i := strings.IndexByte(t, '='); i > 0 && i+2 < len(t) && (strings.HasPrefix(t[i+1:], ` "`) || strings.HasPrefix(t[i+1:], ` f"`) || strings.HasPrefix(t[i+1:], ` '`)) {
		return !strings.ContainsAny(strings.TrimRight(t[:i], " "), " :(")
	}
	return false
}

// chatter reports whether a line is one that is printed while a job goes down, so that it does not show that the speaker
// went on.
func chatter(text string) bool {
	t := strings.TrimLeft(text, " \t")
	if len(t) < 4 || !strings.ContainsFunc(t, func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }) {
		return true
	}
	if len(t) < len(text) {
		return true // more of the message before it, or a field of a report
	}
	for _, start := range chatterStarts {
		if strings.HasPrefix(t, start) {
			return true
		}
	}
	return strings.Contains(t, "NCCL INFO") || strings.Contains(t, "resource_tracker") || strings.Contains(t, "leaked semaphore")
}

var chatterStarts = [...]string{
	"wandb", "srun:", "slurmstepd:", "Exception ignored in", "warnings.warn", "Failures:", "Root Cause", "[0]:", "[1]:", "Sending process", "Killing subprocess",
	"mpirun", "mpiexec", "Primary job", "a non-zero exit code", "Waiting", "----", "====", "****", "#0", "#1", "#2", "#3", "#4", "#5", "#6", "#7", "#8", "#9", "frame #",
	"Set the environment variable", "For debugging", "Compile with", "CUDA kernel errors", "Device-side assertion", "Last error", "See ", "Please ", "Note", "NOTE", "Hint", "HINT",
	"Exit code", "exit code", "exit status", "Process ", "[ ", "PMIX", "PMI", "core dumped", "Current thread", "Thread 0x", "Extension modules", "File ",
	"Error in atexit", "Sentry", "error_file", "traceback :", "time ", "host ", "rank ", "exitcode", "To ", "Traceback", "+ ", "++ ", "End of", "Begin", "Shutting down", "Cleaning",
	"python: ", "Aborted", "Killed", "Terminated", "make", "ninja", "Events:", "Name:", "Reason:", "State:", "Status:", "Message:", "Last State", "Normal ", "Warning ", "Type ",
}

// launcherSummary follows torchrun's list of failures, which tells process ids from ranks.
type launcherSummary struct {
	rank string
}

// read reads one line of the list: "rank      : 3 (local_rank: 3)", then "exitcode  : -9 (pid: 3466)".
func (u *launcherSummary) read(text string, s *scanner) {
	t := strings.TrimLeft(text, " ")
	if len(t) == len(text) || len(t) < 10 {
		return
	}
	key, value, ok := strings.Cut(t, " : ")
	if !ok {
		return
	}
	switch strings.TrimSpace(key) {
	case "rank":
		u.rank = value[:digits(value)]
	case "exitcode":
		if _, pid, ok := strings.Cut(value, "(pid: "); ok && u.rank != "" && len(s.pids) < maxSpeakers {
			if s.pids == nil {
				s.pids = map[string]string{}
			}
			s.pids[pid[:digits(pid)]] = u.rank
		}
	}
}
