# gnnsched. `make help` lists the targets; `make build`, `make demo` and `make test` are those to know.

SHELL := /bin/bash
.DEFAULT_GOAL := all

VERSION  := $(shell git describe --always --dirty 2>/dev/null || echo dev)
COMMIT   := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
# KUBERNETES is the Kubernetes release to build with. The newest is in go.mod. An older one, such as 1.36, has a module file and a build
# tag: go.k136.mod and k136. docs/contributing/kubernetes.md says how to move to another release.
release   = $(shell sed -nE 's/^\t$(subst /,\/,$(1)) (v[0-9.]+).*/\1/p' $(2))
minor     = $(word 2,$(subst ., ,$(1)))
NEWEST   := 1.$(call minor,$(call release,k8s.io/kubernetes,go.mod))
override KUBERNETES := $(or $(KUBERNETES),$(NEWEST))
TAG      := $(if $(filter-out $(NEWEST),$(KUBERNETES)),k$(subst .,,$(KUBERNETES)))
MODFILE  := go$(addprefix .,$(TAG)).mod
ifeq ($(wildcard $(MODFILE)),)
$(error KUBERNETES=$(KUBERNETES): there is no $(MODFILE); gnnsched builds with $(NEWEST) and $(patsubst go.k1%.mod,1.%,$(wildcard go.k*.mod)))
endif
K8S      := k8s.io/component-base/version
GITVERSION := $(call release,k8s.io/kubernetes,$(MODFILE))
LDFLAGS  := -s -w -X main.version=$(VERSION) -X $(K8S).gitVersion=$(GITVERSION) -X $(K8S).gitMajor=1 -X $(K8S).gitMinor=$(call minor,$(GITVERSION)) -X $(K8S).gitTreeState=clean \
	-X sigs.k8s.io/kwok/pkg/consts.Version=$(call release,sigs.k8s.io/kwok,$(MODFILE))
# One set of flags for programs and tests, so that Kubernetes is compiled once for both.
MODFLAGS := $(if $(TAG),-modfile=$(CURDIR)/$(MODFILE) -tags=$(TAG))
GO       := CGO_ENABLED=0 GOFLAGS='$(strip $(GOFLAGS) -trimpath $(MODFLAGS))' go
# -tags of a command replaces those of GOFLAGS.
comma    := ,
# TAGS=service builds gnnsched as it is in its image, without eval and the like, into bin/service.
PROGRAM  := bin/$(addsuffix /,$(TAGS))gnnsched
GOBUILD  := $(GO) build $(addsuffix $(addprefix $(comma),$(TAG)),$(addprefix -tags=,$(TAGS))) -ldflags '$(LDFLAGS)'
TORCHENV := gnn/torch/toolchain/env.sh env GOFLAGS='$(strip $(GOFLAGS) $(MODFLAGS))'
TORCHTAGS := -tags torch$(addprefix $(comma),$(TAG))
LINKS    := rungnn rundqn runacgnn runacdqn runsim cleancluster ktop

# The Go release that go.mod names is fetched where the installed one is older, also where a distribution forbids that.
export GOTOOLCHAIN ?= auto

# Several threads of libtorch compete for two cores: one is never slower here.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1

##@ Use

.PHONY: all
all: build trainer ## Build everything; install libtorch if it is missing and may be installed

.PHONY: build
build: bin/kwokcluster $(PROGRAM) ## Build the cluster, the scheduler and its tools; needs only Go

.PHONY: FORCE
bin/kwokcluster: FORCE
	@echo "building bin/kwokcluster (minutes the first time: it includes etcd and Kubernetes' control plane)"
	@$(GOBUILD) -o $@ ./cmd/kwokcluster

$(PROGRAM): FORCE
	@echo "building $@"
	@$(GOBUILD) -o $@ ./cmd/gnnsched
	@for l in $(LINKS); do ln -sf gnnsched $(@D)/$$l; done

MANDIR ?= bin/man8
.PHONY: man
man: build ## Write a manual page for each program into MANDIR (bin/man8), made from its help
	@mkdir -p '$(MANDIR)'
	@bin/gnnsched man >'$(MANDIR)/gnnsched.8'
	@bin/kwokcluster man >'$(MANDIR)/kwokcluster.8'
	@$(GO) run -ldflags '-X main.commit=$(COMMIT)' ./cmd/gnntrain man >'$(MANDIR)/gnntrain.8'

.PHONY: demo
demo: build ## See where the networks pay and where not, beside the default scheduler (a minute)
	@PATH="$(CURDIR)/bin:$$PATH" bin/gnnsched demo

ARCHS ?= amd64 arm64
RELEASE = bin/release/gnnsched-$(VERSION)-linux
.PHONY: release
release: ## Write archives with both programs for linux on ARCHS (amd64 arm64) into bin/release, the same bytes each time
	@rm -rf bin/release
	@set -o pipefail; for a in $(ARCHS); do echo "building $(RELEASE)-$$a.tar.gz"; mkdir -p $(RELEASE)-$$a || exit 1; \
		GOOS=linux GOARCH=$$a $(GOBUILD) -o $(RELEASE)-$$a/ ./cmd/gnnsched ./cmd/kwokcluster && cp LICENSE README.md CITATION.cff $(RELEASE)-$$a && \
		tar -C bin/release --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$$(git log -1 --format=%ct)" \
			-c $(notdir $(RELEASE))-$$a | gzip -9n >$(RELEASE)-$$a.tar.gz && rm -r $(RELEASE)-$$a || exit 1; done
	@cd bin/release && sha256sum *.tar.gz >SHA256SUMS

.PHONY: clean
clean: ## Remove everything that was built
	rm -rf bin .cache

##@ Train

.PHONY: toolchain
toolchain: ## Install libtorch and OpenBLAS, or say what to install
	@gnn/torch/toolchain/setup.sh

.PHONY: trainer
trainer: toolchain ## Build gnntrain, the only program that links libtorch
	@echo "building bin/gnntrain (minutes the first time: it compiles gotch)"
	@$(TORCHENV) go build $(TORCHTAGS) -ldflags "-X main.commit=$(COMMIT)" -o bin/gnntrain ./cmd/gnntrain

NETWORKS := gnn dqn acgnn acdqn
JOBS     ?= 2
SEEDS    ?= 1 2 3

.PHONY: train
train: trainer ## Train the shipped networks again, from each of SEEDS (1 2 3), JOBS (2) at a time; RESUME=1 continues
	@SEEDS='$(SEEDS)' JOBS='$(JOBS)' RESUME='$(RESUME)' scheduler/learn/train.sh $(NETWORKS)

# The pod lists that the networks learn from. The evaluation plays the same lists, with other arrivals (seeds) and in other mixes, so none
# is kept apart from training. docs/results/gpu.md says how networks do on a list that they did not learn from.
GPU_FAMILY   := cpu100 default gpushare40 gpuspec10 multigpu20
GPU_LISTS     = --data "$(OPENB)" $(foreach w,$(GPU_FAMILY),--pods "$(OPENB)/openb_pod_list_$(w).csv")
GPU_NETWORKS := gpu-gnn

.PHONY: train-gpu
train-gpu: trainer ## Train the networks for GPU clusters again, likewise, on the openb trace in OPENB=DIR
	@test -n "$(OPENB)" || { echo "name the folder with the openb trace: make train-gpu OPENB=DIR; docs/results/gpu.md says where to get it" >&2; exit 2; }
	@OPENB='$(OPENB)' FAMILY='$(GPU_FAMILY)' SEEDS='$(SEEDS)' JOBS='$(JOBS)' RESUME='$(RESUME)' scheduler/learn/train.sh $(GPU_NETWORKS)

.PHONY: typical-pods
typical-pods: trainer ## Write the typical pods of the shipped networks for GPU clusters again, from the openb trace in OPENB=DIR
	@test -n "$(OPENB)" || { echo "name the folder with the openb trace: make typical-pods OPENB=DIR; docs/results/gpu.md says where to get it" >&2; exit 2; }
	@for n in $(GPU_NETWORKS); do bin/gnntrain gpu $(GPU_LISTS) \
		--typical-only --out gnn/checkpoint/shipped/$$n.safetensors || exit 1; done

.PHONY: ablation
ablation: trainer ## Train networks for GPUs that are not shipped into .cache/ablation, on the openb trace in OPENB=DIR; gnnsched eval --checkpoint compares them
	@test -n "$(OPENB)" || { echo "name the folder with the openb trace: make ablation OPENB=DIR; docs/results/gpu.md says where to get it" >&2; exit 2; }
	@mkdir -p .cache/ablation
	@printf '%s\n' 'gpu-dqn {encoder: mlp}' 'gpu-linear {encoder: linear}' 'gpu-acgnn {head: actor-critic, iterations: 45}' | \
		xargs -P $(JOBS) -L 1 sh -c 'n=$$0; echo "training $$n: logs/$$n/train.log"; mkdir -p logs/$$n; echo "$$*" >.cache/ablation/$$n.yaml; \
		bin/gnntrain gpu $(GPU_LISTS) --config .cache/ablation/$$n.yaml --out .cache/ablation/$$n.safetensors --events logs/$$n --log-scrolling >logs/$$n/train.log 2>&1 && tail -n 1 logs/$$n/train.log'

.PHONY: results
results: build results-usage ## Evaluate the shipped networks and write docs/results: its data, tables and plots (an hour)
	@docs/results.sh cpu

.PHONY: results-usage
results-usage: build ## The same for usage, energy and traffic alone (minutes)
	@docs/results.sh usage

.PHONY: results-gpu
results-gpu: build ## The same for GPU clusters, on the openb trace in OPENB=DIR
	@docs/results.sh gpu

.PHONY: learning-curves
learning-curves: ## Write the learning curves of the runs that make train and make train-gpu left in logs into docs/results
	@docs/results.sh curves

##@ Python

PYLIB := python/gnnsched/libgnnsched.2.so
.PHONY: python
python: ## Build the simulator's library for the Python package in python (needs a C compiler)
	@echo "building $(PYLIB) (minutes the first time)"
	@GOFLAGS='$(strip $(GOFLAGS) -trimpath $(MODFLAGS))' CGO_ENABLED=1 go build -buildmode=c-shared -ldflags '-s -w' -o $(PYLIB) ./cmd/gnnsched-env
	@rm -f python/gnnsched/libgnnsched.2.h

.PHONY: wheel
wheel: python ## Pack the Python package and its library into bin/gnnsched-*.whl, without a network
	@rm -f bin/gnnsched-*.whl
	@python3 python/wheel.py 0.1.0+g$(COMMIT) bin

##@ Test

.PHONY: test
test: test-go test-torch test-python ## Run every test, including the trainer's

.PHONY: prometheus
prometheus: ## Unpack Debian's Prometheus into .cache, for tests and compose/monitoring/prometheus.sh
	@compose/monitoring/install.sh

.PHONY: chromium
chromium: ## Unpack Debian's Chromium into .cache, for the tests of the report in a browser
	@cmd/internal/report/chromium.sh

.PHONY: test-go
test-go: ## Run the tests that need only Go; those with Prometheus and Chromium too if they are there or can be had
	@compose/monitoring/install.sh || true
	@cmd/internal/report/chromium.sh || true
	@python/test.sh --install || true
	$(GO) vet ./...
	$(GO) test -vet=off -timeout 20m ./...

.PHONY: test-torch
test-torch: toolchain ## Run the tests that need libtorch
	$(TORCHENV) go vet $(TORCHTAGS) $(TORCH)
	$(TORCHENV) go test -vet=off $(TORCHTAGS) $(TORCH)

.PHONY: test-python
test-python: ## Run the tests of the Python package, if Python, NumPy and a C compiler are there or can be had
	@python/test.sh

TORCH := ./gnn/torch/... ./scheduler/learn/... ./cmd/gnntrain/...

# The packages that start goroutines or share values between them, without those of libtorch and without those that measure, or only play
# seeds side by side, as scheduler/eval and scheduler/sim/vector do here. Where nothing runs at the same time, the race detector finds
# nothing and takes ten times as long.
SIDEBYSIDE := ^(gnn/torch/|cmd/(gnnsched|gnnsched-env|gnntrain|kwokcluster)/|scheduler/(learn|policy)/)
CONCURRENT = $$(grep -rlE '^[[:space:]]*go (func|[a-zA-Z.]+[(])|[.]Go[(]func|errgroup|sync[.](Mutex|RWMutex|Once|Map|WaitGroup)|atomic[.]' --include='*.go' \
	--exclude='*_test.go' internal deploy gnn kwok workload scheduler cmd | grep -vE '$(SIDEBYSIDE)' | xargs -n1 dirname | sort -u | sed 's,^,./,')

# The race detector would compile all of Kubernetes once more. Of the packages that link it, test-race has only scheduler/plugin.
NOKUBERNETES = $$(go list -test -f '{{.ImportPath}} {{join .Deps " "}}' $(CONCURRENT) | awk '$$1 ~ /[.]test$$/ && !/ k8s[.]io[/]kubernetes[/]/ {sub(/[.]test$$/, "", $$1); print $$1}')
RACE         = GOFLAGS='$(strip $(GOFLAGS) $(MODFLAGS))' go test -race -vet=off -timeout 20m

.PHONY: test-race
test-race: ## Run the tests of what runs at the same time with the race detector, but of packages with Kubernetes only the plugin's
	set -o pipefail; p=$(NOKUBERNETES) && $(RACE) ./scheduler/plugin $$p

# TestClaimCases plays a hundred cases with a scheduler each, as TestClaims plays a few, and two tests draw much and start nothing; they would
# take minutes more. On a busy machine with two cores, scheduler/server needs more than Go's ten minutes.
.PHONY: test-race-all
test-race-all: ## The same with all packages (takes many minutes more)
	$(RACE) -skip '^(TestClaimCases|TestBadStreamsStop|TestGoodStreamsRunOn)$$' $(CONCURRENT)

# What differs between Kubernetes releases, in a few minutes: the plugin, claims and records. make test KUBERNETES=1.36 runs every test.
.PHONY: test-older
test-older: ## Build with each older Kubernetes release and run its tests of the plugin, claims and records
	@for f in go.k1*.mod; do r=$${f#go.k1}; $(MAKE) --no-print-directory test-release KUBERNETES=1.$${r%.mod} || exit 1; done

.PHONY: test-release
test-release:
	$(GOBUILD) -o /dev/null ./cmd/kwokcluster
	$(GOBUILD) -o /dev/null ./cmd/gnnsched
	$(GO) test -vet=off ./internal/kuberelease ./scheduler/plugin ./scheduler/plugin/dra ./workload/record/...
	$(GO) test -vet=off -run '^(TestClaims|TestClaimCasesOnServer)$$' ./scheduler/server

.PHONY: test-compose
test-compose: trainer ## Start the services of Docker Compose and check them, if a Docker engine answers
	@$(MAKE) --no-print-directory build TAGS=service
	@compose/test.sh

.PHONY: tutorial
tutorial: build trainer ## Run every command of docs/tutorials/laptop.md, from an empty folder to a deployed scheduler (five minutes)
	@docs/tutorials/check.sh

.PHONY: test-upstream
test-upstream: upstream ## Run the integration tests of Kubernetes' scheduler_perf through the GNN profile
	@cd $(UPSTREAM) && $(GO) vet ./...
	@ONLY='$(ONLY)' $(UPSTREAM)/run.sh integration

SCALEOUT ?= 5m
.PHONY: scaleout
scaleout: ## Evaluate on eight workers, kill half of them again and again for SCALEOUT (5m), and compare with one process
	$(GO) test ./cmd/gnnsched -count 1 -run '^TestScaleOut$$' -timeout 0 -v -scaleout '$(SCALEOUT)'

SOAK ?= 10m
SEED ?= 1
.PHONY: soak
soak: build ## Let pods come and go for SOAK (10m) while schedulers, cluster, trainer and nodes fail, and count what became of each
	@if gnn/torch/toolchain/setup.sh --check 2>/dev/null; then $(MAKE) --no-print-directory trainer; fi
	@bin/gnnsched soak --for '$(SOAK)' --seed '$(SEED)'

# A minimised input takes up to a minute by default, which left some fuzzers no time for others. The first run
# compiles everything once more with instrumentation, for scheduler/server all of Kubernetes: many minutes.
# One that fails does not keep the others from running.
FUZZTIME ?= 20s
.PHONY: fuzz
fuzz: ## Fuzz everything that parses, FUZZTIME (20s) each, and print how many inputs each was given
	@set -o pipefail; failed=0; for p in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
		for f in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' $$p/*_test.go | sed 's/func //'); do \
			$(GO) test $$p -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x 2>&1 | \
				awk -v name="$$p $$f" '/^fuzz:/ {if (match($$0, /execs: [0-9]+/)) execs = substr($$0, RSTART+7, RLENGTH-7); next} {rest = rest $$0 "\n"} \
					END {printf "%s: %d executions\n", name, execs; if (rest ~ /FAIL/ || execs < 100) {printf "%s", rest; print "fewer than 100 executions, or a failure"; exit 1}}' || failed=1; \
		done; done; exit $$failed

.PHONY: tidy
tidy: ## Tidy the module files, and bring those of older Kubernetes releases to go.mod's versions, except what they replace themselves
	go mod tidy
	@n=$(call release,k8s.io/kubernetes,go.mod); for f in go.k1*.mod; do o=$$(sed -nE 's/^\tk8s\.io\/kubernetes (v.*)/\1/p' $$f); \
		{ sed -E "s#(k8s\.io/[a-z-]+ (=> k8s\.io/[a-z-]+ )?)v0$${n#v1}#\1v0$${o#v1}#; s#k8s\.io/kubernetes $$n#k8s.io/kubernetes $$o#" go.mod; echo; grep '^replace [^(]' $$f; } >$$f.new; mv $$f.new $$f; \
		echo "go mod tidy -modfile=$$f"; go mod tidy -modfile=$$f || exit 1; done
	cd $(UPSTREAM) && go mod tidy

##@ Measure

.PHONY: docs
docs: ## Write the generated tables, plots, keys and flags of the docs anew
	$(GO) run ./docs/figures
	$(GO) test ./cmd/internal/top/view -run TestDocumentedKeys -update
	$(GO) test ./cmd/gnnsched ./cmd/kwokcluster ./cmd/gnntrain -run TestFlagsPage -update

.PHONY: film
film: build ## Make the pictures of README anew, ktop and the page during gnnsched try (two minutes)
	@$(GO) build -o bin/film ./cmd/internal/film
	@docs/film.sh

.PHONY: bench
bench: ## Time one decision of the network, the encoder and the simulator
	$(GO) test -run '^$$' -bench . -benchmem ./gnn/... ./scheduler/... ./cmd/internal/top/...

UPSTREAM := scheduler/schedbench/upstream
UPBIN    := $(CURDIR)/.cache/upstream

.PHONY: upstream
upstream: build
	@test -z '$(TAG)' || { echo "Kubernetes' own suite runs with $(NEWEST) only" >&2; exit 2; }
	@echo "building Kubernetes' scheduler_perf and etcd (minutes the first time)"
	@cd $(UPSTREAM) && $(GO) build -o '$(UPBIN)/etcd' go.etcd.io/etcd/server/v3 && $(GO) test -c -o '$(UPBIN)/suite' ./suite

.PHONY: bench-upstream
bench-upstream: upstream ## Compare pods per second with the default profile in Kubernetes' scheduler_perf (an hour or more; SIZE, ONLY)
	@SIZE='$(SIZE)' ONLY='$(ONLY)' $(UPSTREAM)/run.sh perf

##@ About

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*##"} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*##/ {printf "  make %-21s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
