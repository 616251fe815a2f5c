#!/usr/bin/env bash
# Writes docs/results.md: every table in it is the output of the command above it.
# `make results` calls it; SEEDS=20 makes it quicker. Networks of the ablation are taken from
# .cache/ablation, where `make ablation` puts them.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${OUT:-docs/results.md}
seeds=${SEEDS:-100}
first=101 # training and tuning use seeds from 2^32 on, or far above
tmp=$(mktemp)
trap 'rm -f "$tmp"' EXIT

say() { printf '%s\n' "$@" >>"$tmp"; }
compare() { # arguments of gnnsched eval
	set -- eval -o markdown --seed $first "$@"
	local code=0 line=gnnsched a
	for a in "$@"; do
		case $a in
		*[!a-zA-Z0-9_.,:/=+-]*) line+=" '$a'" ;;
		*) line+=" $a" ;;
		esac
	done
	say '' "    $line" ''
	echo "$line" >&2
	bin/gnnsched "$@" >>"$tmp" || code=$?
	if [ $code -ne 0 ] && [ $code -ne 99 ]; then exit $code; fi
}

mkdir -p .cache
bin/gnnsched tune --method tabular-q --out .cache/tabular-q.json

say '# Results' \
	'' \
	'`make results` writes this page. The comments at the [end](#what-the-results-say) are written by people.' \
	'' \
	'Every policy meets the same clusters and arrivals. The seeds are paired, and neither training nor tuning' \
	'saw them. Exploration is off. Heuristics with integer scores break ties at random. Less is better in' \
	'every column. A threshold is a target; the line below a table says whether the run met it.' \
	'' \
	'| policies | trained or tuned on | best network chosen on, with other seeds |' \
	'|---|---|---|' \
	'| `gnn`, `dqn`, `acgnn`, `acdqn` | `family` | `hetero80` |' \
	'| `acgnn-pack` | `family-pack` | `pack` |' \
	'| `acgnn-zones`, `acdqn-zones` | `family-zones` | `zonal` |' \
	'| `linear`, `linear-*` | the families | |' \
	'' \
	'`family` has the node sizes and pod shapes of `hetero*`, with other numbers of nodes, loads and subsets of' \
	'the shapes. So on these scenarios the workloads are held out, but not their kind.'

say '' '## The ten equal nodes of AAML'
compare --scenario aaml --seeds "$seeds" \
	--policies kube-scheduler,round-robin,random,greedy-balance,linear,gnn,dqn,acgnn,acdqn \
	$(for p in gnn dqn acgnn acdqn; do echo --threshold $p.cpuVariance\<=kube-scheduler.cpuVariance --threshold $p.cpuVariance\<0.0004; done)

say '' '## Nodes of three sizes, five shapes of pods, 70 to 95 % load'
compare --scenario 'hetero*' --seeds "$seeds" \
	--policies kube-scheduler,most-allocated,requested-to-capacity-ratio,best-fit,dot-product,round-robin,random,greedy-balance,linear,gnn,dqn,acgnn,acdqn \
	--checkpoint tabular-q=.cache/tabular-q.json \
	$(for p in linear gnn dqn acgnn acdqn; do echo --threshold $p.unscheduled\<kube-scheduler.unscheduled --threshold $p.cpuStd\<=0.75*kube-scheduler.cpuStd; done) \
	--threshold 'acgnn.imbalance<=0.345*kube-scheduler.imbalance'

say '' '## Packing'
compare --scenario pack --seeds "$seeds" \
	--policies kube-scheduler,most-allocated,requested-to-capacity-ratio,best-fit,dot-product,greedy:pack,linear-pack,acgnn-pack \
	--threshold 'acgnn-pack.nodesInUse<=best-fit.nodesInUse' --threshold 'acgnn-pack.nodesInUse<=most-allocated.nodesInUse' \
	--threshold 'acgnn-pack.unscheduled<=best-fit.unscheduled'

say '' \
	'## Workloads outside the training' \
	'' \
	'Smaller and larger clusters, lost nodes, other arrivals and other lifetimes, with the node sizes and pod' \
	'shapes of `hetero80`. `foreign` has sizes and shapes that the family does not have.'
for s in small8 lossy bursty diurnal heavytail foreign; do
	compare --scenario $s --seeds "$seeds" --policies kube-scheduler,greedy-balance,linear,gnn,dqn,acgnn,acdqn
done
compare --scenario large500 --seeds 10 --policies kube-scheduler,greedy-balance,linear,gnn,dqn,acgnn,acdqn
compare --scenario large1000 --seeds 10 --policies kube-scheduler,linear,gnn,acgnn

say '' \
	'## Where relations matter' \
	'' \
	'The objective wants few nodes in use and evenly loaded zones. The features of a node do not tell how full' \
	'its zone is; only messages do. `acdqn-zones` is `acgnn-zones` without messages.'
compare --scenario zonal --seeds "$seeds" \
	--policies kube-scheduler,best-fit,greedy:pack=0.5+zones,linear-pack,linear-zones,acdqn-zones,acgnn-zones \
	--threshold 'acgnn-zones.zoneStd<acdqn-zones.zoneStd' --threshold 'acgnn-zones.cost<acdqn-zones.cost'

if compgen -G '.cache/ablation/*.safetensors' >/dev/null; then
	say '' \
		'## Ablation' \
		'' \
		'GNN against MLP and DQN against PPO, with imitation of the linear policy and, as `-alone`, without. The' \
		'`-alone` networks have the same settings otherwise; `make ablation` trains them.'
	compare --scenario hetero80 --scenario hetero95 --seeds "$seeds" --policies kube-scheduler,greedy-balance,linear,gnn,dqn,acgnn,acdqn \
		$(for f in .cache/ablation/*.safetensors; do echo --checkpoint "$(basename "$f" .safetensors)=$f"; done)
fi

say '' \
	'## The optimum' \
	'' \
	'The clusters are so small that every assignment can be tried, with all arrivals known in advance.'
compare --scenario tiny --seeds "$seeds" --policies kube-scheduler,greedy-balance,linear,gnn,dqn,acgnn,acdqn
{ echo; cat docs/results-comments.md; } >>"$tmp" # which people write
cat "$tmp" >"$out"
echo "wrote $out" >&2
