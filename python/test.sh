#!/bin/sh
# Runs the tests of the Python package. Installs what they need from Debian where it may; where something is missing, it
# says so and skips them.
#
#   python/test.sh                 build the library, and run the tests
#   python/test.sh --install       only install what is missing
set -eu
cd "$(dirname "$0")/.."

find_python() {
	for p in ${PYTHON:-} python3 /usr/bin/python3; do
		if "$p" -c 'import sys, numpy; assert sys.version_info >= (3, 10)' 2>/dev/null; then
			echo "$p"
			return
		fi
	done
	return 1
}
skip() {
	echo "test.sh: the tests of the Python package are skipped: $1" >&2
	exit 0
}

if ! find_python >/dev/null || ! command -v gcc >/dev/null 2>&1; then
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
		install="env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends python3 python3-numpy python3-torch gcc libc6-dev"
		$install >&2 || { apt-get update -q >&2 && $install >&2; } || true
	fi
fi
[ "${1:-}" = --install ] && exit 0
python=$(find_python) || skip "no python3 from 3.10 on with NumPy (Debian: python3-numpy)"
command -v gcc >/dev/null 2>&1 || skip "no C compiler (Debian: gcc, libc6-dev)"
"$python" -c 'import torch' 2>/dev/null || echo "test.sh: the example with PyTorch is left out: no torch (Debian: python3-torch)" >&2
make --no-print-directory python bin/gnnsched
export GNNSCHED="$PWD/bin/gnnsched" PYTHONPATH="$PWD/python"
exec "$python" -m unittest discover -s python/tests
