// Package classifier reads the logs of one attempt and says why it failed: the category, whose fault it is, whether a
// retry can help, and the line that proves it.
//
// It remembers nothing between two calls and knows nothing of files, HTTP or a database. README.md follows one log
// through the steps: literals, lines, blocks, progress, matches, root cause, confidence.
package classifier
