#!/usr/bin/env bash
# Writes docs/usage-results.md: every table in it is the output of the command above it.
# `make results-usage` calls it, and `make results` too; SEEDS=5 makes it quicker. The episodes are kept in .cache/usage-results as JSON.
# REUSE=1 plays only those that are not there yet, by the same command. Tuned weights are kept in .cache/usage-tuned: remove the folder
# to tune again.
set -euo pipefail
export LC_ALL=C.UTF-8 # programs write ASCII in other locales
cd "$(dirname "$0")/.."
out=${OUT:-docs/usage-results.md}
seeds=${SEEDS:-20}
first=2001 # training and tuning use seeds from 2^32 on, or far above
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
played=.cache/usage-results
[ -n "${REUSE:-}" ] || rm -rf "$played"
mkdir -p "$played"
. docs/page.sh

tuned=.cache/usage-tuned
mkdir -p $tuned
tune() { # a file's name, then flags of gnnsched tune
	local out=$tuned/$1.json line='gnnsched tune' a
	shift
	for a in "$@"; do line+=" $a"; done
	say "    $line --out $out"
	echo "$line" >&2
	[ -e "$out" ] || bin/gnnsched tune "$@" --out "$out" >/dev/null
}

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

say '' '## Throttled work' '' \
	'`acdqn-usage` beside every baseline, in what services lose. Two have weights tuned for the objective `throttled` on the scenario itself:' \
	'`linear-throttled` from zero, `linear-throttled-from` from `linear-usage`.' ''
lose=throttledPart,throttled,batchSlowdown,unscheduled
for s in blind harvest; do
	tune throttled-$s --scenario $s --objective throttled --generations 16 --population 24 --episodes 12 --held-out 0
	tune throttled-$s-from --scenario $s --objective throttled --from linear-usage --generations 10 --spread 0.3 --population 24 --episodes 20 --held-out 0
done
for s in blind harvest; do
	METRICS=$lose play throttled-$s --scenario $s --seeds $((3 * seeds)) --policies acdqn-usage,kube-scheduler,best-fit,$published,linear,linear-usage \
		--checkpoint linear-throttled=$tuned/throttled-$s.json --checkpoint linear-throttled-from=$tuned/throttled-$s-from.json
done

say '' '## Energy at equal service' '' \
	'The objective is `energy=1,throttled=W`. `linear-W` is tuned for one W, `wishes` gets several weights, the other policies have none.' \
	'Joules are for a core-second of work; throttled part is the share of what services wanted and did not get.' \
	'The first table has all policies against `round-robin`; the second one the network and its runs against `linear-energy`, which are tuned on `energy` for W = 20; then come those whose service is nearest to that of `kube-scheduler` and of `peaks`.' \
	'In `energy-awake` no machine may sleep:' '' \
	"    gnnsched eval --print-scenario energy | sed 's/^name: .*/name: energy-awake/; s/of which 20 may sleep/none of which may sleep/; s/, sleep: 1//' > $played/energy-awake.yaml" ''
bin/gnnsched eval --print-scenario energy | sed 's/^name: .*/name: energy-awake/; s/of which 20 may sleep/none of which may sleep/; s/, sleep: 1//' >$played/energy-awake.yaml
weights='5 10 20 80'
features=balance,used,skew,share,over,match,room,empty,size,usage-balance,usage-full,usage-peak,usage-deviation,energy
for w in $weights; do
	tune energy-$w --scenario energy --objective energy=1,throttled=$w --features $features --generations 12 --population 24 --episodes 8 --held-out 0
done
for w in $weights; do
	tune energy-awake-$w --scenario $played/energy-awake.yaml --objective energy=1,throttled=$w --from $tuned/energy-$w.json --features $features \
		--generations 6 --spread 0.2 --population 24 --episodes 8 --held-out 0
done
joules=joulesOfWork,throttledPart,unscheduled
wishes=wishes:balance,wishes:balance=0.75+energy=0.625,wishes:balance=0.5+energy=1.25,wishes:balance=0.25+energy=1.875,wishes:energy
for s in energy $played/energy-awake.yaml; do
	name=$(basename $s .yaml) files=()
	for w in $weights; do files+=(--checkpoint linear-$w=$tuned/$name-$w.json); done
	METRICS=$joules play $name --scenario $s --seeds "$seeds" \
		--policies round-robin,kube-scheduler,best-fit,most-allocated,peaks,greedy:energy,$wishes,acdqn-energy "${files[@]}"
	METRICS=$joules,meanCost,batchSlowdown play $name-network --scenario $s --objective energy=1,throttled=20 --seeds $((3 * seeds)) \
		--policies linear-energy,kube-scheduler,acdqn-energy "${files[@]}" $(runs acdqn-energy)
	METRICS=$joules play $name-as-kube-scheduler --scenario $s --seeds "$seeds" --policies kube-scheduler --checkpoint linear-80=$tuned/$name-80.json
	METRICS=$joules play $name-as-peaks --scenario $s --seeds "$seeds" --policies peaks,wishes:energy --checkpoint linear-5=$tuned/$name-5.json
done

say '' '## Traffic' '' '`gnn-traffic` learned on other networks and services ([evaluation.md](evaluation.md#traffic)).'
for s in traffic traffic-racks; do
	play $s --scenario $s --seeds "$seeds" \
		--policies kube-scheduler,affinity:node,affinity:rack,affinity:zone,greedy:traffic,greedy:traffic+overload,greedy:traffic+overload+balance=0.1,ahead:traffic+overload+balance=0.1,gnn-traffic $(runs gnn-traffic dqn-traffic)
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
