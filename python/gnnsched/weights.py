"""Writes networks as checkpoints that gnnsched runs without Python."""

import json
import pathlib
import struct

import numpy as np

from ._library import call


def _network(encoder, head, hidden, features):
    architecture = dict(encoder=encoder, head=head, hidden=int(hidden), features=list(features))
    answer = call("checkpoint", architecture=architecture)
    return architecture, answer["schema"], {p["name"]: tuple(p["shape"]) for p in answer["params"]}


def parameters(*, encoder="gnn", head="actor-critic", hidden=32, features=("base",)):
    """The shapes of a network's parameters by their names. docs/how-to/python.md says what they mean."""
    return _network(encoder, head, hidden, features)[2]


def save(path, arrays, *, encoder="gnn", head="actor-critic", hidden=32, features=("base",), objective="balance", seed=0, training=None):
    """Writes a checkpoint (safetensors) for `rungnn --checkpoint` and `gnnsched eval --checkpoint` from arrays by the names of parameters()."""
    architecture, schema, want = _network(encoder, head, hidden, features)
    if seed < 0:
        raise ValueError(f"seed is {seed}: want 0 or more")
    if missing := sorted(want.keys() - arrays.keys()):
        raise ValueError(f"parameters are missing: {', '.join(missing)}")
    if unknown := sorted(arrays.keys() - want.keys()):
        raise ValueError(f"the architecture has no such parameters: {', '.join(unknown)}")
    header, data = {}, b""
    for name, shape in want.items():
        array = np.asarray(arrays[name], np.float32)
        if array.shape != shape:
            raise ValueError(f"{name} has shape {array.shape}, want {shape}")
        if not np.isfinite(array).all():
            raise ValueError(f"{name} is not finite")
        header[name] = dict(dtype="F32", shape=list(shape), data_offsets=[len(data), len(data) + array.nbytes])
        data += np.ascontiguousarray(array, "<f4").tobytes()
    manifest = dict(schema=schema, architecture=architecture, objective=objective, seed=int(seed), commit="python", config=None,
                    training={name: float(x) for name, x in (training or {}).items()})
    text = json.dumps({"__metadata__": {"gnnsched": json.dumps(manifest, allow_nan=False)}, **header}).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)
