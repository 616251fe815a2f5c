#!/usr/bin/env bash
# Writes docs/gpu-results.md: every table in it is the output of the command above it.
# `make results-gpu OPENB=DIR` calls it; DIR holds the openb trace. LIVE=0 leaves the cluster out.
set -euo pipefail
export LC_ALL=C.UTF-8 # programs write ASCII in other locales
cd "$(dirname "$0")/.."
data=${OPENB:?name the folder with the openb trace: make results-gpu OPENB=DIR}
out=${OUT:-docs/gpu-results.md}
tmp=$(mktemp)
trap 'rm -f "$tmp"' EXIT
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

say '' '## The published policies'
compare --policies fgd,gpu-best-fit,gpu-packing,gpu-clustering,gpu-dot-product,random --check

say '' '## Every load' '' \
	'A run goes to 150 % of the GPUs, and its state is noted on the way.'
compare --curve --policies fgd,gpu-best-fit,gpu-packing,gpu-clustering,gpu-dot-product,gpu-gnn
compare --curve --seeds 4 --policies fgd,gpu-best-fit,gpu-acgnn,gpu-dqn
compare --curve --seeds 4 --policies fgd,gpu-linear

say '' '## Several training runs' ''
runs=()
for f in $(compgen -G '.cache/train/gpu-*-[0-9]*.safetensors' | grep -v /gpu-mig-); do runs+=(--checkpoint "$(basename "$f" .safetensors)=$f"); done
if [ ${#runs[@]} -gt 0 ]; then
	say 'All runs of `make train-gpu`, with the seed behind the name. The best on the held-out workloads is shipped.'
	compare --curve --seeds 4 --policies fgd "${runs[@]}"
else
	say 'Not measured in this run: the networks of `make train-gpu` were not there.'
fi

say '' '## Other mixes of pods' '' \
	'Each is one list of pods, which its name draws (`scheduler/eval/published/variant.go`).'
mixes=default+models20,default+models40,default+shares50,default+shares,default+multi2,default+multi4,default+cpu3,default+all
compare --curve --seeds 4 --workload $mixes --policies fgd,gpu-best-fit,gpu-gnn
compare --curve --seeds 2 --workload $mixes --policies fgd,gpu-best-fit,gpu-acgnn,gpu-dqn

say '' '## Tainted nodes' '' \
	'In `tainted` all nodes are tainted and all pods tolerate it: the figures are those of the list as it is. In `pools` the nodes' \
	'of half of the GPU models are tainted, half of the GPU pods tolerate it, and no other pods.'
compare --curve --seeds 4 --workload default,default+tainted,default+pools --policies fgd,gpu-best-fit,gpu-gnn

say '' '## Pods that leave' '' \
	'Pods come and go, and wait in the queue ([gpu.md](gpu.md#pods-that-leave)); half a day after half a day of warm-up. `running:` and `leaving:`' \
	'are the same networks with other typical pods and reserves. `by-load:gpu-gnn` is `leaving:gpu-gnn` at 85 and 95 % and `running:gpu-gnn` at 105 %.'
networks=gpu-linear,gpu-dqn,gpu-gnn,gpu-acgnn
forms=$(for form in running leaving; do for n in ${networks//,/ }; do printf ',%s:%s' $form "$n"; done; done)
for load in 0.85 0.95 1.05; do
	compare --steady --workload default --factor $load --warm-up 0.5 --days 0.5 --seeds 3 --totals \
		--policies fgd,gpu-best-fit,gpu-packing,gpu-clustering,gpu-dot-product,kube-scheduler,$networks$forms
done

say '' '## Power' '' \
	'[gpu.md](gpu.md#power) explains it; `--plot docs` drew the figure.'
compare --power --workload default --plot docs
compare --power --seeds 4 --workload cpu100,gpushare40,gpuspec10,multigpu20 --policies fgd,pwr+fgd:0.05,pwr+fgd:0.1,pwr+fgd:0.2,pwr,power+gpu-gnn:1,power+gpu-gnn:4,power+gpu-gnn:64,power+gpu-gnn:1e9

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
