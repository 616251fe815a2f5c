"""Asks a policy in a Python file for decisions. gnnsched eval --policies python:FILE runs this program and talks to it over pipes: frames of a
length in 4 bytes, a header in JSON of that length, and the bytes of arrays that the header announces."""

import importlib.util
import json
import os
import struct
import sys
import traceback

import numpy as np

came, goes = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
os.dup2(2, 1)  # what the policy prints must not reach the pipe


def receive():
    length = came.read(4)
    if len(length) < 4:
        sys.exit(0)  # gnnsched has ended
    header = json.loads(came.read(struct.unpack("<I", length)[0]))
    return header, {name: np.frombuffer(came.read(size), kind).reshape(shape).copy() for name, kind, shape, size in header.get("arrays") or ()}


def send(header, data=b""):
    text = json.dumps(header).encode()
    goes.write(struct.pack("<I", len(text)) + text + data)
    goes.flush()


def describe(e):
    at = [f for f in traceback.extract_tb(e.__traceback__) if f.filename == sys.argv[1]]
    return f"{type(e).__name__}: {e}" + (f" (line {at[-1].lineno}: {at[-1].line})" if at else "")


def only(obs, i):
    """The observation of environment i alone."""
    at = {kind: obs[kind + "_offsets"][i:i + 2] for kind in ("candidate", "node", "zone") if kind + "_offsets" in obs}
    out = {}
    for name, x in obs.items():
        kind = name.split("_")[0]
        if name.endswith("_offsets"):
            x = at[kind] - at[kind][0]
        elif kind in ("candidate", "action", "node") and name != "pod_raw":
            x = x[slice(*at["node" if kind == "node" else "candidate"])]
        elif kind == "group":
            x = x[(obs["group_node"] >= at["node"][0]) & (obs["group_node"] < at["node"][1])]
        else:
            x = x[i:i + 1]
        if name in ("candidate_node", "group_node", "node_zone"):
            x = x - at["zone" if name == "node_zone" else name.split("_")[1]][0]
        out[name] = x
    return out


def guilty(policy, obs):
    """The first environment with which alone the policy fails too; None if there is none."""
    for i in range(len(obs["candidate_offsets"]) - 1):
        try:
            policy(only(obs, i))
        except Exception:
            return i
    return None


def main():
    try:
        spec = importlib.util.spec_from_file_location("policy", sys.argv[1])
        module = importlib.util.module_from_spec(spec)
        sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[1])))
        spec.loader.exec_module(module)
        policy = module.policy
        wants = {"features": ["base"], "graph": False, "raw": False, **getattr(module, "OBSERVATION", {})}
    except Exception as e:
        return send({"error": describe(e)})
    send({"wants": {**wants, "features": list(wants["features"])}, "timeout": float(getattr(module, "TIMEOUT", 60))})
    while True:
        header, obs = receive()
        try:
            if "begin" in header:
                getattr(module, "begin", lambda info: None)(header["begin"])
                send({})
                continue
            obs["action_mask"] = obs["action_mask"].view(bool)
            answer = np.asarray(policy(obs))
        except Exception as e:
            send({"error": describe(e), "environment": guilty(policy, obs) if obs else None})
            continue
        kind = "actions" if answer.dtype.kind in "iu" else "scores" if answer.dtype.kind == "f" else str(answer.dtype)
        data = answer.astype("<i8" if kind == "actions" else "<f8").tobytes() if kind in ("actions", "scores") else b""
        send({"kind": kind, "shape": list(answer.shape), "bytes": len(data)}, data)


main()
