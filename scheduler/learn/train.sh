#!/usr/bin/env bash
# Trains networks from each of SEEDS, JOBS runs at a time, and ships the best run of each network.
# `make train` and `make train-gpu` call it with the networks' names; those of `make train-gpu` begin with gpu- and need
# OPENB, the folder of the openb trace, and FAMILY, the names of the pod lists to learn from. With RESUME=1, runs that
# ended are kept and the others continue.
# logs/NAME-SEED has a run's log and events.
set -euo pipefail
cd "$(dirname "$0")/../.."
export SEEDS=${SEEDS:-1 2 3} OPENB=${OPENB:-} FAMILY=${FAMILY:-} RESUME=${RESUME:-}
made=.cache/train shipped=gnn/checkpoint/shipped
mkdir -p $made

run() { # a network's name and a seed
	local name=$1 run=$1-$2 out=.cache/train/$1-$2 inputs=() job=(--seed "$2")
	local written=(--out "$out.safetensors" --events "logs/$run" --log-scrolling)
	if [ -n "$RESUME" ] && [ -e "$out.safetensors" ] && ! [ -e "$out.safetensors.state" ]; then
		echo "$run: has ended"
		return
	fi
	case $name in
	gpu-*)
		inputs=(gpu --data "$OPENB")
		for w in $FAMILY; do inputs+=(--pods "$OPENB/openb_pod_list_$w.csv"); done
		;;
	*) job+=(--variant "$name") ;;
	esac
	if [ -n "$RESUME" ] && [ -e "$out.safetensors.state" ]; then
		job=(--resume) # the state has the configuration
	else
		rm -f "$out".* "logs/$run/train.log"
	fi
	echo "$run: training; the log is logs/$run/train.log"
	mkdir -p "logs/$run"
	bin/gnntrain "${inputs[@]}" "${job[@]}" "${written[@]}" >>"logs/$run/train.log" 2>&1 || {
		echo "$run: failed: $(grep -m 1 error: "logs/$run/train.log" || tail -n 1 "logs/$run/train.log")" >&2
		return 1
	}
	echo "$run: $(tail -n 1 "logs/$run/train.log")"
}
export -f run

for name in "$@"; do
	for seed in $SEEDS; do echo "$name $seed"; done
done | xargs -P "${JOBS:-2}" -L 1 bash -c 'set -euo pipefail; run "$@"' run

for name in "$@"; do
	runs=()
	for seed in $SEEDS; do runs+=("$made/$name-$seed.safetensors"); done
	echo "$name:"
	bin/gnntrain pick --out "$shipped/$name.safetensors" "${runs[@]}"
done
