#!/usr/bin/env bash
# Installs `docker compose` (version 2) on a machine that has Docker without it, and puts it where
# docker looks for plugins. Does nothing if `docker compose` works.
#
# On Debian it takes the program from the package of Debian 13, which apt verifies (half a minute,
# no root). Elsewhere, or with COMPOSE_VERSION=v2.x.y, it builds Compose from its Go module, which
# needs Go and takes about ten minutes on two cores; it says how far it is.
#
# DEBIAN_MIRROR sets the mirror.
set -euo pipefail

module=github.com/docker/compose/v2
plugins=${DOCKER_CONFIG:-$HOME/.docker}/cli-plugins
keys=/usr/share/keyrings/debian-archive-keyring.gpg

say() { echo "install-compose-v2: $*" >&2; }
die() { say "$*"; exit 1; }

command -v docker >/dev/null || die "no docker on this machine: install Docker Engine"
if found=$(docker compose version --short 2>/dev/null); then
	say "Compose $found is here"
	exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# packaged writes the program of Debian 13's package to $work/docker-compose.
packaged() {
	local options=(-qq -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$work/lists"
		-o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root -o Acquire::Languages=none -o Acquire::Retries=2)
	local mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 2>/dev/null | grep -E '/debian/?$' | head -n 1)} # this machine's own
	[ -n "$mirror" ] || return 1
	mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
	echo "deb [signed-by=$keys] $mirror trixie main" >"$work/sources.list"
	say "fetching Compose from the package docker-compose of Debian 13 (30 MB, about half a minute)"
	(cd "$work" && apt-get "${options[@]}" update && apt-get "${options[@]}" download docker-compose && dpkg-deb -x docker-compose_*.deb root) >"$work/log" 2>&1 || return 1
	mv "$work/root/usr/libexec/docker/cli-plugins/docker-compose" "$work/docker-compose"
	"$work/docker-compose" version >>"$work/log" 2>&1 # an older C library cannot start it
}

# built builds a version from its Go module: built VERSION. `go install module@version` refuses this
# module, because its go.mod excludes versions of others. Building inside the module works and does
# not change it.
built() {
	local source total
	command -v go >/dev/null || die "Compose v2 is built from its Go module, and this machine has no Go: install Go, or Docker's docker-compose-plugin package"
	say "fetching Compose $1 and the modules that it needs"
	cd / # outside any module
	source=$(go mod download -json "$module@$1" | sed -nE 's/^\t"Dir": "(.*)",?$/\1/p')
	[ -d "$source" ] || die "the module $module@$1 could not be fetched"
	cd "$source"
	export CGO_ENABLED=0 GOFLAGS=-mod=readonly GOWORK=off
	total=$(go list -deps ./cmd | wc -l)
	say "compiling up to $total packages (about ten minutes on two cores, the first time)"
	nice go build -v -trimpath -buildvcs=false -ldflags "-s -w -X $module/internal.Version=$1" -o "$work/docker-compose" ./cmd 2>&1 |
		awk -v total="$total" '/^[^ ]+$/ { if (++n % 50 == 0) { print "install-compose-v2: " n " of up to " total " packages"; fflush() } next } { print; fflush() }' >&2
	say "compiled"
}

if [ -n "${COMPOSE_VERSION:-}" ]; then
	built "$COMPOSE_VERSION"
elif [ ! -r "$keys" ] || ! command -v apt-get >/dev/null; then
	built v2.40.3
elif ! packaged; then
	tail -n 3 "$work/log" >&2
	say "the package cannot be had or does not start here"
	built v2.40.3
fi
mkdir -p "$plugins"
install -m 755 "$work/docker-compose" "$plugins/docker-compose"
docker compose version >&2 || die "docker does not find the plugin in $plugins"
