#!/bin/sh
# Puts Debian's chromium with the libraries that this machine lacks into .cache/chromium, for the tests of the page.
# It needs no root: the packages are unpacked, not installed. Nothing happens if chromium is there already.
set -eu
cd "$(dirname "$0")/../../.."

if command -v chromium >/dev/null 2>&1 || [ -x .cache/chromium/chromium.sh ]; then exit 0; fi
missing() {
	echo "chromium.sh: the tests in a browser are skipped: $1; install Debian's package chromium to run them" >&2
	exit 1
}
command -v apt-get >/dev/null 2>&1 && command -v dpkg-deb >/dev/null 2>&1 || missing "this machine has no apt-get"
needed() { apt-get install --simulate --no-install-recommends chromium 2>/dev/null | awk '$1 == "Inst" {print $2}'; }
packages=$(needed)
if [ -z "$packages" ]; then
	[ "$(id -u)" = 0 ] && apt-get update -q >/dev/null 2>&1
	packages=$(needed)
fi
[ -n "$packages" ] || missing "apt-get knows no package chromium"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
echo "chromium.sh: unpacking Debian's chromium and $(($(echo "$packages" | wc -w) - 1)) more packages (about 130 MB to download)" >&2
# shellcheck disable=SC2086 # the names are words
if ! (cd "$work" && apt-get download -q $packages >log 2>&1); then
	cat "$work/log" >&2
	missing "apt-get download failed"
fi
for p in "$work"/*.deb; do dpkg-deb -x "$p" "$work/unpacked"; done
cat >"$work/unpacked/chromium.sh" <<'RUN'
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
libraries=$(echo "$here"/usr/lib/*-linux-gnu)
export LD_LIBRARY_PATH="$libraries:$libraries/pulseaudio"
exec "$here/usr/lib/chromium/chromium" "$@"
RUN
chmod +x "$work/unpacked/chromium.sh"
"$work/unpacked/chromium.sh" --version >&2 || missing "the unpacked program does not start"
mkdir -p .cache
rm -rf .cache/chromium
mv "$work/unpacked" .cache/chromium
