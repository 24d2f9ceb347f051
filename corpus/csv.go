package corpus

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
)

// csvColumns are the names of a row's JSON fields, after "by", which is "total" in the last row.
var csvColumns = []string{"by", "key", "title", "fault", "attempts", "jobs", "users", "rtf_p50_s", "rtf_p90_s", "rtf_p95_s", "rtf_total_s", "rtf_share",
	"gpus_1", "gpus_2_4", "gpus_over_4", "gpu_s", "gpu_share"}

// WriteCSV writes the rows and the total with the names and the units of the JSON.
func (r Report) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	if err := out.Write(csvColumns); err != nil {
		return err
	}
	for _, row := range r.Rows {
		if err := out.Write(row.csv(string(r.By))); err != nil {
			return err
		}
	}
	if err := out.Write(r.Total.csv("total")); err != nil {
		return err
	}
	out.Flush()
	return out.Error()
}

func (r WasteRow) csv(by string) []string {
	f := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	return []string{by, csvText(r.Key), csvText(r.Title), r.Fault, strconv.Itoa(r.Attempts), strconv.Itoa(r.Jobs), strconv.Itoa(r.Users),
		f(r.RTFp50), f(r.RTFp90), f(r.RTFp95), f(r.RTFTotal), f(r.RTFShare), strconv.Itoa(r.GPU1), strconv.Itoa(r.GPU2to4), strconv.Itoa(r.GPUOver4),
		f(r.GPUSeconds), f(r.GPUShare)}
}

// csvText keeps a spreadsheet from taking a name that a user chose for a formula: such a cell begins with an
// apostrophe, which spreadsheets show as text.
func csvText(s string) string {
	if strings.IndexAny(s, "=+-@\t\r\n") == 0 || strings.HasPrefix(s, "＝") || strings.HasPrefix(s, "＋") || strings.HasPrefix(s, "－") || strings.HasPrefix(s, "＠") {
		return "'" + s
	}
	return s
}
