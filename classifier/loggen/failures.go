package loggen

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// Failure describes the log of a job that trains for a while and then fails. Two failures of one category and variant
// differ in their progress and numbers, as two attempts of one job do, and have one fingerprint.
type Failure struct {
	Category string // one of FailureCategories
	Variant  int    // chooses the message among the category's
	Seed     uint64
	Steps    int // lines of progress before it fails
	Ranks    int // speakers; 1 where 0
}

// End is how a scheduler reports the end of a failed job.
type End struct {
	Code   int // -1 unknown
	Signal int
	State  string // Slurm's
}

// message is what one failure prints, with verbs for what differs between attempts: {n} a number, {hex} an address, {pid} a
// process, {host} a node, {step} the step that was reached.
type message struct {
	lines     string
	end       End
	framework string // whose progress precedes it; empty: any
	atStart   bool   // it fails before the first step
}

var failed = End{Code: 1, State: "FAILED"}

// FailureCategories are the categories that there are messages for, sorted.
func FailureCategories() []string { return slices.Sorted(maps.Keys(messages)) }

// Variants is how many messages a category has.
func Variants(category string) int { return len(messages[category]) }

func (f Failure) message() (*message, error) {
	list := messages[f.Category]
	if len(list) == 0 {
		return nil, fmt.Errorf("there is no failure of category %q", f.Category)
	}
	return &list[f.Variant%len(list)], nil
}

// End returns how the job of the log ended.
func (f Failure) End() (End, error) {
	m, err := f.message()
	if err != nil {
		return End{}, err
	}
	return m.end, nil
}

// progressOf are the frameworks whose progress may precede a failure.
var progressOf = []string{"torchrun", "trainer", "fairseq", "jax", "mmengine", "deepspeed", "megatron", "tensorflow1"}

// Write writes the log to w.
func (f Failure) Write(w io.Writer) error {
	m, err := f.message()
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(f.Seed, 0x6661696c))
	out := bufio.NewWriter(w)
	if !m.atStart && f.Steps > 0 {
		name := m.framework
		if name == "" {
			name = progressOf[int(f.Seed%uint64(len(progressOf)))]
		}
		lines := len(frameworks[name].start) + f.Steps
		if err := (Log{Framework: name, Seed: f.Seed, Ranks: max(1, f.Ranks), Lines: lines, SaveEvery: 25}).Write(out); err != nil {
			return err
		}
	}
	fill := strings.NewReplacer("{n}", fmt.Sprint(2+r.IntN(90)), "{hex}", fmt.Sprintf("0x7f%010x", r.Int64N(1<<40)), "{pid}", fmt.Sprint(1000+r.IntN(60000)),
		"{host}", fmt.Sprintf("gpu-%02d", r.IntN(64)), "{step}", fmt.Sprint(f.Steps*10))
	if _, err := out.WriteString(fill.Replace(strings.TrimPrefix(m.lines, "\n"))); err != nil {
		return err
	}
	return out.Flush()
}

// messages are what frameworks, libraries and schedulers print when they fail, with numbers and paths made up.
var messages = map[string][]message{
	"cpu-oom": {
		{end: End{Code: -1, Signal: 125, State: "OUT_OF_MEMORY"}, lines: `
slurmstepd: error: Detected 1 oom-kill event(s) in StepId=4711.0 cgroup. Some of your processes may have been killed by the cgroup out-of-memory handler.
srun: error: {host}: task 0: Out Of Memory
`},
		{end: failed, lines: `
Traceback (most recent call last):
  File "/home/job/train.py", line 88, in <module>
    features = np.stack(rows)
numpy.core._exceptions._ArrayMemoryError: Unable to allocate 74.5 GiB for an array with shape (100000, 100000) and data type float64
`},
		{end: failed, lines: `
Traceback (most recent call last):
  File "/home/job/train.py", line 132, in main
    for batch in loader:
  File "/opt/conda/lib/python3.9/site-packages/torch/utils/data/dataloader.py", line 1132, in _try_get_data
    raise RuntimeError('DataLoader worker (pid(s) {}) exited unexpectedly'.format(pids_str)) from e
RuntimeError: DataLoader worker (pid {pid}) is killed by signal: Killed. 
`},
	},
	"incorrect-inputs": {
		{end: failed, atStart: true, lines: `
Traceback (most recent call last):
  File "/home/job/train.py", line 41, in <module>
    data = load(args.train)
  File "/home/job/data.py", line 17, in load
    with open(path) as f:
FileNotFoundError: [Errno 2] No such file or directory: '/data/imagenet/train.tsv'
`},
		{end: failed, atStart: true, lines: `
Traceback (most recent call last):
  File "/home/job/prepare.py", line 19, in <module>
    table = json.load(f)
json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)
`},
		{end: failed, lines: `
Traceback (most recent call last):
  File "/home/job/data.py", line 60, in __getitem__
    image = Image.open(path).convert('RGB')
PIL.UnidentifiedImageError: cannot identify image file '/data/imagenet/train/n0{n}.JPEG'
`},
	},
	"semantic-error": {
		{end: failed, lines: `
Traceback (most recent call last):
  File "/home/job/model.py", line 71, in forward
    x = self.fc(x)
  File "/opt/conda/lib/python3.9/site-packages/torch/nn/modules/linear.py", line 114, in forward
    return F.linear(input, self.weight, self.bias)
RuntimeError: mat1 and mat2 shapes cannot be multiplied (64x2048 and 1024x1000)
`},
		{end: failed, lines: `
Traceback (most recent call last):
  File "/home/job/train.py", line 97, in step
    loss = criterion(model(x), y)
RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!
`},
	},
	"core-dump": {
		{end: End{Code: 134, State: "FAILED"}, lines: `
terminate called after throwing an instance of 'std::runtime_error'
  what():  queue is closed
Aborted (core dumped)
`},
		{end: End{Code: 134, Signal: 6, State: "FAILED"}, lines: `
double free or corruption (!prev)
Aborted (core dumped)
`},
	},
	"invalid-memory-access": {
		{end: End{Code: 139, State: "FAILED"}, lines: `
[{host}:{pid}] *** Process received signal ***
[{host}:{pid}] Signal: Segmentation fault (11)
[{host}:{pid}] Signal code: Address not mapped (1)
[{host}:{pid}] Failing at address: {hex}
[{host}:{pid}] *** End of error message ***
Segmentation fault (core dumped)
`},
		{end: failed, lines: `
Traceback (most recent call last):
  File "/home/job/train.py", line 140, in step
    loss.backward()
RuntimeError: CUDA error: an illegal memory access was encountered
`},
	},
	"model-checkpoint-error": {
		{end: failed, framework: "trainer", lines: `
Traceback (most recent call last):
  File "/home/job/train.py", line 201, in save
    torch.save(state, path)
  File "/opt/conda/lib/python3.9/site-packages/torch/serialization.py", line 380, in save
    return
RuntimeError: [enforce fail at inline_container.cc:424] . unexpected pos 1473024 vs 1472918
`},
		{end: failed, lines: `
Traceback (most recent call last):
  File "/home/job/train.py", line 171, in load
    state = torch.load(path)
RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory
`},
	},
	"cuda-failure": {
		{end: failed, lines: `
Traceback (most recent call last):
  File "/home/job/train.py", line 97, in step
    out = model(x)
RuntimeError: CUDA error: unspecified launch failure
`},
		{end: failed, lines: `
Traceback (most recent call last):
  File "/home/job/train.py", line 97, in step
    out = model(x)
RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED
`},
	},
	"syntax-error": {
		{end: failed, atStart: true, lines: `
  File "/home/job/train.py", line 33
    if args.fp16
                ^
SyntaxError: invalid syntax
`},
		{end: failed, atStart: true, lines: `
  File "/home/job/model.py", line 12
    return x
    ^
IndentationError: unindent does not match any outer indentation level
`},
	},
	"traceback": {
		{end: failed, lines: `
Traceback (most recent call last):
  File "/home/job/train.py", line 210, in <module>
    main()
  File "/home/job/schedule.py", line 55, in next
    raise ScheduleExhausted(self.name)
schedule.ScheduleExhausted: warmup
`},
		{end: failed, lines: `
Traceback (most recent call last):
  File "/home/job/train.py", line 118, in <module>
    report(metrics['bleu'] / metrics['n'])
ZeroDivisionError: division by zero
`},
	},
	"mpi-error": {
		{end: End{Code: 14, State: "FAILED"}, framework: "horovod", lines: `
[{host}:{pid}] *** An error occurred in MPI_Allreduce
[{host}:{pid}] *** reported by process [1234,3]
[{host}:{pid}] *** on communicator MPI_COMM_WORLD
[{host}:{pid}] *** MPI_ERR_OTHER: known error not in list
[{host}:{pid}] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,
[{host}:{pid}] ***    and potentially your MPI job)
`},
		{end: failed, framework: "horovod", lines: `
[{host}][[1234,1],3][btl_tcp_frag.c:238:mca_btl_tcp_frag_recv] mca_btl_tcp_frag_recv: readv failed: Connection reset by peer (104)
`},
	},
	"gpu-oom": {
		{end: failed, lines: `
Traceback (most recent call last):
  File "/home/job/train.py", line 97, in step
    out = model(x)
torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.{n} GiB (GPU 0; 31.75 GiB total capacity; 28.11 GiB already allocated; 1.02 GiB free; 29.55 GiB reserved in total by PyTorch)
`},
		{end: failed, framework: "tensorflow1", lines: `
tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[256,2048,7,7] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc
`},
	},
	"mpi-runtime-failure": {
		{end: End{Code: 205, State: "FAILED"}, framework: "horovod", lines: `
--------------------------------------------------------------------------
ORTE has lost communication with a remote daemon.

  HNP daemon   : [[12345,0],0] on node {host}
  Remote daemon: [[12345,0],2] on node gpu-09

This is usually due to either a failure of the TCP network
connection to the node, or possibly an internal failure of
the daemon itself. We cannot recover from this failure, and
therefore will terminate the job.
--------------------------------------------------------------------------
`},
	},
	"permission-error": {
		{end: failed, atStart: true, lines: `
Traceback (most recent call last):
  File "/home/job/train.py", line 29, in <module>
    os.makedirs(args.out)
PermissionError: [Errno 13] Permission denied: '/shared/results'
`},
	},
	"import-error": {
		{end: failed, atStart: true, lines: `
Traceback (most recent call last):
  File "/home/job/train.py", line 3, in <module>
    import apex
ModuleNotFoundError: No module named 'apex'
`},
	},
	"job-preempted": {
		{end: End{Code: -1, Signal: 15, State: "PREEMPTED"}, lines: `
slurmstepd: error: *** JOB 4711 ON {host} CANCELLED AT 2026-10-01T08:15:00 DUE TO PREEMPTION ***
`},
	},
	"cuda-init-failed": {
		{end: failed, atStart: true, lines: `
Traceback (most recent call last):
  File "/home/job/train.py", line 22, in <module>
    torch.cuda.set_device(0)
RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable
`},
		{end: failed, atStart: true, lines: `
Traceback (most recent call last):
  File "/home/job/train.py", line 22, in <module>
    torch.cuda.set_device(0)
RuntimeError: No CUDA GPUs are available
`},
	},
	"model-diverged": {
		{end: failed, lines: `
Traceback (most recent call last):
  File "/home/job/train.py", line 144, in step
    raise FloatingPointError("Loss is nan, stopping training")
FloatingPointError: Loss is nan, stopping training
`},
	},
	"cuda-version-mismatch": {
		{end: failed, atStart: true, lines: `
Traceback (most recent call last):
  File "/home/job/train.py", line 14, in <module>
    x = torch.zeros(1).cuda()
RuntimeError: The NVIDIA driver on your system is too old (found version 10010). Please update your GPU driver by downloading and installing a new version.
`},
	},
	"gpu-ecc-error": {
		{end: failed, lines: `
Traceback (most recent call last):
  File "/home/job/train.py", line 140, in step
    loss.backward()
RuntimeError: CUDA error: uncorrectable ECC error encountered
`},
	},
	"output-node-error": {
		{end: failed, framework: "tensorflow1", lines: `
Traceback (most recent call last):
  File "/home/job/freeze.py", line 51, in <module>
    graph_util.convert_variables_to_constants(sess, graph, ['softmax'])
AssertionError: softmax is not in graph
`},
	},
	"cannot-load-libs": {
		{end: End{Code: 127, State: "FAILED"}, atStart: true, lines: `
./train: error while loading shared libraries: libcudart.so.8.0: cannot open shared object file: No such file or directory
`},
	},
	"no-signature": {
		{end: failed, lines: ""},
		{end: End{Code: 137, State: "FAILED"}, lines: "Killed\n"},
	},
}
