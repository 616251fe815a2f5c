#!/usr/bin/env bash
# Writes docs/gpu-results.md: every table in it is the output of the command above it.
# `make results-gpu OPENB=DIR` calls it; DIR holds the openb trace. LIVE=0 leaves the cluster out.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${OPENB:?name the folder with the openb trace: make results-gpu OPENB=DIR}
out=${OUT:-docs/gpu-results.md}
tmp=$(mktemp)
trap 'rm -f "$tmp"' EXIT
networks=gpu-linear,gpu-dqn,gpu-gnn,gpu-acgnn

say() { printf '%s\n' "$@" >>"$tmp"; }
compare() { # arguments of gnnsched eval openb
	say '' "    gnnsched eval openb --data DIR $*" ''
	echo "gnnsched eval openb --data $data $*" >&2
	bin/gnnsched eval openb --data "$data" "$@" -o markdown >>"$tmp"
}

say '# Results on the openb trace' '' \
	'`make results-gpu OPENB=DIR` writes this page; [gpu.md](gpu.md) explains it.' '' \
	'More is better. Every policy meets the same arrivals, with the seeds 42 to 51, which no training saw.' \
	'Exploration is off. The first policy is the baseline.'

say '' '## The published policies and the networks'
compare --policies "fgd,gpu-best-fit,gpu-packing,gpu-clustering,gpu-dot-product,random,$networks"

say '' '## Fewer or more arrivals' '' \
	'The networks were trained on arrivals of 130 % of the GPUs.'
for factor in 1.05 1.15 1.5; do
	compare --factor $factor --workload default --policies fgd,gpu-gnn
done

say '' '## Ties' '' 'Ties between equal scores are broken at random, as kube-scheduler does.'
compare --workload default --ties random --policies fgd,gpu-gnn

if [ "${LIVE:-1}" != 0 ]; then
	say '' '## On a simulated cluster' '' \
		'A sixth of the machines, with a real API server and the real kube-scheduler. The driver of runsim' \
		'deploys the pods of the trace, once each for the network, FGD and the default profile.' '' \
		'    gnnsched eval openb --data DIR --live --nodes 200 --policies gpu-gnn,fgd,kube-scheduler' ''
	bin/gnnsched eval openb --data "$data" --live --nodes 200 --policies gpu-gnn,fgd,kube-scheduler -o markdown >>"$tmp"
fi
mv "$tmp" "$out"
trap - EXIT
chmod 644 "$out"
echo "wrote $out" >&2
