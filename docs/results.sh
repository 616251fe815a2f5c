#!/usr/bin/env bash
# Writes docs/results.md and docs/verdicts.svg: every table in them is the output of the command above it.
# `make results` calls it; SEEDS=30 makes it quicker, and LARGE=10 on the large clusters. Networks of the ablation are taken from
# .cache/ablation, where `make ablation` puts them; without them, a sentence stands in for the section.
# The episodes are kept in .cache/results as JSON.
set -euo pipefail
export LC_ALL=C.UTF-8 # programs write ASCII in other locales
cd "$(dirname "$0")/.."
out=${OUT:-docs/results.md}
seeds=${SEEDS:-100}
few=${LARGE:-$((seeds < 20 ? seeds : 20))} # on large clusters
first=101 # training and tuning use seeds from 2^32 on, or far above
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
played=.cache/results
rm -rf "$played" && mkdir -p "$played"
. docs/page.sh

bin/gnnsched tune --method tabular-q --out .cache/tabular-q.json

say '' '## The ten equal nodes of AAML'
compare aaml --scenario aaml --seeds "$seeds" \
	--policies kube-scheduler,round-robin,random,greedy-balance,linear,gnn,dqn,acgnn,acdqn \
	$(for p in gnn dqn acgnn acdqn; do echo --threshold $p.cpuVariance\<=kube-scheduler.cpuVariance --threshold $p.cpuVariance\<0.0004; done)

say '' '## Nodes of three sizes, five shapes of pods, 70 to 95 % load'
compare hetero --scenario 'hetero*' --seeds "$seeds" \
	--policies kube-scheduler,most-allocated,requested-to-capacity-ratio,best-fit,dot-product,round-robin,random,greedy-balance,linear,gnn,dqn,acgnn,acdqn \
	--checkpoint tabular-q=.cache/tabular-q.json \
	$(for p in linear gnn dqn acgnn acdqn; do echo --threshold $p.unscheduled\<kube-scheduler.unscheduled --threshold $p.cpuStd\<=0.75*kube-scheduler.cpuStd; done) \
	--threshold 'acgnn.imbalance<=0.345*kube-scheduler.imbalance'

say '' '## Packing'
compare pack --scenario pack --seeds "$seeds" \
	--policies kube-scheduler,most-allocated,requested-to-capacity-ratio,best-fit,dot-product,greedy:pack,linear-pack,acgnn-pack \
	--threshold 'acgnn-pack.nodesInUse<=best-fit.nodesInUse' --threshold 'acgnn-pack.nodesInUse<=most-allocated.nodesInUse' \
	--threshold 'acgnn-pack.unscheduled<=best-fit.unscheduled'

say '' \
	'## Workloads outside the training' \
	'' \
	'Smaller and larger clusters, lost nodes, other arrivals and other lifetimes, with the node sizes and pod' \
	'shapes of `hetero80`. `foreign` has sizes and shapes that the family does not have.'
for s in small8 lossy bursty diurnal heavytail foreign; do
	compare $s --scenario $s --seeds "$seeds" --policies kube-scheduler,greedy-balance,linear,gnn,dqn,acgnn,acdqn
done
compare large500 --scenario large500 --seeds "$few" --policies kube-scheduler,greedy-balance,linear,gnn,dqn,acgnn,acdqn
compare large1000 --scenario large1000 --seeds "$few" --policies kube-scheduler,linear,gnn,acgnn

say '' \
	'## Where relations matter' \
	'' \
	'The objective wants few nodes in use and evenly loaded zones. The features of a node do not tell how full' \
	'its zone is; only messages do. `acdqn-zones` is `acgnn-zones` without messages.'
compare zonal --scenario zonal --seeds "$seeds" \
	--policies kube-scheduler,best-fit,greedy:pack=0.5+zones,linear-pack,linear-zones,acdqn-zones,acgnn-zones \
	--threshold 'acgnn-zones.zoneStd<acdqn-zones.zoneStd' --threshold 'acgnn-zones.cost<acdqn-zones.cost'

say '' \
	'## Ablation' \
	''
if compgen -G '.cache/ablation/*.safetensors' >/dev/null; then
	say 'GNN against MLP and DQN against PPO, with imitation of the linear policy and, as `-alone`, without. The' \
		'`-alone` networks have the same settings otherwise; `make ablation` trains them.'
	play ablation --scenario hetero80 --scenario hetero95 --seeds "$seeds" --policies kube-scheduler,greedy-balance,linear,gnn,dqn,acgnn,acdqn \
		$(for f in .cache/ablation/*.safetensors; do echo --checkpoint "$(basename "$f" .safetensors)=$f"; done)
else
	say 'Not measured in this run: the networks without imitation were not there. `make ablation` trains them, and then' \
		'`make results` compares them here.'
fi

say '' '## Several training runs' ''
if compgen -G '.cache/train/*-[0-9]*.safetensors' >/dev/null; then
	say 'All runs of `make train`, with the seed behind the name. The best on the held-out workloads is shipped.'
	for s in hetero80 hetero95 foreign; do
		play runs-$s --scenario $s --seeds "$seeds" --policies linear $(runs gnn dqn acgnn acdqn)
	done
	play runs-pack --scenario pack --seeds "$seeds" --policies linear-pack $(runs acgnn-pack)
	play runs-zonal --scenario zonal --seeds "$seeds" --policies linear-zones $(runs acgnn-zones acdqn-zones)
else
	say 'Not measured in this run: the networks of `make train` were not there.'
fi

say '' \
	'## The optimum' \
	'' \
	'The clusters are so small that every assignment can be tried, with all arrivals known in advance.'
compare tiny --scenario tiny --seeds "$seeds" --policies kube-scheduler,greedy-balance,linear,gnn,dqn,acgnn,acdqn
{
	printf '%s\n' '# Results' \
		'' \
		'`make results` writes this page and the figure. The comments at the [end](#what-the-results-say) are written by people.' \
		'' \
		'## Verdicts' \
		''
	verdicts --plot docs
	printf '%s\n' '' \
		'![Objective over time of the best network relative to the best policy without one](verdicts.svg)' \
		'' \
		'A square is the difference of the table in %, with its 95% interval as a bar. On the left of the dashed line the' \
		'network is better.' \
		'' \
		'## Protocol' \
		'' \
		'Every policy meets the same clusters and arrivals. The seeds are paired, and neither training nor tuning' \
		'saw them. Exploration is off. Heuristics with integer scores break ties at random. Less is better in' \
		'every column. A threshold is a target; the line below a table says whether the means met it, with p of the' \
		'difference between its two sides. [evaluation.md](evaluation.md#statistics) describes intervals and p.' \
		'' \
		'| policies | trained or tuned on | best network chosen on, with other seeds |' \
		'|---|---|---|' \
		'| `gnn`, `dqn`, `acgnn`, `acdqn` | `family-wide` | `family-wide` |' \
		'| `acgnn-pack` | `family-pack` | `pack` |' \
		'| `acgnn-zones`, `acdqn-zones` | `family-zones` | `zonal` |' \
		'| `linear`, `linear-*` | the families | |' \
		'' \
		'`family` has the node sizes and pod shapes of `hetero*`, with other numbers of nodes, loads and subsets of' \
		'the shapes. So on these scenarios the workloads are held out, but not their kind.'
	cat "$tmp/tables"
	echo
	cat docs/results-comments.md # which people write
} >"$tmp/page"
mv "$tmp/page" "$out"
chmod 644 "$out"
echo "wrote $out" >&2
