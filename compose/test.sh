#!/usr/bin/env bash
# Starts the services of docker-compose.yml and checks what docs/how-to/simulate.md says about them.
# If no Docker engine answers, it says so and succeeds.
#
#   compose/test.sh                            with the programs in bin/ (make build TAGS=service)
#   GNNSCHED_BINARIES=build compose/test.sh    compiling them in the images, as a user does
#
# It also tests the trainer's image if there is a bin/gnntrain (make trainer), or with
# GNNSCHED_BINARIES=build.
set -euo pipefail
cd "$(dirname "$0")/.."

max_image=$((120 * 1000 * 1000)) # bytes, of the scheduler's image

# The test has its own project name and image tags, so as not to disturb a project that runs.
export COMPOSE_PROJECT_NAME=gnnsched-test GNNSCHED_TAG=test GNNSCHED_PROMETHEUS_PORT=0
export GNNSCHED_BINARIES=${GNNSCHED_BINARIES:-prebuilt}

say() { echo "test-compose: $*" >&2; }
die() { say "FAILED: $*"; exit 1; }
compose() { docker compose --ansi never --progress quiet "$@"; }
run() { compose run --rm -T "$@"; }

if ! docker info >/dev/null 2>&1; then
	say "no Docker engine answers here: nothing tested"
	exit 0
fi

with_trainer=no
[ "$GNNSCHED_BINARIES" = build ] || [ -x bin/gnntrain ] && with_trainer=yes
if [ "$GNNSCHED_BINARIES" = prebuilt ]; then
	[ -x bin/kwokcluster ] && [ -x bin/service/gnnsched ] || die "bin/kwokcluster and bin/service/gnnsched are missing: run make build TAGS=service"
fi
work=$(mktemp -d)

# leftovers lists containers, networks and volumes of the test that still exist.
leftovers() {
	docker ps -aq --filter "label=com.docker.compose.project=$COMPOSE_PROJECT_NAME"
	docker network ls -q --filter "label=com.docker.compose.project=$COMPOSE_PROJECT_NAME"
	docker volume ls -q | sort | comm -13 "$work/volumes" -
}

finish() {
	local code=$?
	trap - EXIT
	if [ $code != 0 ]; then
		compose ps -a >&2 || true
		compose logs --no-color --tail 40 >&2 || true
	fi
	compose --profile tools --profile trainer --profile monitoring down --volumes --remove-orphans >/dev/null 2>&1 || true
	docker image rm gnnsched/{cluster,scheduler,trainer,prometheus}:test >/dev/null 2>&1 || true
	rm -rf "$work"
	[ $code = 0 ] && say "passed in $SECONDS s"
	exit $code
}
trap finish EXIT
docker volume ls -q | sort >"$work/volumes"

compose/install-compose-v2.sh
# The other images have no base image.
if [ "$GNNSCHED_BINARIES" = build ] || [ $with_trainer = yes ]; then compose/base-images.sh; fi

say "building the images ($GNNSCHED_BINARIES)"
compose build cluster scheduler

size=$(docker image inspect -f '{{.Size}}' gnnsched/scheduler:test)
[ "$size" -lt $max_image ] || die "the scheduler's image has $size bytes, the limit is $max_image"
say "the scheduler's image has $((size / 1000000)) MB"
for image in cluster scheduler; do
	user=$(docker image inspect -f '{{.Config.User}}' "gnnsched/$image:test")
	[[ $user =~ ^[1-9][0-9]*: ]] || die "the image $image runs as user '$user'"
done

begin=$SECONDS
say "docker compose up"
compose up -d --wait --wait-timeout 180
say "cluster and scheduler healthy after $((SECONDS - begin)) s"

for service in cluster scheduler; do
	id=$(compose ps -q "$service")
	uid=$(docker top "$id" -eo pid,uid | awk 'NR > 1 {print $2}' | sort -u)
	[ "$uid" = 65532 ] || die "$service runs as user $uid"
	[ "$(docker inspect -f '{{.HostConfig.ReadonlyRootfs}} {{.HostConfig.CapDrop}}' "$id")" = "true [ALL]" ] || die "$service is not locked down"
done

# pods KIND: how many pods of the gnn scheduler are bound (boundPods) or pending (pendingPods).
pods() {
	run ktop -o json | tr -d ' \n' | sed -nE "s/.*\"name\":\"gnn\"[^}]*\"$1\":([0-9]+).*/\1/p"
}

say "docker compose run --rm runsim"
run runsim --cluster-resets 1 --pod-load 0.05 --cpu-load 0.05 --mem-load 0.05 --scheduler-name gnn
bound=$(pods boundPods) pending=$(pods pendingPods)
[ "${bound:-0}" -gt 0 ] || die "the gnn scheduler bound no pod"
[ "${pending:-0}" = 0 ] || die "$pending pods are pending"
say "the gnn scheduler bound $bound pods"

say "docker compose run --rm ktop --once"
run ktop --once | tee "$work/ktop" >&2
ready=$(grep -c Ready "$work/ktop") || true
[ "$ready" -ge 11 ] || die "ktop shows $ready nodes ready, want ten and the control plane"

say "docker compose run --rm cleancluster"
run cleancluster
bound=$(pods boundPods)
[ "${bound:-0}" = 0 ] || die "$bound pods are left after cleancluster"

say "docker compose restart"
compose restart
compose up -d --wait --wait-timeout 180

if [ $with_trainer = yes ]; then
	say "the trainer's image"
	compose --profile trainer build trainer
	mkdir -m 777 "$work/out"
	run -v "$work/out:/out" trainer --iterations 1 --out /out/gnn.safetensors
	[ -s "$work/out/gnn.safetensors" ] || die "the trainer wrote no checkpoint"
fi

if [ $with_trainer = yes ]; then # with a base image, then
	say "docker compose --profile monitoring up"
	compose --profile monitoring build prometheus
	compose --profile monitoring up -d --wait --wait-timeout 180 prometheus
	# Of each node the pages /metrics/resource and /metrics/cadvisor.
	query() { compose exec -T prometheus promtool query instant http://127.0.0.1:9090 "$1" | sed -nE 's/.*=> ([0-9.e+]+) @.*/\1/p'; }
	for _ in $(seq 30); do
		up=$(query 'sum(up)' || true)
		[ "${up:-0}" -ge 22 ] && break
		sleep 3
	done
	[ "${up:-0}" -ge 22 ] || die "Prometheus reaches ${up:-0} pages of nodes, want two of each of the eleven"
	say "Prometheus reaches $up pages of nodes"
fi

say "docker compose down"
compose --profile monitoring down
left=$(leftovers)
[ -z "$left" ] || die "down left behind: $left"
