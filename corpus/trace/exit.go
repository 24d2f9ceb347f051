package trace

import (
	"fmt"
	"strconv"
	"strings"

	"culprit/classifier"
)

// setExit reads an exit code as schedulers write it: 1, code:signal, or -9 for signal 9. Code becomes what a shell would
// report, 128 + signal, where a signal ended the job. Slurm's 125 stands for out of memory and gives no code.
func setExit(e *classifier.Exit, s string) error {
	if unknown(s) && strings.TrimSpace(s) != "0" {
		return nil
	}
	codeText, signalText, _ := strings.Cut(strings.TrimSpace(s), ":")
	code, err := strconv.ParseFloat(codeText, 64) // tables have 1.0
	if err != nil || code != float64(int(code)) || code < -64 || code > 255 {
		return fmt.Errorf("%q is no exit code", s)
	}
	signal := 0
	if signalText != "" {
		if signal, err = strconv.Atoi(signalText); err != nil || signal < 0 || signal > 255 {
			return fmt.Errorf("%q is no exit code", s)
		}
	}
	n := int(code)
	if n < 0 {
		n, signal = 0, -n
	}
	if signal == 0 || n != 0 {
		e.Code, e.Signal = &n, signal
		return nil
	}
	setSignal(e, signal)
	return nil
}

// setSignal says that a signal and no exit ended the job.
func setSignal(e *classifier.Exit, signal int) {
	e.Code, e.Signal = nil, signal
	if signal > 0 && signal <= 64 {
		e.Code = new(128 + signal)
	}
}
