package classifier

import "strings"

// The kinds of blocks that have an implicit signature.
const (
	blockPython = "python-traceback"
	blockCPP    = "cpp-terminate"
	blockJava   = "java-exception"
	blockWrite  = "checkpoint-write" // a traceback out of a function that writes a checkpoint
)

// block is a group of lines by one speaker that tells one failure: a chain of tracebacks, a C++ terminate, a Java stack.
type block struct {
	id         int
	kind       string
	exceptions []exception // in the order of the log
	explained  bool        // a cause or a fact matched one of its lines
	ignored    bool        // Python says that it ignored the exception
	writes     bool        // the innermost frames write, rename or delete files
	checkpoint bool        // and it is a checkpoint that they write
	at         *match      // the implicit match of the exception that would be the root
}

// exception is the line at the end of a traceback that names what was raised.
type exception struct {
	typ    string // dotted name
	text   string // what follows it
	link   link
	worker bool // raised in another process and re-raised here
}

// link says how an exception follows from the one before it in its chain.
type link uint8

const (
	linkNone    link = iota
	linkCause        // "The above exception was the direct cause of the following exception"
	linkContext      // "During handling of the above exception, another exception occurred"
	linkNested       // the traceback of the process that raised it first: it explains the one before
)

// blockOpeners are the literals that make the reader attentive to a block.
var blockOpeners = []string{
	"Traceback (most recent call last)",
	"terminate called after throwing",
	"terminate called without an active",
	"Exception in thread ",
	"Caused by: ",
	"Uncaught exception",
}

// blockState follows the block that one speaker is in.
type blockState struct {
	block    *block
	phase    phase
	link     link
	echoes   [innermost]string // the last lines of the frames
	n        int               // how many there were
	indented bool              // torchrun's summary quotes the traceback, indented by two
	ignored  bool              // the next traceback is of an exception that Python ignored
	rest     int               // lines until a block is over that nothing more belongs to
}

type phase uint8

const (
	outside phase = iota
	frames        // inside of a traceback, before its exception
	box           // inside of a traceback that rich draws
	after         // after an exception: its message may go on, its chain too
	native        // after a C++ terminate: what() follows
	javaStack
)

// afterLines is how long after an exception a line may still belong to its chain.
const afterLines = 12

// follow moves the state on by one line. It reports whether the line is an echo of source code or of a stack, which no
// rule may look at, and whether it names an exception of its block.
func (s *blockState) follow(text string, newBlock func(kind string) *block) (echo, names bool) {
	t := trimGroup(text)
	if s.indented {
		t = strings.TrimPrefix(t, "  ")
	}
	if opensTraceback(t) {
		s.openTraceback(t, newBlock)
		return true, false
	}
	switch s.phase {
	case outside:
		return s.open(t, newBlock)
	case frames:
		return s.inFrames(t)
	case box:
		return s.inBox(t)
	case native:
		if s.rest--; s.rest <= 0 {
			s.close()
		}
		return false, false
	case javaStack:
		return s.inJava(t)
	}
	return s.afterException(t, newBlock)
}

// open starts a block at a line that is no Python traceback's first.
func (s *blockState) open(t string, newBlock func(string) *block) (echo, names bool) {
	s.ignored = strings.HasPrefix(t, "Exception ignored in")
	switch {
	case strings.HasPrefix(t, "terminate called "):
		s.block, s.phase, s.rest = newBlock(blockCPP), native, 6
		typ, _, _ := strings.Cut(strings.TrimPrefix(t, "terminate called after throwing an instance of '"), "'")
		s.block.exceptions = append(s.block.exceptions, exception{typ: typ})
		return false, true
	case strings.HasPrefix(t, "Exception in thread "), strings.HasPrefix(t, "Caused by: "):
		_, what, _ := strings.Cut(strings.TrimPrefix(t, "Exception in thread "), "\" ")
		if c, ok := strings.CutPrefix(t, "Caused by: "); ok {
			what = c
		}
		typ, msg := splitException(what)
		if typ == "" || !strings.Contains(typ, ".") {
			return false, false // Python's "Exception in thread Thread-1:" announces a traceback
		}
		s.block, s.phase, s.rest = newBlock(blockJava), javaStack, afterLines
		s.block.exceptions = append(s.block.exceptions, exception{typ: typ, text: msg})
		return false, true
	}
	return false, false
}

// openTraceback starts a traceback, which may go on with the chain of the one before it.
func (s *blockState) openTraceback(t string, newBlock func(string) *block) {
	l := s.link
	if s.block != nil && s.block.kind == blockPython && strings.Contains(t, "Original Traceback") {
		l = linkNested
	}
	if s.block == nil || s.block.kind != blockPython || l == linkNone && s.phase != after && s.phase != frames {
		s.block = newBlock(blockPython)
	} else if l == linkNone && len(s.block.exceptions) > 0 && s.phase == after {
		s.block = newBlock(blockPython) // two tracebacks in a row, with nothing that links them
	}
	s.block.ignored = s.block.ignored || s.ignored
	s.link, s.rest, s.ignored = l, 400, false
	s.indented = s.indented || strings.HasPrefix(strings.TrimLeft(t, " "), "traceback : ")
	s.phase = frames
	if strings.ContainsAny(t, "╭┌") {
		s.phase = box
	}
}

// inFrames reads a line between "Traceback" and the exception.
func (s *blockState) inFrames(t string) (echo, names bool) {
	if s.rest--; s.rest <= 0 {
		s.close()
		return false, false
	}
	switch {
	case t == "", t[0] == ' ', t[0] == '\t', strings.HasPrefix(t, "[Previous line repeated "):
		s.echoes[s.n%innermost] = t
		s.n++
		return true, false
	}
	typ, msg := splitException(t)
	if typ == "" {
		// What stands between frames is another speaker's, or a message printed meanwhile.
		return false, false
	}
	s.named(typ, msg)
	return false, true
}

// innermost is how many lines of a traceback's frames tell what the program was doing when it raised.
const innermost = 8

// writing are pieces of source code that write, rename or delete files: what is missing there is no input.
var writing = [...]string{"rmtree", "rmdir(", "unlink(", "os.remove(", "rename(", "os.replace(", "makedirs(", "mkdir(", "write_text(", "write_bytes(",
	"shutil.move(", "save_to_", "to_json(", "torch.save(", ".save(", "_save(", "in save", "in _save", "\"w\")", "'w')", "\"wb\")", "'wb')", "\"a\")", "'a')", "\"w\",", "'w',", "\"x\")", "'x')"}

// readFrames notes what the innermost frames were doing.
func (s *blockState) readFrames() {
	for i := range min(s.n, innermost) {
		for _, w := range writing {
			s.block.writes = s.block.writes || strings.Contains(s.echoes[i], w)
		}
	}
	if s.block.writes {
		for i := range min(s.n, innermost) {
			e := strings.ToLower(s.echoes[i])
			s.block.checkpoint = s.block.checkpoint || strings.Contains(e, "checkpoint") || strings.Contains(e, "ckpt") || strings.Contains(e, "save_model") || strings.Contains(e, "save_state")
		}
	}
	s.n = 0
}

// named notes an exception at the end of a traceback.
func (s *blockState) named(typ, msg string) {
	s.readFrames()
	s.block.exceptions = append(s.block.exceptions, exception{typ: typ, text: msg, link: s.link,
		worker: strings.HasPrefix(msg, "Caught ") || strings.HasPrefix(msg, "ray::")})
	s.link, s.phase, s.rest = linkNone, after, afterLines
}

// inBox reads a line of a traceback in a box: all of it quotes source code and values.
func (s *blockState) inBox(t string) (echo, names bool) {
	if s.rest--; s.rest <= 0 {
		s.close()
		return false, false
	}
	if strings.HasPrefix(t, "╰") || strings.HasPrefix(t, "└") {
		s.phase = frames
		return true, false
	}
	if strings.HasPrefix(t, "│") || strings.HasPrefix(t, "|") || t == "" || t[0] == ' ' {
		return true, false
	}
	return s.inFrames(t)
}

// afterException reads a line after an exception: more of its message, a link to the next one, or something else.
func (s *blockState) afterException(t string, newBlock func(string) *block) (echo, names bool) {
	switch {
	case strings.HasPrefix(t, "During handling of the above exception"):
		s.link, s.rest = linkContext, afterLines
		return true, false
	case strings.HasPrefix(t, "The above exception was the direct cause"):
		s.link, s.rest = linkCause, afterLines
		return true, false
	case strings.HasPrefix(t, "-- Process ") && strings.Contains(t, " terminated with the following error"):
		s.link, s.rest = linkNested, afterLines
		return false, false
	case strings.HasPrefix(t, `  File "`) && strings.Contains(t, ", line "):
		s.link, s.phase, s.rest = linkNested, frames, 400 // Ray quotes the remote traceback without its header
		return true, false
	case strings.HasPrefix(t, "terminate called "), strings.HasPrefix(t, "Exception ignored in"):
		s.close()
		return s.open(t, newBlock)
	}
	if s.rest--; s.rest <= 0 {
		s.close()
	}
	return false, false
}

// inJava reads a line of a Java stack.
func (s *blockState) inJava(t string) (echo, names bool) {
	u := strings.TrimLeft(t, " \t")
	if cause, ok := strings.CutPrefix(u, "Caused by: "); ok {
		typ, msg := splitException(cause)
		s.block.exceptions = append(s.block.exceptions, exception{typ: typ, text: msg, link: linkNested})
		s.rest = 200
		return false, true
	}
	if strings.HasPrefix(u, "at ") && len(u) < len(t) || strings.HasPrefix(u, "... ") {
		s.rest = 200
		return true, false
	}
	if s.rest -= 40; s.rest <= 0 {
		s.close()
	}
	return false, false
}

func (s *blockState) close() { *s = blockState{} }

// opensTraceback reports whether a line opens a Python traceback. A progress bar or a logger's text may stand before it.
func opensTraceback(t string) bool {
	const header = "raceback (most recent call last)"
	i := strings.Index(t, header)
	if i < 1 {
		return false
	}
	rest := strings.TrimRight(t[i+len(header):], " ─━-╮┐:")
	if rest != "" {
		return false
	}
	before := strings.TrimRight(t[:i-1], " ")
	return before == "" || !strings.ContainsAny(before[len(before)-1:], "\"'`(") // a quotation
}

// trimGroup takes off the bars that Python 3.11 draws before the lines of an exception group.
func trimGroup(t string) string {
	u := strings.TrimLeft(t, " ")
	if strings.HasPrefix(u, "| ") && len(u) < len(t) {
		return trimGroup(u[2:])
	}
	if strings.HasPrefix(u, "+ Exception Group ") {
		return u[2:]
	}
	return t
}

// splitException splits "pkg.SomeError: message" and returns an empty type where the line is none.
func splitException(t string) (typ, msg string) {
	n := 0
	for n < len(t) && (isLetter(t[n]) || isDigit(t[n]) || t[n] == '_' || t[n] == '.' || t[n] == '$') {
		n++
	}
	if n < 3 || n > 120 || isDigit(t[0]) {
		return "", ""
	}
	typ = t[:n]
	name := typ[strings.LastIndexByte(typ, '.')+1:]
	if name == "" {
		return "", ""
	}
	rest := t[n:]
	if strings.HasPrefix(rest, "(") { // RayTaskError(ValueError): …
		if i := strings.IndexByte(rest, ')'); i > 0 && i < 80 {
			rest = rest[i+1:]
		}
	}
	switch {
	case rest == "":
		if !looksRaised(name) {
			return "", ""
		}
	case strings.HasPrefix(rest, ": "), rest == ":":
		if !looksRaised(name) && (name[0] < 'A' || name[0] > 'Z' || !strings.Contains(typ, ".")) {
			return "", ""
		}
		msg = strings.TrimPrefix(strings.TrimPrefix(rest, ":"), " ")
	default:
		return "", ""
	}
	return typ, msg
}

// looksRaised reports whether a name is one that exceptions have.
func looksRaised(name string) bool {
	if name[0] < 'A' || name[0] > 'Z' {
		return false
	}
	for _, end := range [...]string{"Error", "Exception", "Interrupt", "Exit", "Iteration", "Warning", "Timeout", "Failure", "Full", "Empty", "Expired",
		"Refused", "NotFound", "Group", "Abort", "Fault", "Missing", "Mismatch", "Unavailable", "Cancelled", "Overflow", "Died", "Killed", "Lost", "Preempted", "Exceeded", "Invalid"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return strings.Contains(name, "Error") || strings.Contains(name, "Exception")
}

// label is the kind of the rule that names the block where no other explains it.
func (b *block) label() string {
	last := b.exceptions[len(b.exceptions)-1].typ
	if b.kind == blockPython && b.checkpoint && (strings.HasSuffix(last, "FileNotFoundError") || strings.HasSuffix(last, "OSError") || strings.HasSuffix(last, "IOError")) {
		return blockWrite
	}
	return b.kind
}

// carries reports whether the last exception only carries one of another process here.
func (b *block) carries() bool { return b.exceptions[len(b.exceptions)-1].worker }

// root is the exception of the chain that says what happened, as an index, or -1. A direct cause outranks what follows
// from it; a traceback that came from another process outranks the wrapper that carried it; of exceptions that were
// raised while another was handled, the last is what killed.
func (b *block) root() int {
	root := -1
	for i, e := range b.exceptions {
		switch {
		case root < 0, e.link == linkNested, e.link == linkContext, e.link == linkNone:
			root = i
		}
	}
	return root
}
