# The scheduler and its tools (runsim, ktop, cleancluster, …): one static program, gnnsched, which does
# not run as root. It holds neither libtorch nor a control plane, nor the commands for a person's own
# machine, such as eval.
#
# BINARIES says where the program comes from: "build" compiles it in the image and needs only
# Docker; "prebuilt" copies bin/service/gnnsched, which `make build TAGS=service` built.
# With "build", --build-arg TAGS= makes the whole program, with eval and work.
ARG BINARIES=build

# docker prints this line if it cannot have the base image:
# No registry? Build the programs first, and copy them: make build TAGS=service && GNNSCHED_BINARIES=prebuilt docker compose up
FROM golang:1.27-bookworm AS build
WORKDIR /src
COPY go.mod go.sum go.k136.mod go.k136.sum Makefile ./
COPY cmd cmd
COPY deploy deploy
COPY gnn gnn
COPY internal internal
COPY kwok kwok
COPY scheduler scheduler
COPY workload workload
ARG GOPROXY
ARG VERSION=dev
ARG KUBERNETES
ARG TAGS=service
RUN --mount=type=cache,id=gnnsched-modules,target=/go/pkg/mod \
    --mount=type=cache,id=gnnsched-build,target=/root/.cache/go-build \
    make bin/${TAGS:+$TAGS/}gnnsched TAGS=$TAGS VERSION=$VERSION KUBERNETES=$KUBERNETES GOFLAGS=-buildvcs=false && \
    cp bin/${TAGS:+$TAGS/}gnnsched /gnnsched

FROM scratch AS prebuilt
COPY bin/service/gnnsched /gnnsched

FROM ${BINARIES} AS binaries

FROM scratch
COPY --from=binaries /gnnsched /usr/local/bin/gnnsched
ENV PATH=/usr/local/bin
USER 65532:65532
ENTRYPOINT ["gnnsched"]
CMD ["rungnn"]
