#!/bin/sh
# Installs what the trainer needs beyond Go: libtorch, OpenBLAS and a C++ compiler.
# Nothing happens where all three are there already.
#
#   gnn/torch/toolchain/setup.sh           install what is missing (apt, as root or by sudo)
#   gnn/torch/toolchain/setup.sh --check   only say what is missing; exit 1 if anything is
set -eu

case "${1:-}" in
"" | --check) ;;
*)
	echo "usage: setup.sh [--check]" >&2
	exit 2
	;;
esac

include=${GNNSCHED_TORCH_INCLUDE:-/usr/include}
missing=
[ -f "$include/torch/csrc/api/include/torch/torch.h" ] || missing="$missing libtorch-dev"
# libtorch takes any BLAS; Debian's default one is five to eight times slower than this.
PATH=$PATH:/usr/sbin:/sbin ldconfig -p | grep -q 'libopenblas\.so' || missing="$missing libopenblas0-pthread"
command -v g++ >/dev/null 2>&1 || missing="$missing g++"
missing=${missing# }

if [ -z "$missing" ]; then
	echo "setup.sh: libtorch, OpenBLAS and g++ are installed" >&2
	exit 0
fi

by_hand() {
	echo "setup.sh: the trainer needs these Debian packages, and $1: $missing" >&2
	echo "setup.sh: install them with:  sudo apt-get install --no-install-recommends $missing" >&2
	echo "setup.sh: everything but the trainer works without them" >&2
	exit 1
}

[ "${1:-}" = --check ] && by_hand "they are not installed"
command -v apt-get >/dev/null 2>&1 || by_hand "this machine has no apt-get"
sudo=
if [ "$(id -u)" != 0 ]; then
	if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
		sudo=sudo
	else
		by_hand "installing them takes root or a sudo that asks no password"
	fi
fi

echo "setup.sh: installing $missing (about 200 MB to download, 850 MB on disk)" >&2
install() {
	# shellcheck disable=SC2086 # $sudo may be empty and $missing is a list of words
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing >&2
}
if ! install; then
	echo "setup.sh: refreshing the package lists and trying once more" >&2
	$sudo apt-get update -q >&2 || by_hand "apt-get update failed"
	install || by_hand "apt-get could not install them"
fi
