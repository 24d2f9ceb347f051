package classifier

// Exit is what the scheduler knows of an attempt's end. The zero value knows nothing.
type Exit struct {
	Code   *int   `json:"exit_code,omitempty"` // 0 to 255, as a shell reports it; nil where unknown
	Signal int    `json:"signal,omitempty"`    // the signal that ended the job itself; 0 where none
	State  string `json:"state,omitempty"`     // the scheduler's word: FAILED, OUT_OF_MEMORY, NODE_FAIL, OOMKilled, Evicted …
	Reason string `json:"reason,omitempty"`    // the scheduler's reason: NonZeroExitCode, DisruptionTarget …
}
