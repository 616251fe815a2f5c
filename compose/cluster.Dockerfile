# The simulated cluster: one static program, kwokcluster, which does not run as root.
#
# BINARIES says where the program comes from: "build" compiles it in the image and needs only
# Docker; "prebuilt" copies bin/kwokcluster, which `make build` built.
ARG BINARIES=build

# docker prints this line if it cannot have the base image:
# No registry? Build the programs first, and copy them: make build TAGS=service && GNNSCHED_BINARIES=prebuilt docker compose up
FROM golang:1.27-bookworm AS build
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
ARG KUBERNETES
RUN --mount=type=cache,id=gnnsched-modules,target=/go/pkg/mod \
    --mount=type=cache,id=gnnsched-build,target=/root/.cache/go-build \
    make bin/kwokcluster VERSION=$VERSION KUBERNETES=$KUBERNETES GOFLAGS=-buildvcs=false

FROM scratch AS prebuilt
COPY bin/kwokcluster /src/bin/kwokcluster

FROM ${BINARIES} AS binaries

FROM scratch
COPY --from=binaries /src/bin/kwokcluster /usr/local/bin/kwokcluster
ENV PATH=/usr/local/bin
USER 65532:65532
ENTRYPOINT ["kwokcluster"]
CMD ["up"]
