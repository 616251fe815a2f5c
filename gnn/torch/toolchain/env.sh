#!/bin/sh
# The environment in which gotch, unmodified, builds against the system's libtorch.
#
#   gnn/torch/toolchain/env.sh go test -tags torch ./gnn/torch/...   run one command in it
#   eval "$(gnn/torch/toolchain/env.sh)"                             set it in this shell
#
# Go keeps what it built under a key made of the compiler flags. Nothing in them depends on
# where the checkout lies: paths travel in CPLUS_INCLUDE_PATH and LIBRARY_PATH, which the
# compiler reads and the key does not. So a second checkout reuses the minutes that the
# first spent on gotch. CGO_LDFLAGS stays untouched too: it is part of the key of every cgo
# package, net included, and setting it would rebuild all that imports them.
set -eu

here=$(cd -- "$(dirname -- "$0")" && pwd -P)
root=$(cd -- "$here/../../.." && pwd -P)
include=${GNNSCHED_TORCH_INCLUDE:-/usr/include}
api=$include/torch/csrc/api/include

if ! [ -f "$here/gotch-compat.h" ]; then
	echo "env.sh: run it in front of a command, or eval what it prints; it cannot be sourced" >&2
	exit 1
fi
if ! [ -f "$api/torch/version.h" ]; then
	echo "env.sh: no libtorch headers under $include: run gnn/torch/toolchain/setup.sh," \
		"or set GNNSCHED_TORCH_INCLUDE to the folder that holds torch/csrc" >&2
	exit 1
fi

# gotch links CUDA by name, used or not. Empty archives of those names satisfy the linker;
# an archive without members is these eight bytes.
cuda=$root/.cache/torch/no-cuda
mkdir -p "$cuda"
for name in cuda cudart cublas cudnn caffe2_nvrtc nvrtc-builtins nvrtc nvToolsExt c10_cuda torch_cuda; do
	[ -f "$cuda/lib$name.a" ] && continue
	printf '!<arch>\n' >"$cuda/lib$name.a.$$"
	mv "$cuda/lib$name.a.$$" "$cuda/lib$name.a"
done

# The key does not see inside headers either: their checksum in a flag makes an edit of
# ours, or a new libtorch, rebuild gotch.
revision=$(cat "$here/gotch-compat.h" "$api/torch/version.h" | cksum | cut -d ' ' -f 1)

# The glue only forwards arguments; inlining inside it costs a third of the build and
# nothing else. gotch's own -O3 comes after these flags and leaves them in force.
light="-fno-inline -fno-ipa-cp -fno-ipa-sra -fno-var-tracking"

CGO_ENABLED=1
CGO_CXXFLAGS="-I$api -include gotch-compat.h -DGNNSCHED_TORCH_REVISION=$revision $light"
CPLUS_INCLUDE_PATH=$here${CPLUS_INCLUDE_PATH:+:$CPLUS_INCLUDE_PATH}
LIBRARY_PATH=$cuda${LIBRARY_PATH:+:$LIBRARY_PATH}
# Threads inside an operation never pay on graphs of this size, and often cost tenfold.
OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-1}

if [ $# -gt 0 ]; then
	export CGO_ENABLED CGO_CXXFLAGS CPLUS_INCLUDE_PATH LIBRARY_PATH OMP_NUM_THREADS OPENBLAS_NUM_THREADS
	exec "$@"
fi
quote() { printf "export %s='%s'\n" "$1" "$(printf %s "$2" | sed "s/'/'\\\\''/g")"; }
quote CGO_ENABLED "$CGO_ENABLED"
quote CGO_CXXFLAGS "$CGO_CXXFLAGS"
quote CPLUS_INCLUDE_PATH "$CPLUS_INCLUDE_PATH"
quote LIBRARY_PATH "$LIBRARY_PATH"
quote OMP_NUM_THREADS "$OMP_NUM_THREADS"
quote OPENBLAS_NUM_THREADS "$OPENBLAS_NUM_THREADS"
