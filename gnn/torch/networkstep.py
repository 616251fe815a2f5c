#!/usr/bin/python3
"""One training step of the shipped network gnn, in Python: the counterpart of BenchmarkNetworkStep.

    apt-get install python3-torch     # Debian's, the same libtorch
    OMP_NUM_THREADS=1 /usr/bin/python3 gnn/torch/networkstep.py [STEPS]

It prints the CPU time of a step: the batch's tensors, both passes and Adam, on 64 random graphs with 50 nodes. The equations are
those of package infer; gather and scatter are index_select and index_add, as PyTorch Geometric does them. The names and shapes of
the parameters are the checkpoint's.
"""
import json
import pathlib
import resource
import struct
import sys

import numpy as np
import torch
from torch.nn import functional as F

GRAPHS, NODES = 64, 50


def shapes(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    return {name: t["shape"] for name, t in header.items() if name != "__metadata__"}


def random_graph(r, w):
    zones, cands = r.integers(1, 4), r.integers(1, NODES + 1)
    groups = r.integers(0, 4, NODES)
    uniform = lambda *shape: r.uniform(-1, 1, shape).astype(np.float32)
    return dict(
        zones=zones, node=uniform(NODES, w["node"]), zone=r.integers(0, zones, NODES),
        group=uniform(groups.sum(), w["group"]), weight=r.integers(1, 51, groups.sum()).astype(np.float32),
        of=np.repeat(np.arange(NODES), groups), pod=uniform(1, w["pod"]), cluster=uniform(1, w["cluster"]),
        features=uniform(cands, w["candidate"]), candidates=r.permutation(NODES)[:cands])


def batch(graphs):
    """Concatenates graphs as tensors; indices run over the whole batch."""
    zone0 = np.cumsum([0] + [g["zones"] for g in graphs])
    node0 = np.arange(len(graphs)) * NODES
    b = {k: np.concatenate([g[k] for g in graphs]) for k in ("node", "group", "weight", "pod", "cluster", "features")}
    b["place_zone"] = np.concatenate([g["zone"] + z for g, z in zip(graphs, zone0)])
    b["zone_graph"] = np.repeat(np.arange(len(graphs)), [g["zones"] for g in graphs])
    b["group_node"] = np.concatenate([g["of"] + n for g, n in zip(graphs, node0)])
    b["cand_node"] = np.concatenate([g["candidates"] + n for g, n in zip(graphs, node0)])
    b["cand_zone"] = b["place_zone"][b["cand_node"]]
    b["cand_graph"] = np.repeat(np.arange(len(graphs)), [len(g["candidates"]) for g in graphs])
    total = np.bincount(b["group_node"], b["weight"], len(b["node"]))
    b["weight"] = (b["weight"] / total[b["group_node"]]).astype(np.float32)
    return {k: torch.from_numpy(v) for k, v in b.items()}


def segment_sum(x, segment, n):
    return x.new_zeros(n, x.shape[1]).index_add(0, segment, x)


def segment_mean(x, segment, n):
    count = torch.bincount(segment, minlength=n).clamp(min=1).to(x.dtype)
    return segment_sum(x, segment, n) / count[:, None]


def q_values(p, b):
    linear = lambda name, x, bias=None: F.linear(x, p[name + ".weight"], None if bias is None else p[bias + ".bias"])
    nodes, graphs = len(b["node"]), len(b["pod"])
    g = linear("group", b["group"], "group").relu() * b["weight"][:, None]
    x = linear("node", b["node"], "node") + linear("node.group", segment_sum(g, b["group_node"], nodes))
    h = F.layer_norm(x, x.shape[1:], p["norm.weight"], p["norm.bias"], 1e-5).relu()
    pod = linear("pod", b["pod"], "pod").relu()
    zones = segment_sum(h, b["place_zone"], len(b["zone_graph"]))
    in_zone = torch.bincount(b["place_zone"], minlength=len(zones)).clamp(min=1).to(h.dtype)
    mean = segment_sum(zones, b["zone_graph"], graphs) / NODES
    c = (linear("cluster.features", b["cluster"], "cluster") + linear("cluster.node", mean) + linear("cluster.pod", pod)).relu()
    shared = linear("candidate.cluster", c) + linear("candidate.pod", pod, "candidate")
    z = linear("zone.node", zones / in_zone[:, None]) + linear("zone.cluster", c, "zone").index_select(0, b["zone_graph"])
    k = linear("candidate.node", h).index_select(0, b["cand_node"]) + shared.index_select(0, b["cand_graph"])
    k = k + linear("candidate.zone", z.relu()).index_select(0, b["cand_zone"]) + linear("candidate.features", b["features"])
    k = k.relu()
    state = torch.cat([c, pod, segment_mean(k, b["cand_graph"], graphs)], 1)
    value = linear("value.out", linear("value.hidden", state, "value.hidden").relu(), "value.out")
    scores = linear("score", k)
    return scores + (value - segment_mean(scores, b["cand_graph"], graphs)).index_select(0, b["cand_graph"])


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    torch.set_num_threads(1)
    r = np.random.default_rng(1)
    shape = shapes(pathlib.Path(__file__).parent.parent / "checkpoint/shipped/gnn.safetensors")
    p = {n: torch.nn.Parameter(torch.from_numpy(r.uniform(-0.2, 0.2, s).astype(np.float32))) for n, s in shape.items()}
    width = lambda name: shape[name + ".weight"][1]
    w = dict(node=width("node"), group=width("group"), pod=width("pod"), cluster=width("cluster.features"), candidate=width("candidate.features"))
    graphs = [random_graph(r, w) for _ in range(GRAPHS)]
    adam = torch.optim.Adam(p.values(), lr=1e-3)

    def step():
        loss = q_values(p, batch(graphs)).square().mean()
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(p.values(), 10)
        adam.step()

    cpu = lambda: sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    for _ in range(10):
        step()
    before = cpu()
    for _ in range(steps):
        step()
    print(f"{1000 * (cpu() - before) / steps:.2f} CPU-ms/step")


main()
