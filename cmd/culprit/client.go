package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"culprit/classifier"
)

// client makes the few calls to a server that run and gate need. Its calls end with their context.
type client struct{ server string }

func newClient(server string) (client, error) {
	u, err := url.Parse(server)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return client{}, usagef("--server %q: must be the address of a server, such as http://culprit.example:8080", server)
	}
	return client{strings.TrimSuffix(server, "/")}, nil
}

// refusal is an answer of the server that will not change when it is asked again.
type refusal struct {
	status int
	detail string
}

func (r refusal) Error() string { return fmt.Sprintf("the server answered %d: %s", r.status, r.detail) }

// maxReply bounds an answer of the server.
const maxReply = 16 << 20

// message is a request with its body.
type message struct {
	Query       url.Values `json:"query"`
	ContentType string     `json:"content_type"`
	Encoding    string     `json:"encoding,omitempty"`
	body        io.Reader
}

// post sends a message and reads the answer as JSON into reply.
func (c client) post(ctx context.Context, path string, m message, reply any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.server+path+"?"+m.Query.Encode(), m.body)
	if err != nil {
		return err
	}
	if m.body != nil {
		req.Header.Set("Content-Type", m.ContentType)
	}
	if m.Encoding != "" {
		req.Header.Set("Content-Encoding", m.Encoding)
	}
	req.Header.Set("Accept", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return answerError(resp.StatusCode, data)
	}
	if err := json.Unmarshal(data, reply); err != nil {
		return fmt.Errorf("%s answered what is no answer of culprit: %w", c.server, err)
	}
	return nil
}

// answerError tells what is refused for good from what may be taken later.
func answerError(status int, body []byte) error {
	var problem struct{ Title, Detail, Field string }
	detail := clip(oneLine(string(body)), 200)
	if json.Unmarshal(body, &problem) == nil && problem.Title != "" {
		detail = strings.TrimPrefix(problem.Field+": "+problem.Detail, ": ")
	}
	switch status {
	case http.StatusBadRequest, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return refusal{status, detail}
	}
	return fmt.Errorf("the server answered %d: %s", status, detail)
}

// kept is the part of a kept attempt that run needs.
type keptAttempt struct {
	ID     int64  `json:"id"`
	Job    string `json:"job"`
	Number int    `json:"attempt"`
}

// gate asks for the decision on a stored attempt, or on the log in the message.
func (c client) gate(ctx context.Context, m message) (classifier.Decision, error) {
	var d classifier.Decision
	if err := c.post(ctx, "/api/v1/gate", m, &d); err != nil {
		return d, err
	}
	if d.Verdict != classifier.AnswerRetry && d.Verdict != classifier.AnswerStop {
		return d, fmt.Errorf("%s answered what is no decision: verdict %q", c.server, clip(string(d.Verdict), 40))
	}
	return d, nil
}
