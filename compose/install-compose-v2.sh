#!/usr/bin/env bash
# Installs `docker compose` (version 2) on a machine that has Docker without it: builds it from its
# Go module, and puts it where docker looks for plugins. Does nothing if `docker compose` works.
#
# The build needs Go and takes minutes. `go install module@version` refuses this module, because its
# go.mod excludes versions of others. Building inside the module works and does not change it.
set -euo pipefail

version=${COMPOSE_VERSION:-v2.40.3}
module=github.com/docker/compose/v2
plugins=${DOCKER_CONFIG:-$HOME/.docker}/cli-plugins

say() { echo "install-compose-v2: $*" >&2; }
die() { say "$*"; exit 1; }

command -v docker >/dev/null || die "no docker on this machine: install Docker Engine"
if found=$(docker compose version --short 2>/dev/null); then
	say "Compose $found is here"
	exit 0
fi
command -v go >/dev/null || die "Compose v2 is built from its Go module, and this machine has no Go: install Go, or Docker's docker-compose-plugin package"

say "building Compose $version from its Go module (minutes, the first time)"
cd / # outside any module
source=$(go mod download -json "$module@$version" | sed -nE 's/^\t"Dir": "(.*)",?$/\1/p')
[ -d "$source" ] || die "the module $module@$version could not be fetched"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$source" && CGO_ENABLED=0 GOFLAGS=-mod=readonly GOWORK=off nice go build -trimpath -buildvcs=false \
	-ldflags "-s -w -X $module/internal.Version=$version" -o "$work/docker-compose" ./cmd)
mkdir -p "$plugins"
install -m 755 "$work/docker-compose" "$plugins/docker-compose"
docker compose version >&2 || die "docker does not find the plugin in $plugins"
