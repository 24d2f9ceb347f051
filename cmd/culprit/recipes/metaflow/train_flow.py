"""A Metaflow step that runs its job under culprit: exit code 202 means no retry to Metaflow, 203 one."""

import os
import subprocess

from metaflow import FlowSpec, retry, step


class TrainFlow(FlowSpec):
    @retry(times=4, minutes_between_retries=1)
    @step
    def start(self):
        done = subprocess.run(["culprit", "run", "--profile", "metaflow", "--", "python", "train.py"], check=False)
        if done.returncode:
            os._exit(done.returncode)  # the task's exit code is what Metaflow looks at
        self.next(self.end)

    @step
    def end(self):
        pass


if __name__ == "__main__":
    TrainFlow()
