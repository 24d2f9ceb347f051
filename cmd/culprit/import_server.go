package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"culprit/corpus"
	"culprit/corpus/trace"
)

const (
	importSenders = 8
	importRetries = 6 // with 1, 2, 4 … seconds between them
)

// send sends records to a server, several at a time but those of one job in their order. A server that is away for a
// minute is waited for.
func (d *destination) send(ctx context.Context, list []trace.Record) ([]corpus.Added, error) {
	results := make([]corpus.Added, len(list))
	jobs := map[string][]int{}
	for i := range list {
		key := list[i].Attempt.Cluster + "\n" + list[i].Attempt.Job
		jobs[key] = append(jobs[key], i)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(importSenders)
	for _, job := range jobs {
		g.Go(func() error {
			for _, i := range job {
				existed, err := d.sendOne(ctx, &list[i].Attempt)
				var refused refusal
				if err != nil && !errors.As(err, &refused) {
					return err
				}
				results[i] = corpus.Added{Existed: existed, Err: err}
			}
			return nil
		})
	}
	return results, g.Wait()
}

// sendOne sends one record. existed says that the server knew it.
func (d *destination) sendOne(ctx context.Context, a *corpus.Attempt) (existed bool, err error) {
	body, err := json.Marshal(sentRecord(a))
	if err != nil {
		return false, err
	}
	for try := range importRetries {
		existed, err = d.server.postRecord(ctx, body)
		var refused refusal
		if err == nil || errors.As(err, &refused) || try == importRetries-1 {
			return existed, err
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(time.Second << try):
		}
	}
	return false, err
}

// postRecord posts a record; existed is what the server's status says: 200 for one that it knew, 201 for one that it did not.
func (c client) postRecord(ctx context.Context, body []byte) (existed bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.server+"/api/v1/attempts", bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return false, err
	}
	if resp.StatusCode/100 != 2 {
		return false, answerError(resp.StatusCode, reply)
	}
	return resp.StatusCode == http.StatusOK, nil
}

// sentRecord is a record without what is the corpus's own, which the API would refuse.
func sentRecord(a *corpus.Attempt) any {
	type exit struct {
		Code   *int   `json:"exit_code,omitempty"`
		Signal int    `json:"signal,omitempty"`
		State  string `json:"state,omitempty"`
		Reason string `json:"reason,omitempty"`
	}
	return struct {
		Cluster   string     `json:"cluster,omitempty"`
		Job       string     `json:"job"`
		Number    int        `json:"attempt,omitempty"`
		RunID     string     `json:"run_id,omitempty"`
		Name      string     `json:"name,omitempty"`
		User      string     `json:"user,omitempty"`
		VC        string     `json:"vc,omitempty"`
		GPUs      int        `json:"gpus"`
		GPUType   string     `json:"gpu_type,omitempty"`
		Nodes     []string   `json:"nodes,omitempty"`
		Submitted *time.Time `json:"submitted,omitempty"`
		Start     *time.Time `json:"start,omitempty"`
		End       *time.Time `json:"end,omitempty"`
		exit
		CostClass string `json:"cost_class,omitempty"`
	}{a.Cluster, a.Job, a.Number, a.RunID, a.Name, a.User, a.VC, a.GPUs, a.GPUType, a.Nodes, a.Submitted, a.Start, a.End,
		exit{a.Code, a.Signal, a.State, a.Reason}, a.CostClass}
}
