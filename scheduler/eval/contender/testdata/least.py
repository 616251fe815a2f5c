"""The rule linear:FILE with the weight -1 for used, from the integers of the observation."""
import numpy as np

OBSERVATION = {"features": [], "raw": True}


def policy(obs):
    owner = np.repeat(np.arange(len(obs["pod_raw"])), np.diff(obs["candidate_offsets"]))
    node, pod = obs["node_raw"][obs["candidate_node"]], obs["pod_raw"][owner]
    offered = np.maximum(node[:, :2], 1)
    return -((node[:, 5:7] / offered + pod[:, :2] / offered).sum(1) / 2).astype(np.float32)
