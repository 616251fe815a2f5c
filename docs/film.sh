#!/bin/sh
# Makes the pictures of README from `gnnsched try`: docs/film.svg, ktop's view on its cluster, and docs/race.gif, its page in Chromium if
# that is there (make chromium).
set -eu
cd "$(dirname "$0")/.."

work=$(mktemp -d)
mkdir "$work/tmp"
TMPDIR="$work/tmp" bin/gnnsched try --no-browser --interval 250ms >"$work/out" 2>"$work/err" &
try=$!
trap 'kill -INT $try 2>/dev/null; wait $try; rm -rf "$work"' EXIT
until grep -q '^On a terminal' "$work/err"; do
	kill -0 $try || { cat "$work/err" >&2; exit 1; }
	sleep 0.2
done
chromium=$(command -v chromium || echo "$PWD/.cache/chromium/chromium.sh")
if [ -x "$chromium" ]; then
	link=$(sed -n 's/^The link to the page is in //p' "$work/err")
	bin/film "$chromium" "$(sed -n 's/^Open \([^ ]*\) in a browser$/\1/p' "$link")" >"$work/race.gif" &
	page=$!
fi
bin/film "$(sed -n 's/^On a terminal: ktop --kubeconfig //p' "$work/err")" >"$work/film.svg"
mv "$work/film.svg" docs/film.svg
if [ -x "$chromium" ]; then
	wait $page
	mv "$work/race.gif" docs/race.gif
fi
