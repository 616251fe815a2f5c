"""Finds, loads and calls the C library (cmd/gnnsched-env)."""

import ctypes
import json
import os
import pathlib
import sys

ABI = 2
OBSERVE, STEP, RESET_ON, RESET_TRAINING, RESET_EVALUATION = range(5)
OK, GROW, FAILED, CLOSED = 0, 1, -1, -2
RESULTS = ("reward", "terminated", "objective", "unscheduled", "waited", "decisions", "seed")


class GnnschedError(RuntimeError):
    """The environment cannot do what it was asked to do: it is closed, it has ended, or the process was forked."""


class Arguments(ctypes.Structure):
    """What a call reads and writes; type arguments of cmd/gnnsched-env."""
    _fields_ = [("size", ctypes.c_int64), ("message", ctypes.c_char * 512)] + [(name, ctypes.c_int64) for name in (
        "slots", "room_candidates", "room_nodes", "room_groups", "candidates", "nodes", "zones", "groups")] + [
        (name, ctypes.c_void_p) for name in ("actions", "seeds", "reset_mask", *RESULTS, "pod_x", "cluster_x", "candidate_offsets",
                                             "candidate_x", "candidate_node", "action_mask", "node_offsets", "zone_offsets", "node_x", "node_zone",
                                             "group_x", "group_weight", "group_node", "node_raw", "pod_raw")]


_library = None
_forked = False


def _after_fork():
    global _forked
    _forked = _library is not None


os.register_at_fork(after_in_child=_after_fork)


def library_path():
    """The file of the library that fits this package."""
    if given := os.environ.get("GNNSCHED_LIBRARY"):
        return pathlib.Path(given)
    here = pathlib.Path(__file__).resolve().parent
    path = here / f"libgnnsched.{ABI}.so"
    if not path.exists():
        others = ", ".join(p.name for p in here.glob("libgnnsched.*.so"))
        raise ImportError(f"library and package do not match: {path.name} is needed, and {others} is there" if others else
                          f"{path} is missing: build it with `make python`, or set GNNSCHED_LIBRARY")
    return path


def library():
    """The library, loaded once. ctypes.CDLL lets other Python threads run while Go works."""
    global _library
    if _forked:
        raise GnnschedError("this process was forked after the simulator was loaded, and Go's runtime does not survive a fork: "
                            'use multiprocessing.get_context("spawn"), or make environments in the children only')
    if _library is None:
        path = str(library_path())
        if getattr(sys, "_gnnsched_library", path) != path:
            raise ImportError(f"this process has loaded {sys._gnnsched_library}, and cannot load {path} too")
        lib = ctypes.CDLL(path)
        lib.gnnsched_env_call.restype, lib.gnnsched_env_call.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
        lib.gnnsched_env_free.restype, lib.gnnsched_env_free.argtypes = None, [ctypes.c_void_p]
        lib.gnnsched_env_play.restype = ctypes.c_int32
        lib.gnnsched_env_play.argtypes = [ctypes.c_int64, ctypes.c_int32, ctypes.c_void_p]
        if (has := lib.gnnsched_env_abi()) != ABI:
            raise ImportError(f"library and package do not match: {path} has interface {has}, and this package needs {ABI}")
        _library, sys._gnnsched_library = lib, path
    return _library


def call(op, **arguments):
    """The answer to a request as Python objects."""
    lib = library()
    pointer = lib.gnnsched_env_call(json.dumps({"op": op, **arguments}).encode())
    try:
        answer = json.loads(ctypes.string_at(pointer))
    finally:
        lib.gnnsched_env_free(pointer)
    if isinstance(answer, dict) and "error" in answer:
        raise (GnnschedError if answer["closed"] else ValueError)(answer["error"])
    return answer
