#!/bin/sh
# Runs Prometheus on a cluster of kwokcluster, with the scrapes and rules of this folder.
#
#   compose/monitoring/prometheus.sh [KUBECONFIG] [FLAG OF PROMETHEUS...]
#
# KUBECONFIG is the file that kwokcluster wrote: $KUBECONFIG, or that of the default data directory, if it is
# left out. PROMETHEUS_LISTEN (127.0.0.1:9090) is where Prometheus listens, PROMETHEUS_INTERVAL (15s) the time
# between two scrapes, PROMETHEUS_REFRESH (1m) that between two lists of the nodes, PROMETHEUS_DATA its data directory; without it the data is deleted at the end.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
die() { echo "prometheus.sh: $*" >&2; exit 2; }

kubeconfig=${KUBECONFIG:-${XDG_DATA_HOME:-$HOME/.local/share}/gnnsched/kwok/kubeconfig}
case "${1:-}" in
"" | -*) ;;
*) kubeconfig=$1; shift ;;
esac
[ -r "$kubeconfig" ] || die "cannot read the kubeconfig $kubeconfig; start a cluster with kwokcluster up, or name its kubeconfig"

program=prometheus
if ! command -v prometheus >/dev/null 2>&1; then
	program=$here/../../.cache/prometheus/usr/bin/prometheus
	[ -x "$program" ] || die "prometheus is not installed; install Debian's package of that name, or run make prometheus"
fi

# field prints the value of a field of the kubeconfig, which has one cluster and one user.
field() { sed -n "s/^ *$1: *//p" "$kubeconfig" | head -n 1; }

umask 077
dir=$(mktemp -d)
child=
trap 'rm -rf "$dir"' EXIT
trap '[ -z "$child" ] || kill "$child" 2>/dev/null' INT TERM
field certificate-authority-data | base64 -d >"$dir/ca.crt"
field token >"$dir/token"
server=$(field server)
[ -s "$dir/ca.crt" ] && [ -s "$dir/token" ] && [ -n "$server" ] || die "$kubeconfig holds no certificate authority, token or server: it was not written by kwokcluster"

sed -e "s|DIR|$dir|g" -e "s|HOST|${server#https://}|" -e "s|RULES|$here/rules.yaml|" -e "s|INTERVAL|${PROMETHEUS_INTERVAL:-15s}|" -e "s|REFRESH|${PROMETHEUS_REFRESH:-1m}|" \
	"$here/prometheus.yaml" >"$dir/prometheus.yaml"
"$program" --config.file="$dir/prometheus.yaml" --storage.tsdb.path="${PROMETHEUS_DATA:-$dir/data}" \
	--web.listen-address="${PROMETHEUS_LISTEN:-127.0.0.1:9090}" "$@" &
child=$!
code=0
wait "$child" || code=$?
# A signal ends the first wait; the second one waits until Prometheus has written its data.
if kill -0 "$child" 2>/dev/null; then wait "$child" || code=$?; fi
exit "$code"
