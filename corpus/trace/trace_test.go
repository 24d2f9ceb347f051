package trace

import (
	"errors"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// line is a record or a skip in a form that a table of wants can hold.
func line(r Record, err error) string {
	var skip *Skip
	if errors.As(err, &skip) {
		return "skip " + skip.Where + " " + skip.Job + ": " + skip.Reason
	}
	if err != nil {
		return "error " + err.Error()
	}
	a := r.Attempt
	parts := []string{a.Job, "#" + strconv.Itoa(a.Number), a.RunID, a.User, a.VC, strconv.Itoa(a.GPUs) + "x" + a.GPUType, strings.Join(a.Nodes, "+")}
	for _, t := range []*time.Time{a.Start, a.End} {
		if t == nil {
			parts = append(parts, "?")
		} else {
			parts = append(parts, t.UTC().Format("0102T150405"))
		}
	}
	if a.Start != nil && a.End != nil {
		parts = append(parts, "gpu_s="+strconv.Itoa(int(a.End.Sub(*a.Start).Seconds())*a.GPUs))
	}
	code := "?"
	if a.Code != nil {
		code = strconv.Itoa(*a.Code)
	}
	parts = append(parts, a.State, code+":"+strconv.Itoa(a.Signal))
	if a.Reason != "" {
		parts = append(parts, a.Reason)
	}
	if r.Log != "" {
		parts = append(parts, "log="+r.Log)
	}
	for _, n := range r.Notes {
		parts = append(parts, "!"+n)
	}
	return strings.Join(parts, " ")
}

func lines(seq iter.Seq2[Record, error]) []string {
	var list []string
	for r, err := range seq {
		list = append(list, line(r, err))
	}
	return list
}

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

var now = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)

// TestPhillyExample: the README's job. 8 GPUs for 74 s are 592 GPU seconds, and for 2 d 5 h 39 m 42 s = 193,182 s
// 1,545,456.
func TestPhillyExample(t *testing.T) {
	in := `[{"status": "Pass", "vc": "ee9e8c", "jobid": "application_1506638472019_14199", "attempts": [
	  {"start_time": "2017-10-07 01:12:09", "end_time": "2017-10-07 01:13:23", "detail": [{"ip": "m47", "gpus": ["gpu0","gpu1","gpu2","gpu3","gpu4","gpu5","gpu6","gpu7"]}]},
	  {"start_time": "2017-10-07 01:13:30", "end_time": "2017-10-09 06:53:12", "detail": [{"ip": "m412", "gpus": ["gpu0","gpu1","gpu2","gpu3","gpu4","gpu5","gpu6","gpu7"]}]}],
	  "submitted_time": "2017-10-07 01:11:39", "user": "ce2f4c"}]`
	want := []string{
		"application_1506638472019_14199 #1  ce2f4c ee9e8c 8x m47 1007T081209 1007T081323 gpu_s=592 FAILED ?:0",
		"application_1506638472019_14199 #2  ce2f4c ee9e8c 8x m412 1007T081330 1009T135312 gpu_s=1545456 COMPLETED 0:0",
	}
	if diff := cmp.Diff(want, lines(Philly(strings.NewReader(in), Options{Now: now}))); diff != "" {
		t.Error(diff)
	}
}

func TestPhillyOddities(t *testing.T) {
	attempt := func(start, end string) string {
		return `[{"start_time": ` + start + `, "end_time": ` + end + `, "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0"]}]}]`
	}
	job := func(status, attempts string) string {
		return `{"status": "` + status + `", "vc": "v", "jobid": "j", "attempts": ` + attempts + `, "submitted_time": "2017-10-01 00:00:00", "user": "u"}`
	}
	for _, tt := range []struct{ name, job, want string }{
		{"never ran", job("Failed", "[]"), "skip job 1 j: it never ran"},
		{"still running", job("Failed", attempt(`"2017-10-01 01:00:00"`, "null")), "skip job 1 j: it has not ended; import again when it has"},
		{"no start", job("Failed", attempt("null", `"2017-10-01 02:00:00"`)), "j #1  u v 3x m1+m2 ? 1001T090000 FAILED ?:0 !" + noteNoStart},
		{"no times", job("Killed", attempt("null", "null")), "j #1  u v 3x m1+m2 ? ? CANCELLED ?:0 !" + noteNoStart},
		{"end before start", job("Failed", attempt(`"2017-10-01 02:00:00"`, `"2017-10-01 01:59:00"`)), "j #1  u v 3x m1+m2 ? 1001T085900 FAILED ?:0 !" + noteEndFirst},
		{"submitted after its start", job("Failed", attempt(`"2017-09-30 23:00:00"`, `"2017-10-01 01:00:00"`)), "j #1  u v 3x m1+m2 1001T060000 1001T080000 gpu_s=21600 FAILED ?:0 !" + noteSubmitLate},
		{"status", job("Lost", attempt(`"2017-10-01 01:00:00"`, `"2017-10-01 02:00:00"`)), "skip job 1 j: it cannot be read"},
		{"a number for an id", `{"jobid": 7}`, "skip job 1 : it cannot be read"},
		// The clock of Los Angeles goes back at 2:00 on 5 November 2017: 90 minutes pass from 1:50 PDT to 2:20 PST, and 20
		// from 1:50 PDT to 1:10 PST.
		{"autumn", job("Failed", attempt(`"2017-11-05 00:50:00"`, `"2017-11-05 02:20:00"`)), "j #1  u v 3x m1+m2 1105T075000 1105T102000 gpu_s=27000 FAILED ?:0"},
		{"autumn, twice", job("Failed", attempt(`"2017-11-05 01:50:00"`, `"2017-11-05 01:10:00"`)), "j #1  u v 3x m1+m2 1105T085000 1105T091000 gpu_s=3600 FAILED ?:0 !" + noteAmbiguous},
		{"autumn, the first of two", job("Failed", attempt(`"2017-11-05 01:10:00"`, `"2017-11-05 01:50:00"`)), "j #1  u v 3x m1+m2 1105T081000 1105T085000 gpu_s=7200 FAILED ?:0 !" + noteAmbiguous},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := lines(Philly(strings.NewReader("["+tt.job+"]"), Options{Now: now}))
			if diff := cmp.Diff([]string{tt.want}, got); diff != "" {
				t.Errorf("%s:\n%s", tt.job, diff)
			}
		})
	}
}

func TestPhillyCut(t *testing.T) {
	for _, in := range []string{`{"status": "Pass"}`, `[{"jobid": "a", "status": "Failed", "attempts": []}, {"jo`, `[{"jobid": "a", "attempts": []}`, ``} {
		got := lines(Philly(strings.NewReader(in), Options{}))
		if len(got) == 0 || !strings.HasPrefix(got[len(got)-1], "error ") {
			t.Errorf("Philly of %q ends with %q, want an error", in, got)
		}
	}
}

// TestAcmeExamples: the README's rows. Seren: 117 s x 8 = 936 and 2,693 s x 8 = 21,544 GPU seconds, as its gpu_time says.
// Kalos: 8 s x 64 = 512 and 70 s x 64 = 4,480, where its gpu_time says 1,152 and 5,248 because it counts the queue.
func TestAcmeExamples(t *testing.T) {
	seren := `job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time
5778432,u5907,1,8,128,Other,FAILED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,2023-03-01 00:20:51+08:00,117,32,936.0
5778469,u5907,1,8,128,Other,COMPLETED,2023-03-01 00:23:58+08:00,2023-03-01 00:24:11+08:00,2023-03-01 01:09:04+08:00,2693,13,21544.0
`
	kalos := `job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,end_time,fail_time,stop_time,duration,queue,gpu_time
dlctk696s0jbvitv,uf794,8,64,960,1000,100.0,Other,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,2023-05-17 11:01:16+00:00,2023-05-17 11:01:16+00:00,,18,10.0,1152.0
dlc1t2ypl09b8qtp,uf794,8,64,960,1000,100.0,Other,CANCELLED,2023-05-17 11:28:42+00:00,2023-05-17 11:28:54+00:00,2023-05-17 11:30:04+00:00,,2023-05-17 11:30:04+00:00,82,12.0,5248.0
`
	for _, tt := range []struct {
		name, in string
		want     []string
	}{
		{"seren", seren, []string{
			"5778432 #1  u5907 Other 8x  0228T161854 0228T162051 gpu_s=936 FAILED ?:0",
			"5778469 #1  u5907 Other 8x  0228T162411 0228T170904 gpu_s=21544 COMPLETED 0:0"}},
		{"kalos", kalos, []string{
			"dlctk696s0jbvitv #1  uf794 Other 64x  0517T110108 0517T110116 gpu_s=512 FAILED ?:0 !" + noteDuration,
			"dlc1t2ypl09b8qtp #1  uf794 Other 64x  0517T112854 0517T113004 gpu_s=4480 CANCELLED ?:0 !" + noteDuration}},
		{"no GPUs, never ran, malformed, no job", strings.SplitAfter(seren, "\n")[0] +
			"1,u,1,0,8,Other,FAILED,2023-03-01 00:00:00+08:00,2023-03-01 00:00:01+08:00,2023-03-01 00:00:02+08:00,1,1,0.0\n" +
			"2,u,1,8,8,Other,CANCELLED,2023-03-01 00:00:00+08:00,,2023-03-01 00:00:02+08:00,,,\n" +
			"3,u,1,8,8,Other,FAILED,yesterday,,,,,\n" +
			"4,u\n" +
			",u,1,8,8,Other,FAILED,2023-03-01 00:00:00+08:00,2023-03-01 00:00:01+08:00,2023-03-01 00:00:02+08:00,1,1,8.0\n", []string{
			"1 #1  u Other 0x  0228T160001 0228T160002 gpu_s=0 FAILED ?:0",
			"skip line 3 2: it never ran",
			"skip line 4 3: it cannot be read",
			"skip line 5 : it cannot be read",
			"skip line 6 : it names no job"}},
		{"no header", "1,2,3\n", []string{"error AcmeTrace: the header has no column job_id, user, gpu_num, state, submit_time, start_time, end_time, duration"}},
		{"empty", "", []string{"error AcmeTrace: there is no header: the file is empty"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, lines(Acme(strings.NewReader(tt.in), Options{Now: now}))); diff != "" {
				t.Errorf("%s\n%s", tt.in, diff)
			}
		})
	}
}

const sacctHead = "JobIDRaw|JobID|JobName|User|Account|Partition|State|ExitCode|DerivedExitCode|ElapsedRaw|Submit|Start|End|AllocTRES|ReqTRES|NodeList|FailedNode|Restarts|SLUID|Reason|StdErr|WorkDir\n"

func TestSacct(t *testing.T) {
	for _, tt := range []struct{ name, row, want string }{
		{"failed", "4711|4711|train|ada|nlp|a100|FAILED|1:0|1:0|3600|2026-11-01T10:00:00|2026-11-01T10:00:10|2026-11-01T11:00:10|billing=64,cpu=64,gres/gpu:a100=16,gres/gpu=16,node=2|gres/gpu=16|gpu-[01-02]||0||None|err.%j|/home/ada",
			"4711 #1 start 2026-11-01T09:00:10Z ada nlp 16xa100 gpu-01+gpu-02 1101T090010 1101T100010 gpu_s=57600 FAILED 1:0 log=/home/ada/err.4711"},
		{"a requeued run has another identity", "4711|4711|train|ada|nlp|a100|FAILED|1:0|1:0|60|2026-11-01T12:00:00|2026-11-01T12:00:00|2026-11-01T12:01:00|gres/gpu=1|gres/gpu=1|gpu-01||1||None||/home/ada",
			"4711 #2 start 2026-11-01T11:00:00Z ada nlp 1x gpu-01 1101T110000 1101T110100 gpu_s=60 FAILED 1:0 log=/home/ada/slurm-4711.out"},
		{"with a SLUID", "4711|4711|train|ada|nlp|a100|OUT_OF_MEMORY|0:125|0:125|60|2026-11-01T12:00:00|2026-11-01T12:00:00|2026-11-01T12:01:00|gres/gpu=1|||||sABC123|||",
			"4711 #0 sABC123 ada nlp 1x  1101T110000 1101T110100 gpu_s=60 OUT_OF_MEMORY ?:125"},
		{"killed, of an array", "4713|4712_7|sweep|ada|(null)|a100|CANCELLED by 1000|0:15|0:0|60|2026-11-01T12:00:00|2026-11-01T12:00:00|2026-11-01T12:01:00|gres/gpu:h100=2||||0|||%x-%A-%3a.err|/s",
			"4713 #1 start 2026-11-01T11:00:00Z ada a100 2xh100  1101T110000 1101T110100 gpu_s=120 CANCELLED 143:15 log=/s/sweep-4712-007.err"},
		{"a hidden failure of a step", "5|5|t|u|a|p|FAILED|0:0|2:0|60|2026-11-01T12:00:00|2026-11-01T12:00:00|2026-11-01T12:01:00|||||0||||",
			"5 #1 start 2026-11-01T11:00:00Z u a 0x  1101T110000 1101T110100 gpu_s=0 FAILED 2:0"},
		{"GPUs that no_consume hides", "5|5|t|u|a|p|FAILED|1:0|1:0|60|2026-11-01T12:00:00|2026-11-01T12:00:00|2026-11-01T12:01:00|cpu=1,gres/gpu=0|gres/gpu=4|||0||||",
			"5 #1 start 2026-11-01T11:00:00Z u a 4x  1101T110000 1101T110100 gpu_s=240 FAILED 1:0 !" + noteAsked},
		{"a node failed", "5|5|t|u|a|p|NODE_FAIL|1:0|1:0|60|2026-11-01T12:00:00|2026-11-01T12:00:00|2026-11-01T12:01:00|||n[1-2]|n2|0||None||",
			"5 #1 start 2026-11-01T11:00:00Z u a 0x n1+n2 1101T110000 1101T110100 gpu_s=0 NODE_FAIL 1:0 failed node n2"},
		{"running", "5|5|t|u|a|p|RUNNING|0:0|0:0|60|2026-11-01T12:00:00|2026-11-01T12:00:00|Unknown|||||0||||", "skip line 2 5: it has not ended; import again when it has"},
		{"cancelled in the queue", "5|5|t|u|a|p|CANCELLED by 5|0:0|0:0|0|2026-11-01T12:00:00|None|2026-11-01T12:01:00|||None assigned||0||||", "skip line 2 5: it never ran"},
		{"a | in a name", "5|5|t|x|u|a|p|FAILED|0:0|0:0|0|2026-11-01T12:00:00|None|2026-11-01T12:01:00|||None assigned||0||||", "skip line 2 5: it has other fields than the header, as where a | stands in a name"},
		// Berlin's clock goes back at 3:00 on 25 October 2026; sacct's own word of the runtime decides.
		{"autumn, ten minutes", "5|5|t|u|a|p|FAILED|1:0|1:0|600|2026-10-25T02:00:00|2026-10-25T02:10:00|2026-10-25T02:20:00|gres/gpu=1||||0||||",
			"5 #1 start 2026-10-25T00:10:00Z u a 1x  1025T001000 1025T002000 gpu_s=600 FAILED 1:0 !" + noteAmbiguous},
		{"autumn, seventy minutes", "5|5|t|u|a|p|FAILED|1:0|1:0|4200|2026-10-25T02:00:00|2026-10-25T02:10:00|2026-10-25T02:20:00|gres/gpu=1||||0||||",
			"5 #1 start 2026-10-25T00:10:00Z u a 1x  1025T001000 1025T012000 gpu_s=4200 FAILED 1:0 !" + noteAmbiguous},
		// In spring 2:00 to 3:00 on 29 March does not exist; from 1:50 to 3:10 are 20 minutes.
		{"spring", "5|5|t|u|a|p|FAILED|1:0|1:0|1200|2026-03-29T01:40:00|2026-03-29T01:50:00|2026-03-29T03:10:00|gres/gpu=1||||0||||",
			"5 #1 start 2026-03-29T00:50:00Z u a 1x  0329T005000 0329T011000 gpu_s=1200 FAILED 1:0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := sacctHead + tt.row + "\n5.batch|5.batch|batch||a||FAILED|1:0||60|2026-11-01T12:00:00|2026-11-01T12:00:00|2026-11-01T12:01:00|||||||||\n"
			got := lines(Slurm(strings.NewReader(in), Options{Zone: zone(t, "Europe/Berlin"), Now: now}))
			if diff := cmp.Diff([]string{tt.want}, got); diff != "" {
				t.Errorf("%s\n%s", tt.row, diff)
			}
		})
	}
}

func TestSacctWithoutHeader(t *testing.T) {
	got := lines(Slurm(strings.NewReader("5|5|t|u|a|p|RUNNING\n"), Options{}))
	if len(got) != 1 || !strings.Contains(got[0], "without -n") {
		t.Errorf("sacct without a header: %q, want an error that names -n", got)
	}
}

// TestSacctJSON reads the shapes of old and new versions of Slurm.
func TestSacctJSON(t *testing.T) {
	in := `{"meta": {"plugin": {"type": "openapi/v0.0.37", "jobs": [1]}}, "errors": [], "jobs": [
	 {"job_id": 7, "name": "old", "user": "ada", "account": "nlp", "cluster": "c1", "nodes": "n[1-2]", "array": {"job_id": 0, "task_id": null},
	  "state": {"current": "FAILED", "reason": "NonZeroExitCode"}, "exit_code": {"status": "ERROR", "return_code": 3},
	  "time": {"elapsed": 100, "start": 1790000000, "end": 1790000100, "submission": 1789999990},
	  "tres": {"allocated": [{"type": "cpu", "name": "", "count": 8}, {"type": "gres", "name": "gpu", "count": 4}, {"type": "gres", "name": "gpu:a100", "count": 4}]}},
	 {"job_id": 8, "name": "new", "user": "ada", "account": "nlp", "cluster": "c1", "nodes": "None assigned", "restart_cnt": 2,
	  "array": {"job_id": 8, "task_id": {"set": true, "infinite": false, "number": 0}}, "stderr_expanded": "/s/8.err",
	  "state": {"current": ["OUT_OF_MEMORY"], "reason": "OutOfMemory"},
	  "exit_code": {"status": ["SIGNALED"], "return_code": {"set": false, "infinite": false, "number": 0}, "signal": {"id": {"set": true, "infinite": false, "number": 9}, "name": "KILL"}},
	  "time": {"elapsed": 100, "start": 1790000000, "end": 1790000100, "submission": 1789999990}, "tres": {"allocated": []}},
	 {"job_id": 9, "state": {"current": ["RUNNING"]}, "time": {"start": 1790000000, "end": 0}}]}`
	want := []string{
		"7 #0 start 2026-09-21T14:13:20Z ada nlp 4xa100 n1+n2 0921T141320 0921T141500 gpu_s=400 FAILED 3:0 NonZeroExitCode",
		"8 #3 start 2026-09-21T14:13:20Z ada nlp 0x  0921T141320 0921T141500 gpu_s=0 OUT_OF_MEMORY 137:9 OutOfMemory log=/s/8.err",
		"skip job 3 9: it has not ended; import again when it has",
	}
	if diff := cmp.Diff(want, lines(Slurm(strings.NewReader(in), Options{Now: now}))); diff != "" {
		t.Error(diff)
	}
}

// TestTables reads CSV and NDJSON with the same mapping.
func TestTables(t *testing.T) {
	opt := Options{Zone: zone(t, "America/New_York"), Now: now, Columns: map[string]string{"job": "JobId", "user": "Owner", "start": "Began", "gpus": "GPU", "nodes": "Hosts"}}
	csv := "JobId,Owner,Began,duration_s,GPU,Hosts,exit_code,colour\n" +
		"a,ada,2026-11-01 12:00:00,90.5,4.0,n1 n2,-9,red\n" +
		"\"b,c\",,1790000000,,0,,1,\n" +
		"d,ada,1790000000000,10,-1,,300,\n" +
		"e,ada,soon,10,1,,0,\n"
	ndjson := `{"JobId": "a", "Owner": "ada", "Began": "2026-11-01 12:00:00", "duration_s": 90.5, "GPU": 4, "Hosts": ["n1", "n2"], "exit_code": -9}
{"JobId": "b,c", "Began": 1790000000, "GPU": 0, "exit_code": 1}

{"JobId": "d", "Owner": "ada", "Began": 1790000000000, "duration_s": 10, "GPU": -1, "exit_code": 300}
{"JobId": "e", "Owner": "ada", "Began": "soon", "exit_code": 0}
`
	want := []string{
		"a #0 start 2026-11-01T17:00:00Z ada  4x n1+n2 1101T170000 1101T170130 gpu_s=360  137:9",
		"b,c #0 start 2026-09-21T14:13:20Z   0x  0921T141320 ?  1:0 !" + noteNoEnd,
		"skip line 4 d: it cannot be read",
		"skip line 5 e: it cannot be read",
	}
	if diff := cmp.Diff(want, lines(CSV(strings.NewReader(csv), opt))); diff != "" {
		t.Error("CSV:", diff)
	}
	want[2], want[3] = "skip line 4 d: it cannot be read", "skip line 5 e: it cannot be read"
	if diff := cmp.Diff(want, lines(NDJSON(strings.NewReader(ndjson), opt))); diff != "" {
		t.Error("NDJSON:", diff)
	}
	got := lines(CSV(strings.NewReader("job,user\n"), Options{Columns: map[string]string{"user": "Owner"}}))
	if diff := cmp.Diff([]string{"error the header has no column Owner"}, got); diff != "" {
		t.Error(diff)
	}
	if err := CheckColumns(map[string]string{"gpu": "x"}); err == nil || !strings.Contains(err.Error(), `"gpu"`) {
		t.Errorf("CheckColumns of gpu: %v, want an error that names it", err)
	}
}

// TestTidy: what a record cannot have is taken out and said.
func TestTidy(t *testing.T) {
	csv := "job,user,gpus,start,end,submitted\n" +
		"j,a\x00b,-3,2026-11-01T00:00:00Z,2027-11-01T00:00:00Z,2026-10-31T00:00:00Z\n" +
		"k,u,1,1970-01-01T00:00:00Z,2026-11-01T00:00:00Z,\n"
	want := []string{
		"j #0 start 2026-11-01T00:00:00Z ab  0x  1101T000000 1101T000000 gpu_s=0  ?:0 !" + noteNegative + " !" + noteText + " !" + noteFuture,
		"k #0 start 1970-01-01T00:00:00Z u  1x  ? 1101T000000  ?:0 !" + noteOldTime + " !" + noteNoStart,
	}
	if diff := cmp.Diff(want, lines(CSV(strings.NewReader(csv), Options{Now: now}))); diff != "" {
		t.Error(diff)
	}
}

func TestRoots(t *testing.T) {
	dir := t.TempDir()
	logs, secret := filepath.Join(dir, "logs"), filepath.Join(dir, "secret")
	for path, text := range map[string]string{"logs/job.err": "oom", "secret/key": "k", "logs-not/x": "x"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"out.err": "../secret/key", "abs.err": filepath.Join(secret, "key"), "in.err": "job.err", "dir": "../secret"} {
		if err := os.Symlink(to, filepath.Join(logs, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(logs, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	roots, err := OpenRoots([]string{logs})
	if err != nil {
		t.Fatal(err)
	}
	defer roots.Close()
	me := os.Getuid()
	for _, tt := range []struct {
		path  string
		owner int
		opens bool
		is    error
	}{
		{logs + "/job.err", me, true, nil},
		{logs + "/job.err", -1, true, nil},
		{logs + "/in.err", me, true, nil},
		{logs + "/../logs/job.err", me, true, nil},
		{logs + "/job.err", me + 1, false, ErrNotOwner},
		{logs + "/none.err", me, false, os.ErrNotExist},
		{logs + "/out.err", me, false, ErrOutside},
		{logs + "/abs.err", me, false, ErrOutside},
		{logs + "/dir/key", me, false, ErrOutside},
		{logs + "/../secret/key", me, false, ErrOutside},
		{dir + "/logs-not/x", me, false, ErrOutside},
		{"job.err", me, false, ErrOutside},
		{logs, me, false, nil},
		{logs + "/pipe", me, false, nil},
		{"/dev/zero", me, false, ErrOutside},
	} {
		f, err := roots.Open(tt.path, tt.owner)
		if err == nil {
			f.Close()
		}
		if (err == nil) != tt.opens || tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("Open(%s, owner %d) = %v, want it to open: %v, as %v", tt.path, tt.owner, err, tt.opens, tt.is)
		}
	}
	if _, err := (&Roots{}).Open(logs+"/job.err", me); !errors.Is(err, ErrOutside) {
		t.Errorf("no roots: %v, want ErrOutside", err)
	}
	if _, err := OpenRoots([]string{"logs"}); err == nil {
		t.Error("a root that is not named from / on opens")
	}
}

// TestJobCompletion reads what a Slurm 22.05 sent: a batch script that fails, an array of two, a script that kills itself,
// and a job that is requeued while it runs, of which Slurm says that it is pending.
func TestJobCompletion(t *testing.T) {
	docs, err := os.ReadFile("testdata/jobcomp.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for doc := range strings.Lines(string(docs)) {
		got = append(got, line(JobCompletion([]byte(doc), Options{Now: now.Add(24 * time.Hour)})))
	}
	want := []string{
		"1 #0 start 2026-12-01T19:48:27Z ada main 0x gpu-01 1201T194827 1201T194827 gpu_s=0 FAILED 1:0 log=/home/ada/err.1",
		"7 #0 start 2026-12-01T19:48:27Z ada main 0x gpu-01 1201T194827 1201T194827 gpu_s=0 FAILED 1:0 log=/home/ada/out-train-7.txt",
		"2 #0 start 2026-12-01T19:48:27Z ada main 0x gpu-01 1201T194827 1201T194827 gpu_s=0 FAILED 1:0 log=/home/ada/out-train-2.txt",
		"3 #0 start 2026-12-01T19:48:30Z ada main 0x gpu-01 1201T194830 1201T194830 gpu_s=0 FAILED 137:9 log=/home/ada/slurm-3.out",
		"5 #0 start 2026-12-01T19:48:33Z ada main 0x gpu-01 1201T194833 1201T194833 gpu_s=0 FAILED 1:0 log=/home/ada/slurm-5.out",
		"4 #0 start 2026-12-01T19:48:30Z ada main 0x gpu-01 1201T194830 1201T194850 gpu_s=0 FAILED 3:0 log=/home/ada/slurm-4.out",
		"6 #0 start 2026-12-01T19:48:33Z ada main 0x gpu-01 1201T194833 1201T194920 gpu_s=0 REQUEUED ?:0 log=/home/ada/slurm-6.out",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestJobCompletionOfOthers: fields of newer and older versions, and documents that are none.
func TestJobCompletionOfOthers(t *testing.T) {
	for _, tt := range []struct{ doc, want string }{
		{`{"jobid": 9, "sluid": "s1", "username": "ada", "account": "nlp", "cluster": "c", "state": "OUT_OF_MEMORY", "exit_code": "0:125", "@start": "2026-11-01T00:00:00", "@end": "2026-11-01T00:01:00", "tres_alloc": "gres/gpu=2", "nodes": "n[1-2]"}`,
			"9 #0 s1 ada nlp 2x n1+n2 1101T000000 1101T000100 gpu_s=120 OUT_OF_MEMORY ?:125"},
		{`{"jobid": 9, "state": "FAILED", "exit_code": 256, "@start": "2026-11-01T00:00:00", "@end": "2026-11-01T00:01:00"}`,
			"9 #0 start 2026-11-01T00:00:00Z   0x  1101T000000 1101T000100 gpu_s=0 FAILED 1:0"},
		{`{"jobid": 9, "state": "FAILED", "exit_code": 139, "@start": "2026-11-01T00:00:00", "@end": "2026-11-01T00:01:00"}`,
			"9 #0 start 2026-11-01T00:00:00Z   0x  1101T000000 1101T000100 gpu_s=0 FAILED 139:11"},
		{`{"jobid": 9, "state": "CANCELLED", "exit_code": "0:0", "@start": "Unknown", "@end": "2026-11-01T00:01:00"}`, "skip document 9: it never ran"},
		{`{"jobid": 9, "state": "RESIZING", "@start": "2026-11-01T00:00:00", "@end": "2026-11-01T00:01:00"}`, "skip document 9: it has not ended; import again when it has"},
		{`{"state": "FAILED"}`, "error the document has no jobid"},
		{`[1]`, "error json: cannot unmarshal array into Go value of type trace.jobcompDoc"},
		{`{"jobid": 9, "state": "FAILED", "@start": "now"}`, `skip document 9: it cannot be read`},
	} {
		if got := line(JobCompletion([]byte(tt.doc), Options{Now: now})); got != tt.want {
			t.Errorf("%s\n got %s\nwant %s", tt.doc, got, tt.want)
		}
	}
}

// TestKubernetes: what kubectl get pods,jobs,events -o json prints.
func TestKubernetes(t *testing.T) {
	pod := func(name, uid, labels, spec, status string) string {
		return `{"kind": "Pod", "metadata": {"name": "` + name + `", "namespace": "nlp", "uid": "` + uid + `", "creationTimestamp": "2026-11-01T00:00:00Z", "labels": {` + labels + `}},
		 "spec": {"nodeName": "gpu-` + uid + `", "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "8"}}}` + spec + `]}, "status": {` + status + `}}`
	}
	done := func(code, reason, start, end string) string {
		return `{"terminated": {"exitCode": ` + code + `, "reason": "` + reason + `", "startedAt": "2026-11-01T` + start + `Z", "finishedAt": "2026-11-01T` + end + `Z"}}`
	}
	status := func(phase, state string) string {
		return `"phase": "` + phase + `", "containerStatuses": [{"name": "main", "restartCount": 0, "state": ` + state + `}]`
	}
	worker := func(index string) string {
		return `"training.kubeflow.org/job-name": "llama", "training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": "` + index + `"`
	}
	event := func(uid, reason string) string {
		return `{"kind": "Event", "metadata": {"name": "e"}, "reason": "` + reason + `", "involvedObject": {"kind": "Pod", "uid": "` + uid + `"}}`
	}
	for _, tt := range []struct {
		name  string
		items []string
		want  []string
	}{
		{"failed, out of memory, completed", []string{
			pod("a", "1", `"user": "ada"`, "", status("Failed", done("1", "Error", "00:00:10", "00:01:10"))),
			pod("b", "2", `"batch.kubernetes.io/job-name": "eval"`, "", status("Failed", done("137", "OOMKilled", "00:00:10", "00:01:10"))),
			pod("c", "3", "", "", status("Succeeded", done("0", "Completed", "00:00:10", "00:01:10")))}, []string{
			"nlp/a #0 1 ada nlp 8x gpu-1 1101T000010 1101T000110 gpu_s=480 Error 1:0",
			"nlp/c #0 3  nlp 8x gpu-3 1101T000010 1101T000110 gpu_s=480 Completed 0:0",
			"nlp/eval #0 2  nlp 8x gpu-2 1101T000010 1101T000110 gpu_s=480 OOMKilled 137:0"}},
		{"exit code 137 by preemption, by an event", []string{
			pod("a", "1", "", "", status("Failed", done("137", "Error", "00:00:10", "00:01:10"))+`, "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]`),
			pod("b", "2", "", "", status("Failed", done("137", "Error", "00:00:10", "00:01:10"))),
			event("2", "TaintManagerEviction")}, []string{
			"nlp/a #0 1  nlp 8x gpu-1 1101T000010 1101T000110 gpu_s=480 Error 137:0 PreemptionByScheduler",
			"nlp/b #0 2  nlp 8x gpu-2 1101T000010 1101T000110 gpu_s=480 Error 137:0 DeletionByTaintManager"}},
		{"evicted before a container said anything", []string{
			pod("a", "1", "", "", `"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory.", "startTime": "2026-11-01T00:00:10Z", "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-01T00:02:10Z"}]`)}, []string{
			"nlp/a #0 1  nlp 8x gpu-1 1101T000010 1101T000210 gpu_s=960 Evicted ?:0 The node was low on resource: memory."}},
		{"a job of two workers, run twice; the first to fail says why", []string{
			pod("w0", "1", worker("0"), "", status("Failed", done("1", "Error", "00:00:10", "00:02:10"))),
			pod("w1", "2", worker("1"), "", status("Failed", done("137", "OOMKilled", "00:00:12", "00:02:00"))),
			pod("w0-x", "3", worker("0"), "", status("Failed", done("0", "Completed", "01:00:00", "01:10:00"))),
			pod("w1-x", "4", worker("1"), "", status("Failed", done("0", "Completed", "01:00:00", "01:10:00")))}, []string{
			"nlp/llama #0 1  nlp 16x gpu-1+gpu-2 1101T000010 1101T000210 gpu_s=1920 OOMKilled 137:0",
			"nlp/llama #0 3  nlp 16x gpu-3+gpu-4 1101T010000 1101T011000 gpu_s=9600 Completed 0:0"}},
		{"a container that was restarted, and runs", []string{
			pod("a", "1", "", "", `"phase": "Running", "containerStatuses": [{"name": "main", "restartCount": 2, "state": {"running": {}}, "lastState": `+done("139", "Error", "00:00:10", "00:01:10")+`}]`)}, []string{
			"nlp/a #0 1/1  nlp 8x gpu-1 1101T000010 1101T000110 gpu_s=480 Error 139:0"}},
		{"running and pending", []string{
			pod("a", "1", "", "", status("Running", `{"running": {}}`)),
			pod("b", "2", "", "", `"phase": "Pending"`)}, []string{
			"skip pod a a: it has not ended; import again when it has", "skip pod b b: it has not ended; import again when it has"}},
		{"a sidecar's end is not the job's", []string{
			pod("a", "1", "", `, {"name": "proxy"}`, `"phase": "Failed", "containerStatuses": [{"name": "proxy", "state": `+done("1", "Error", "00:00:10", "00:05:00")+`}, {"name": "main", "state": `+done("3", "Error", "00:00:10", "00:01:10")+`}]`)}, []string{
			"nlp/a #0 1  nlp 8x gpu-1 1101T000010 1101T000110 gpu_s=480 Error 3:0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list := `{"apiVersion": "v1", "kind": "List", "items": [` + strings.Join(tt.items, ",") + `], "metadata": {}}`
			single := strings.Join(tt.items, "\n")
			for form, in := range map[string]string{"list": list, "objects": single} {
				if diff := cmp.Diff(tt.want, lines(Kubernetes(strings.NewReader(in), Options{Now: now}))); diff != "" {
					t.Errorf("as %s: %s", form, diff)
				}
			}
		})
	}
	if got := lines(Kubernetes(strings.NewReader(`{"kind": "List", "items": [{"kind": "P`), Options{})); len(got) != 1 || !strings.HasPrefix(got[0], "error ") {
		t.Errorf("a list that is cut: %q, want an error", got)
	}
}
