package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// startServer runs serve on a free port until the test ends or stop is called.
func startServer(t *testing.T, data string) (base string, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		done <- serve(ctx, io.Discard, serveConfig{listen: "127.0.0.1:0", data: data, maxMB: 64, uploads: 4, logFormat: "text", drain: time.Second}, func(a net.Addr) { ready <- a })
	}()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-done
	}
	t.Cleanup(func() { stop() })
	select {
	case a := <-ready:
		return "http://" + a.String(), stop
	case err := <-done:
		t.Fatal(err)
	}
	return "", nil
}

func get(t *testing.T, address string) (int, string) {
	t.Helper()
	res, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// searchHits waits for the index and returns how many attempts a search finds.
func searchHits(t *testing.T, base, query string) int {
	t.Helper()
	for range 200 {
		status, body := get(t, base+"/api/v1/search?q="+url.QueryEscape(query))
		var found struct {
			Hits      []json.RawMessage
			Unindexed int
		}
		if err := json.Unmarshal([]byte(body), &found); status != http.StatusOK || err != nil {
			t.Fatalf("search for %q: %d %s", query, status, body)
		}
		if found.Unindexed == 0 {
			return len(found.Hits)
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("the index does not catch up")
	return 0
}

// TestServe posts a log, reads its verdict, finds it, stops, deletes the index, and finds it again.
func TestServe(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	log, err := os.ReadFile(exampleLog)
	if err != nil {
		t.Fatal(err)
	}
	base, stop := startServer(t, data)
	post := func() (int, map[string]any) {
		res, err := http.Post(base+"/api/v1/attempts?job=4711&user=ada&gpus=8&exit_code=1&start=2026-11-01T00:00:00Z&end=2026-11-01T01:00:00Z", "application/x-www-form-urlencoded", bytes.NewReader(log))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var a map[string]any
		if err := json.NewDecoder(res.Body).Decode(&a); err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, a
	}
	status, a := post()
	if v, _ := a["verdict"].(map[string]any); status != http.StatusCreated || v["category"] != "gpu-oom" || a["gpu_s"] != 28800.0 {
		t.Fatalf("posting the example: %d %v", status, a)
	}
	if status, again := post(); status != http.StatusOK || again["id"] != a["id"] {
		t.Errorf("posting it again: %d %v, want 200 and the same attempt", status, again["id"])
	}
	if n := searchHits(t, base, `"CUDA out of memory"`); n != 1 {
		t.Errorf("search finds %d attempts, want 1", n)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}

	code, stdout, stderr := runCLI(t, "", "report", "--data", data, "--format", "csv")
	if code != 0 || !strings.Contains(stdout, "gpu-oom") || !strings.Contains(stdout, ",28800,") {
		t.Errorf("report: exit code %d, %q, %q", code, stdout, stderr)
	}
	folders, err := filepath.Glob(filepath.Join(data, "index-*"))
	if err != nil || len(folders) == 0 {
		t.Fatalf("no index folder in %s: %v", data, err)
	}
	for _, f := range folders {
		if err := os.RemoveAll(f); err != nil {
			t.Fatal(err)
		}
	}
	if code, stdout, stderr := runCLI(t, "", "reindex", "--data", data); code != 0 || stdout != "indexed 1 attempts\n" {
		t.Errorf("reindex: exit code %d, %q, %q", code, stdout, stderr)
	}
	base, _ = startServer(t, data)
	if n := searchHits(t, base, `"CUDA out of memory" user:ada`); n != 1 {
		t.Errorf("search after reindex finds %d attempts, want 1", n)
	}
	if status, page := get(t, base+"/?range=all"); status != http.StatusOK || !strings.Contains(page, "GPU out of memory") {
		t.Errorf("overview: %d, %q", status, page)
	}
}
