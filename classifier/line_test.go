package classifier

import (
	"testing"
	"time"
)

func TestUndress(t *testing.T) {
	tests := []struct {
		raw              string
		text, rank, node string
		level            level
	}{
		{raw: "plain text", text: "plain text"},
		{raw: "##[error]Process completed with exit code 1.", text: "Process completed with exit code 1.", level: levelError},
		{raw: "##[group]Run make", text: "Run make"},
		{raw: "[rank3]: ValueError: x", text: "ValueError: x", rank: "3"},
		{raw: "[rank3]:   File \"a.py\", line 1, in f", text: "  File \"a.py\", line 1, in f", rank: "3"},
		{raw: "[rank12]:[E ProcessGroupNCCL.cpp:537] [Rank 12] Some NCCL operations", text: "[Rank 12] Some NCCL operations", rank: "12", level: levelError},
		{raw: "[rank6]: [rank6]:[E723 02:00:10.431963001 ProcessGroupNCCL.cpp:1743] dump", text: "dump", rank: "6", level: levelError},
		{raw: "[default3]:RuntimeError: y", text: "RuntimeError: y", rank: "3"},
		{raw: "3: Traceback (most recent call last):", text: "Traceback (most recent call last):", rank: "3"},
		{raw: "0: [14:03:12:51] INFO - building index", text: "building index", rank: "0", level: levelInfo},
		{raw: "[1,3]<stderr>:terminate called", text: "terminate called", rank: "3"},
		{raw: "[3]<stderr>:boom", text: "boom", rank: "3"},
		{raw: "(RayTrainWorker pid=911, ip=10.4.0.8) step 10 loss 2.9", text: "step 10 loss 2.9", node: "10.4.0.8"},
		{raw: "(raylet) A worker died", text: "A worker died"},
		{raw: "node-3 | boom", text: "boom", node: "node-3"},
		{raw: "node-1: - Save strategy: epoch", text: "- Save strategy: epoch", node: "node-1"},
		{raw: "node-1: [2024-08-01 10:00:14,221] [INFO] [launch.py:315:sigkill_handler] Killing subprocess 7701", text: "Killing subprocess 7701", node: "node-1", level: levelInfo},
		{raw: "worker-3 | 2019-08-08 10:05:11.220118: E tensorflow/stream_executor/cuda/cuda_driver.cc:1032] failed to synchronize", text: "failed to synchronize", node: "worker-3", level: levelError},
		{raw: "[2025-07-23T01:50:09.321983Z] fa88a9df || [rank=2] KeyError: 'answer'", text: "KeyError: 'answer'", rank: "2"},
		{raw: "[pod/train-0/main] Killed", text: "Killed"},
		{raw: "I0808 10:03:21.327535 140291993893959 tf_logging.py:115] global_step/sec: 3.2", text: "global_step/sec: 3.2", level: levelInfo},
		{raw: "W0214 02:20:10.110000 50 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 71", text: "Sending process 71", level: levelWarning},
		{raw: "2023-05-19 11:40:02,331\tERROR tune_controller.py:911 -- Trial task failed", text: "Trial task failed", level: levelError},
		{raw: "2022-05-10 11:12:13,456 - mmcls - INFO - workflow", text: "workflow", level: levelInfo},
		{raw: "INFO 05-20 21:44:10 [model_runner.py:1110] Starting", text: "Starting", level: levelInfo},
		{raw: "ERROR:composer.cli.launcher:Rank 2 crashed", text: "Rank 2 crashed", level: levelError},
		{raw: "WARNING: torch.distributed.run:x", text: "torch.distributed.run:x", level: levelWarning},
		{raw: "[ERROR] URL https://r/v2 returned", text: "URL https://r/v2 returned", level: levelError},
		{raw: "[gpunode-b3:14733] *** Process received signal ***", text: "*** Process received signal ***", node: "gpunode-b3"},
		{raw: "nv-07:5105:5505 [5] NCCL WARN NET/IB : x", text: "NCCL WARN NET/IB : x", node: "nv-07"},
		{raw: "nv-07:5105:5505 [5] transport/net_ib.cc:1295 NCCL WARN NET/IB : x", text: "transport/net_ib.cc:1295 NCCL WARN NET/IB : x", node: "nv-07"},
		{raw: "10.2.3.4:51:55 [0] NCCL INFO y", text: "NCCL INFO y", node: "10.2.3.4"},
		{raw: "[03/11 14:24:41 d2.engine.hooks]: Total training time: 0:03:46", text: "Total training time: 0:03:46"},
		{raw: "[08/17 10:01:22] detectron2 INFO: Rank of current process: 0", text: "detectron2 INFO: Rank of current process: 0"},
		{raw: "Dec  1 18:32:50 gpu-07 kernel: NVRM: Xid (PCI:0000:9b:00): 79, pid=1", text: "NVRM: Xid (PCI:0000:9b:00): 79, pid=1", node: "gpu-07"},
		{raw: "2025-03-01T08:00:14.200118+00:00 gx3 kernel: NVRM: Xid (PCI:0000:b7:00): 64", text: "NVRM: Xid (PCI:0000:b7:00): 64", node: "gx3"},
		{raw: "[server] ERROR:    [Errno 98] error while", text: "[Errno 98] error while", level: levelError},
		{raw: "[1,0]<stderr>:3: 2025-03-01 08:00:14.200118: W x.cc:1] y", text: "y", rank: "0", level: levelWarning},
		{raw: "[ 1234.567890] Out of memory: Killed process 1 (python)", text: "Out of memory: Killed process 1 (python)"},
		{raw: "[12345.678901] NVRM: Xid", text: "NVRM: Xid"},
		{raw: "2024-01-01T00:00:00.000000000Z stderr F boom", text: "boom"},
		{raw: `{"log":"RuntimeError: z\n","stream":"stderr","time":"2024-01-01T00:00:00.1Z"}`, text: "RuntimeError: z"},
		{raw: "ValueError: --load_best_model_at_end requires", text: "ValueError: --load_best_model_at_end requires"},
		{raw: "pretrain_gpt.py: error: unrecognized arguments: --x", text: "pretrain_gpt.py: error: unrecognized arguments: --x"},
		{raw: "wandb: ERROR Error while calling", text: "wandb: ERROR Error while calling"},
		{raw: "python3: can't open file 'x'", text: "python3: can't open file 'x'"},
		{raw: "srun: error: gpu-17: task 2: Exited with exit code 1", text: "srun: error: gpu-17: task 2: Exited with exit code 1"},
		{raw: "libcudart.so.11.0: cannot open shared object file", text: "libcudart.so.11.0: cannot open shared object file"},
		{raw: "- Evaluation strategy: steps", text: "- Evaluation strategy: steps"},
		{raw: "old\rnew\r", text: "new"},
		{raw: " 12%|█ | 1/8\x1b[A\r\x1b[31mRuntimeError\x1b[0m: red", text: "RuntimeError: red"},
		{raw: "\x1b]0;title\x07text", text: "text"},
		{raw: "\x1b[38;5;196", text: ""},
		{raw: "", text: ""},
		{raw: "[rank3]:", text: "", rank: "3"},
	}
	for _, tt := range tests {
		l := undress([]byte(tt.raw))
		if l.text != tt.text || l.rank != tt.rank || l.node != tt.node || l.level != tt.level {
			t.Errorf("undress(%q)\n got text %q rank %q node %q level %d\nwant text %q rank %q node %q level %d",
				tt.raw, l.text, l.rank, l.node, l.level, tt.text, tt.rank, tt.node, tt.level)
		}
	}
}

func TestUndressTime(t *testing.T) {
	tests := []struct{ raw, want string }{
		{"2023-05-19 11:40:02,331 x", "2023-05-19T11:40:02.331Z"},
		{"[2025-07-23T01:50:09.321983Z] a1b2c3d4 || x", "2025-07-23T01:50:09.321983Z"},
		{"2024-02-29T10:00:00+08:00 x", "2024-02-29T02:00:00Z"},
		{"2024-02-29T10:00:00-05:30 x", "2024-02-29T15:30:00Z"},
		{"2024-02-31 10:00:00 no such day", "0001-01-01T00:00:00Z"},
		{"10:00:00 only a clock", "0001-01-01T00:00:00Z"},
	}
	for _, tt := range tests {
		if got := undress([]byte(tt.raw)).time.UTC().Format(time.RFC3339Nano); got != tt.want {
			t.Errorf("undress(%q).time = %s, want %s", tt.raw, got, tt.want)
		}
	}
}
