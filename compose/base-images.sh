#!/usr/bin/env bash
# Provides the base images that the Dockerfiles name, on machines that reach no registry.
#
#   compose/base-images.sh        every base image that the Dockerfiles beside this use
#
# An image that is there already, or that `docker pull` brings, is left alone. Any other is
# made from Debian packages with debootstrap, under the name that the Dockerfiles use:
#
#   debian:<codename>-slim          the packages that Debian calls required, and apt
#   golang:<version>-<codename>     the same with a C++ compiler, git, and this machine's Go
#
# Making one takes root and debootstrap. DEBIAN_MIRROR names another mirror than Debian's own.
set -euo pipefail
cd "$(dirname "$0")"

mirror=${DEBIAN_MIRROR:-} # empty: debootstrap's own choice
say() { echo "base-images: $*" >&2; }
die() { say "$*"; exit 1; }

command -v docker >/dev/null || die "no docker on this machine: install Docker Engine"
docker info >/dev/null 2>&1 || die "no Docker engine answers: start it, or join the docker group"

work=
trap '[ -z "$work" ] || rm -rf --one-file-system "$work"' EXIT

# root_fs makes a minimal Debian under $work/root: root_fs CODENAME [PACKAGE...]
root_fs() {
	local codename=$1 packages
	shift
	packages=$(IFS=,; echo "ca-certificates${*:+,$*}")
	work=$(mktemp -d)
	mkdir -p "$work/root"
	debootstrap --variant=minbase --include="$packages" "$codename" "$work/root" ${mirror:+"$mirror"} >"$work/log" 2>&1 ||
		{ tail -n 20 "$work/log" >&2; die "debootstrap failed: name a mirror that answers with DEBIAN_MIRROR"; }
	# Authorities that this machine was told to trust: without them, nothing behind a proxy that
	# inspects TLS could be downloaded in a build.
	if compgen -G '/usr/local/share/ca-certificates/*.crt' >/dev/null; then
		cp /usr/local/share/ca-certificates/*.crt "$work/root/usr/local/share/ca-certificates/"
		chroot "$work/root" update-ca-certificates >/dev/null 2>&1 || die "update-ca-certificates failed"
	fi
	# Downloaded packages, lists, manuals and translations serve nobody in an image.
	rm -rf "$work"/root/var/cache/apt/archives/*.deb "$work"/root/var/lib/apt/lists/* "$work"/root/var/log/*.log \
		"$work"/root/usr/share/{doc,man,info,locale}/* "$work"/root/etc/resolv.conf
}

import() { # import NAME [DOCKERFILE INSTRUCTION...]
	local name=$1 change=(--change 'LABEL gnnsched.base=debootstrap')
	shift
	for c in "$@"; do change+=(--change "$c"); done
	tar -C "$work/root" --numeric-owner -c . | docker import --message "made by compose/base-images.sh" "${change[@]}" - "$name" >/dev/null
	rm -rf --one-file-system "$work"
	work=
}

make_debian() { # make_debian NAME CODENAME
	root_fs "$2"
	import "$1" 'CMD ["bash"]' 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
}

make_golang() { # make_golang NAME VERSION CODENAME
	local goroot version
	command -v go >/dev/null || die "$1 is made from this machine's Go, and there is none: install Go $2"
	goroot=$(go env GOROOT) version=$(go env GOVERSION)
	[[ $version == "go$2" || $version == "go$2".* ]] || die "$1 wants Go $2, and this machine has $version"
	root_fs "$3" g++ gcc libc6-dev make git pkg-config
	cp -r "$goroot" "$work/root/usr/local/go"
	mkdir -p "$work"/root/go/{src,bin}
	import "$1" 'CMD ["bash"]' 'WORKDIR /go' 'ENV GOPATH=/go' 'ENV GOTOOLCHAIN=local' \
		'ENV PATH=/go/bin:/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
}

provide() {
	local image=$1
	if docker image inspect "$image" >/dev/null 2>&1; then
		say "$image is here"
		return
	fi
	if timeout "${PULL_TIMEOUT:-120}" docker pull -q "$image" >/dev/null 2>&1; then
		say "$image pulled"
		return
	fi
	say "$image cannot be pulled here: making it from Debian packages (a minute or two)"
	[ "$(id -u)" = 0 ] || die "making it takes root: run  sudo compose/base-images.sh"
	if ! command -v debootstrap >/dev/null; then
		say "installing debootstrap"
		{ apt-get update && apt-get install -y --no-install-recommends debootstrap; } >/dev/null 2>&1 ||
			die "making it takes debootstrap: apt-get install debootstrap"
	fi
	case $image in
	debian:*-slim) make_debian "$image" "$(sed -E 's/^debian:(.*)-slim$/\1/' <<<"$image")" ;;
	golang:*-*) make_golang "$image" "$(sed -E 's/^golang:([0-9.]+)-.*$/\1/' <<<"$image")" "${image##*-}" ;;
	*) die "nothing here knows how to make $image" ;;
	esac
	say "$image made"
}

# Stages name one another without a colon, and scratch has none either.
for image in $(sed -nE 's/^FROM +([a-z]+:[a-z0-9.-]+).*/\1/p' ./*.Dockerfile | sort -u); do
	provide "$image"
done
