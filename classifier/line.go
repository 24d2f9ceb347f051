package classifier

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
)

// maxLine is how much of a line is looked at: 4 KB on either side of a literal, or the first 8 KB where there is none.
const maxLine = 8 << 10

// line is one line of a log, undressed: what it says, without what surrounds it.
type line struct {
	text  string // the message; indentation is kept
	said  string // the line as it stands in the log, ANSI codes removed
	who   string // who speaks: the prefixes of rank, process, pod and host, joined; empty where the line has none
	rank  string
	node  string
	time  time.Time // zero where the line carries none
	level level

	labelled bool // by srun
	logged   bool // by c10's logger
	raised   bool // names an exception
	carrier  bool // names an exception that only carries one of another process here
}

// level is the severity that a line states of itself.
type level uint8

const (
	levelNone level = iota
	levelDebug
	levelInfo
	levelWarning
	levelError
	levelFatal
)

// undress takes off what is not the message: control codes, overwritten text, time stamps, log levels and the prefixes
// that name the speaker. raw is one line without its \n.
func undress(raw []byte) line {
	said := visible(raw)
	l := line{said: said, text: said}
	if strings.HasPrefix(l.text, `{"log":"`) {
		l.unwrapDocker()
	}
	for range 8 { // each prefix at most a few times; a line of nothing but prefixes ends as an empty message
		if !l.takePrefix() {
			break
		}
	}
	if strings.HasPrefix(l.text, "Error reported to Coordinator: ") {
		l.level = levelError // TensorFlow 1 says at the level of information why it stops
	}
	return l
}

// visible is what a terminal shows of a line at its end: the part after the last rewrite, without control codes.
func visible(raw []byte) string {
	raw = bytes.TrimRight(raw, "\r")
	raw = raw[lastRewrite(raw)+1:]
	if bytes.IndexByte(raw, 0x1b) < 0 {
		return string(raw)
	}
	return string(stripANSI(make([]byte, 0, len(raw)), raw))
}

// lastRewrite is where raw was last rewritten by \r or \b, or -1.
func lastRewrite(raw []byte) int {
	return max(bytes.LastIndexByte(raw, '\r'), bytes.LastIndexByte(raw, '\b'))
}

// stripANSI appends raw without its escape sequences (CSI, OSC and two-byte ones) to dst.
func stripANSI(dst, raw []byte) []byte {
	for i := 0; i < len(raw); {
		if raw[i] != 0x1b {
			j := bytes.IndexByte(raw[i:], 0x1b)
			if j < 0 {
				return append(dst, raw[i:]...)
			}
			dst = append(dst, raw[i:i+j]...)
			i += j
			continue
		}
		i += EscapeLen(raw[i:])
	}
	return dst
}

// EscapeLen is the length of the escape sequence that b starts with.
func EscapeLen(b []byte) int {
	if len(b) < 2 {
		return len(b)
	}
	switch b[1] {
	case '[':
		for i := 2; i < len(b); i++ {
			if b[i] >= 0x40 && b[i] <= 0x7e {
				return i + 1
			}
			if b[i] < 0x20 || b[i] > 0x7e {
				return i
			}
		}
		return len(b)
	case ']':
		for i := 2; i < len(b) && i < 2048; i++ {
			if b[i] == 7 {
				return i + 1
			}
			if b[i] == 0x1b && i+1 < len(b) && b[i+1] == '\\' {
				return i + 2
			}
		}
		return 2
	}
	return 2
}

// unwrapDocker reads a line of Docker's json-file driver.
func (l *line) unwrapDocker() {
	var entry struct {
		Log  string    `json:"log"`
		Time time.Time `json:"time"`
	}
	if json.Unmarshal([]byte(l.text), &entry) != nil {
		return
	}
	l.said = visible([]byte(strings.TrimRight(entry.Log, "\n")))
	l.text = l.said
	l.setTime(entry.Time)
}

// takePrefix takes one prefix off the message and notes what it says. It reports whether there was one.
func (l *line) takePrefix() bool {
	s := l.text
	if s == "" {
		return false
	}
	switch c := s[0]; {
	case c == '[':
		return l.takeBracket(s)
	case c == '#':
		return l.takeWorkflowCommand(s)
	case c == '(':
		return l.takeRayActor(s)
	case c == ' ' && len(s) > 1 && s[1] == '[': // Megatron indents its time stamp by one
		return l.takeStamp(s, s[1:])
	case c == '-' && len(s) > 2 && s[1] == ' ' || c == '|' && len(s) > 2 && s[1] == ' ':
		return l.takeSeparated(s)
	case c >= '0' && c <= '9':
		return l.takeStamp(s, s) || l.takeSrunLabel(s) || l.takeNCCLHost(s)
	case c >= 'A' && c <= 'Z':
		return l.takeGlog(s) || l.takeLevel(s) || l.takeSyslog(s) || l.takeNCCLHost(s)
	case c >= 'a' && c <= 'z':
		return l.takePiped(s) || l.takeHost(s) || l.takeNCCLHost(s) || l.takeStampedHost(s)
	}
	return false
}

// speaks notes one more part of the speaker's name and makes rest the message.
func (l *line) speaks(name, rest string) bool {
	if l.who == "" {
		l.who = name
	} else if !strings.Contains(l.who, name) {
		l.who += "/" + name
	}
	l.text = rest
	return true
}

func (l *line) setTime(t time.Time) {
	if l.time.IsZero() {
		l.time = t
	}
}

// takeBracket takes what stands in brackets at the start: a rank, a host, a time, a level.
func (l *line) takeBracket(s string) bool {
	end := strings.IndexByte(s, ']')
	if end < 2 || end > 120 {
		return false
	}
	in, rest := s[1:end], s[end+1:]
	if l.takeRank(in, rest) || l.takeStamp(s, s) {
		return true
	}
	if lv, ok := levelOf(in); ok {
		l.level = lv
		l.text = strings.TrimPrefix(rest, " ")
		return true
	}
	if l.takeTorchLevel(in, rest) {
		return true
	}
	if len(in) >= 14 && in[2] == '/' && in[5] == ' ' && clockLen(in[6:]) > 0 { // detectron2: [03/11 14:24:41 d2.engine.hooks]:
		l.text = strings.TrimLeft(rest, ": ")
		return true
	}
	rest, ok := strings.CutPrefix(rest, " ")
	if !ok {
		return false
	}
	if pod, ok := strings.CutPrefix(in, "pod/"); ok { // kubectl logs --prefix
		return l.speaks(pod, rest)
	}
	if host, pid, ok := strings.Cut(in, ":"); ok && isHost(host) && digits(pid) == len(pid) && pid != "" { // Open MPI
		l.setNode(host)
		return l.speaks(in, rest)
	}
	if isTag(in) { // [server], [trainer]
		return l.speaks(in, rest)
	}
	if sourcePosition(in) { // [launch.py:139:main], [comm.py:637:init_distributed]
		l.text = rest
		return true
	}
	return false
}

// takeRank takes the rank prefixes of torchrun, mpirun, horovodrun and Determined; in is what the brackets hold.
func (l *line) takeRank(in, rest string) bool {
	for _, name := range [...]string{"rank=", "rank ", "rank", "default"} {
		n, ok := strings.CutPrefix(in, name)
		if !ok || n == "" || digits(n) != len(n) {
			continue
		}
		if r, ok := strings.CutPrefix(rest, ":"); ok {
			rest = r
		} else if name == "rank " { // [rank 3] text: a mention; the colon makes it a prefix
			return false
		}
		l.setRank(n)
		return l.speaks("rank"+n, strings.TrimPrefix(rest, " "))
	}
	for _, stream := range [...]string{"<stderr>:", "<stdout>:", "<stddiag>:", "<stderr>", "<stdout>"} {
		r, ok := strings.CutPrefix(rest, stream)
		if !ok {
			continue
		}
		n := in
		if _, after, ok := strings.Cut(in, ","); ok { // [job,rank]
			n = after
		}
		if digits(n) != len(n) || n == "" {
			return false
		}
		l.setRank(n)
		return l.speaks("rank"+n, r)
	}
	if r, ok := strings.CutPrefix(rest, ": "); ok && digits(in) == len(in) { // mpiexec -prepend-rank, Intel MPI: [3]: or [3]
		l.setRank(in)
		return l.speaks("rank"+in, r)
	}
	return false
}

// takeTorchLevel takes the prefix of c10's logger: [E ProcessGroupNCCL.cpp:537], [W723 02:00:10.431963001 socket.cpp:697].
func (l *line) takeTorchLevel(in, rest string) bool {
	if len(in) < 2 || !strings.Contains(in, ".") || !strings.Contains(in, ":") {
		return false
	}
	lv, ok := letterLevel(in[0])
	if !ok || in[1] != ' ' && (in[1] < '0' || in[1] > '9') {
		return false
	}
	l.level, l.logged = lv, true
	l.text = strings.TrimPrefix(rest, " ")
	return true
}

// takeRayActor takes (RayTrainWorker pid=7, ip=10.0.0.3), (raylet), (autoscaler +48m2s).
func (l *line) takeRayActor(s string) bool {
	end := strings.Index(s, ") ")
	if end < 2 || end > 160 {
		return false
	}
	in, rest := s[1:end], s[end+2:]
	name, attrs, _ := strings.Cut(in, " ")
	if name != "raylet" && name != "autoscaler" && name != "gcs_server" && !strings.Contains(attrs, "pid=") {
		return false
	}
	if _, ip, ok := strings.Cut(attrs, "ip="); ok {
		l.setNode(strings.TrimRight(ip, ") "))
	}
	if i := strings.Index(rest, " [repeated "); i > 0 && strings.HasSuffix(rest, "across cluster]") {
		rest = rest[:i]
	}
	return l.speaks(in, rest)
}

// takeSeparated takes a separator that a logging format leaves between its fields: "- name - LEVEL - text", "| text".
func (l *line) takeSeparated(s string) bool {
	rest := s[2:]
	if l.time.IsZero() && l.level == levelNone {
		return false // a list item or a table, not a field
	}
	sep := " " + s[:1] + " "
	field, after, ok := strings.Cut(rest, sep)
	if ok && len(field) < 40 && !strings.ContainsAny(field, "\"'(") {
		if lv, isLevel := levelOf(strings.TrimSpace(field)); isLevel {
			l.level, l.text = lv, after
			return true
		}
		if name, next, ok := strings.Cut(after, sep); ok && isLoggerName(field) && len(name) < 12 {
			if lv, isLevel := levelOf(strings.TrimSpace(name)); isLevel {
				l.level, l.text = lv, next
				return true
			}
		}
	}
	l.text = rest
	return true
}

// takePiped takes the name before " | " or " || ", as docker compose and Determined print it.
func (l *line) takePiped(s string) bool {
	i := strings.Index(s, "| ")
	if i < 2 || i > 60 {
		return false
	}
	name := strings.TrimRight(s[:i], " |")
	if !isHost(name) || s[i-1] != ' ' && s[i-1] != '|' {
		return false
	}
	if !isHex(name) { // Determined's container id is nobody's name
		l.setNode(name)
	}
	return l.speaks(name, s[i+2:])
}

// takeSrunLabel takes "3: ", the label of srun --label and mpiexec -l.
func (l *line) takeSrunLabel(s string) bool {
	n := digits(s)
	if n == 0 || n > 5 || len(s) < n+1 || s[n] != ':' || l.labelled {
		return false
	}
	if len(s) > n+1 && s[n+1] != ' ' {
		return false
	}
	l.labelled = true
	l.setRank(s[:n])
	return l.speaks("rank"+s[:n], strings.TrimPrefix(s[n+1:], " "))
}

// takeHost takes "node-3: ", the label of pdsh. Only names with a digit count, so that "wandb: " stays.
func (l *line) takeHost(s string) bool {
	i := strings.Index(s, ": ")
	if i < 0 && strings.HasSuffix(s, ":") {
		i = len(s) - 1
	}
	if i < 2 || i > 60 || l.who != "" {
		return false
	}
	name := s[:i]
	if !isHost(name) || !strings.ContainsAny(name, "0123456789") || isProgram(name) {
		return false
	}
	l.setNode(name)
	return l.speaks(name, strings.TrimPrefix(s[i+1:], " "))
}

// takeNCCLHost takes "host:pid:tid [gpu] " before NCCL's messages.
func (l *line) takeNCCLHost(s string) bool {
	host, rest, ok := strings.Cut(s, ":")
	if !ok || !isHost(host) {
		return false
	}
	pid := digits(rest)
	if pid == 0 || pid == len(rest) || rest[pid] != ':' {
		return false
	}
	tid := digits(rest[pid+1:])
	gpu, message, ok := strings.Cut(rest[pid+1+tid:], "] ")
	if tid == 0 || !ok || !strings.HasPrefix(gpu, " [") || digits(gpu[2:]) != len(gpu)-2 || len(gpu) == 2 {
		return false
	}
	l.setNode(host)
	return l.speaks(s[:len(host)+1+pid+1+tid]+" gpu "+gpu[2:], message)
}

func (l *line) setRank(rank string) {
	if l.rank == "" {
		l.rank = rank
	}
}

func (l *line) setNode(node string) {
	if l.node == "" {
		l.node = node
	}
}

// isHost reports whether s can be the name of a host, a pod or a container.
func isHost(s string) bool {
	if s == "" || len(s) > 63 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c >= 'A' && c <= 'Z') {
			return false
		}
	}
	return s[0] != '-' && s[0] != '.' && s[len(s)-1] != '.'
}

// isProgram reports whether a name with a digit is a program's or a file's rather than a host's.
func isProgram(s string) bool {
	for _, p := range [...]string{"python", "pip", "perl", "mpi", "h5", "nvme", "mlx5", "lib", "gcc", "g++", "clang", "cc1", "ld", "conda", "md5", "sha", "s3", "java", "sh1"} {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	for _, e := range [...]string{".py", ".so", ".sh", ".cc", ".cpp", ".cu", ".c", ".h", ".json", ".yaml", ".txt"} {
		if strings.HasSuffix(s, e) || strings.Contains(s, e+".") {
			return true
		}
	}
	return strings.ContainsAny(s, "_") || strings.ToLower(s) != s
}

// isTag reports whether s, found in brackets, names a part of a program that speaks: a short word in lower case.
func isTag(s string) bool {
	if len(s) < 3 || len(s) > 20 || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return s != "c10d"
}

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
			return false
		}
	}
	return len(s) >= 8
}

// isLoggerName reports whether s looks like the dotted name of a logger.
func isLoggerName(s string) bool {
	s = strings.TrimSpace(s)
	return s != "" && !strings.ContainsAny(s, " :=")
}

// sourcePosition reports whether s is "file.py:12" or "file.py:12:function".
func sourcePosition(s string) bool {
	file, rest, ok := strings.Cut(s, ":")
	if !ok || strings.ContainsAny(file, " ") || !strings.Contains(file, ".") {
		return false
	}
	return digits(rest) > 0
}

// digits is how many ASCII digits s starts with.
func digits(s string) int {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return i
		}
	}
	return len(s)
}
