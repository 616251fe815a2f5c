# Sums, from what the API server lists, the thousandths of each device that claims and annotations name.
#
#   kubectl get resourceslices,resourceclaims,pods -A -o json | jq -f devices.jq
#
# Claims without an allocation, admin access and pods without a node hold nothing. Devices are given out whole or in shares; those of partitions are not added up. Device i of an annotation is the i-th device of the node's slices.

def amount: if endswith("k") then (rtrimstr("k") | tonumber * 1000) else tonumber end;
def number: capture("(?<n>[0-9]+)$").n | tonumber;

.items as $all
| ($all | map(select(.kind == "ResourceSlice").spec | {node: .nodeName, pool: .pool.name, devices: (.devices // [] | map(.name) | sort_by(number))})) as $pools
| ($pools | map({key: .node, value: .}) | from_entries) as $on
| ($all | map(select(.kind == "ResourceClaim" and .status.allocation != null) | .status.allocation.devices.results[] | select(.adminAccess != true)
    | {by: "claims", device: "\(.pool)/\(.device)", milli: (.consumedCapacity.shares // "1000" | amount)})) as $claims
| ($all | map(select(.kind == "Pod" and .spec.nodeName != null and (.status.phase | IN("Succeeded", "Failed") | not)))) as $pods
| ($pods | map(.spec.nodeName as $node | .metadata.annotations as $a
    | select(($a["alibabacloud.com/gpu-index"] // "") != "")
    | ($a["alibabacloud.com/gpu-index"] | split("-")[] | tonumber) as $i
    | {by: "annotations", device: "\($on[$node].pool)/\($on[$node].devices[$i])", milli: ($a["alibabacloud.com/gpu-milli"] // "1000" | amount)})) as $annotated
| (($claims + $annotated) | group_by(.device) | map({device: .[0].device, milli: (map(.milli) | add), by: (map(.by) | unique)})) as $sums
| ($pools | map(.devices | length) | add) as $devices
| {
    devices: $devices,
    "pods bound": ($pods | length),
    "pods pending": ($all | map(select(.kind == "Pod" and .spec.nodeName == null)) | length),
    "claims allocated": ($all | map(select(.kind == "ResourceClaim" and .status.allocation != null)) | length),
    "pods with devices by annotation": ($pods | map(select((.metadata.annotations["alibabacloud.com/gpu-index"] // "") != "")) | length),
    "given %": (($sums | map(.milli) | add // 0) / $devices / 10),
    "in use % (no device more than once)": (($sums | map([.milli, 1000] | min) | add // 0) / $devices / 10),
    "devices of both kinds": ($sums | map(select(.by | length > 1)) | length),
    "over-committed devices": ($sums | map(select(.milli > 1000)) | length),
    "over-committed by": (($sums | map([.milli - 1000, 0] | max) | add // 0) / 1000),
    "the worst": ($sums | sort_by(-.milli) | .[0:3] | map("\(.device): \(.milli)"))
  }
