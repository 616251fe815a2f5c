#!/usr/bin/env bash
# Runs Kubernetes' own scheduler benchmark, scheduler_perf, with the default profile and with the network of rungnn, and prints the pods
# a second of both and their ratio: `run.sh perf`. `run.sh integration` runs upstream's integration workloads through rungnn's profile.
# ONLY=REGEX chooses test cases, SIZE=2000 bounds nodes and measured pods (0: upstream's sizes), SUITES the folders of scheduler_perf.
# `make bench-upstream` and `make test-upstream` build .cache/upstream and bin/rungnn first.
set -euo pipefail
export LC_ALL=C.UTF-8
root=$(cd "$(dirname "$0")/../../.." && pwd)
kubernetes=$(cd "$root" && go list -m -f '{{.Dir}}' k8s.io/kubernetes)
tmp=$(mktemp -d /tmp/perf-XXXX) # short: etcd's socket lies below, and paths of sockets are limited
trap 'rm -rf "$tmp"' EXIT
"$root/bin/rungnn" --print-config --scheduler-name default-scheduler >"$tmp/gnn.yaml"
# Kubernetes' test server looks for the folder of its source, which -trimpath cuts short: TEST_SRCDIR says where the path begins.
export PATH=$root/.cache/upstream:$PATH TMPDIR=$tmp TEST_SRCDIR=${kubernetes%/k8s.io/*} TEST_WORKSPACE=.

suite() { # a folder for results, a suite, a filter of labels, then flags
	mkdir -p "$1"
	echo "$2 -> ${1##*/}" >&2
	(cd "$kubernetes/test/integration/scheduler_perf/$2" && "$root/.cache/upstream/suite" -test.run '^$' -test.benchtime 1x -test.v \
		-test.bench "^BenchmarkPerfScheduling\$/${ONLY:-.}" -data-items-dir "$1" -perf-scheduling-label-filter "$3" "${@:4}") >"$1/$2.log" 2>&1 ||
		{ failed=1 && grep -E -- '--- FAIL|panic|Error' "$1/$2.log" || tail "$1/$2.log"; }
}
rates() { # the mean pods a second of each workload in a folder of results
	jq -r '.dataItems[]? | select(.labels.Metric == "SchedulingThroughput") | "\(.labels.Name)\t\(.data.Average)"' "$1"/*.json | sort
}

failed=0 topics='misc affinity topology_spreading event_handling volumes default_preemption'
case ${1:-} in
perf)
	for s in ${SUITES:-$topics}; do
		suite "$tmp/default" "$s" performance -size "${SIZE:-2000}"
		suite "$tmp/gnn" "$s" performance -size "${SIZE:-2000}" -scheduler "$tmp/gnn.yaml"
	done
	printf 'workload\tdefault\tgnn\tratio\n'
	join -t $'\t' <(rates "$tmp/default") <(rates "$tmp/gnn") | awk -F'\t' '{printf "%s\t%.0f\t%.0f\t%.2f\n", $1, $2, $3, $3 / $2} END {exit NR == 0}' ||
		{ failed=1 && echo "scheduler_perf took no sample, which it does once a second: give a larger SIZE" >&2; }
	grep -h "Upstream's scoring decides" "$tmp"/gnn/*.log >&2 || true # then the figure is not of the network alone
	;;
integration)
	for s in ${SUITES:-$topics starvation batching workload_preemption dra}; do
		suite "$tmp/gnn" "$s" integration-test,-performance -scheduler "$tmp/gnn.yaml"
		grep -hE '^ *--- (BENCH|SKIP|FAIL)|^BenchmarkPerf.*ns/op' "$tmp/gnn/$s.log" || true
	done
	;;
*) echo "usage: run.sh perf|integration" >&2 && exit 2 ;;
esac
exit $failed
