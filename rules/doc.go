// Package rules holds what culprit knows about failure messages: the taxonomy of failure reasons and the packs of
// signatures, each signature with its cases.
//
// A rule says how one message looks, what it means, whose fault it is, whether a retry can help and what to do. The
// package loads packs and names every mistake in them by file, line and rule; it matches one rule against one line;
// it checks rules against their cases; and it lints them. Reading a whole log, deciding which lines a rule is shown
// and weighing matches against each other is the classifier's work.
//
// A rule is gated by literals: a line that contains none of them is never shown to its pattern. So that the gate
// loses no match, Load proves from the pattern's syntax tree that each match contains one of the literals, or derives
// them from it. README.md describes the format of packs and cases.
package rules
