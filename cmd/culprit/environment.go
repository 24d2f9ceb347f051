package main

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// surrounding is a system whose environment says which job and attempt this is.
type surrounding struct {
	name string
	mark string // the variable that says that we are in it
	// fields are where each field of an attempt is from, by its name in the API: variables with what to put between
	// them, as in "CI_PIPELINE_ID/CI_JOB_NAME". All must be there.
	fields map[string]string
	// counted are the fields that count from 0 there and from 1 here.
	counted []string
}

// surroundings are asked in order; the first one that is there answers, so CI within a cluster's job stands first.
var surroundings = []surrounding{
	{name: "airflow", mark: "AIRFLOW_CTX_DAG_ID", fields: map[string]string{"job": "AIRFLOW_CTX_DAG_ID/AIRFLOW_CTX_TASK_ID/AIRFLOW_CTX_DAG_RUN_ID",
		"attempt": "AIRFLOW_CTX_TRY_NUMBER", "user": "AIRFLOW_CTX_DAG_OWNER", "name": "AIRFLOW_CTX_TASK_ID"}},
	{name: "metaflow", mark: "METAFLOW_RUN_ID", fields: map[string]string{"job": "METAFLOW_RUN_ID/METAFLOW_STEP_NAME/METAFLOW_TASK_ID", "user": "METAFLOW_USER",
		"attempt": "METAFLOW_RETRY_COUNT"}, counted: []string{"attempt"}},
	{name: "skypilot", mark: "SKYPILOT_TASK_ID", fields: map[string]string{"job": "SKYPILOT_TASK_ID", "user": "SKYPILOT_USER", "gpus": "SKYPILOT_NUM_GPUS_PER_NODE"}},
	{name: "slurm array", mark: "SLURM_ARRAY_JOB_ID", fields: map[string]string{"job": "SLURM_ARRAY_JOB_ID_SLURM_ARRAY_TASK_ID", "attempt": "SLURM_RESTART_COUNT",
		"user": "SLURM_JOB_USER", "vc": "SLURM_JOB_PARTITION", "name": "SLURM_JOB_NAME", "nodes": "SLURM_JOB_NODELIST", "cluster": "SLURM_CLUSTER_NAME",
		"gpus": "SLURM_GPUS_ON_NODE"}, counted: []string{"attempt"}},
	{name: "slurm", mark: "SLURM_JOB_ID", fields: map[string]string{"job": "SLURM_JOB_ID", "attempt": "SLURM_RESTART_COUNT", "user": "SLURM_JOB_USER",
		"vc": "SLURM_JOB_PARTITION", "name": "SLURM_JOB_NAME", "nodes": "SLURM_JOB_NODELIST", "cluster": "SLURM_CLUSTER_NAME", "gpus": "SLURM_GPUS_ON_NODE"},
		counted: []string{"attempt"}},
	{name: "aws batch", mark: "AWS_BATCH_JOB_ID", fields: map[string]string{"job": "AWS_BATCH_JOB_ID", "attempt": "AWS_BATCH_JOB_ATTEMPT", "vc": "AWS_BATCH_JQ_NAME"}},
	{name: "gitlab", mark: "GITLAB_CI", fields: map[string]string{"job": "CI_PROJECT_PATH/CI_PIPELINE_ID/CI_JOB_NAME", "run_id": "CI_JOB_ID",
		"user": "GITLAB_USER_LOGIN", "vc": "CI_PROJECT_PATH", "name": "CI_JOB_NAME", "node": "CI_RUNNER_DESCRIPTION"}},
	{name: "buildkite", mark: "BUILDKITE", fields: map[string]string{"job": "BUILDKITE_BUILD_ID/BUILDKITE_STEP_ID", "attempt": "BUILDKITE_RETRY_COUNT",
		"run_id": "BUILDKITE_JOB_ID", "user": "BUILDKITE_BUILD_CREATOR", "vc": "BUILDKITE_PIPELINE_SLUG", "name": "BUILDKITE_LABEL", "node": "BUILDKITE_AGENT_NAME"},
		counted: []string{"attempt"}},
	{name: "github", mark: "GITHUB_ACTIONS", fields: map[string]string{"job": "GITHUB_REPOSITORY/GITHUB_RUN_ID/GITHUB_JOB", "attempt": "GITHUB_RUN_ATTEMPT",
		"user": "GITHUB_ACTOR", "vc": "GITHUB_REPOSITORY", "name": "GITHUB_JOB", "node": "RUNNER_NAME"}},
	{name: "argo", mark: "ARGO_NODE_ID", fields: map[string]string{"job": "ARGO_NODE_ID", "node": "HOSTNAME"}},
	{name: "kubernetes", mark: "KUBERNETES_SERVICE_HOST", fields: map[string]string{"job": "JOB_NAME", "run_id": "HOSTNAME", "node": "NODE_NAME", "vc": "POD_NAMESPACE"}},
}

// metadata is what the environment says of the attempt, as fields of the API, and from which system that is.
func metadata(getenv func(string) string) (fields url.Values, system string) {
	fields = url.Values{}
	for _, s := range surroundings {
		if getenv(s.mark) == "" {
			continue
		}
		for field, from := range s.fields {
			value := joinVariables(getenv, from)
			if value != "" && slices.Contains(s.counted, field) {
				n, err := strconv.Atoi(value)
				if err != nil {
					continue
				}
				value = strconv.Itoa(n + 1)
			}
			if field == "gpus" {
				value = gpuCount(value, cmp.Or(getenv("SLURM_JOB_NUM_NODES"), getenv("SKYPILOT_NUM_NODES"), "1"))
			}
			if value != "" {
				fields.Set(field, value)
			}
		}
		// A first attempt has no count of restarts.
		if strings.HasPrefix(s.name, "slurm") && fields.Get("attempt") == "" {
			fields.Set("attempt", "1")
		}
		return fields, s.name
	}
	return fields, ""
}

// joinVariables reads "A/B" as the values of A and B with a slash between, and "A_B" of an array's ids likewise.
func joinVariables(getenv func(string) string, from string) string {
	between := "/"
	names := strings.Split(from, "/")
	if from == "SLURM_ARRAY_JOB_ID_SLURM_ARRAY_TASK_ID" {
		between, names = "_", []string{"SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"}
	}
	var values []string
	for _, name := range names {
		v := strings.TrimSpace(getenv(name))
		if v == "" {
			return ""
		}
		values = append(values, v)
	}
	return strings.Join(values, between)
}

// gpuCount multiplies the GPUs of a node with the nodes; "" where one of them is no number.
func gpuCount(perNode, nodes string) string {
	g, err := strconv.Atoi(perNode)
	n, nodesErr := strconv.Atoi(nodes)
	if err != nil || nodesErr != nil || g < 0 || n < 1 {
		return ""
	}
	return strconv.Itoa(g * n)
}
