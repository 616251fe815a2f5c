"""Proximal policy optimization (Schulman et al. 2017) with a graph neural network over gnnsched's ragged graphs, in one file.

    python3 ppo_gnn.py --scenario pack --seed 1 --minutes 10 --save pack.safetensors
    gnnsched eval --scenario pack --seeds 30 --policies greedy:pack,best-fit,linear-pack --checkpoint pack.safetensors

The network is that of gnnsched's own checkpoints (gnn/infer/doc.go has the equations), and its parameters have their names. So the trained
network runs in rungnn without Python. The curve is written to --curve as CSV, and for TensorBoard where that is installed.
"""

import argparse
import csv
import time

import numpy as np
import torch
from torch import nn

import gnnsched

FEATURES = ("base", "whole")


def mean(x, to, n, weight=None):
    """The mean of the rows of x that belong to each of n; 0 for none."""
    weight = torch.ones(len(x)) if weight is None else weight
    total = torch.zeros(n, x.shape[1]).index_add(0, to, x * weight[:, None])
    return total / torch.zeros(n).index_add(0, to, weight).clamp(min=1)[:, None]


class Network(nn.Module):
    """Messages from groups of pods to nodes, from nodes to zones and the cluster, and back to the candidates."""

    def __init__(self, hidden=32, features=FEATURES):
        super().__init__()
        self.shapes, self.hidden = gnnsched.parameters(hidden=hidden, features=features), hidden
        self.w = nn.ParameterDict()
        for name, shape in self.shapes.items():
            x = torch.zeros(shape)
            if name == "norm.weight":
                x = torch.ones(shape)
            elif name.endswith(".weight"):
                nn.init.orthogonal_(x, 0.01 if name == "score.weight" else 1)
            self.w[name.replace(".", "_")] = nn.Parameter(x)

    def map(self, name, x, bias=True):
        return nn.functional.linear(x, self.w[name.replace(".", "_") + "_weight"], self.w.get(name.replace(".", "_") + "_bias") if bias else None)

    def get(self, name):
        return self.w[name.replace(".", "_")]

    def forward(self, o):
        """A score for each candidate, and a value for each environment."""
        n, zones = len(o["pod_x"]), int(o["zone_offsets"][-1])
        relu, norm, owner = torch.relu, nn.functional.layer_norm, o["owner"]
        group = relu(self.map("group", o["group_x"]))
        node = self.map("node", o["node_x"]) + self.map("node.group", mean(group, o["group_node"], len(o["node_x"]), o["group_weight"]))
        node = relu(norm(node, (self.hidden,), self.get("norm.weight"), self.get("norm.bias")))
        pod = relu(self.map("pod", o["pod_x"]))
        of = torch.repeat_interleave(torch.arange(n), o["node_offsets"].diff())
        cluster = relu(self.map("cluster.features", o["cluster_x"]) + self.get("cluster.bias") + self.map("cluster.node", mean(node, of, n)) + self.map("cluster.pod", pod))
        cluster_of_zone = torch.repeat_interleave(torch.arange(n), o["zone_offsets"].diff())
        zone = relu(self.map("zone.node", mean(node, o["node_zone"], zones)) + self.map("zone.cluster", cluster[cluster_of_zone]) + self.get("zone.bias"))
        at = o["candidate_node"]
        candidate = relu(self.map("candidate.features", o["candidate_x"]) + self.map("candidate.node", node)[at] + self.map("candidate.cluster", cluster)[owner]
                         + self.map("candidate.pod", pod)[owner] + self.get("candidate.bias") + self.map("candidate.zone", zone)[o["node_zone"][at]])
        score = self.map("score", candidate)[:, 0]
        value = relu(self.map("value.hidden", torch.cat([cluster, pod, mean(candidate, owner, n)], 1)))
        return score.masked_fill(~o["action_mask"], -1e9), self.map("value.out", value)[:, 0]

    def arrays(self):
        return {name: self.get(name).detach().numpy() for name in self.shapes}


def tensors(obs):
    """An observation as tensors, with the environment of each candidate."""
    out = {name: torch.from_numpy(np.ascontiguousarray(x)) for name, x in obs.items()}
    return {**out, "owner": torch.from_numpy(gnnsched.owner(obs))}


def join(steps):
    """The observations of several steps as one batch of graphs: indices move by what stands before them."""
    out, rows = {}, {"candidate": "candidate_x", "node": "node_x", "zone": None}
    shift = {kind: np.cumsum([0] + [int(s[kind + "_offsets"][-1]) for s in steps]) for kind in rows}
    environments = np.cumsum([0] + [len(s["pod_x"]) for s in steps])
    moved = dict(candidate_node="node", group_node="node", node_zone="zone", owner=None)
    for name in steps[0]:
        if name.endswith("_offsets"):
            by = shift[name.split("_")[0]]
            out[name] = torch.cat([s[name][min(i, 1):] + by[i] for i, s in enumerate(steps)])
        elif name in moved:
            by = shift[moved[name]] if moved[name] else environments
            out[name] = torch.cat([s[name] + by[i] for i, s in enumerate(steps)])
        else:
            out[name] = torch.cat([s[name] for s in steps])
    return out


def log_probabilities(score, owner, n):
    """The logarithm of the softmax within each environment, and its entropy."""
    top = torch.full((n,), -1e9).scatter_reduce(0, owner, score, "amax")
    x = score - top[owner]
    log = x - torch.zeros(n).index_add(0, owner, x.exp()).log()[owner]
    return log, -torch.zeros(n).index_add(0, owner, log.exp() * log)


def policy(net):
    def scores(obs):
        with torch.no_grad():
            return net(tensors(obs))[0].numpy()
    return scores


def train(a):
    torch.manual_seed(a.seed)
    torch.set_num_threads(1)
    rng, net = np.random.default_rng(a.seed), Network()
    optimizer = torch.optim.Adam(net.parameters(), a.rate, eps=1e-5)
    env = gnnsched.make_vec(a.scenario, a.envs, features=FEATURES, graph=True, wait_cost=0.01)
    scale = 10.0  # rewards are hundredths
    try:
        from torch.utils.tensorboard import SummaryWriter
        board = SummaryWriter(comment=f"-{a.scenario}-{a.seed}")
    except ImportError:
        board = None
    curve = csv.writer(open(a.curve, "w", buffering=1, newline=""), lineterminator="\n")
    curve.writerow(["minutes", "decisions", "objective", "unscheduled", "entropy"])
    start, done, best = time.time(), 0, (np.inf, net.arrays())
    obs, _ = env.reset(seed=1000 * a.seed)
    over = np.zeros(a.envs, bool)
    for iteration in range(10**9):
        share = (time.time() - start) / 60 / a.minutes
        if iteration and share >= 1:
            break
        optimizer.param_groups[0]["lr"] = a.rate * max(0.1, 1 - share)
        steps, actions, logs, values, rewards, ends, counted = [], [], [], [], [], [], []
        for _ in range(a.steps):
            o = tensors(obs)
            with torch.no_grad():
                score, value = net(o)
            action = gnnsched.sample(score.numpy(), obs, rng)
            row = o["candidate_offsets"][:-1] + torch.from_numpy(action)
            log, _ = log_probabilities(score, o["owner"], a.envs)
            steps.append(o), actions.append(row), logs.append(log[row]), values.append(value.numpy()), counted.append(~over)
            obs, reward, over, _, _ = env.step(action)
            rewards.append(scale * reward), ends.append(over)
        with torch.no_grad():
            after = net(tensors(obs))[1].numpy()
        advantages, gain = [], np.zeros(a.envs)  # generalized advantage estimation (Schulman et al. 2016)
        for t in reversed(range(a.steps)):
            goes_on = ~ends[t]
            delta = rewards[t] + a.gamma * after * goes_on - values[t]
            gain = delta + a.gamma * a.trace * goes_on * gain
            after = values[t]
            advantages.insert(0, gain.copy())
        advantages = torch.tensor(np.array(advantages), dtype=torch.float32)
        returns = advantages + torch.from_numpy(np.array(values))
        keep = torch.from_numpy(np.array(counted))  # the step after the end has no action
        for _ in range(a.epochs):
            for some in np.array_split(rng.permutation(a.steps), a.minibatches):
                o = join([steps[t] for t in some])
                n, firsts = len(o["pod_x"]), np.cumsum([0] + [len(steps[t]["owner"]) for t in some])
                row = torch.cat([actions[t] + firsts[i] for i, t in enumerate(some)])
                score, value = net(o)
                log, entropy = log_probabilities(score, o["owner"], n)
                use, advantage = keep[some].flatten(), advantages[some].flatten()
                advantage = (advantage - advantage[use].mean()) / (advantage[use].std() + 1e-8)
                ratio = (log[row] - torch.cat([logs[t] for t in some])).exp()
                gained = torch.minimum(ratio * advantage, ratio.clamp(1 - a.clip, 1 + a.clip) * advantage)
                loss = (-gained - a.entropy * entropy + 0.5 * (value - returns[some].flatten()) ** 2)[use].mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 0.5)
                optimizer.step()
        done += a.steps * a.envs
        if iteration % a.every == 0:
            judged = gnnsched.evaluate(policy(net), a.scenario, range(10_001, 10_011), features=FEATURES, graph=True)
            line = [round((time.time() - start) / 60, 2), done, judged.mean(), judged.mean("unscheduled"), entropy[use].mean().item()]
            curve.writerow(line)
            print(*line, flush=True)
            if judged.mean() < best[0]:
                best = (judged.mean(), {name: x.copy() for name, x in net.arrays().items()})
            for name, x in zip(("objective", "unscheduled", "entropy"), line[2:]) if board else ():
                board.add_scalar(name, x, done)
    env.close()
    if a.save:
        gnnsched.save(a.save, best[1], features=FEATURES, objective=env.about["objective"], seed=a.seed, training={"decisions": done})


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for flag, value in dict(scenario="pack", seed=1, minutes=10.0, save="", curve="curve.csv", envs=16, steps=64, epochs=3, minibatches=4, rate=1e-3, gamma=0.95,
                            trace=0.9, clip=0.2, entropy=0.003, every=10).items():
        p.add_argument("--" + flag, type=type(value), default=value)
    train(p.parse_args())
