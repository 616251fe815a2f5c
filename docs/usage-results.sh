#!/usr/bin/env bash
# Writes docs/usage-results.md: every table in it is the output of the command above it.
# `make results-usage` calls it, and `make results` too; SEEDS=5 makes it quicker. The episodes are kept in .cache/usage-results as JSON.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${OUT:-docs/usage-results.md}
seeds=${SEEDS:-20}
first=2001 # training and tuning use seeds from 2^32 on, or far above
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
played=.cache/usage-results
rm -rf "$played" && mkdir -p "$played"
. docs/page.sh

published=target-load-packing,load-variation-risk-balancing,koordinator-load-aware,crane-dynamic

say '' '## Measured usage' '' \
	'`acdqn-usage` learned on `blind`, and `linear-usage` was tuned on it, both with other seeds. Throttled work is `throttledPart`.'
for s in blind harvest apps apps40; do
	compare $s --scenario $s --seeds "$seeds" --policies kube-scheduler,best-fit,$published,linear,linear-usage,acdqn-usage
done

say '' '## Measured usage at other loads' '' 'NAME-LOAD.yaml is the scenario with another `load`:' '' \
	"    gnnsched eval --print-scenario NAME | sed 's/^name: .*/name: NAME-LOAD/; s/^load: .*/load: 0.LOAD/' > $played/NAME-LOAD.yaml"
for s in blind-50 blind-65 blind-95 harvest-50 harvest-65 harvest-95 apps-50 apps-65 apps-80; do
	bin/gnnsched eval --print-scenario "${s%-*}" | sed "s/^name: .*/name: $s/; s/^load: .*/load: 0.${s#*-}/" >"$played/$s.yaml"
	compare $s --scenario "$played/$s.yaml" --seeds "$seeds" --policies kube-scheduler,best-fit,$published,linear-usage,acdqn-usage
done

say '' '## Energy' '' '`tuned` is `gnnsched tune --scenario energy --generations 12 --population 24 --episodes 8 --held-out 10`.'
bin/gnnsched tune --scenario energy --generations 12 --population 24 --episodes 8 --held-out 10 --out "$played/tuned-energy.json" >/dev/null
play energy --scenario energy --seeds "$seeds" --policies kube-scheduler,round-robin,best-fit,peaks,greedy:energy --checkpoint tuned="$played/tuned-energy.json"

say '' '## Traffic' '' 'No shipped network reads traffic; [evaluation.md](evaluation.md#traffic) says what was tried.'
for s in traffic traffic-racks; do
	play $s --scenario $s --seeds "$seeds" \
		--policies kube-scheduler,affinity:node,affinity:rack,affinity:zone,greedy:traffic,greedy:traffic+overload,greedy:traffic+overload+balance=0.1
done

{
	printf '%s\n' '# Results on usage, energy and traffic' \
		'' \
		'`make results-usage` writes this page. [evaluation.md](evaluation.md#measured-usage) explains the scenarios and the metrics.' \
		'' \
		'Every policy meets the same clusters and arrivals. The seeds are paired, and neither training nor tuning saw them.' \
		'Less is better in every column.' \
		'' \
		'## Verdicts' \
		'' \
		'The objective over time of the best network beside that of the best policy without one:' \
		''
	verdicts
	cat "$tmp/tables"
} >"$tmp/page"
mv "$tmp/page" "$out"
chmod 644 "$out"
echo "wrote $out" >&2
