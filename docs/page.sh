# Sourced by results.sh and usage-results.sh: how a page is written whose tables are the output of the commands above them.
# The sourcing script sets: first, the first seed; tmp, a folder for the page; played, the folder of the episodes as JSON.
summed=() # the files whose comparisons have a verdict

say() { printf '%s\n' "$@" >>"$tmp/tables"; }
play() { # a file's name, then arguments of gnnsched eval; METRICS names the columns of its table, all if empty
	local json=$played/$1.json code=0 line='gnnsched eval -o markdown' a columns=${METRICS:+--metrics $METRICS}
	shift
	line+=${columns:+ $columns}
	set -- --seed $first "$@"
	for a in "$@"; do
		case $a in
		*[!a-zA-Z0-9_.,:/=+-]*) line+=" '$a'" ;;
		*) line+=" $a" ;;
		esac
	done
	say '' "    $line" ''
	echo "$line" >&2
	if [ -z "${REUSE:-}" ] || [ ! -s "$json" ] || [ "$(cat "$json.command" 2>/dev/null)" != "$*" ]; then
		bin/gnnsched eval -o json "$@" >"$json" || code=$?
		if [ $code -ne 0 ] && [ $code -ne 99 ]; then exit $code; fi
		echo "$*" >"$json.command"
	fi
	bin/gnnsched eval --from "$json" -o markdown $columns >>"$tmp/tables" 2>/dev/null || [ $? -eq 99 ]
}
runs() { # flags for the runs of make train of some networks
	local n f
	for n in "$@"; do
		for f in $(compgen -G ".cache/train/$n-[0-9]*.safetensors"); do echo --checkpoint "$(basename "$f" .safetensors)=$f"; done
	done
}
compare() { # the same, with a verdict
	summed+=(--from "$played/$1.json")
	play "$@"
}
verdicts() { # where to plot
	bin/gnnsched eval "${summed[@]}" -o verdicts "$@" 2>/dev/null || [ $? -eq 99 ]
}
