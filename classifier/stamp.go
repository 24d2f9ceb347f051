package classifier

import (
	"strings"
	"time"
)

// levelNames are the words that logging libraries print for a severity.
var levelNames = map[string]level{
	"DEBUG": levelDebug, "TRACE": levelDebug, "INFO": levelInfo, "NOTICE": levelInfo, "I": levelInfo,
	"WARNING": levelWarning, "WARN": levelWarning, "W": levelWarning,
	"ERROR": levelError, "ERR": levelError, "E": levelError,
	"CRITICAL": levelFatal, "FATAL": levelFatal, "F": levelFatal,
}

func levelOf(word string) (level, bool) {
	if len(word) > 8 {
		return levelNone, false
	}
	word = strings.TrimSpace(word)
	if lv, ok := levelNames[word]; ok {
		return lv, true
	}
	lv, ok := levelNames[strings.ToUpper(word)]
	return lv, ok && len(word) > 1
}

func letterLevel(c byte) (level, bool) {
	switch c {
	case 'I':
		return levelInfo, true
	case 'W':
		return levelWarning, true
	case 'E':
		return levelError, true
	case 'F':
		return levelFatal, true
	}
	return levelNone, false
}

// takeLevel takes a level word at the start: "ERROR: ", "ERROR:logger.name:", "INFO 05-20 21:44:10 [file.py:11] ".
func (l *line) takeLevel(s string) bool {
	n := 0
	for n < len(s) && n < 9 && s[n] >= 'A' && s[n] <= 'Z' {
		n++
	}
	lv, ok := levelOf(s[:n])
	if !ok || n == len(s) || n == 1 && s[n] != ' ' {
		return false
	}
	rest := s[n:]
	switch {
	case strings.HasPrefix(rest, ": "), strings.HasPrefix(rest, "\t"):
		l.text = strings.TrimLeft(rest[1:], " \t")
	case rest[0] == ':': // logging.BASIC_FORMAT: LEVEL:logger:text
		name, text, ok := strings.Cut(rest[1:], ":")
		if !ok || strings.ContainsAny(name, " \"'") || name == "" {
			l.text = rest[1:]
			break
		}
		l.text = strings.TrimPrefix(text, " ")
	case rest[0] == ' ':
		if n == 1 { // TensorFlow's "E tensorflow/…cc:12] " comes after a time stamp
			if l.time.IsZero() {
				return false
			}
			if i := strings.Index(rest, "] "); i > 0 && i < 120 && strings.Contains(rest[:i], ":") {
				l.level, l.text = lv, rest[i+2:]
				return true
			}
			return false
		}
		l.text = afterPosition(strings.TrimLeft(rest, " "))
	default:
		return false
	}
	l.level = lv
	return true
}

// takeWorkflowCommand takes "##[error]", as GitHub and Azure Pipelines mark a line.
func (l *line) takeWorkflowCommand(s string) bool {
	word, rest, ok := strings.Cut(strings.TrimPrefix(s, "##["), "]")
	if !ok || !strings.HasPrefix(s, "##[") {
		return false
	}
	if lv, ok := levelOf(word); ok {
		l.level = lv
	}
	l.text = rest
	return true
}

// afterPosition takes "worker.py:2058 -- " and "05-20 21:44:10 [model_runner.py:1110] " off a message.
func afterPosition(s string) string {
	if i := strings.Index(s, " -- "); i > 0 && i < 60 && sourcePosition(s[:i]) {
		return s[i+4:]
	}
	if digits(s) == 2 && len(s) > 15 && s[2] == '-' && s[5] == ' ' {
		if i := strings.Index(s, "] "); i > 0 && i < 80 {
			return s[i+2:]
		}
	}
	return s
}

// takeGlog takes the prefix of glog, absl and klog: "I0808 10:03:21.327535 140291993893959 tf_logging.py:115] ".
// Its date has no year, so it gives no time that could be compared with others.
func (l *line) takeGlog(s string) bool {
	lv, ok := letterLevel(s[0])
	if !ok || digits(s[1:]) < 4 || len(s) < 20 {
		return false
	}
	i := strings.Index(s, "]")
	if i < 0 || i > 140 || !strings.Contains(s[:i], ":") {
		return false
	}
	l.level = lv
	l.text = strings.TrimPrefix(s[i+1:], " ")
	return true
}

// takeSyslog takes "Dec  1 18:32:50 host kernel: " as journalctl and /var/log/messages have it.
func (l *line) takeSyslog(s string) bool {
	if len(s) < 18 || s[3] != ' ' || s[9] != ':' || s[12] != ':' || s[15] != ' ' {
		return false
	}
	switch s[:3] {
	case "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec":
	default:
		return false
	}
	host, rest, ok := strings.Cut(s[16:], " ")
	if !ok {
		return false
	}
	l.setNode(host)
	if i := strings.Index(rest, ": "); i > 0 && i < 40 && !strings.Contains(rest[:i], " ") { // kernel: or python[123]:
		rest = rest[i+2:]
	}
	l.text = rest
	return true
}

// takeStampedHost takes "host kernel: " after an absolute time, as rsyslog and journalctl -o short-iso print it.
func (l *line) takeStampedHost(s string) bool {
	host, rest, ok := strings.Cut(s, " ")
	if !ok || l.time.IsZero() || l.node != "" || !isHost(host) {
		return false
	}
	unit, text, ok := strings.Cut(rest, ": ")
	if !ok || unit != "kernel" && !strings.HasSuffix(unit, "]") || len(unit) > 40 || strings.Contains(unit, " ") {
		return false
	}
	l.setNode(host)
	l.text = text
	return true
}

// stampLayouts are the absolute times that logs carry; the shape decides before time.Parse is asked.
var stampLayouts = []struct {
	layout string
	n      int // bytes up to the seconds
}{
	{"2006-01-02T15:04:05", 19},
	{"2006-01-02 15:04:05", 19},
	{"2006/01/02 15:04:05", 19},
	{"2006-01-02_15:04:05", 19},
}

// takeStamp takes a time stamp at the start of s, in brackets or not; whole is the message it stands in.
func (l *line) takeStamp(whole, s string) bool {
	open := s[0] == '['
	if open {
		s = s[1:]
	}
	t, n := parseStamp(s)
	if n == 0 {
		if n = clockLen(s); n == 0 || !open {
			return false
		}
	}
	rest := s[n:]
	if open {
		// [2025-05-20 21:43:53 TP0]: what else the brackets hold names the speaker.
		end := strings.IndexByte(rest, ']')
		if end < 0 || end > 40 {
			return false
		}
		if tag := strings.TrimSpace(rest[:end]); tag != "" && isHost(tag) {
			l.speaks(tag, whole)
		}
		rest = rest[end+1:]
	}
	l.setTime(t)
	rest = strings.TrimLeft(rest, ":,")
	rest = strings.TrimPrefix(rest, "\t")
	rest = strings.TrimPrefix(rest, " ")
	for _, cri := range [...]string{"stderr F ", "stdout F ", "stderr P ", "stdout P "} { // the CRI's log format
		rest = strings.TrimPrefix(rest, cri)
	}
	l.text = rest
	return true
}

// parseStamp reads an absolute time at the start of s and says how many bytes it takes; 0 where there is none.
func parseStamp(s string) (time.Time, int) {
	if len(s) < 19 || digits(s) != 4 || s[13] != ':' || s[16] != ':' {
		return time.Time{}, 0
	}
	for _, f := range stampLayouts {
		if f.layout[4] != s[4] || f.layout[10] != s[10] {
			continue
		}
		t, err := time.Parse(f.layout, s[:f.n])
		if err != nil {
			return time.Time{}, 0
		}
		n := f.n
		if n < len(s) && (s[n] == '.' || s[n] == ',') {
			if d := digits(s[n+1:]); d > 0 {
				frac := (s[n+1:n+1+min(d, 9)] + "000000000")[:9]
				nanos := 0
				for i := range 9 {
					nanos = nanos*10 + int(frac[i]-'0')
				}
				t = t.Add(time.Duration(nanos))
				n += 1 + d
			}
		}
		return zone(t, s, n)
	}
	return time.Time{}, 0
}

// zone reads the zone after a time, at s[n:]. A time without one is taken as UTC.
func zone(t time.Time, s string, n int) (time.Time, int) {
	if n < len(s) && s[n] == 'Z' {
		return t, n + 1
	}
	if len(s) >= n+6 && (s[n] == '+' || s[n] == '-') && digits(s[n+1:]) == 2 && s[n+3] == ':' && digits(s[n+4:]) >= 2 {
		off := time.Duration((int(s[n+1]-'0')*10+int(s[n+2]-'0'))*3600+(int(s[n+4]-'0')*10+int(s[n+5]-'0'))*60) * time.Second
		if s[n] == '+' {
			off = -off
		}
		return t.Add(off), n + 6
	}
	return t, n
}

// clockLen is the length of a time of day or a kernel's uptime at the start of s: "14:03:12", "14:03:12:51", " 1234.567890".
func clockLen(s string) int {
	if len(s) >= 8 && digits(s) == 2 && s[2] == ':' && s[5] == ':' {
		n := 8
		for n < len(s) && (s[n] == ':' || s[n] == '.' || s[n] == ',' || s[n] >= '0' && s[n] <= '9') {
			n++
		}
		return n
	}
	trimmed := strings.TrimLeft(s, " ")
	d := digits(trimmed)
	if d > 0 && len(trimmed) > d+1 && trimmed[d] == '.' && digits(trimmed[d+1:]) == 6 {
		return len(s) - len(trimmed) + d + 7
	}
	return 0
}
