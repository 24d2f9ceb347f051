#!/bin/sh
#SBATCH --job-name=train
#SBATCH --gres=gpu:1
#SBATCH --requeue
#SBATCH --open-mode=append
# A job that culprit watches. With the two lines of slurm.conf in README.md Slurm requeues exit code 75 and holds 65 by
# itself; without them the job does both here. The decision stands in the job's comment: squeue -o '%i %k', sacct -o JobID,Comment.
export CULPRIT_HISTORY="${CULPRIT_HISTORY:-$SLURM_SUBMIT_DIR/culprit-$SLURM_JOB_ID.jsonl}"
culprit run --profile slurm -- srun python train.py
code=$?
case $code in
75) [ "${SLURM_RESTART_COUNT:-0}" -lt 5 ] && scontrol requeue "$SLURM_JOB_ID" ;;
65) scontrol requeuehold "State=SpecialExit" "$SLURM_JOB_ID" ;;
esac
exit "$code"
