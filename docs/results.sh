#!/usr/bin/env bash
# Measures the figures of docs/results anew and writes them into docs/results/data, then the pages: `docs/results.sh cpu`, `usage` or `gpu`.
# `make results`, `make results-usage` and `make results-gpu OPENB=DIR` call it; the last needs the folder of the openb trace, and leaves tables in
# .cache/results, whose figures go into the data files by hand.
# `docs/results.sh curves`, or `make learning-curves`, reads the logs that `make train` left; COMMIT=HASH names the commit that trained, if it is another.
# `DLRM=DIR docs/results.sh dlrm` plays the trace gpu-v2025 (ten minutes).
# `SURF=FILE DLRM=DIR docs/results.sh cost` replays two traces and a record with autoscalers (an hour, and another for the record, which
# .cache/recorded keeps).
# `SURF=FILE docs/results.sh consolidation` plays an autoscaler's consolidation and that of +defrag (an hour).
# `docs/results.sh example` trains the example in Python and judges it (an hour).
# `docs/results.sh defrag` compares the searches for moves (half an hour), and `docs/results.sh records` on a record (ten minutes; needs jq).
# SEEDS=10 plays fewer seeds, LARGE=5 fewer on large clusters. ONLY=REGEX plays only the sections and scenarios that match, such as ONLY=jobs.
# OUT=DIR writes into DIR/docs/results/data, and leaves the pages as they are. Tuned weights are kept in .cache/usage-tuned.
set -euo pipefail
export LC_ALL=C.UTF-8 # programs write ASCII in other locales
cd "$(dirname "$0")/.."
out=${OUT:-.} tuned=.cache/usage-tuned tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$out/docs/results/data" $tuned
go build -o "$tmp/figures" ./docs/figures

keep() { # a data file, a section, its command, its seeds; rows as CSV on standard input replace those of their section, scenario and load
	local file=$out/docs/results/data/$1 sources=$out/docs/results/data/sources.csv f
	for f in "$file" "$sources"; do [ -e "$f" ] || head -n 1 "docs/results/data/${f##*/}" >"$f"; done
	cat >"$tmp/rows"
	[ -s "$tmp/rows" ] || { echo "there are no figures for $1, $2" >&2 && return 1; }
	awk -F, 'NR == FNR {fresh[$1 FS $2 FS $6]; next} !(($1 FS $2 FS $6) in fresh)' "$tmp/rows" "$file" >"$tmp/others"
	cat "$tmp/others" "$tmp/rows" >"$file"
	grep -v "^$1,$2," "$sources" >"$tmp/others"
	{ cat "$tmp/others" && echo "$1,$2,\"${3//\"/\"\"}\",${COMMIT:-$(git rev-parse --short=8 HEAD)},$(date +%F),\"$4\""; } >"$sources"
}
play() { # a data file, a section, metrics, the command that sources.csv names, seeds, the first seed, then arguments of gnnsched eval
	local file=$1 section=$2 metrics=$3 command=$4 seeds=$5 first=$6
	shift 6
	[[ "$section $*" =~ ${ONLY:-} ]] || return 0
	echo "gnnsched eval --seed $first --seeds $seeds $*" >&2
	bin/gnnsched eval -o json --seed "$first" --seeds "$seeds" "$@" | "$tmp/figures" "$section" "$metrics" | keep "$file" "$section" "$command" "$seeds from $first"
}
runs() { # flags for the runs of make train of some networks
	local n f
	for n in "$@"; do
		for f in $(compgen -G ".cache/train/$n-[0-9]*.safetensors"); do echo --checkpoint "$(basename "$f" .safetensors)=$f"; done
	done
}
tune() { # a name, then arguments of gnnsched tune
	[[ "energy throttled $1" =~ ${ONLY:-} ]] && ! [ -e "$tuned/$1.json" ] || return 0
	bin/gnnsched tune linear "${@:2}" --held-out 0 --out "$tuned/$1.json" >/dev/null
}

cpu() {
	local seeds=${SEEDS:-100} few=${LARGE:-20} s
	local all=kube-scheduler,greedy-balance,linear,rule rules=most-allocated,requested-to-capacity-ratio,best-fit,dot-product,round-robin,random
	balance() { play cpu.csv scenarios meanCost,unscheduled,meanNodesInUse,zoneStd 'make results' "$@"; }
	balance "$seeds" 101 --scenario aaml --policies $all
	balance "$seeds" 101 --scenario 'hetero*' --policies $all,$rules
	balance "$seeds" 101 --scenario pack --policies kube-scheduler,most-allocated,requested-to-capacity-ratio,best-fit,dot-product,greedy:pack,linear-pack
	balance "$seeds" 101 --scenario zonal --policies kube-scheduler,best-fit,greedy:pack=0.5+zones,linear-pack,linear-zones
	for s in small8 lossy bursty diurnal heavytail foreign tiny; do balance "$seeds" 101 --scenario $s --policies $all; done
	for s in 'hetero*' lossy bursty diurnal heavytail foreign small8 tiny; do
		play cpu.csv rivals meanCost 'make results' "$seeds" 101 --scenario "$s" --policies linear,greedy-balance,rule
	done
	balance "$few" 101 --scenario large500 --policies $all
	balance "$few" 101 --scenario large1000 --policies kube-scheduler,greedy-balance,linear,rule
	for s in scarce scarce-deployments scarce-zones scarce-arch scarce-spot scarce8 family-scarce hetero80 hetero95 lossy jobs; do
		play cpu.csv waiting waiting,imbalance,unscheduled 'make results' $((seeds * 2 / 5)) 101 --scenario $s --policies kube-scheduler,borg,best-fit,linear,rule,reserve,price,gnn,dqn,acgnn,acdqn
	done
	bin/gnnsched eval --print-scenario hetero80 | sed 's/^name: .*/name: hetero-50/; s/^load: .*/load: 0.50/' >"$tmp/hetero-50.yaml"
	for s in "$tmp/hetero-50.yaml" hetero80 hetero95 scarce scarce-deployments; do
		play cpu.csv exchange waiting,imbalance 'make results' $((seeds * 2 / 5)) 101 --scenario "$s" --policies linear,price,gnn$(printf ',balance+gnn:%s,balance+price:%s' 0.05 0.05 0.15 0.15 0.5 0.5 2 2)
	done
	for load in 60 70 80 90 98; do for s in scarce hetero80; do
		bin/gnnsched eval --print-scenario $s | sed "s/^name: .*/name: ${s%80}-$load/; s/^load: .*/load: 0.$load/" >"$tmp/$s-$load.yaml"
		play cpu.csv waiting-load waiting,imbalance 'make results' $((seeds * 2 / 5)) 101 --scenario "$tmp/$s-$load.yaml" --policies kube-scheduler,borg,best-fit,linear,rule,reserve,price,gnn,dqn,acgnn,acdqn
	done; done
	play cpu.csv jobs meanCost,unscheduled 'make results' "$seeds" 101 --scenario jobs --policies $all
	for s in first declared; do play cpu.csv small8-$s meanCost,unscheduled 'make results' "$seeds" 101 --scenario small8 --preferences $s --policies $all; done
	sweep() { # a scenario's name, nodes, load, replicas of a workload, seeds: hetero80 with these
		bin/gnnsched eval --print-scenario hetero80 | sed "s/^name: .*/name: $1/; s/^about: .*/about: hetero80 with others/; s/^nodes: .*/nodes: $2/; s/^load: .*/load: $3/; s/^replicas: .*/replicas: $4/" >"$tmp/$1.yaml"
		play cpu.csv sweep meanCost,unscheduled 'make results' "$5" 101 --scenario "$tmp/$1.yaml" --policies kube-scheduler,greedy-balance,linear,rule
	}
	for s in 50 60 70 80 90 95 98; do
		sweep replicas-$s 50 0.$s '{min: 5, max: 15}' $((seeds * 2 / 5))
		sweep single-$s 50 0.$s 1 $((seeds * 2 / 5))
	done
	for s in 8 16 32 100 300; do
		sweep size$s $s 0.8 '{min: 5, max: 15}' $((s < 200 ? seeds * 2 / 5 : few))
		sweep singlesize$s $s 0.8 1 $((s < 200 ? seeds * 2 / 5 : few))
	done
}
usage() {
	local seeds=${SEEDS:-20} published=target-load-packing,load-variation-risk-balancing,koordinator-load-aware,crane-dynamic s w load files
	local sixty=$((3 * seeds)) by='make results-usage' features
	for s in blind harvest apps; do for load in 50 65 80 95; do
		bin/gnnsched eval --print-scenario $s | sed "s/^name: .*/name: $s-$load/; s/^load: .*/load: 0.$load/" >"$tmp/$s-$load.yaml"
		play usage.csv scenarios meanCost,throttledPart "$by" "$seeds" 2001 --scenario "$tmp/$s-$load.yaml" --policies kube-scheduler,best-fit,$published,linear-usage
	done; done
	for s in blind harvest; do
		tune throttled-$s --scenario $s --objective throttled --generations 16 --population 24 --episodes 12
		tune throttled-$s-from --scenario $s --objective throttled --from linear-usage --generations 10 --spread 0.3 --population 24 --episodes 20
		play usage.csv throttled throttledPart,batchSlowdown "$by" $sixty 2001 --scenario $s --policies kube-scheduler,best-fit,$published,linear,linear-usage \
			--checkpoint linear-throttled=$tuned/throttled-$s.json --checkpoint linear-throttled-from=$tuned/throttled-$s-from.json
	done
	bin/gnnsched eval --print-scenario energy | sed 's/^name: .*/name: energy-awake/; s/of which 20 may sleep/none of which may sleep/; s/, sleep: 1//' >"$tmp/energy-awake.yaml"
	features=balance,used,skew,share,over,match,room,empty,size,usage-balance,usage-full,usage-peak,usage-deviation,energy,watts,watts-load,watts-use,wakes,hot
	for w in 5 10 20 80; do
		tune energy-$w --scenario energy --objective energy=1,throttled=$w --features $features --generations 12 --population 24 --episodes 8
		tune energy-awake-$w --scenario "$tmp/energy-awake.yaml" --objective energy=1,throttled=$w --from $tuned/energy-$w.json --features $features --generations 6 --spread 0.2 \
			--population 24 --episodes 8
	done
	for s in energy "$tmp/energy-awake.yaml"; do
		files=()
		for w in 5 10 20 80; do files+=(--checkpoint linear-$w="$tuned/$(basename $s .yaml)-$w.json"); done
		play usage.csv energy joulesOfWork,throttledPart "$by" "$seeds" 2001 --scenario $s --policies round-robin,kube-scheduler,best-fit,most-allocated,peaks,greedy:energy,linear-energy "${files[@]}"
		play usage.csv energy-objective joulesOfWork,throttledPart,meanCost "$by" $sixty 2001 --scenario $s --objective energy=1,throttled=20 \
			--policies kube-scheduler,linear-energy "${files[@]}"
	done
	for s in traffic traffic-racks; do
		play traffic.csv scenarios meanCost,latency,excess,unscheduled "$by" "$seeds" 2001 --scenario $s \
			--policies kube-scheduler,affinity:node,affinity:rack,affinity:zone,greedy:traffic,greedy:traffic+overload,greedy:traffic+overload+balance=0.1,ahead:traffic+overload+balance=0.1
	done
}
openb() { # a section, metrics, seeds, scenarios, policies, then arguments of gnnsched eval; the tables stay in .cache/results
	local section=$1 metrics=$2 seeds=$3 scenarios=$4 policies=$5
	shift 5
	[[ "$section $scenarios $policies" =~ ${ONLY:-} ]] || return 0
	echo "gnnsched eval --scenario $scenarios --policies $policies --metrics $metrics $*" >&2
	bin/gnnsched eval --data "$OPENB" --seed "${FIRST:-42}" --seeds "${SEEDS:-$seeds}" --scenario "$scenarios" --policies "$policies" --metrics "$metrics" "$@" -o markdown |
		tee -a ".cache/results/$section.md"
}
gpu() {
	mkdir -p .cache/results
	: "${OPENB:?name the folder with the openb trace: make results-gpu OPENB=DIR}"
	local rules=fgd,gpu-best-fit,gpu-packing,gpu-clustering,gpu-dot-product load
	at() { printf "${1}%s," "${@:2}" | sed 's/,$//'; } # metrics at loads
	OPENB_DATA=$OPENB PUBLISHED=all go test ./scheduler/eval -run TestPublishedFigures -count 1 -timeout 2h
	openb published allocation130,allocation100 10 'openb:*' $rules,random
	openb curve "$(at allocation 60 80 90 95 100 110 130 150),$(at bound 95 100 130)" 10 'openb:*' $rules,gpu-gnn
	for load in cpu100 default gpushare40 gpuspec10 multigpu20; do
		play openb.csv fill "$(at allocation 80 95 100 130 150)" 'make results-gpu OPENB=DIR' "${SEEDS:-10}" 42 --data "$OPENB" --scenario openb:$load --policies gpu-gnn,fgd,gpu-fill
	done
	openb claims "$(at allocation 60 80 90 95 100 110 130),$(at left 90 95)" 10 openb:default \
		first-fit:kube-scheduler,kube-scheduler,fgd,first-fit:fgd,gpu-best-fit,first-fit:gpu-best-fit,gpu-gnn,first-fit:gpu-gnn
	openb ablation "$(at allocation 95 100 130)" 4 'openb:*' fgd $(for n in gpu-linear gpu-dqn gpu-acgnn; do echo --checkpoint $n=.cache/ablation/$n.safetensors; done) # make ablation OPENB=DIR
	openb runs allocation100 4 'openb:*' fgd $(runs gpu-gnn)
	for load in models20 models40 shares50 shares multi2 multi4 cpu3 all; do openb mixes "$(at allocation 60 80 95 100 130)" 4 openb:default+$load fgd,gpu-gnn; done
	openb tainted "$(at allocation 90 100 130)" 4 openb:default,openb:default+tainted,openb:default+pools fgd,gpu-best-fit,gpu-gnn
	openb power "$(at watts 40 80 100),meanWatts120,allocation120" 10 openb:default \
		fgd,pwr+fgd:0.05,pwr+fgd:0.1,pwr+fgd:0.2,pwr,gpu-gnn,power+gpu-gnn:0.5,power+gpu-gnn:1,power+gpu-gnn:2,power+gpu-gnn:4,power+gpu-gnn:16,power+gpu-gnn:64,power+gpu-gnn:256,power+gpu-gnn:1e9
	openb power "$(at watts 40 80 100),meanWatts120,allocation120" 4 openb:cpu100,openb:gpushare40,openb:gpuspec10,openb:multigpu20 fgd,pwr,power+gpu-gnn:4,power+gpu-gnn:1e9
	waiting() { openb "$1" allocation,gpuHours,podsWaiting,rejected,moves "${@:2}"; }
	for load in 60 85 95 105; do waiting day 10 openb:default@$load,openb:cpu100@$load,openb:gpushare40@$load,openb:gpuspec10@$load fgd,running:gpu-gnn; done
	waiting day-120 4 openb:default@120,openb:gpushare40@120 fgd,running:gpu-gnn
	waiting day-95 4 openb:default@95 fgd,gpu-best-fit,gpu-packing,gpu-gnn,running:gpu-gnn,kube-scheduler
	for load in 95 105; do # moves were chosen on seeds 42 to 45
		FIRST=2042 waiting moves 6 openb:default@$load,openb:gpushare40@$load \
			fgd,defrag=2%/24h:fgd,defrag=2%/1h:fgd,running:gpu-gnn,defrag=2%/24h:running:gpu-gnn,defrag=2%/1h:running:gpu-gnn
	done
	for count in 50 all; do OPENB_DATA=$OPENB COUNT=$count go test ./scheduler/plugin -run TestCountOnTheTrace -v -count 1 -timeout 2h; done
	for load in 85 95 105; do waiting claims 4 openb:default@$load first-fit:kube-scheduler,kube-scheduler,fgd,gpu-best-fit,running:gpu-gnn; done
}

dlrm() { # two days of the trace gpu-v2025 in the folder DLRM, with the scenario of docs/how-to/evaluate.md
	sed -n '/^# dlrm.yaml/,/^```/p' docs/how-to/evaluate.md | sed '/^```/d' >"$tmp/dlrm.yaml"
	cp "$DLRM"/disaggregated_DLRM_trace.csv "$tmp"
	local policies=kube-scheduler,borg,best-fit,linear,reserve,price,gnn,acgnn,dqn,acdqn n
	play cpu.csv dlrm waiting,unscheduled 'docs/results.sh dlrm' "${SEEDS:-10}" 1 --scenario "$tmp/dlrm.yaml" --policies $policies
	for n in 1800 1950 2300; do
		sed "s/^name: .*/name: dlrm-$n/; s/count: 2100/count: $n/" "$tmp/dlrm.yaml" >"$tmp/dlrm-$n.yaml"
		play cpu.csv dlrm-machines waiting,unscheduled 'docs/results.sh dlrm' 6 1 --scenario "$tmp/dlrm-$n.yaml" --policies $policies
	done
}
cost() { # what profiles cost with autoscalers, on jobs in SURF (columns arrival_s, lifetime_s, cores, cpu_mean_permille), services of the trace in DLRM, and drawn ones (an hour; needs jq and python3)
	local name scaler with beside section at by='docs/results.sh cost'
	surf >"$tmp/jobs.csv"
	awk -F, 'NR == 1 || $2 == "CN" && substr($3, 5) % 8 == 0' "$DLRM"/disaggregated_DLRM_trace.csv >"$tmp/services.csv"
	cat >"$tmp/services.yaml" <<-E
		- {name: c96, resources: {cpu: 96, memory: 480Gi}, overhead: {}, offerings: [{zone: a, price: 4.8}]}
		- {name: c192, resources: {cpu: 192, memory: 960Gi}, overhead: {}, offerings: [{zone: a, price: 9.6}]}
	E
	for name in jobs services recorded web1 web2 web3 web4; do
		[[ "$name karpenter:60s $name cluster-autoscaler" =~ ${ONLY:-} ]] || continue
		at=(--to 2000-01-02T00:00:00Z --profile most-allocated)
		beside=("") section=cost
		case $name in
		jobs) at+=(--profile gnn) ;;
		recorded) at=(--profile most-allocated --profile gnn) ;;
		services) at=(--types "$tmp/services.yaml" --from 2000-01-21T00:00:00Z --to 2000-01-23T00:00:00Z --profile most-allocated --profile gnn) ;;
		*) web "${name#web}" >"$tmp/$name.csv" && beside+=(+deletion-costs) section=deletion-costs ;;
		esac
		if [ $name = recorded ]; then
			[ -e .cache/recorded ] || recorded
			ln -sfn "$PWD/.cache/recorded" "$tmp/$name.record"
		else
			bin/gnnsched convert --log-dir '' --log-level error --out "$tmp/$name.record" "$tmp/$name.csv"
		fi
		for scaler in karpenter:60s cluster-autoscaler; do for with in "${beside[@]}"; do
			[[ "$name $scaler" =~ ${ONLY:-} ]] || continue
			bin/gnnsched compare --log-dir '' --autoscaler "$scaler$with" --seeds "${SEEDS:-3}" --workers 2 "${at[@]}" "$tmp/$name.record" -o json |
				jq -r --arg c $section --arg s "$name-${scaler%%:*}$with" 'def short: . * 100 | round / 100; def now: .name == "default-scheduler";
					(.rows[] | select(now) | .figures.price_per_day) as $base | .rows[] as $r | $r.name as $n |
					([["price a day", $r.figures.price_per_day], ["waiting pods", $r.figures.waiting_pods], ["median wait", $r.autoscaler.wait_p50_s], ["p95 of waits", $r.wait_p95_s],
						["evicted", $r.autoscaler.evicted], ["core hours lost", $r.autoscaler.lost_core_hours], ["idle cores", $r.figures.idle_cores]][] | "\($c),\($s),\($n),,\(.[0]),,\(.[1] | short),,,,"),
					($r | select(now | not) | .differences.price_per_day // empty | select(.low) | "\($c),\($s),\($n),default-scheduler,price a day,,\(.mean | short),\(.low | short),\(.high | short),\(.mean / $base * 100 | short),")' |
				keep cost.csv $section "$by" "${SEEDS:-3} from 1"
		done; done
	done
}
surf() { # the jobs in SURF as a trace
	awk -F, 'NR == 1 {print "name,arrival,lifetime,cpu_request,mem_request"; next}
		{cpu = $3 * $4; print "job-" NR "," $1 "," $2 "," (cpu < 100 ? 100 : cpu) "m," $3 "Gi"}' "$SURF"
}
consolidation() { # autoscalers with and without +defrag on the jobs in SURF and drawn days (an hour; needs jq and python3)
	local name scaler settings profiles
	for name in jobs web1 web2 web3 web4; do for scaler in cluster-autoscaler karpenter:60s; do
		[[ "$name $scaler" =~ ${ONLY:-} ]] || continue
		settings=(--autoscaler "$scaler" --autoscaler "$scaler+defrag") profiles=(--profile most-allocated)
		[ "$scaler" = karpenter:60s ] || profiles+=(--profile gnn)
		case $name in
		jobs) surf >"$tmp/jobs.csv" ;;
		*) web "${name#web}" >"$tmp/$name.csv" ;;
		esac
		bin/gnnsched convert --log-dir '' --log-level error --out "$tmp/$name.record" "$tmp/$name.csv"
		bin/gnnsched compare --log-dir '' --queue "$tmp/queue" "${settings[@]}" --seeds "${SEEDS:-3}" --workers 2 --to 2000-01-02T00:00:00Z \
			"${profiles[@]}" "$tmp/$name.record" -o json |
			jq -r --arg s "$name-${scaler%%:*}" 'def short: . * 100 | round / 100; (.rows[0].figures.price_per_day) as $base | .rows[] as $r |
				($r.name | split(", ")) as $n | "defrag,\($s),\($n[0])\($n[1] | match("[+].*|$").string)" as $at |
				([["price a day", $r.figures.price_per_day], ["waiting pods", $r.figures.waiting_pods], ["p95 of waits", $r.wait_p95_s],
					["evicted", $r.autoscaler.evicted], ["core hours lost", $r.autoscaler.lost_core_hours], ["idle cores", $r.figures.idle_cores]][] | "\($at),,\(.[0]),,\(.[1] | short),,,,"),
				($r.differences.price_per_day // empty | select(.low) | "\($at),default-scheduler,price a day,,\(.mean | short),\(.low | short),\(.high | short),\(.mean / $base * 100 | short),")' |
			keep cost.csv defrag 'docs/results.sh consolidation' "${SEEDS:-3} from 1"
	done; done
}
web() { # a day of services of 150 cores, whose replicas follow the hour, drawn with a seed
	python3 - "$1" <<-'P'
		import math, random, sys
		draw, rows, cores, app, day = random.Random(int(sys.argv[1])), [], 0, 0, 86400
		while cores < 150:
		    base, size, app = 2 + int(draw.expovariate(1 / 8)), draw.choice([250, 500, 1000, 2000, 4000]), app + 1
		    swing, phase, noise, live = draw.uniform(0.2, 0.8), draw.gauss(0.3, 0.06), 0, []
		    cores += base * size / 1000
		    for t in range(0, day, 300):
		        noise = 0.9 * noise + draw.gauss(0, 0.05)
		        want = max(1, round(base * (1 + swing * math.sin(2 * math.pi * (t / day - phase)) + noise)))
		        if t == 0 or abs(want - len(live)) >= max(1, 0.1 * len(live)):  # as a HorizontalPodAutoscaler tolerates
		            live += [t + draw.uniform(0, 20) for _ in range(want - len(live))]
		            while len(live) > want:  # the youngest goes
		                at = live.pop()
		                rows.append((at, max(t - at, 1), size, app))
		    rows += [(at, 0, size, app) for at in live]
		print("name,arrival,lifetime,cpu_request,mem_request,app")
		for i, (at, life, size, app) in enumerate(sorted(rows)):
		    print(f"p-{i},{at:.0f},{life:.0f},{size}m,{3 * size}Mi,app-{app}")
	P
}
recorded() { # the record of fifty minutes of a simulated cluster, on which people scale, roll out and remove what they own (needs kubectl and python3)
	printf 'pools:\n' >"$tmp/pools.yaml"
	local x pids
	for x in "balanced-8 24 32Gi" "memory-8 6 64Gi"; do
		set -- $x
		echo "- {name: $1, count: $2, capacity: {cpu: 8, memory: $3, pods: 58}, zones: [a, b, c], labels: {node.kubernetes.io/instance-type: $1, karpenter.sh/capacity-type: on-demand}}"
	done >>"$tmp/pools.yaml"
	eval "$(bin/kwokcluster up --detach --dir "$tmp/cluster" --pools "$tmp/pools.yaml")"
	bin/rungnn --profiles default-scheduler --port 0 --log-dir '' 2>"$tmp/scheduler.log" &
	pids=$!
	bin/gnnsched record --out .cache/recorded --flush 5s --usage 0 --log-dir '' 2>"$tmp/record.log" &
	owners 1 50
	kill -INT $! && wait $! || true
	kill $pids && bin/kwokcluster down --dir "$tmp/cluster"
}
owners() { # with a seed, for some minutes: Deployments and StatefulSets follow waves of 40 minutes; others are rolled out, come and go
	python3 - "$1" "$2" <<-'P'
		import json, math, random, subprocess, sys, time
		draw, minutes = random.Random(int(sys.argv[1])), float(sys.argv[2])
		def kubectl(*args, apply=None):
		    ran = subprocess.run(["kubectl", *args], input=apply and json.dumps({"apiVersion": "v1", "kind": "List", "items": apply}), text=True, capture_output=True)
		    if ran.returncode:
		        print(args, ran.stderr, file=sys.stderr)
		def pods(app, cpu, memory, **spec):
		    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
		    return {"metadata": {"labels": {"app": app}}, "spec": {"terminationGracePeriodSeconds": 5, "containers": [{"name": "c", "image": "x", "resources": {"requests": requests}}], **spec}}
		def owner(kind, app, template, **spec):
		    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": app}, "spec": {"selector": {"matchLabels": {"app": app}}, "template": template, **spec}}
		apps, items, cores = [], [], 0
		while cores < 95:
		    base, cpu, app = 2 + int(draw.expovariate(1 / 7)), draw.choice([250, 500, 500, 1000, 2000]), f"web-{len(apps)}"
		    kind, more = ("StatefulSet", {"serviceName": app, "podManagementPolicy": "Parallel"}) if len(apps) % 8 == 7 else ("Deployment", {})
		    items.append(owner(kind, app, pods(app, cpu, draw.choice([1, 3, 6]) * cpu), replicas=base, **more))
		    if base > 3:
		        items.append({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app}, "spec": {"maxUnavailable": "25%", "selector": {"matchLabels": {"app": app}}}})
		    apps.append([app, kind, base, draw.uniform(.2, .7), draw.random(), 0, base])
		    cores += base * cpu / 1000
		items.append(owner("DaemonSet", "agent", pods("agent", 100, 128)))
		tick = {"parallelism": 3, "completions": 3, "template": pods("tick", 500, 512, restartPolicy="Never")}
		items.append({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"}, "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": tick}}})
		kubectl("apply", "-f", "-", apply=items)
		for n in range(1, int(2 * minutes) + 1):
		    time.sleep(30)
		    for a in apps:
		        app, kind, base, swing, phase, noise, now = a
		        a[5] = .9 * noise + draw.gauss(0, .05)
		        want = max(1, round(base * (1 + swing * math.sin(2 * math.pi * (n / 80 - .3 * phase)) + a[5])))
		        if abs(want - now) >= max(1, .1 * now):  # as a HorizontalPodAutoscaler tolerates
		            kubectl("scale", f"{kind.lower()}/{app}", f"--replicas={want}")
		            a[6] = want
		    if n % 6 == 0:
		        kubectl("rollout", "restart", "deployment/" + draw.choice([a[0] for a in apps if a[1] == "Deployment"]))
		    if n % 4 == 0:
		        kubectl("apply", "-f", "-", apply=[owner("Deployment", f"batch-{n}", pods(f"batch-{n}", draw.choice([1000, 2000, 3000]), 4096), replicas=draw.randint(2, 6))])
		        for gone in range(4, n - 19, 4):
		            if draw.random() < .3:
		                kubectl("delete", "deployment", f"batch-{gone}", "--ignore-not-found", "--wait=false")
	P
}
curves() { # of the runs whose logs make train left
	local log run
	for log in logs/*-[0-9]*/train.log; do
		run=$(basename "$(dirname "$log")")
		sed -nE "s/^[a-z]+ ([0-9]+) of [0-9]+: held-out GPU allocation [0-9.]+%, \+?([-0-9.]+) points .*/curves,${run%-*},$run,,points over FGD,\1,\2,,,,/p
			s/^[a-z]+ ([0-9]+) of [0-9]+: held-out waiting [0-9.]+% of the cluster, ([0-9.]+) times .*/curves,${run%-*},$run,,waiting over price,\1,\2,,,,/p" "$log"
	done | keep learning.csv curves 'make train && make learning-curves' "see the run's number"
}

example() { # PPO from nothing on the scenario pack by python/examples/ppo_gnn.py, three runs; those in .cache/example are kept
	local dir=.cache/example by='docs/results.sh example' s networks=()
	mkdir -p $dir
	for s in 1 2 3; do
		[ -e $dir/python-$s.safetensors ] ||
			PYTHONPATH=python python3 python/examples/ppo_gnn.py --seed $s --curve $dir/python-$s.csv --save $dir/python-$s.safetensors
		networks+=(--checkpoint python-$s=$dir/python-$s.safetensors)
	done
	{
		for s in 1 2 3; do
			awk -F, -v run=python-$s 'NR > 1 {print "example,pack," run ",,objective," $2 "," $3 ",,,,"}' $dir/python-$s.csv
		done
	} | keep learning.csv example "$by" "see the run's number"
	play learning.csv example-judged meanCost "$by" 100 101 --scenario pack --policies greedy:pack,best-fit,linear-pack "${networks[@]}"
}
defrag() { # the nodes that searches for moves empty
	go test ./scheduler/plan -run '^$' -bench Search -benchtime 1x -timeout 2h |
		awk '/^BenchmarkSearch/ {
			split($1, name, "/"); sub(/-[0-9]+$/, "", name[3])
			of = "searches,pack," name[3] ",,"; at = "," name[2] ","
			printf "%semptied%s%.1f,,,,\n%smoves%s%.1f,,,,\n%sseconds%s%.3f,,,,\n", of, at, $7, of, at, $9, of, at, $11
			if (name[3] == "local") printf "searches,pack,bound,,emptied,%s,%.1f,,,,\n", name[2], $5
		}' | keep defrag.csv searches 'docs/results.sh defrag' '10 from 0'
}

records() { # the same on the record of a cluster of 40 nodes that runsim fills ten times, with upstream's scheduler
	local s at search moments=()
	eval "$(bin/kwokcluster up --detach --dir "$tmp/cluster" --nodes 40)"
	bin/rungnn --profiles default-scheduler --port 0 --log-dir '' 2>/dev/null &
	local scheduler=$!
	bin/gnnsched record --out "$tmp/it.record" --flush 5s --usage 0 --log-dir '' &
	local recorder=$!
	for s in $(seq 10); do
		bin/runsim --seed "$s" --scheduler-name default-scheduler --cluster-resets 1 --cpu-load "0.$((2 + s % 5))" --mem-load 0.9 --pod-load 0.9 \
			--replicas-min 1 --replicas-max 30 --log-dir '' >&2
		moments+=("$(date -u +%FT%TZ)")
		sleep 2
		bin/cleancluster --yes --log-dir '' >&2
	done
	kill -INT $recorder && wait $recorder || true
	kill $scheduler && bin/kwokcluster down --dir "$tmp/cluster"
	{
		for search in local greedy; do
			for at in "${moments[@]}"; do
				s=$EPOCHREALTIME
				bin/gnnsched plan "$tmp/it.record" --at "$at" --moves 0 --search "$search" -o json --log-dir '' >"$tmp/moves.json"
				jq --arg s "$s" --arg e "$EPOCHREALTIME" '[(.freed | length), (.moves | length), .bound, ($e | tonumber) - ($s | tonumber)]' "$tmp/moves.json"
			done | jq -r -s --arg search $search 'def mean(i): map(.[i]) | add / length;
				"records,record,\($search),,emptied,40,\(mean(0)),,,,", "records,record,\($search),,moves,40,\(mean(1)),,,,",
				"records,record,\($search),,seconds,40,\(mean(3) * 10 | round / 10),,,,", if $search == "local" then "records,record,bound,,emptied,40,\(mean(2)),,,," else empty end'
		done
	} | keep defrag.csv records 'docs/results.sh records' '10 fills'
}

karpenter() { # how far replays are from Karpenter's own controller: five workloads, twice, in real time (an hour); what .cache/karpenter has is only replayed
	local n
	for n in 1 2; do
		mkdir -p .cache/karpenter/$n && rm -f .cache/karpenter/$n/figures.csv
		go test ./cmd/internal/compare -run '^TestKarpenter$' -count 1 -timeout 0 -v -karpenter "$PWD/.cache/karpenter/$n" >&2
		keep cost.csv karpenter 'docs/results.sh karpenter' "5 from 0" <.cache/karpenter/$n/figures.csv
	done
}

case ${1:-} in
cpu | usage | gpu | cost | consolidation | dlrm | curves | example | defrag | records | karpenter) "$1" ;;
*) echo "usage: docs/results.sh cpu|usage|gpu|cost|consolidation|dlrm|curves|example|defrag|records|karpenter" >&2 && exit 2 ;;
esac
[ "$out" != . ] || go run ./docs/figures
