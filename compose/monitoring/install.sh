#!/bin/sh
# Puts Debian's prometheus and promtool into .cache/prometheus, for the tests. It needs no root: the package is
# unpacked, not installed. Nothing happens if prometheus is installed or unpacked already.
set -eu
cd "$(dirname "$0")/../.."

if command -v prometheus >/dev/null 2>&1 || [ -x .cache/prometheus/usr/bin/prometheus ]; then exit 0; fi
missing() {
	echo "install.sh: the tests with Prometheus are skipped: $1; install Debian's package prometheus to run them" >&2
	exit 1
}
command -v apt-get >/dev/null 2>&1 && command -v dpkg-deb >/dev/null 2>&1 || missing "this machine has no apt-get"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
echo "install.sh: unpacking Debian's prometheus (20 MB to download)" >&2
download() { (cd "$work" && apt-get download -q prometheus >"$work/log" 2>&1); }
if ! download; then
	[ "$(id -u)" = 0 ] && apt-get update -q >/dev/null 2>&1
	download || { cat "$work/log" >&2; missing "apt-get download failed"; }
fi
mkdir -p .cache
dpkg-deb -x "$work"/prometheus_*.deb "$work/unpacked"
rm -rf .cache/prometheus
mv "$work/unpacked" .cache/prometheus
