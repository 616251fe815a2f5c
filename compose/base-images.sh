#!/usr/bin/env bash
# Provides the base images of the Dockerfiles on machines that cannot reach a registry.
#
#   compose/base-images.sh        provides every base image
#
# It pulls an image that is missing. If that fails, it makes the image from Debian packages with
# debootstrap, under the name that the Dockerfiles use:
#
#   debian:<codename>-slim          the packages that Debian marks as required, and apt
#   golang:<version>-<codename>     the same with a C++ compiler, git, and this machine's Go
#
# Making an image needs root and debootstrap. DEBIAN_MIRROR sets the mirror.
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
	# Trust the certificate authorities that this machine trusts: behind a proxy that inspects TLS,
	# builds could not download anything without them.
	if compgen -G '/usr/local/share/ca-certificates/*.crt' >/dev/null; then
		cp /usr/local/share/ca-certificates/*.crt "$work/root/usr/local/share/ca-certificates/"
		chroot "$work/root" update-ca-certificates >/dev/null 2>&1 || die "update-ca-certificates failed"
	fi
	# An image needs no downloaded packages, package lists, manuals or translations.
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
	command -v go >/dev/null || die "$1 is made with this machine's Go, and there is none: install Go $2"
	goroot=$(go env GOROOT) version=$(go env GOVERSION)
	[[ $version == "go$2" || $version == "go$2".* ]] || die "$1 needs Go $2, and this machine has $version"
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
	[ "$(id -u)" = 0 ] || die "making it needs root: run  sudo compose/base-images.sh"
	if ! command -v debootstrap >/dev/null; then
		say "installing debootstrap"
		{ apt-get update && apt-get install -y --no-install-recommends debootstrap; } >/dev/null 2>&1 ||
			die "making it needs debootstrap: apt-get install debootstrap"
	fi
	case $image in
	debian:*-slim) make_debian "$image" "$(sed -E 's/^debian:(.*)-slim$/\1/' <<<"$image")" ;;
	golang:*-*) make_golang "$image" "$(sed -E 's/^golang:([0-9.]+)-.*$/\1/' <<<"$image")" "${image##*-}" ;;
	*) die "cannot make $image: only debian:*-slim and golang:*-* are known" ;;
	esac
	say "$image made"
}

# Names of stages, and scratch, have no colon.
for image in $(sed -nE 's/^FROM +([a-z]+:[a-z0-9.-]+).*/\1/p' ./*.Dockerfile | sort -u); do
	provide "$image"
done
