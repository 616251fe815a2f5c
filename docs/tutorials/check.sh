#!/usr/bin/env bash
# Runs every command of docs/tutorials/laptop.md in an empty folder, and checks that the files that it promises were made. Where kubectl is not
# installed, it leaves out the commands of kubectl, and says so.
# `make tutorial` calls it.
set -euo pipefail
cd "$(dirname "$0")/../.."
PATH="$PWD/bin:$PATH"
export PATH
steps=$(awk '/^```bash$/ { inside = 1; next } /^```$/ { inside = 0 } inside' docs/tutorials/laptop.md)
[ -n "$steps" ] || { echo 'docs/tutorials/laptop.md has no commands' >&2; exit 1; }

dir=$(mktemp -d)
cleanup() {
	local job
	for job in $(jobs -p); do kill "$job" 2>/dev/null || true; done
	kwokcluster down --dir "$dir/cluster" --purge >/dev/null 2>&1 || true
	rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

cd "$dir"
# The commands see a home of their own, so that contexts of kubectl and earlier records stay as they are.
export HOME=$dir KUBECONFIG=$dir/kubeconfig
{
	echo 'set -euo pipefail'
	echo 'trap '\''for job in $(jobs -p); do kill "$job" 2>/dev/null || true; done'\'' EXIT'
	command -v kubectl >/dev/null || echo 'kubectl() { echo "LEFT OUT, because kubectl is not installed: kubectl $*" >&2; }'
	echo 'set -x'
	echo "$steps"
} >steps.sh
bash steps.sh

for made in prod.record mine.safetensors stock.yaml shadow.json report.html deploy.yaml; do
	[ -s "$made" ] || { echo "the tutorial did not make $made" >&2; exit 1; }
done
if command -v kubectl >/dev/null; then
	echo "every command of docs/tutorials/laptop.md ran (${SECONDS}s)"
else
	echo "every command of docs/tutorials/laptop.md ran but those of kubectl, which is not installed (${SECONDS}s)"
fi
