// Package web turns requests into calls of corpus and classifier, and their answers into replies: the JSON API under
// /api/v1 that openapi.yaml describes, the pages, and the metrics.
//
// It decides nothing about a verdict and knows neither SQL nor the index. A handler returns a value or an error; the
// adapters in reply.go write both, so status, error text and log line are decided once. An upload is read once, as a
// stream: memory does not grow with it.
package web
