package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"culprit/classifier"
	"culprit/corpus"
)

const (
	maxParts   = 10_000
	maxJSON    = 16 << 20 // a JSON body is held in memory; longer logs come raw or as multipart
	maxValue   = 64 << 10 // bytes of a form field that is not a log
	bodyIdle   = time.Minute
	sniffBytes = 4096
)

// logs is what an attempt's log files come as: read once, one after the other.
type logs = iter.Seq2[classifier.Log, error]

// upload is a request with logs. With multipart, attempt is complete only when all logs have been read, since a part
// with metadata may follow the files.
type upload struct {
	attempt *corpus.Attempt
	logs    logs
}

// uploadRules is what a route asks of an upload.
type uploadRules struct {
	needJob bool
	form    map[string]*string // fields of a page's form that are no metadata; multipart only
	pasted  *string            // takes the text of a log that is a field of a page's form, so that the page can show it again
}

// readUpload reads metadata from the query and prepares the body to be read: raw text, multipart/form-data or JSON, plain
// or packed. Errors that show only later come out of the iterator.
func (s *Server) readUpload(c *gin.Context, want uploadRules) (upload, error) {
	m := newMetadata()
	if err := m.setQuery(c.Request); err != nil {
		return upload{}, err
	}
	body, err := s.openBody(c)
	if err != nil {
		return upload{}, err
	}
	kind, params, err := mime.ParseMediaType(c.GetHeader("Content-Type"))
	switch {
	case kind == "multipart/form-data" && params["boundary"] != "":
		p := &partReader{parts: multipart.NewReader(body, params["boundary"]), meta: m, want: want, max: s.maxBytes}
		return upload{m.attempt, p.logs}, nil
	case strings.HasPrefix(kind, "multipart/"):
		return upload{}, refuse(http.StatusUnsupportedMediaType, "%s is not understood: send multipart/form-data with a boundary", kind)
	case kind == "application/json" && err == nil:
		l, err := readJSON(body, m, want)
		return upload{m.attempt, l}, err
	}
	if err := m.check(want.needJob); err != nil {
		return upload{}, err
	}
	log, err := openText(body, "the body")
	if errors.Is(err, io.EOF) {
		return upload{}, badField("", "the body is empty: send the log as the body, as in curl --data-binary @err.log; "+
			"an attempt without a log is sent as JSON with its exit_code or state")
	}
	return upload{m.attempt, one("", log)}, err
}

// setQuery takes all metadata that the query has.
func (m *metadata) setQuery(r *http.Request) error {
	query, err := readQuery(r)
	if err != nil {
		return err
	}
	for name, values := range query {
		if len(values) > 1 && strings.HasPrefix(name, "node") {
			values = []string{strings.Join(values, ",")}
		}
		for _, v := range values {
			if err := m.set(name, v); err != nil {
				return err
			}
		}
	}
	return nil
}

func one(name string, r io.Reader) logs {
	return func(yield func(classifier.Log, error) bool) { yield(classifier.Log{Name: name, Reader: r}, nil) }
}

// openBody undoes the content encoding and holds the body to the limit, packed and unpacked.
func (s *Server) openBody(c *gin.Context) (io.Reader, error) {
	if n := c.Request.ContentLength; n > s.maxBytes {
		return nil, tooLarge(s.maxBytes)
	}
	idle := &patientReader{r: c.Request.Body, control: http.NewResponseController(c.Writer)}
	packed := &limitedReader{r: idle, left: s.maxBytes, max: s.maxBytes}
	body, err := unpack(packed, c.GetHeader("Content-Encoding"))
	if err != nil || body == io.Reader(packed) {
		return body, err
	}
	return &limitedReader{r: body, left: s.maxBytes, max: s.maxBytes}, nil
}

// patientReader waits for each piece of a body, but not for ever: a client that stops sending gives up its place.
type patientReader struct {
	r       io.Reader
	control *http.ResponseController
}

func (p *patientReader) Read(b []byte) (int, error) {
	// A writer that has no deadlines, as in tests, has no slow client either.
	_ = p.control.SetReadDeadline(time.Now().Add(bodyIdle))
	n, err := p.r.Read(b)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = badField("", "the body is cut: it ended before its announced length")
	}
	return n, err
}

func tooLarge(limit int64) error {
	return refuse(http.StatusRequestEntityTooLarge, "more than %s of log, unpacked: that is this server's limit; send the last part of the log, where the failure is", size(limit))
}

// limitedReader ends with an error where the limit is passed, not silently as io.LimitReader does.
type limitedReader struct {
	r         io.Reader
	left, max int64
}

func (l *limitedReader) Read(b []byte) (int, error) {
	if int64(len(b)) > l.left+1 {
		b = b[:l.left+1]
	}
	n, err := l.r.Read(b)
	if l.left -= int64(n); l.left < 0 {
		return 0, tooLarge(l.max)
	}
	return n, err
}

// readJSON reads {metadata…, "log": "…"} or {metadata…, "logs": [{"name", "text"}]}. Without a log the attempt must at
// least say how it ended.
func readJSON(body io.Reader, m *metadata, want uploadRules) (logs, error) {
	data, err := io.ReadAll(io.LimitReader(body, maxJSON+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxJSON:
		return nil, refuse(http.StatusRequestEntityTooLarge, "JSON longer than %s: send the log as the body and the metadata in the query, or multipart/form-data", size(maxJSON))
	case len(bytes.TrimSpace(data)) == 0:
		return nil, badField("", "the body is empty: a JSON object is wanted")
	}
	members, err := decodeObject(data)
	if err != nil {
		return nil, err
	}
	named, err := takeLogs(members)
	if err != nil {
		return nil, err
	}
	if err := m.setObject(members); err != nil {
		return nil, err
	}
	e := m.attempt.Exit
	if len(named) == 0 && e.Code == nil && e.Signal == 0 && e.State == "" && e.Reason == "" {
		return nil, badField("log", "missing: give log or logs, or say how the attempt ended: exit_code, signal, state or reason")
	}
	return textLogs(named), m.check(want.needJob)
}

func decodeObject(data []byte) (members map[string]json.RawMessage, err error) {
	if err := json.Unmarshal(data, &members); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, badField("", "not JSON: byte %d: %v", syntax.Offset, err)
		}
		return nil, badField("", "a JSON object is wanted: %v", err)
	}
	if members == nil {
		return nil, badField("", "a JSON object is wanted, not null")
	}
	return members, nil
}

func (m *metadata) setObject(members map[string]json.RawMessage) error {
	for name, raw := range members {
		if err := m.setJSON(name, raw); err != nil {
			return err
		}
	}
	return nil
}

// namedText is one log of a JSON body.
type namedText struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// takeLogs takes log and logs out of the members of a JSON body.
func takeLogs(members map[string]json.RawMessage) (named []namedText, err error) {
	if raw, ok := members["log"]; ok {
		var text *string
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, badField("log", "text is wanted here; several logs go into logs, a list of {name, text}")
		}
		if text != nil {
			named = append(named, namedText{Text: *text})
		}
	}
	if raw, ok := members["logs"]; ok {
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.DisallowUnknownFields()
		var more []namedText
		if err := decoder.Decode(&more); err != nil {
			return nil, badField("logs", "a list of {name, text} is wanted: %v", err)
		}
		named = append(named, more...)
	}
	delete(members, "log")
	delete(members, "logs")
	if len(named) > maxParts {
		return nil, badField("logs", "more than %d logs", maxParts)
	}
	for _, n := range named {
		if n.Text != "" {
			return named, nil
		}
	}
	if len(named) > 0 {
		return nil, badField("log", "empty: leave it out where there is none")
	}
	return nil, nil
}

func textLogs(named []namedText) logs {
	return func(yield func(classifier.Log, error) bool) {
		var names streamNames
		for _, n := range named {
			name := ""
			if len(named) > 1 || n.Name != "" {
				name = names.unique(n.Name)
			}
			text, err := openText(strings.NewReader(n.Text), "log "+name)
			if err != nil && !errors.Is(err, io.EOF) {
				yield(classifier.Log{}, err)
				return
			}
			if !yield(classifier.Log{Name: name, Reader: text}, nil) {
				return
			}
		}
	}
}

// partReader reads multipart/form-data: files are logs, the part attempt is JSON metadata, other parts are metadata by
// their name, or logs where the name is none of the known.
type partReader struct {
	parts *multipart.Reader
	meta  *metadata
	want  uploadRules
	names streamNames
	files int
	bytes int64 // of all logs together, unpacked
	max   int64
}

func (p *partReader) logs(yield func(classifier.Log, error) bool) {
	for n := 0; ; n++ {
		log, last, err := p.next(n)
		if err != nil {
			yield(classifier.Log{}, err)
			return
		}
		if last {
			return
		}
		if log.Reader != nil && !yield(log, nil) {
			return
		}
	}
}

// next reads the next part. A part that is no log leaves log.Reader nil.
func (p *partReader) next(n int) (log classifier.Log, last bool, err error) {
	part, err := p.parts.NextRawPart()
	switch {
	case err == io.EOF:
		return log, true, p.end()
	case err != nil:
		return log, false, cutMultipart(err)
	case n == maxParts:
		return log, false, refuse(http.StatusRequestEntityTooLarge, "more than %d parts", maxParts)
	}
	if isLog, err := p.isLog(part); err != nil || !isLog {
		if err == nil {
			err = p.readField(part)
		}
		return log, false, err
	}
	if p.files++; p.files == 1 && p.meta.given["job"] != "" {
		if err := p.meta.check(p.want.needJob); err != nil {
			return log, false, err
		}
	}
	log, err = p.open(part)
	return log, false, err
}

// isLog tells a log from a field. A field whose name is nearly one of the known is a mistake, not a log.
func (p *partReader) isLog(part *multipart.Part) (bool, error) {
	name := part.FormName()
	_, isForm := p.want.form[name]
	_, isField := fields[name]
	switch {
	case isForm || isField && part.FileName() == "" || name == "attempt":
		return false, nil
	case part.FileName() != "":
		return true, nil
	case name == "":
		return false, badField("", "a part has neither name nor file name")
	case !slices.Contains([]string{"log", "logs", "stderr", "stdout"}, name):
		if best := nearest(name, fieldNames()); best != "" {
			return false, badField(clip(name, 60), "unknown; did you mean %s? A log needs a file name, as in curl -F %s=@err.log", best, clip(name, 60))
		}
	}
	return true, nil
}

// readField takes a part that is metadata: a field, or the JSON part attempt.
func (p *partReader) readField(part *multipart.Part) error {
	name := part.FormName()
	data, err := io.ReadAll(io.LimitReader(part, maxValue+1))
	switch {
	case err != nil:
		return cutMultipart(err)
	case len(data) > maxValue:
		return badField(name, "longer than %s", size(maxValue))
	}
	if to, ok := p.want.form[name]; ok {
		*to = string(data)
		return nil
	}
	if text := bytes.TrimSpace(data); name == "attempt" && (len(text) == 0 || text[0] == '{' || part.FileName() != "") {
		members, err := decodeObject(data)
		if err != nil {
			return badField("attempt", "%v", err)
		}
		return p.meta.setObject(members)
	}
	return p.meta.set(name, string(data))
}

// open prepares a part that is a log: unpacked where its name or header says that it is packed.
func (p *partReader) open(part *multipart.Part) (log classifier.Log, err error) {
	name := part.FileName()
	if name == "" {
		name = part.FormName()
	}
	encoding := part.Header.Get("Content-Encoding")
	switch path.Ext(name) {
	case ".gz":
		encoding, name = "gzip", strings.TrimSuffix(name, ".gz")
	case ".zst":
		encoding, name = "zstd", strings.TrimSuffix(name, ".zst")
	}
	unpacked, err := unpack(&partBody{part}, encoding)
	if err == nil && p.want.pasted != nil && part.FileName() == "" {
		unpacked, err = p.pasted(unpacked)
	}
	if err != nil {
		return log, fmt.Errorf("file %s: %w", quote(name), err)
	}
	text, err := openText(&countedReader{p, unpacked}, "file "+quote(name))
	if err != nil && !errors.Is(err, io.EOF) { // a rank that said nothing has an empty file
		return log, err
	}
	if err != nil && part.FileName() == "" {
		return log, nil
	}
	return classifier.Log{Name: p.names.unique(name), Reader: text}, nil
}

// pasted keeps a pasted log and undoes the line ends that browsers make of \n.
func (p *partReader) pasted(r io.Reader) (io.Reader, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxJSON+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxJSON:
		return nil, refuse(http.StatusRequestEntityTooLarge, "more than %s pasted: upload the log as a file", size(maxJSON))
	}
	*p.want.pasted = strings.ReplaceAll(string(data), "\r\n", "\n")
	return strings.NewReader(*p.want.pasted), nil
}

// end is called after the last part, when all metadata are there.
func (p *partReader) end() error {
	switch {
	case p.files == 0:
		return badField("log", "no log in the form: add a file, as in curl -F log=@err.log")
	case p.bytes == 0:
		return badField("log", "every log in the form is empty; an attempt without a log is sent as JSON with its exit_code or state")
	}
	return p.meta.check(p.want.needJob)
}

// partBody names what it means when a part ends too early.
type partBody struct{ part *multipart.Part }

func (p *partBody) Read(b []byte) (int, error) {
	n, err := p.part.Read(b)
	if err != nil && err != io.EOF {
		err = cutMultipart(err)
	}
	return n, err
}

// countedReader counts the bytes of all logs of a form against one limit.
type countedReader struct {
	p *partReader
	r io.Reader
}

func (c *countedReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.p.bytes += int64(n)
	if c.p.bytes > c.p.max {
		return 0, tooLarge(c.p.max)
	}
	return n, err
}

// cutMultipart is what a failure of the multipart reader means to the client.
func cutMultipart(err error) error {
	var known *problem
	if errors.As(err, &known) {
		return known
	}
	return badField("", "the multipart body is cut or damaged: %v", err)
}

// streamNames makes the names of an upload's logs safe to show and unlike each other.
type streamNames struct{ taken map[string]int } // how often a name came, to go on counting from there

func (s *streamNames) unique(name string) string {
	name = strings.TrimSpace(strings.Map(func(r rune) rune {
		if hidden(r) || r == '\uFFFD' {
			return '_'
		}
		return r
	}, name[strings.LastIndexAny(name, `/\`)+1:]))
	if name = clip(name, 200); name == "" || name == "." || name == ".." {
		name = "log"
	}
	if s.taken == nil {
		s.taken = map[string]int{}
	}
	free := name
	for s.taken[free] > 0 {
		s.taken[name]++
		free = fmt.Sprintf("%s (%d)", name, s.taken[name])
	}
	s.taken[free]++
	return free
}
