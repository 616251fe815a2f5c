import copy
import ctypes
import importlib
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import time
import types
import unittest
from unittest import mock

import numpy as np

import gnnsched as g
from gnnsched import _library


def zeros(obs):
    return g.argmax(np.zeros(obs["action_mask"].shape), obs)


def child(code):
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


class Rollouts(unittest.TestCase):
    def roll(self, steps=1000, **options):
        env, rng, rewards, ended = g.make_vec("small8", 4, **options), np.random.default_rng(1), [], []
        obs, info = env.reset(seed=3)
        before = np.zeros(4, bool)
        for _ in range(steps):
            if "candidate_offsets" in obs:
                rows = np.diff(obs["candidate_offsets"])
                logits = np.concatenate([rng.gumbel(size=8)[:n] for n in rows])
            else:
                logits = np.stack([rng.gumbel(size=8)[np.arange(obs["action_mask"].shape[1]) % 8] for _ in range(4)])
            obs, reward, terminated, truncated, info = env.step(g.argmax(logits, obs))
            self.assertFalse(truncated.any())
            self.assertTrue((reward[before] == 0).all() and (info["decisions"][before] == 0).all())
            ended += [(i, int(info["seed"][i]), info["outcome"][i]["cost"]) for i in np.flatnonzero(terminated)]
            before = terminated
            rewards.append(reward)
        return np.array(rewards), ended

    def test_layouts_and_threads_agree(self):
        rewards, ended = self.roll(graph=True, raw=True)
        self.assertGreater(len(ended), 8)
        for i in range(4):
            seeds = [s for j, s, _ in ended if i == j]
            self.assertEqual(seeds, [(3 + i + 1 << 32) + 1 + k for k in range(len(seeds))])
        for options in (dict(threads=1), dict(layout="padded"), dict(features=(), copy=False), dict(features=("base", "whole"))):
            again, ended_again = self.roll(**options)
            self.assertTrue((again == rewards).all(), options)
            self.assertEqual(ended, ended_again)

    def test_every_kind_of_scenario(self):
        for scenario, options in (("gpu-pool", dict(features=("base", "whole"), graph=True)), ("lossy", {}), ("traffic", dict(graph=True)),
                                  ("energy", dict(objective="balance=0.5,energy=1")), ("bursty", dict(mask="feasible"))):
            env = g.make_vec(scenario, 2, **options)
            obs, _ = env.reset(seed=1)
            for _ in range(30):
                obs, reward, *_ = env.step(zeros(obs))
                self.assertTrue(np.isfinite(reward).all() and all(np.isfinite(x).all() for x in obs.values()), scenario)
            env.close()

    def test_disabled_autoreset(self):
        env = g.make_vec("tiny", 2, autoreset=False)
        obs, info = env.reset(options={"episode_seeds": [1, 2]})
        while (info["unscheduled"] < 0).any():
            obs, _, _, _, info = env.step(zeros(obs))
        obs, reward, terminated, _, _ = env.step(np.zeros(2, int))
        self.assertTrue((reward == 0).all() and not terminated.any() and (np.diff(obs["candidate_offsets"]) == 1).all())
        _, info = env.reset(options={"reset_mask": np.array([True, False])})
        self.assertEqual((info["seed"].tolist(), info["decisions"][0]), ([2, 2], 0))

    def test_single(self):
        env = g.make("tiny")
        obs, info = env.reset(seed=0)
        total, over = 0.0, False
        while not over:
            obs, reward, over, _, info = env.step(int(np.argmax(obs["action_mask"])))
            total += reward
        self.assertAlmostEqual(info["objective"], -total)
        self.assertEqual(info["outcome"], env.outcome())
        with self.assertRaisesRegex(g.GnnschedError, "call reset"):
            env.step(0)
        loose = g.make("small8", strict=False)
        loose.reset(seed=0)
        loose.step(10**6)

    def test_with_gymnasium(self):
        """With a stand-in for Gymnasium, the classes are its own, and spaces have the shapes of the observations."""
        class Base:
            def reset(self, *, seed=None, options=None):
                self.np_random_seed = seed

        class Box:
            def __init__(self, low, high, shape, dtype):
                self.low, self.high, self.shape, self.dtype = low, high, shape, dtype

            def __contains__(self, x):
                x = np.asarray(x)
                return np.can_cast(x.dtype, self.dtype) and x.shape == self.shape and bool((x >= self.low).all() and (x <= self.high).all())

        class Rows:
            def __init__(self, row, stack=False):
                self.row, self.stack = row, stack

            def __contains__(self, x):
                return (self.stack or isinstance(x, tuple)) and all(item in self.row for item in x)

        class Dict(dict):
            def __contains__(self, x):
                return x.keys() == self.keys() and all(x[name] in self[name] for name in self)

        class Actions:  # as Gymnasium's, which take masks of int8 only
            def __init__(self, n):
                self.n = n

            def sample(self, mask=None):
                for m in mask if isinstance(mask, tuple) else [mask]:
                    assert m.dtype == np.int8, m.dtype
                return mask

        fake = types.SimpleNamespace(Env=Base, vector=types.SimpleNamespace(VectorEnv=Base, AutoresetMode=types.SimpleNamespace(NEXT_STEP="n", DISABLED="d")),
                                     spaces=types.SimpleNamespace(Box=Box, Dict=Dict, Discrete=Actions, MultiDiscrete=Actions,
                                                                  MultiBinary=lambda n: Box(0, 1, (n,), np.int8), Sequence=Rows))
        from gnnsched import env as module
        try:
            with mock.patch.dict(sys.modules, {"gymnasium": fake, "gymnasium.vector": fake.vector, "gymnasium.spaces": fake.spaces}):
                importlib.reload(module)
                env = module.make_vec("tiny", 2, layout="padded")
                obs, _ = env.reset(seed=5)
                self.assertEqual((env.np_random_seed, isinstance(env, Base), env.metadata["autoreset_mode"]), (5, True, "n"))
                self.assertEqual([list(m) for m in env.action_space.sample(mask=obs["action_mask"])], obs["action_mask"].astype(int).tolist())
                self.assertEqual(list(env.single_action_space.sample(mask=obs["action_mask"][0])), obs["action_mask"][0].astype(int).tolist())
                for layout in ("padded", "ragged"):
                    for options in ({}, dict(graph=True, raw=True), dict(features=())):
                        many, one = module.make_vec("traffic", 2, layout=layout, **options), module.make("traffic", layout=layout, strict=False, **options)
                        for _ in range(2):
                            self.assertIn(many.reset()[0], many.observation_space, (layout, options))
                            self.assertIn(one.reset()[0], one.observation_space, (layout, options))
                        self.assertIn(one.step(0)[0], one.observation_space, (layout, options))
        finally:
            importlib.reload(module)


class Errors(unittest.TestCase):
    def test_scenario_and_options(self):
        with tempfile.TemporaryDirectory() as folder:
            for text, want in (("name: x\nnodes: 0\n", "sizes"), ("nonsense", "cannot unmarshal"), ("name: [", "yaml"), ("", "no scenario")):
                path = pathlib.Path(folder, "x.yaml")
                path.write_text(text)
                with self.assertRaisesRegex(ValueError, want):
                    g.make_vec(path)
        for bad in ("nowhere", "no/such.yaml", "all", "hetero*"):
            with self.assertRaises(ValueError):
                g.make_vec(bad)
        with self.assertRaises(TypeError):
            g.make_vec(None)
        self.assertEqual(g.make_vec("tiny", features="base").names, g.make_vec("tiny").names)
        with mock.patch.object(_library, "call", wraps=_library.call) as call, self.assertRaises(TypeError):
            g.make_vec("tiny", 1.5)
        self.assertEqual([c.args[0] for c in call.call_args_list], ["open", "close"])  # nothing stays open
        for options in (dict(num_envs=0), dict(num_envs=10**9), dict(features=["x"]), dict(objective="x"), dict(layout="x"), dict(mask="x"), dict(features=(), graph=True)):
            with self.assertRaises((ValueError, MemoryError), msg=options):
                g.make_vec("tiny", **options)

    def test_order_and_actions(self):
        env = g.make_vec("small8", 2)
        for call in (lambda: env.step([0, 0]), env.action_masks, lambda: env.reset(seed=[1]), lambda: env.reset(seed=1.5), lambda: env.reset(seed=-5), lambda: env.reset(seed=1 << 40),
                     lambda: env.reset(options={"episode_seeds": [1, 1 << 32]}), lambda: env.outcome(0)):
            with self.assertRaises((ValueError, g.GnnschedError)):
                call()
        env.reset()  # with a seed that it draws
        obs, _ = env.reset(seed=1)
        for bad in ([0, 99], [-1, 0], [0, 1 << 62], [0], [[0, 0]], 0, [0.0, 1.0], ["a", "b"], None, [np.nan, 0]):
            with self.assertRaises((ValueError, TypeError), msg=bad):
                env.step(bad)
        self.assertTrue((env.step(zeros(obs))[4]["decisions"] == 1).all())  # nothing was placed before
        while env.action_masks().all():
            env.step(zeros(env._obs))
        obs = env._obs
        masked = int(np.flatnonzero(~obs["action_mask"])[0])
        i, actions = int(g.owner(obs)[masked]), zeros(obs)
        actions[i] = masked - obs["candidate_offsets"][i]
        with self.assertRaisesRegex(ValueError, "masked"):
            env.step(actions)

    def test_seeds_and_copies(self):
        env = g.make_vec("small8", 3)
        for seed in ([1, None, 3], (1, None, 3)):
            self.assertEqual(env.reset(seed=seed)[1]["seed"][[0, 2]].tolist(), env.reset(seed=[1, 2, 3])[1]["seed"][[0, 2]].tolist())
        for seed in (-1, 1.5, "x", 2**64, [1, 2]):
            with self.assertRaisesRegex(ValueError, "want one whole number from 0"):
                env.reset(seed=seed)
        for one in (env, g.make("small8")):
            for to in (copy.copy, copy.deepcopy, pickle.dumps):
                with self.assertRaisesRegex(TypeError, "cannot be copied or pickled"):
                    to(one)

    def test_closed(self):
        env = g.make_vec("tiny", 2)
        env.reset(seed=1)
        env.close()
        env.close()
        for call in (lambda: env.step([0, 0]), lambda: env.reset(seed=1), lambda: env.outcome(0)):
            with self.assertRaisesRegex(g.GnnschedError, "closed"):
                call()

    def test_arrays(self):
        env = g.make_vec("small8", 2, graph=True)
        env.reset(seed=1)
        b = env._batch
        call = lambda what=0: _library.library().gnnsched_env_play(b.handle, what, b.reference)  # noqa: E731
        for name, value in (("size", 8), ("room_nodes", -1), ("room_nodes", 1 << 62), ("cluster_x", None), ("node_zone", None), ("reward", None), ("slots", 3)):
            old = getattr(b.arguments, name)
            setattr(b.arguments, name, value)
            self.assertEqual(call(), -1, name)
            setattr(b.arguments, name, old)
        b.arguments.room_candidates, old = 1, b.arguments.room_candidates
        b.arrays["candidate_x"][:] = 7
        self.assertEqual((call(), b.arguments.candidates > 1), (1, True))  # too little room: nothing is written but what is needed
        self.assertTrue((b.arrays["candidate_x"] == 7).all())
        b.arguments.room_candidates = old
        b.allocate(dict(candidates=1, nodes=1, groups=1))
        obs = b.play(0)  # grows
        self.assertEqual(obs["candidate_offsets"][-1], len(obs["candidate_x"]))
        self.assertEqual(call(99), -1)
        self.assertEqual(_library.library().gnnsched_env_play(b.handle, 0, None), -1)

    def test_library_does_not_match(self):
        with tempfile.TemporaryDirectory() as folder:
            package = pathlib.Path(folder, "gnnsched")
            package.mkdir()
            for f in pathlib.Path(g.__file__).parent.glob("*.py"):
                (package / f.name).write_text(f.read_text())
            run = lambda: subprocess.run([sys.executable, "-c", "import gnnsched"], env={**os.environ, "PYTHONPATH": folder}, cwd=folder, capture_output=True, text=True).stderr  # noqa: E731
            self.assertIn("make python", run())
            (package / "libgnnsched.0.so").write_text("")
            self.assertIn("library and package do not match: libgnnsched.2.so is needed, and libgnnsched.0.so is there", run())
        with mock.patch.object(_library, "_library", None), mock.patch.dict(os.environ, GNNSCHED_LIBRARY="/other.so"):
            g.make("tiny") if not hasattr(sys, "_gnnsched_library") else None
            with self.assertRaisesRegex(ImportError, "cannot load /other.so too"):
                _library.library()


class Process(unittest.TestCase):
    def test_no_leak(self):
        def memory():
            return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096
        for n in range(1000):
            env = g.make_vec("tiny", 4)
            obs, _ = env.reset(seed=n)
            env.step(zeros(obs))
            env.close()
            if n == 200:
                start = memory()
        self.assertLess(memory() - start, 32 << 20)

    def test_fork(self):
        p = child("""
import os, numpy as np, gnnsched as g
env = g.make_vec("tiny", 4)
env.reset(seed=1)
pid = os.fork()
for call in (lambda: env.step(np.zeros(4, int)), lambda: g.make_vec("tiny"), lambda: env.reset(seed=1)) if pid == 0 else ():
    try: call(); print("no error", flush=True)
    except g.GnnschedError as e: print(e, flush=True)
if pid == 0: env.close(); os._exit(0)
os.waitpid(pid, 0)
env.reset(seed=1); print("parent goes on")
""")
        out = p.communicate(timeout=60)[0]
        self.assertEqual((out.count('get_context("spawn")'), out.count("parent goes on")), (3, 1), out)

    def test_interrupt(self):
        p = child("""
import signal, numpy as np, gnnsched as g
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs ignore
env = g.make_vec("large500", 64)
obs, _ = env.reset(seed=1)
print("ready", flush=True)
try:
    while True: obs = env.step(g.argmax(np.zeros(len(obs["action_mask"])), obs))[0]
except KeyboardInterrupt:
    print("interrupted"); obs, _ = env.reset(seed=1); env.step(g.argmax(np.zeros(len(obs["action_mask"])), obs)); env.close()
""")
        self.assertEqual(p.stdout.readline(), "ready\n")
        time.sleep(0.5)
        p.send_signal(2)
        self.assertEqual((p.communicate(timeout=60)[0], p.returncode), ("interrupted\n", 0))

    def test_arguments_of_c(self):
        self.assertEqual(ctypes.sizeof(_library.Arguments) % 8, 0)


if __name__ == "__main__":
    unittest.main()
