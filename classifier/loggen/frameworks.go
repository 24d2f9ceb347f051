package loggen

import (
	"fmt"
	"math"
	"strings"
)

// The layouts follow what the frameworks print; the numbers are made up. Start-up lines hold the warnings that alarm
// newcomers and mean nothing.
var frameworks = map[string]framework{
	"torchrun": {
		start: []string{
			"W0304 08:15:00.219000 50 torch/distributed/run.py:792] ",
			"W0304 08:15:00.219000 50 torch/distributed/run.py:792] *****************************************",
			"W0304 08:15:00.219000 50 torch/distributed/run.py:792] Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being overloaded, please further tune the variable for optimal performance in your application as needed. ",
			"gpu-07:5100:5100 [0] NCCL INFO Bootstrap : Using eth0:10.42.3.96<0>",
			"gpu-07:5100:5100 [0] NCCL INFO NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: No such file or directory No plugin found (libnccl-net.so), using internal implementation",
			"gpu-07:5100:5505 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.42.3.96<0>",
			"gpu-07:5100:5505 [0] NCCL INFO NCCL_IB_TIMEOUT set by environment to 22.",
			"[rank0]:[W304 08:15:02.118 ProcessGroupNCCL.cpp:4561] [PG ID 0 PG GUID 0 Rank 0]  using GPU 0 to perform barrier as devices used by this process are currently unknown. This can potentially cause a hang if this rank to GPU mapping is incorrect. Specify device_ids in barrier() to force use of a particular device, or call init_process_group() with a device_id.",
			"/opt/conda/lib/python3.11/site-packages/torch/utils/data/dataloader.py:557: UserWarning: This DataLoader will create 16 worker processes in total. Our suggested max number of worker in current system is 8, which is smaller than what this DataLoader is going to create. Please be aware that excessive worker creation might get DataLoader running slow or even freeze, lower the worker number to avoid potential slowness/freeze if necessary.",
			"FutureWarning: You are using `torch.load` with `weights_only=False` (the current default value), which uses the default pickle module implicitly.",
			"on_error: raise, max_restarts: 3, monitor_interval: 0.1, timeout: 1800, error_file: None, exit_on_nan: false",
		},
		step: func(g *generator, step, rank int) string {
			return fmt.Sprintf("[rank%d]: step: %5d  loss: %.4f  grad_norm: %.2f  memory: %.2fGiB(77.31%%)  tps: %d  tflops: %.1f  mfu: %.2f%%", rank, step*10, g.loss, g.near(0.41), g.near(61), 7400+g.rand.IntN(99), g.near(391), g.near(39))
		},
		every: map[int]func(*generator, int, int) string{
			500: func(_ *generator, step, _ int) string {
				return fmt.Sprintf("[rank0]: Saving the checkpoint (or staging if async is enabled) at step %d.", step*10)
			},
		},
	},
	"trainer": {
		start: []string{
			"huggingface/tokenizers: The current process just got forked, after parallelism has already been used. Disabling parallelism to avoid deadlocks...",
			"Some weights of LlamaForSequenceClassification were not initialized from the model checkpoint at base-7b and are newly initialized: ['score.weight']",
			"'(ReadTimeoutError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Read timed out. (read timeout=10)\"), '(Request ID: 1b2c)')' thrown while requesting HEAD https://huggingface.co/base-7b/resolve/main/config.json",
			"Retrying in 1s [Retry 1/5].",
			"`use_cache=True` is incompatible with gradient checkpointing. Setting `use_cache=False`.",
		},
		step: func(g *generator, step, _ int) string {
			return fmt.Sprintf("{'loss': %.4f, 'grad_norm': %.6f, 'learning_rate': %.4ge-05, 'epoch': %.2f}", g.loss, g.near(0.9), 2-float64(step%20000)/10000, float64(step)/4000)
		},
		every: map[int]func(*generator, int, int) string{
			400: func(g *generator, step, _ int) string {
				return fmt.Sprintf("{'eval_loss': %.4f, 'eval_runtime': %.2f, 'eval_samples_per_second': 91.2, 'eval_error_rate': 0.0429, 'epoch': %.2f}", g.loss*1.1, g.near(80), float64(step)/4000)
			},
			1000: func(_ *generator, step, _ int) string {
				return fmt.Sprintf("Saving model checkpoint to /runs/sft/checkpoint-%d", step)
			},
		},
	},
	"lightning": {
		start: []string{
			"GPU available: True (cuda), used: True",
			"LOCAL_RANK: 0 - CUDA_VISIBLE_DEVICES: [0,1]",
			"/opt/venv/lib/python3.10/site-packages/lightning/pytorch/trainer/connectors/data_connector.py:425: The 'val_dataloader' does not have many workers which may be a bottleneck.",
		},
		step: func(g *generator, step, _ int) string {
			n := step % 1000
			return fmt.Sprintf("\rEpoch %d: %3d%%|%s| %d/1000 [%02d:%02d<%02d:%02d, 2.01it/s, v_num=7, train_loss=%.3f, val_error=0.31]", step/1000, n/10, bar(n), n, n/120, n/2%60, (1000-n)/120, (1000-n)/2%60, g.loss)
		},
	},
	"megatron": {
		start: []string{
			"using world size: 64, data-parallel size: 8, context-parallel size: 1, tensor-model-parallel size: 4, pipeline-model-parallel size: 2",
			"  exit_on_missing_checkpoint ...................... False",
			"  error_injection_rate ............................ 0",
			"  nccl_communicator_config_path ................... None",
			"  check_for_nan_in_loss_and_grad .................. True",
			"WARNING: could not find the metadata file /ckpt/latest_checkpointed_iteration.txt",
			"    will not load any checkpoints and will start from random",
		},
		step: func(g *generator, step, _ int) string {
			return fmt.Sprintf(" [%s] iteration %8d/  500000 | consumed samples: %12d | elapsed time per iteration (ms): %.1f | learning rate: %.6E | global batch size:   256 | lm loss: %.6E | loss scale: 1.0 | grad norm: %.3f | number of skipped iterations:   0 | number of nan iterations:   0 |",
				g.clock.Format("2006-01-02 15:04:05"), step*10, step*2560, g.near(1402), 1.5e-4, g.loss, g.near(0.8))
		},
		every: map[int]func(*generator, int, int) string{
			200: func(_ *generator, step, _ int) string {
				return fmt.Sprintf("  successfully saved checkpoint from iteration %7d to /ckpt/run7", step*10)
			},
		},
	},
	"deepspeed": {
		start: []string{
			"[2025-03-04 08:15:00,115] [WARNING] [runner.py:202:fetch_hostfile] Unable to find hostfile, will proceed with training with local resources only.",
			"[2025-03-04 08:15:09,333] [INFO] [config.py:1003:print]   fail_on_missing_ckpt ......... False",
			"[2025-03-04 08:15:09,333] [INFO] [config.py:1003:print]   loss_scale ................... 0",
			"[2025-03-04 08:15:10,021] [INFO] [loss_scaler.py:190:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, but hysteresis is 2. Reducing hysteresis to 1",
		},
		step: func(g *generator, step, _ int) string {
			return fmt.Sprintf("[%s,%03d] [INFO] [timer.py:260:stop] epoch=0/micro_step=%d/global_step=%d, RunningAvgSamplesPerSec=%.3f, CurrSamplesPerSec=%.3f, MemAllocated=18.21GB, MaxMemAllocated=61.02GB", g.clock.Format("2006-01-02 15:04:05"), g.rand.IntN(1000), step*4, step, g.near(91), g.near(92))
		},
		every: map[int]func(*generator, int, int) string{
			10: func(g *generator, step, _ int) string {
				return fmt.Sprintf("[%s,%03d] [INFO] [logging.py:96:log_dist] [Rank 0] step=%d, skipped=3, lr=[1.9e-05], mom=[(0.9, 0.95)]", g.clock.Format("2006-01-02 15:04:05"), g.rand.IntN(1000), step)
			},
		},
	},
	"tensorflow1": {
		start: []string{
			"2025-03-04 08:15:00.317620: I tensorflow/core/platform/cpu_feature_guard.cc:151] This TensorFlow binary is optimized with oneAPI Deep Neural Network Library (oneDNN) to use the following CPU instructions in performance-critical operations:  AVX2 AVX512F FMA",
			"2025-03-04 08:15:02.000112: W tensorflow/core/common_runtime/bfc_allocator.cc:479] Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.25GiB with freed_by_count=0. The caller indicates that this is not a failure, but may mean that there could be performance gains if more memory were available.",
			"2025-03-04 08:15:02.110221: W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load dynamic library 'libnvinfer.so.7'; dlerror: libnvinfer.so.7: cannot open shared object file: No such file or directory",
			"2025-03-04 08:15:03.330118: E tensorflow/stream_executor/cuda/cuda_blas.cc:2981] Unable to register cuBLAS factory: Attempting to register factory for plugin cuBLAS when one has already been registered",
		},
		step: func(g *generator, step, _ int) string {
			return fmt.Sprintf("INFO:tensorflow:loss = %.6f, step = %d (%.3f sec)", g.loss, step*100, g.near(30))
		},
		every: map[int]func(*generator, int, int) string{
			1: func(g *generator, _, _ int) string {
				return fmt.Sprintf("INFO:tensorflow:global_step/sec: %.5f", g.near(3.2))
			},
			100: func(_ *generator, step, _ int) string {
				return fmt.Sprintf("INFO:tensorflow:Saving checkpoints for %d into /job/model.ckpt.", step*100)
			},
		},
	},
	"keras": {
		start: []string{"Model: \"sequential\"", "Total params: 101,770", "WARNING:tensorflow:AutoGraph could not transform <function f> and will run it as-is."},
		step: func(g *generator, step, _ int) string {
			n := step%1875 + 1
			return fmt.Sprintf("%4d/1875 [%s>%s] - ETA: %d:%02d - loss: %.4f - accuracy: %.4f", n, strings.Repeat("=", n*29/1876), strings.Repeat(".", 29-n*29/1876), n%9, n%60, g.loss, g.near(0.7))
		},
	},
	"jax": {
		start: []string{
			"WARNING:absl:No GPU/TPU found, falling back to CPU. (Set TF_CPP_MIN_LOG_LEVEL=0 and rerun for more info.)",
			"I0304 08:15:00.100000 140291993893959 xla_bridge.py:889] Unable to initialize backend 'tpu': INTERNAL: Failed to open libtpu.so: libtpu.so: cannot open shared object file: No such file or directory",
		},
		step: func(g *generator, step, _ int) string {
			return fmt.Sprintf("I0304 %s.%06d 140291993893959 train.py:211] step=%d, loss=%.5f, learning_rate=0.0003, steps_per_sec=%.3f", g.clock.Format("15:04:05"), g.rand.IntN(1e6), step*50, g.loss, g.near(4))
		},
	},
	"horovod": {
		start: []string{
			"[1,0]<stderr>:WARNING: Open MPI accepted a TCP connection from what appears to be a another Open MPI process but cannot find a corresponding process entry for that peer.",
			"[1,0]<stderr>:Read -1, expected 16384, errno = 1",
		},
		step: func(g *generator, step, rank int) string {
			return fmt.Sprintf("[1,%d]<stderr>:step %d loss=%.3f %d ex/s", rank, step*100, g.loss, 2100+g.rand.IntN(50))
		},
	},
	"mxnet": {
		start: []string{"INFO:root:start with arguments Namespace(batch_size=256, disp_batches=20, gpus='0,1,2,3', load_epoch=None, lr=0.1)"},
		step: func(g *generator, step, _ int) string {
			return fmt.Sprintf("INFO:root:Epoch[%d] Batch [%d]\tSpeed: %.2f samples/sec\taccuracy=%.6f\ttop_k_accuracy_5=%.6f", step/250, step%250*20, g.near(1231), g.near(0.5), g.near(0.7))
		},
	},
	"cntk": {
		start: []string{"CNTK 2.0.beta15.0 (HEAD 14d2b3, May  3 2017 11:01:22) on gpu-07 at 2017/09/04 08:15:00", "WARNING: the test period is not set; no error will be computed on a held-out set"},
		step: func(g *generator, step, _ int) string {
			return fmt.Sprintf(" Epoch[%2d of 90]-Minibatch[%4d-%4d, %.2f%%]: CrossEntropy = %.8f * 25600; EvalErrorPrediction = %.8f * 25600; time = %.4fs; samplesPerSecond = %.1f", step/100+1, step%100*100+1, step%100*100+100, float64(step%100)+1, g.loss, g.near(0.6), g.near(12), g.near(2100))
		},
	},
	"caffe": {
		start: []string{"I0904 08:15:00.311 5121 caffe.cpp:218] Using GPUs 0, 1", "I0904 08:15:00.511 5121 solver.cpp:48] Initializing solver from parameters: "},
		step: func(g *generator, step, _ int) string {
			return fmt.Sprintf("I0904 %s.%06d  5121 solver.cpp:239] Iteration %d (%.4f iter/s, %.4fs/20 iters), loss = %.5f", g.clock.Format("15:04:05"), g.rand.IntN(1e6), step*20, g.near(3), g.near(6), g.loss)
		},
	},
	"ray": {
		start: []string{
			"2025-03-04 08:15:01,331\tINFO worker.py:1841 -- Started a local Ray instance.",
			"(autoscaler +4s) Tip: use `ray status` to view detailed cluster status.",
			"(raylet) [2025-03-04 08:15:11,100 W 211 241] (raylet) memory_monitor.cc:197: No cgroup limit was found; using the memory of the host.",
		},
		step: func(g *generator, step, rank int) string {
			return fmt.Sprintf("(TaskRunner pid=%d) step:%d - actor/pg_loss:%.3f - actor/grad_norm:%.2f - critic/score/mean:%.2f - response_length/mean:%.1f - perf/throughput:%.1f - timing_s/step:%.1f", 24411+rank, step, g.near(0.02), g.near(0.4), g.near(0.2), g.near(650), g.near(900), g.near(41))
		},
	},
	"composer": {
		start: []string{"WARNING: device_microbatch_size > device_batch_size, will be reduced from 8 -> 2.", "Starting training..."},
		step:  func(_ *generator, step, _ int) string { return fmt.Sprintf("[batch=%d/480000]:", step) },
		every: map[int]func(*generator, int, int) string{
			1: func(g *generator, _, _ int) string {
				return fmt.Sprintf("\t Train metrics/train/LanguageCrossEntropy: %.4f", g.loss)
			},
		},
	},
	"fairseq": {
		start: []string{"2025-03-04 08:15:00 | INFO | fairseq.utils | CUDA enviroments for all 8 workers"},
		step: func(g *generator, step, _ int) string {
			return fmt.Sprintf("%s | INFO | train_inner | epoch %03d: %6d / 41123 loss=%.3f, nll_loss=%.3f, ppl=%.2f, wps=%.1f, ups=%.2f, wpb=51200, bsz=2048, num_updates=%d, lr=0.0005, gnorm=%.3f, clip=0, loss_scale=16, train_wall=21, wall=4411", g.clock.Format("2006-01-02 15:04:05"), step*100/41123+1, step*100%41123, g.loss, g.loss*0.9, math.Exp2(min(g.loss, 12)), g.near(91000), g.near(1.8), step*100, g.near(0.9))
		},
	},
	"mmengine": {
		start: []string{"2025/03/04 08:15:00 - mmengine - WARNING - The prefix is not set in metric class DumpResults.", "2025/03/04 08:15:00 - mmengine - INFO - Checkpoints will be saved to /proj/runs/r50."},
		step: func(g *generator, step, _ int) string {
			return fmt.Sprintf("%s - mmengine - INFO - Epoch(train) [%d][%4d/1800]  lr: 2.0000e-02  eta: 10:39:14  time: %.4f  data_time: 0.0123  memory: 5921  loss: %.4f  loss_cls: %.4f  acc: %.4f", g.clock.Format("2006/01/02 15:04:05"), step/18+1, step%18*100, g.near(0.5), g.loss, g.loss*0.3, g.near(91))
		},
	},
	"nemo": {
		start: []string{"[NeMo W 2025-03-04 08:15:00 nemo_logging:405] /opt/NeMo/nemo/utils/exp_manager.py:773: No version folders would be created under the log folder as 'resume_if_exists' is enabled."},
		step: func(g *generator, step, _ int) string {
			return fmt.Sprintf("Training epoch 0, iteration %d/999999 | lr: 1.5e-05 | global_batch_size: 512 | global_step: %d | reduced_train_loss: %.4f | train_step_timing in s: %.3f | consumed_samples: %d", step, step, g.loss, g.near(9), step*512)
		},
	},
	"determined": {
		step: func(g *generator, step, rank int) string {
			return fmt.Sprintf("[%s.%06dZ] fa88a9df || [rank=%d] iter %d loss %.3f", g.clock.Format("2006-01-02T15:04:05"), g.rand.IntN(1e6), rank, step*10, g.loss)
		},
	},
	"codegen": {
		start: []string{"loading 200 prompts about failures"},
		step: func(g *generator, step, _ int) string {
			if step%4 == 0 {
				return fmt.Sprintf("eval %d/%d pass@1 %.3f", step/4, 1<<30, g.near(0.4))
			}
			return quotes[(step+step/4)%len(quotes)]
		},
	},
}

// quotes are training texts, prompts and metrics that hold the words of failures.
var quotes = []string{
	`prompt: Fix this: RuntimeError: CUDA error: an illegal memory access was encountered`,
	`completion: Set CUDA_LAUNCH_BLOCKING=1 and look for an out of bounds index.`,
	`{"text": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB."}`,
	`echo "Segmentation fault (core dumped)"`,
	`prompt: What does "NCCL watchdog caught collective operation timeout" mean?`,
	`{"prompt": "slurmstepd: error: Detected 1 oom_kill event in StepId=1.0."}`,
	`# raise ValueError("No space left on device")`,
}

// bar is a progress bar of ten blocks for n of 1000.
func bar(n int) string {
	full := n / 100
	return strings.Repeat("█", full) + strings.Repeat(" ", 10-full)
}
