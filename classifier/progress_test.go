package classifier

import "testing"

func TestProgressOf(t *testing.T) {
	tests := []struct {
		text string
		step int64 // -2: no progress
	}{
		{"step 12000 loss 2.31", 12000},
		{"step:1 - actor/pg_loss:0.021 - actor/grad_norm:0.41", 1},
		{"step:  7610  loss: 3.0239  grad_norm: 0.41", 7610},
		{"iter 100 loss 2.100", 100},
		{"iteration      100/  500000 | consumed samples:        25600 | elapsed time per iteration (ms): 1404.4", 100},
		{"{'loss': 2.5066, 'grad_norm': 1.204418, 'learning_rate': 1.9975e-05, 'epoch': 0.00}", -1},
		{"Epoch: [0]  [  100/55876]  eta: 24:58:20  lr: 0.000150  loss: 0.8940 (0.9012)", -1},
		{"Epoch [1][100/1800]\tlr: 2.000e-02, eta: 10:39:14, time: 0.519, loss_cls: 0.2057", -1},
		{"Epoch 2: ▌         | 6/100 [00:03<00:47, 2.0it/s, v_num=7, val_error=0.31]", 6},
		{" 12%|█▏        | 12/100 [00:01<00:07, 11.9it/s]", 12},
		{"1875/1875 [==============================] - 755s 403ms/step - loss: 0.2578 - accuracy: 0.9263", 1875},
		{"global_step/sec: 3.23391", -1},
		{"loss = 2.518077, step = 7000 (30.922 sec)", 7000},
		{"epoch 3 | train_loss 0.2000 | val_error=0.08", -1},
		{"eval 10/200 pass@1 0.415", -1},
		{"[batch=9/4800]:", 9},
		{"step 20 | lm 4.900", 20},
		{"Epoch[ 1 of 30]-Minibatch[  1- 100, 1.00%]: CrossEntropy = 6.9 * 25600; EvalErrorPrediction = 99%; time = 10s", -1},
		{"Epoch[0] Batch [20]\tSpeed: 213.42 samples/sec\taccuracy=0.91", -1},
		{"Iteration 100, loss = 4.21", 100},
		{"training finished, 400 steps", -1},
		{"{'train_runtime': 3101.2, 'train_samples_per_second': 21.1, 'epoch': 1.0}", -1},

		{"", -2},
		{"max_steps=1000, num_epochs: 3, batch_size=32", -2},
		{"Namespace(accum_iter=1, batch_size=192, epochs=400, lr=0.1, seed=0)", -2},
		{"restarted from step 190", -2},
		{"RuntimeError: mat1 and mat2 shapes cannot be multiplied (64x512 and 768x128)", -2},
		{"step 100 failed: loss is nan", -2},
		{"Overall training speed: 43 iterations in 0:00:20 (0.4712 s / it)", -2},
		{"Total training time: 0:03:46 (0:00:00 on hooks)", -2},
		{"Loaded checkpoint from epoch 3", -2},
		{"Trainer: 8 GPUs, 100 epochs", -2},
		{"  File \"/w/train.py\", line 40, in <module>", -2},
		{"srun: error: gnode017: task 5: Exited with exit code 1", -2},
		{"  time      : 2024-09-03_21:40:13", -2},
		{"  rank      : 0 (local_rank: 0)", -2},
		{"wandb:         loss 0.123", -2},
		{"NCCL INFO Channel 00/02 : 0 1 2 3", -2},
		{"Watchdog caught collective operation timeout: WorkNCCL(SeqNum=82, OpType=ALLREDUCE, Timeout(ms)=600000)", -2},
	}
	for _, tt := range tests {
		a, ok := progressOf(tt.text)
		got := a.step
		if !ok {
			got = -2
		}
		if got != tt.step {
			t.Errorf("progressOf(%q) = step %d, want %d (-1: no step, -2: no progress)", tt.text, got, tt.step)
		}
	}
}

func TestCheckpointOf(t *testing.T) {
	tests := []struct {
		text string
		step int64 // -1: none
	}{
		{"Saving model checkpoint to /scratch/runs/cpt-7b/checkpoint-6600", 6600},
		{"successfully saved checkpoint at iteration   11500 to /ckpt", 11500},
		{"Saving checkpoints for 2000 into /tmp/model.ckpt.", 2000},
		{"Saved checkpoint: global_step=400", 400},
		{"Checkpoint will be saved every 500 steps", -1},
		{"failed to save checkpoint at step 3", -1},
		{"Loading checkpoint-500", -1},
	}
	for _, tt := range tests {
		got, ok := checkpointOf(tt.text)
		if !ok {
			got = -1
		}
		if got != tt.step {
			t.Errorf("checkpointOf(%q) = %d, want %d", tt.text, got, tt.step)
		}
	}
}
