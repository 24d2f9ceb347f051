// Package corpus keeps jobs, attempts, their logs and verdicts, and finds them again.
//
// SQLite holds what is true: jobs, attempts, verdicts, and which logs belong to which attempt. Log text is kept beside
// it in zstd files named by their content. Two projections follow the database and can be lost at any time: the text
// index that Search asks, and the facts in memory that Attempts and Waste count. Both follow the attempts' rev, a
// number that every change of an attempt raises, so neither can miss a change nor needs to be told of one.
//
// One process writes a folder; any number read it beside that one. Deciding a verdict is left to package classifier,
// showing one to package web.
package corpus
