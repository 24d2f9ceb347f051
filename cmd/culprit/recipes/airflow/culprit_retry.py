"""A retry policy for Airflow that asks culprit.

Put this file beside the DAGs and give a task retry_policy=CulpritRetry(). It never raises AirflowFailException and answers DEFAULT
on any trouble, so a culprit that is away changes nothing.
"""

import json
import subprocess
import urllib.parse
import urllib.request

EX_TEMPFAIL = 75

try:
    from airflow.sdk.definitions.retry_policy import RetryAction, RetryDecision, RetryPolicy
except ImportError:  # an Airflow without retry policies, or none: the decision alone is used

    class RetryAction:
        RETRY, FAIL, DEFAULT = "retry", "fail", "default"

    class RetryDecision:
        def __init__(self, action, reason=None):
            self.action, self.reason = action, reason

    class RetryPolicy:
        pass


def ask_server(server, job, attempt, timeout=5):
    """The decision on an attempt that `culprit run` has posted."""
    query = urllib.parse.urlencode({"job": job, "attempt": attempt})
    request = urllib.request.Request(f"{server}/api/v1/gate?{query}", data=b"", method="POST")
    with urllib.request.urlopen(request, timeout=timeout) as reply:
        return json.load(reply)


def ask_command(log, timeout=30):
    """The decision on a log at hand."""
    done = subprocess.run(["culprit", "gate", "--json"], input=log, capture_output=True, timeout=timeout, check=False)
    return json.loads(done.stdout)


class CulpritRetry(RetryPolicy):
    """RETRY or FAIL where culprit decides, DEFAULT where it does not."""

    def __init__(self, server=None):
        self.server = server

    def evaluate(self, exception=None, try_number=1, max_tries=0, context=None):
        try:
            text = str(exception or "")
            if self.server and context:
                ti = context["ti"]
                decision = ask_server(self.server, f"{ti.dag_id}/{ti.task_id}/{ti.run_id}", try_number)
            elif f"exit code {EX_TEMPFAIL}" in text:  # BashOperator, whose command was `culprit run`
                return RetryDecision(action=RetryAction.RETRY, reason="culprit: a retry can help")
            else:
                decision = ask_command(text.encode())
            if decision.get("undecided"):
                return RetryDecision(action=RetryAction.DEFAULT, reason=decision.get("reason"))
            action = RetryAction.FAIL if decision["verdict"] == "stop" else RetryAction.RETRY
            return RetryDecision(action=action, reason="culprit: " + decision["reason"])
        except Exception as err:  # noqa: BLE001: whatever it is, it must not cost a retry
            return RetryDecision(action=RetryAction.DEFAULT, reason=f"culprit: {err}")
