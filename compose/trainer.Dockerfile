# The trainer: gnntrain with Debian's libtorch and OpenBLAS, which does not run as root. libtorch
# takes some 900 MB, so no other image holds it.
#
# BINARIES says where the program comes from: "build" compiles it in the image and needs only
# Docker; "prebuilt" copies bin/gnntrain, which `make trainer` built on a Debian 12.
ARG BINARIES=build

FROM golang:1.27-bookworm AS build
RUN apt-get update && \
    apt-get install -y --no-install-recommends libtorch-dev libopenblas0-pthread && \
    rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY go.mod go.sum go.k136.mod go.k136.sum Makefile ./
COPY cmd cmd
COPY gnn gnn
COPY internal internal
COPY kwok kwok
COPY scheduler scheduler
COPY workload workload
ARG GOPROXY
ARG VERSION=dev
RUN --mount=type=cache,id=gnnsched-modules,target=/go/pkg/mod \
    --mount=type=cache,id=gnnsched-build,target=/root/.cache/go-build \
    make trainer COMMIT=$VERSION GOFLAGS=-buildvcs=false

FROM scratch AS prebuilt
COPY bin/gnntrain /src/bin/gnntrain

FROM ${BINARIES} AS binaries

FROM debian:bookworm-slim
RUN apt-get update && \
    apt-get install -y --no-install-recommends libtorch1.13 libopenblas0-pthread && \
    rm -rf /var/lib/apt/lists/*
COPY --from=binaries /src/bin/gnntrain /usr/local/bin/gnntrain
# Operations are small: two threads are slower than one.
ENV OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
WORKDIR /out
USER 65532:65532
ENTRYPOINT ["gnntrain"]
CMD ["--help"]
