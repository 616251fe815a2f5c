"""Gymnasium's Env and VectorEnv over the library."""

import ctypes
import os

import numpy as np

from . import _library
from ._library import CLOSED, GROW, RESET_EVALUATION, RESET_ON, RESET_TRAINING, RESULTS, STEP, Arguments, GnnschedError

try:
    import gymnasium.vector
    from gymnasium import spaces
    _Env, _VectorEnv = gymnasium.Env, gymnasium.vector.VectorEnv
    _NEXT_STEP, _DISABLED = gymnasium.vector.AutoresetMode.NEXT_STEP, gymnasium.vector.AutoresetMode.DISABLED
except (ImportError, AttributeError):  # no Gymnasium, or one before 1.1
    spaces, _Env, _VectorEnv, _NEXT_STEP, _DISABLED = None, object, object, "NextStep", "Disabled"

_F4, _I8, _U1 = np.float32, np.int64, np.uint8
_DTYPES = dict(reward=np.float64, objective=np.float64, terminated=_U1, seed=np.uint64)  # of results; the others are _I8
_ROWS = dict(candidate_x="candidates", candidate_node="candidates", action_mask="candidates", node_x="nodes", node_zone="nodes", node_raw="nodes",
             group_x="groups", group_weight="groups", group_node="groups")


if spaces:
    class _Discrete(spaces.Discrete):  # Gymnasium's take masks of int8 only
        def sample(self, mask=None, **options):
            return super().sample(mask if mask is None else np.asarray(mask, np.int8), **options)

    class _MultiDiscrete(spaces.MultiDiscrete):
        def sample(self, mask=None, **options):
            return super().sample(mask if mask is None else tuple(np.asarray(m, np.int8) for m in mask), **options)


def _not_copied(self, _):
    """For copy, deepcopy and pickle."""
    raise TypeError("the simulator is in gnnsched's library and cannot be copied or pickled: make another environment, and reset it with the same seed")


class _Batch:
    """Environments of one scenario, and the arrays that they write."""

    def __init__(self, scenario, count, layout, features, graph, raw, mask, autoreset, threads, objective, wait_cost, copy):
        self.handle = 0
        if layout not in ("ragged", "padded"):
            raise ValueError(f'layout is "ragged" or "padded", not {layout!r}')
        if mask not in ("preferred", "feasible"):
            raise ValueError(f'mask is "preferred" or "feasible", not {mask!r}')
        if not isinstance(scenario, (str, os.PathLike)):
            raise TypeError("scenario is the name of a built-in scenario or the path of a YAML file")
        if graph and not features:
            raise ValueError("graph=True needs features")
        features = [features] if isinstance(features, str) else list(features or ())
        self.about = _library.call("open", scenario=os.fspath(scenario), count=int(count), threads=int(threads), features=features,
                                   objective=objective, waitCost=wait_cost, feasible=mask == "feasible", autoreset=bool(autoreset))
        self.handle, self.count, self.copy, self.graph, self.raw = self.about["handle"], int(count), copy, graph, raw
        self.names = self.about["names"] or {}
        self.slots = self.about["slots"] if layout == "padded" else 0
        self.results = {name: np.zeros(count, _DTYPES.get(name, _I8)) for name in RESULTS}
        self.actions, self.seeds, self.reset_mask = np.zeros(count, _I8), np.zeros(count, np.uint64), np.ones(count, _U1)
        self.arguments = Arguments(size=ctypes.sizeof(Arguments), slots=self.slots)
        for name, array in (*self.results.items(), ("actions", self.actions), ("seeds", self.seeds), ("reset_mask", self.reset_mask)):
            setattr(self.arguments, name, array.ctypes.data)
        self.reference = ctypes.byref(self.arguments)
        rows = min(count * self.about["slots"], max(64 * count, 1 << 20))
        self.allocate(dict(candidates=rows, nodes=rows, groups=4 * rows))

    def allocate(self, rows):
        n, width = self.count, {kind: len(names) for kind, names in self.names.items()}
        a = self.arrays = {}
        shape = (n, self.slots) if self.slots else (rows["candidates"],)
        if not self.slots:
            a["candidate_offsets"] = np.zeros(n + 1, _I8)
        a["action_mask"] = np.zeros(shape, _U1)
        if width:
            a["pod_x"], a["cluster_x"] = np.zeros((n, width["pod"]), _F4), np.zeros((n, width["cluster"]), _F4)
            a["candidate_x"] = np.zeros((*shape, width["candidate"]), _F4)
        if self.graph or self.raw:
            a["candidate_node"], a["node_offsets"], a["zone_offsets"] = np.zeros(shape, _I8), np.zeros(n + 1, _I8), np.zeros(n + 1, _I8)
        if self.graph:
            a["node_x"], a["node_zone"] = np.zeros((rows["nodes"], width["node"]), _F4), np.zeros(rows["nodes"], _I8)
            a["group_x"], a["group_weight"] = np.zeros((rows["groups"], width["group"]), _F4), np.zeros(rows["groups"], _F4)
            a["group_node"] = np.zeros(rows["groups"], _I8)
        if self.raw:
            a["node_raw"], a["pod_raw"] = np.zeros((rows["nodes"], 10), _I8), np.zeros((n, 5), _I8)
        self.rows = rows
        for name, array in a.items():
            setattr(self.arguments, name, array.ctypes.data)
        for kind, room in rows.items():
            setattr(self.arguments, "room_" + kind, room)

    def play(self, what):
        """Calls the library and returns the observation."""
        lib = _library.library()
        status = lib.gnnsched_env_play(self.handle, what, self.reference)
        if status == GROW:  # the step is done: look again, with more room
            self.allocate({kind: max(room, 3 * getattr(self.arguments, kind) // 2) for kind, room in self.rows.items()})
            status = lib.gnnsched_env_play(self.handle, _library.OBSERVE, self.reference)
        if status < 0:
            raise (GnnschedError if status == CLOSED else ValueError)(self.arguments.message.decode(errors="replace"))
        obs = {}
        for name, array in self.arrays.items():
            if (kind := _ROWS.get(name)) and not (self.slots and kind == "candidates"):
                array = array[:getattr(self.arguments, kind)]
            if name == "action_mask":
                array = array.view(bool)
            obs[name] = array.copy() if self.copy else array
        return obs

    def step(self, actions):
        given = np.asarray(actions)
        if given.shape != (self.count,):
            raise ValueError(f"want one action for each of {self.count} environments, not an array of shape {given.shape}")
        if given.dtype.kind not in "iu":
            raise TypeError(f"actions are indices of candidates, not {given.dtype}")
        self.actions[:] = given
        return self.play(STEP)

    def reset(self, seed, episode_seeds, mask):
        what = RESET_ON
        if episode_seeds is not None:
            what, seeds = RESET_EVALUATION, np.asarray(episode_seeds)
        elif seed is not None:
            what, seeds = RESET_TRAINING, np.asarray(seed)
            if not seeds.shape and seeds.dtype.kind in "iu":
                seeds = seeds + np.arange(self.count)
        if what != RESET_ON:
            if seeds.shape != (self.count,) or seeds.dtype.kind not in "iu" or (seeds < 0).any():
                raise ValueError(f"want one whole number from 0 to 2^63-1 as seed of each of {self.count} environments, not {seeds}")
            self.seeds[:] = seeds
        self.reset_mask[:] = 1
        if mask is not None:
            if np.shape(mask) != (self.count,):
                raise ValueError(f"reset_mask has shape {np.shape(mask)}, want ({self.count},)")
            self.reset_mask[:] = np.asarray(mask, bool)
        return self.play(what)

    def outcome(self, i):
        return _library.call("outcome", handle=self.handle, environment=int(i))

    def close(self):
        handle, self.handle = self.handle, 0
        if handle and not _library._forked:
            _library.call("close", handle=handle)

    def __del__(self):
        self.close()

    def space(self, batched):
        """The space of observations; None without Gymnasium. Ragged rows are sequences."""
        if spaces is None:
            return None
        n = (self.count,) if batched else ()
        box = lambda *shape: spaces.Box(-np.inf, np.inf, shape, _F4)  # noqa: E731
        big = 1 << 62  # Box.sample adds one to it
        out = {}
        for name, a in self.arrays.items():
            if name == "action_mask":
                one = lambda *shape: spaces.Box(0, 1, shape, np.int8)  # noqa: E731; the batch of a MultiBinary, too
                out[name] = (one(*n, self.slots) if n else spaces.MultiBinary(self.slots)) if self.slots else spaces.Sequence(one(), stack=True)
            elif name in _ROWS and not (self.slots and _ROWS[name] == "candidates"):
                row = box(*a.shape[1:]) if a.dtype == _F4 else spaces.Box(0, big, a.shape[1:], _I8)
                out[name] = spaces.Sequence(row, stack=True)
            else:
                shape = a.shape if n or name.endswith("_offsets") else a.shape[1:]
                out[name] = box(*shape) if a.dtype == _F4 else spaces.Box(0, big, shape, _I8)
        return spaces.Dict(out)


def _any_seed():
    return int(np.random.default_rng().integers(1 << 29))


class GnnschedVectorEnv(_VectorEnv):
    """num_envs environments of a scenario, as gymnasium.vector.VectorEnv. An action is the index of a candidate.

    layout     "ragged": the candidates of environment i are the rows candidate_offsets[i] to candidate_offsets[i + 1];
               "padded": every environment has as many rows as its cluster may have nodes
    features   names of feature sets; () for none, which is the fastest
    graph      nodes, zones and groups of pods too, as gnnsched's networks read them
    raw        the integers behind the features too: node_raw (allocatable, then requested CPU, memory, GPUs, thousandths
               of a GPU, pods) and pod_raw (requests)
    mask       "preferred": the nodes that preferences and the spreading of replicas leave; "feasible": every node that fits
    autoreset  True: NEXT_STEP; False: DISABLED, a finished environment waits for reset(options={"reset_mask": ...})
    objective, wait_cost   instead of the scenario's
    threads    goroutines that work on a step; 0: one for each processor
    copy       False: observations are views that the next step overwrites
    strict     False: a wrong action becomes the first allowed one, for programs that draw from the action space

    reset(seed=s) gives environment i the training episodes of seed s + i, which gnnsched eval never plays.
    reset(options={"episode_seeds": [...]}) plays exactly these episodes, as gnnsched eval does.
    """

    metadata = {"render_modes": []}
    closed = True  # until it is open
    __reduce_ex__ = _not_copied

    def __init__(self, scenario, num_envs=1, *, layout="ragged", features=("base",), graph=False, raw=False, mask="preferred", autoreset=True,
                 threads=0, objective="", wait_cost=None, copy=True, strict=True):
        self._batch = _Batch(scenario, num_envs, layout, features, graph, raw, mask, autoreset, threads, objective, wait_cost, copy)
        self.num_envs, self.render_mode, self.spec, self.closed, self.strict = self._batch.count, None, None, False, strict
        self.about, self.names = self._batch.about, self._batch.names
        self.metadata = {**self.metadata, "autoreset_mode": _NEXT_STEP if autoreset else _DISABLED}
        self.observation_space, self.single_observation_space = self._batch.space(True), self._batch.space(False)
        self.single_action_space = spaces and _Discrete(self.about["slots"])
        self.action_space = spaces and _MultiDiscrete(np.full(num_envs, self.about["slots"]))
        self._obs = None

    def _info(self):
        results = self._batch.results
        info = {}
        for name in ("objective", "waited", "decisions", "seed", "unscheduled"):
            info[name] = results[name].copy()
            info["_" + name] = results[name] >= 0 if name == "unscheduled" else np.ones(self.num_envs, bool)
        ended = results["terminated"].astype(bool)
        if ended.any():  # the outcome has every metric of gnnsched eval
            info["outcome"], info["_outcome"] = np.full(self.num_envs, None, object), ended
            for i in np.flatnonzero(ended):
                info["outcome"][i] = self._batch.outcome(i)
        return info

    def reset(self, *, seed=None, options=None):
        options = options or {}
        if _VectorEnv is not object and isinstance(seed, (int, np.integer)):
            super().reset(seed=int(seed))
        if seed is None and self._obs is None and "episode_seeds" not in options:
            seed = _any_seed()
        if isinstance(seed, (list, tuple)):
            seed = [_any_seed() if s is None else s for s in seed]
        self._obs = self._batch.reset(seed, options.get("episode_seeds"), options.get("reset_mask"))
        return self._obs, self._info()

    def step(self, actions):
        if not self.strict and self._obs is not None:
            actions = self._legal(np.asarray(actions))
        self._obs = self._batch.step(actions)
        results = self._batch.results
        return self._obs, results["reward"].copy(), results["terminated"].astype(bool), np.zeros(self.num_envs, bool), self._info()

    def _legal(self, actions):
        mask, at = self._obs["action_mask"], self._obs.get("candidate_offsets")
        out = actions.copy()
        for i, action in enumerate(actions):
            row = mask[i] if at is None else mask[at[i]:at[i + 1]]
            if not (0 <= action < len(row) and row[action]):
                out[i] = row.argmax()
        return out

    def action_masks(self):
        """The mask of the last observation."""
        if self._obs is None:
            raise GnnschedError("no episode has begun: call reset first")
        return self._obs["action_mask"]

    def outcome(self, i):
        """The outcome of the last episode of environment i that ended, with every metric of gnnsched eval."""
        return self._batch.outcome(i)

    def choose(self, scores):
        """The action that gnnsched eval takes of a policy with these scores, for each environment: declared preferences come first, and
        default spreading is weighed against the scores. scores has one for each candidate; -inf is never taken. step takes these actions
        although some are masked, where mask is "preferred"."""
        want = self.action_masks().shape
        scores = np.asarray(scores, np.float64)
        if scores.shape != want:
            raise ValueError(f"want a score for each candidate, floats of shape {want}, not {scores.shape}")
        if np.isnan(scores).any():
            raise ValueError("some scores are no numbers")
        at = self._obs.get("candidate_offsets")
        rows = scores if at is None else np.split(scores, at[1:-1])
        return np.array(_library.call("choose", handle=self._batch.handle, scores=[np.nan_to_num(row).tolist() for row in rows]), _I8)

    def scores(self, path):
        """What the network of a checkpoint scores the candidates at hand, as gnnsched computes it: an array for each environment."""
        answer = _library.call("scores", handle=self._batch.handle, file=os.fspath(path))
        return [np.array(x, _F4) for x in answer]

    def close(self, **_):
        self._batch.close()
        self.closed = True


class GnnschedEnv(_Env):
    """One environment, as gymnasium.Env, with the options of GnnschedVectorEnv. The default layout is padded."""

    metadata = {"render_modes": []}
    __reduce_ex__ = _not_copied

    def __init__(self, scenario, *, layout="padded", **options):
        self._vector = GnnschedVectorEnv(scenario, 1, autoreset=False, layout=layout, **options)
        self.render_mode, self.spec, self.about, self.names = None, None, self._vector.about, self._vector.names
        self.observation_space, self.action_space = self._vector.single_observation_space, self._vector.single_action_space
        self._over = True

    def _one(self, obs, info):
        alone = ("pod_x", "cluster_x", "pod_raw") + (("candidate_x", "action_mask", "candidate_node") if self._vector._batch.slots else ())
        obs = {name: x[0] if name in alone else x for name, x in obs.items()}
        return obs, {name: x[0] for name, x in info.items() if not name.startswith("_") and info["_" + name][0]}

    def reset(self, *, seed=None, options=None):
        options = dict(options or {})
        if _Env is not object:
            super().reset(seed=seed)
        if "episode_seed" in options:
            options["episode_seeds"] = [options.pop("episode_seed")]
        obs, info = self._one(*self._vector.reset(seed=seed, options=options))
        self._over = "unscheduled" in info
        return obs, info

    def step(self, action):
        if self._over and not self._vector.closed:
            raise GnnschedError("the episode is over: call reset")
        obs, reward, terminated, _, info = self._vector.step(np.asarray([action]))
        self._over = bool(terminated[0])
        obs, info = self._one(obs, info)
        return obs, float(reward[0]), self._over, False, info

    def action_masks(self):
        return self._vector.action_masks()[0 if self._vector._batch.slots else ...]

    def outcome(self):
        return self._vector.outcome(0)

    def close(self):
        self._vector.close()


make, make_vec = GnnschedEnv, GnnschedVectorEnv


def owner(obs):
    """The environment of each row of candidates (ragged)."""
    at = obs["candidate_offsets"]
    return np.repeat(np.arange(len(at) - 1), np.diff(at))


def argmax(scores, obs):
    """The first best allowed candidate of each environment, from a score for each candidate."""
    best = np.where(obs["action_mask"], scores, -np.inf)
    if "candidate_offsets" not in obs:
        return best.argmax(-1)
    at, rows = obs["candidate_offsets"], np.arange(len(best))
    first = np.where((best == np.maximum.reduceat(best, at[:-1])[owner(obs)]) & obs["action_mask"], rows, len(best))
    return np.minimum.reduceat(first, at[:-1]) - at[:-1]


def sample(logits, obs, rng):
    """A random allowed candidate of each environment, by the softmax of logits."""
    return argmax(logits + rng.gumbel(size=obs["action_mask"].shape), obs)
