package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"culprit/corpus"
)

// server is a program that serves on 127.0.0.1.
type server struct {
	cmd  *exec.Cmd
	base string
	took time.Duration // from its start to its first answer
}

// serve starts a program and waits until a path answers. ADDRESS in its arguments is where it is to listen.
func (b *bench) serve(ready, name string, args ...string) (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "ADDRESS", address)
	}
	s := &server{cmd: exec.CommandContext(b.ctx, name, args...), base: "http://" + address}
	s.cmd.Cancel = func() error { return s.cmd.Process.Signal(syscall.SIGTERM) }
	began := time.Now()
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	for time.Since(began) < 2*time.Minute && b.ctx.Err() == nil {
		res, err := http.Get(s.base + ready)
		if err == nil {
			_, err = io.Copy(io.Discard, res.Body)
			res.Body.Close()
			if err == nil && res.StatusCode == http.StatusOK {
				s.took = time.Since(began)
				return s, nil
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
	return nil, fmt.Errorf("%s did not answer %s: %w", name, ready, s.stop())
}

func (s *server) stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return s.cmd.Wait()
}

func (s *server) get(path string, to any) error {
	res, err := http.Get(s.base + path)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %d %s", path, res.StatusCode, clip(string(data)))
	}
	return json.Unmarshal(data, to)
}

// load is what clients got that sent requests as fast as they were answered.
type load struct {
	answered, refused int64
	took              time.Duration
	p50, p99          time.Duration
}

func (l load) rate() float64 { return float64(l.answered) / l.took.Seconds() }

// clients send requests for a while. request makes the body of the nth; all are of one path.
func (b *bench) clients(n int, d time.Duration, url string, request func(n int64) (query string, body []byte)) (load, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: n}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	ctx, cancel := context.WithTimeout(b.ctx, d)
	defer cancel()
	var number, refused atomic.Int64
	var mu sync.Mutex
	var took []time.Duration
	var firstErr error
	var wg sync.WaitGroup
	began := time.Now()
	for range n {
		wg.Go(func() {
			var mine []time.Duration
			for ctx.Err() == nil {
				query, body := request(number.Add(1))
				start := time.Now()
				status, err := post(b.ctx, client, url+query, body)
				switch {
				case err != nil:
					mu.Lock()
					firstErr = err
					mu.Unlock()
					cancel()
				case status/100 != 2:
					refused.Add(1)
				default:
					mine = append(mine, time.Since(start))
				}
			}
			mu.Lock()
			took = append(took, mine...)
			mu.Unlock()
		})
	}
	wg.Wait()
	l := load{answered: int64(len(took)), refused: refused.Load(), took: time.Since(began)}
	l.p50, l.p99 = percentile(took, 50), percentile(took, 99)
	return l, firstErr
}

func post(ctx context.Context, client *http.Client, url string, body []byte) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "text/plain")
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

const uploadBytes = 100_000

func (b *bench) serverPart() error {
	var texts [][]byte
	for i := range 64 {
		text, err := failedLog(i, uploadBytes)
		if err != nil {
			return err
		}
		texts = append(texts, text)
	}
	if err := b.classifyLoad(texts); err != nil {
		return err
	}
	if err := b.attemptsLoad(texts); err != nil {
		return err
	}
	return b.largeLog()
}

// classifyLoad posts logs to be classified, to culprit and to a server that only reads, in turns.
func (b *bench) classifyLoad(texts [][]byte) error {
	if err := b.build("gin", "./cmd/bench/testdata/gin"); err != nil {
		return err
	}
	gin, err := b.serve("/readyz", b.path("gin"), "ADDRESS")
	if err != nil {
		return err
	}
	defer gin.stop()
	culprit, err := b.serve("/readyz", b.culprit, "serve", "--listen", "ADDRESS", "--data", b.path("classify-data"))
	if err != nil {
		return err
	}
	defer culprit.stop()
	d := time.Duration(b.small(2000)) * time.Millisecond
	var mine, theirs samples
	var last load
	for range b.cfg.rounds {
		for _, side := range []struct {
			server *server
			to     *samples
		}{{gin, &theirs}, {culprit, &mine}} {
			l, err := b.clients(8, d, side.server.base+"/api/v1/classify", func(n int64) (string, []byte) { return "", texts[n%int64(len(texts))] })
			if err != nil {
				return err
			}
			*side.to = append(*side.to, sample{wall: time.Duration(float64(time.Second) / l.rate())})
			last = l
		}
	}
	r := of(theirs.wall(), mine.wall())
	rate := func(s samples) string { return thousands(1/s.wall().Seconds()) + "/s" }
	b.row("POST classify of 100 KB, 8 clients, against a gin handler that only reads", rate(mine), rate(theirs), times(r), "0.4×", r >= 0.4)
	b.note("POST classify: the clients share the cores with the server; p99 of the last turn %s.", millis(last.p99))
	return nil
}

// attemptsLoad posts attempts to be kept, counts them, and builds their index from the start.
func (b *bench) attemptsLoad(texts [][]byte) error {
	data := b.path("attempts-data")
	s, err := b.serve("/readyz", b.culprit, "serve", "--listen", "ADDRESS", "--data", data)
	if err != nil {
		return err
	}
	l, err := b.clients(64, time.Duration(b.small(6000))*time.Millisecond, s.base+"/api/v1/attempts", func(n int64) (string, []byte) {
		return fmt.Sprintf("?exit_code=1&gpus=8&user=user-%d&job=%d", n%300, n), append(fmt.Appendf(nil, "attempt %d begins\n", n), texts[n%int64(len(texts))]...)
	})
	if err != nil {
		s.stop()
		return err
	}
	var page struct{ Total int64 }
	err = s.get("/api/v1/attempts?limit=1", &page)
	if e := s.stop(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	used := s.cmd.ProcessState.UserTime() + s.cmd.ProcessState.SystemTime()
	b.note("POST attempts: %s of processor time in the server for each, the indexing that went on meanwhile included.", millis(used/time.Duration(max(1, l.answered))))
	lost := l.answered - page.Total
	b.row("POST attempts of 100 KB, 64 clients", fmt.Sprintf("%s/s, p50 %s, p99 %s, %d refused, %d lost", thousands(l.rate()), millis(l.p50), millis(l.p99), l.refused, lost), "", "",
		"700/s, p99 under 250 ms, none lost", l.rate() >= 700 && l.p99 < 250*time.Millisecond && l.refused == 0 && lost == 0)

	_, turn := b.measured(0, b.culprit, "reindex", "--data", data)
	if turn.err != nil {
		return turn.err
	}
	kept, err := corpus.Open(b.ctx, data, corpus.Options{ReadOnly: true, NoIndex: true})
	if err != nil {
		return err
	}
	defer kept.Close()
	stats, err := kept.Stats(b.ctx)
	if err != nil {
		return err
	}
	index, err := indexBytes(data)
	if err != nil {
		return err
	}
	rate, size := float64(stats.Attempts)/turn.wall.Seconds(), float64(index)/float64(stats.LogBytes)
	b.row("index, one document an attempt of 100 KB (culprit reindex)", fmt.Sprintf("%s attempts/s, %.3f of the text", thousands(rate), size), "", "",
		"300 attempts/s, under 0.2 of the text", rate >= 300 && size < 0.2)
	b.note("Index: %s of processor time for each attempt of 100 KB.", millis(turn.cpu/time.Duration(max(1, stats.Attempts))))
	b.note("Logs on disk: %.3f of their text.", float64(stats.StoredBytes)/float64(stats.LogBytes))
	if err := b.reclassify(data); err != nil {
		return err
	}
	return os.RemoveAll(data)
}

// reclassify reads all kept logs again, once with their verdicts written.
func (b *bench) reclassify(data string) error {
	for _, args := range [][]string{{"--dry-run"}, nil} {
		out, turn := b.measured(0, append([]string{b.culprit, "reclassify", "--all", "--format", "json", "--data", data}, args...)...)
		if turn.err != nil {
			return turn.err
		}
		var p corpus.Pass
		if err := json.Unmarshal(out, &p); err != nil {
			return err
		}
		b.row(strings.TrimSpace("reclassify "+strings.Join(args, " "))+", kept logs of 100 KB, all cores", fmt.Sprintf("%s, %s attempts/s", mbs(speed(p.Bytes, turn.wall)), thousands(float64(p.Done)/turn.wall.Seconds())), "", "", "", false)
	}
	return nil
}

// largeLog posts a log of 1 GB in one request; the script that does so has a target of its own in the Makefile.
func (b *bench) largeLog() error {
	if !has("curl") {
		b.note("curl is missing: the memory of a server that takes 1 GB was not measured.")
		return nil
	}
	if b.cfg.quick {
		return nil
	}
	if err := b.build("genlog", "./cmd/genlog"); err != nil {
		return err
	}
	out, err := exec.CommandContext(b.ctx, "sh", "cmd/genlog/memory.sh", b.culprit, b.path("genlog")).Output()
	if err != nil {
		return fmt.Errorf("memory.sh: %w", err)
	}
	var peak, rest, over int
	if _, err := fmt.Sscanf(string(out), "peak %d MB, at rest %d MB, over rest %d MB", &peak, &rest, &over); err != nil {
		return fmt.Errorf("memory.sh said %q: %w", out, err)
	}
	b.row("a log of 1 GB by POST, peak memory over idle", fmt.Sprintf("%d MB over %d MB", over, rest), "", "", "64 MB", over <= 64)
	return nil
}
