import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

import numpy as np

import gnnsched as g

ROOT = pathlib.Path(__file__).resolve().parents[2]
GNNSCHED = os.environ.get("GNNSCHED")
sys.path += [str(ROOT / "scheduler/eval/contender/testdata"), str(ROOT / "python/examples")]

import least  # noqa: E402

try:
    import torch
except ImportError:
    torch = None


def gnnsched(*arguments):
    return subprocess.run([GNNSCHED, *map(str, arguments)], capture_output=True, text=True, env={**os.environ, "GNNSCHED_PYTHON": sys.executable})


class Evaluate(unittest.TestCase):
    def test_errors(self):
        for policy, error, want in ((lambda obs: 1 / 0, ZeroDivisionError, "seeds 1 to 2, decision 1: division"), (lambda obs: np.zeros(3), ValueError, "want a score for each"),
                                    (lambda obs: np.full(len(obs["action_mask"]), np.nan), ValueError, "no numbers"), (lambda obs: np.full(2, 99), ValueError, "seed 1: action 99 is none of")):
            with self.assertRaisesRegex(error, want):
                g.evaluate(policy, "small8", [1, 2])
        with self.assertRaisesRegex(ValueError, "no seed"):
            g.evaluate(least.policy, "small8", [])

    @unittest.skipUnless(GNNSCHED, "GNNSCHED does not name the program")
    def test_three_ways_agree(self):
        """A rule played by Python, asked by Go, and written in Go has the same outcomes; and files of another scenario are refused."""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            weights, base, mine = folder / "least.json", folder / "base.json", folder / "mine.json"
            weights.write_text(json.dumps({"name": "least", "weights": {"used": -1}}))
            policies = f"kube-scheduler,linear:{weights},python:{ROOT}/scheduler/eval/contender/testdata/least.py"
            played = gnnsched("eval", "--scenario", "small8", "--seeds", 6, "--policies", policies, "-o", "json")
            base.write_text(played.stdout)
            _, rule, asked = json.loads(played.stdout)[0]["policies"]
            results = g.evaluate(least.policy, "small8", range(1, 7), name="mine", features=(), raw=True, at_once=4)
            self.assertEqual(results.outcomes, rule["outcomes"])
            self.assertEqual(asked["outcomes"], rule["outcomes"])
            self.assertEqual(asked["difference"], rule["difference"])
            results.write(mine)
            table = gnnsched("eval", "--from", base, "--from", mine)
            self.assertEqual((table.returncode, table.stdout.count("│ mine "), table.stdout.count("Means over 6 paired seeds")), (0, 1, 1), table)
            text = subprocess.run([GNNSCHED, "eval", "--print-scenario", "small8"], capture_output=True, text=True).stdout
            (folder / "s.yaml").write_text(text + "\nwaitCost: 0.5\n")
            g.evaluate(least, folder / "s.yaml", range(1, 7)).write(mine)
            self.assertIn("two different files", gnnsched("eval", "--from", base, "--from", mine).stderr)

    @unittest.skipUnless(GNNSCHED, "GNNSCHED does not name the program")
    def test_every_source_agrees(self):
        """Traces, records, GPUs, departures, usage and every objective have the outcomes of gnnsched eval."""
        data = ROOT / "workload/trace"
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            weights, record = folder / "least.json", folder / "small.record"
            weights.write_text(json.dumps({"name": "least", "weights": {"used": -1}}))
            openb = [data / "openb/testdata/nodes.csv", data / "openb/testdata/pods.csv"]
            self.assertEqual(gnnsched("convert", "--log-dir", folder, "--out", record, *openb).returncode, 0)
            nodes = "nodes: 6\nsizes: [{weight: 1, allocatable: {cpu: 16, memory: 64Gi, pods: 110}}]\n"
            for name, text in (("trace", f"{nodes}trace: {{file: {data}/testdata/aaml.csv}}\nobjective: balance\n"),
                               ("openb", f"openb: {{nodes: {openb[0]}, pods: {openb[1]}, factor: 1.3}}\nobjective: gpu-idle\n"),
                               ("record", f"nodesFile: {record}\ntrace: {{file: {record}}}\nobjective: balance\n")):
                (folder / f"{name}.yaml").write_text(f"name: {name}\n{text}")
            gpus = ("balance", "ordinary", "pack", "fragmentation", "zones", "gpu-idle", "energy", "balance=0.5,fragmentation=0.5")
            usage = ("usage-balance", "hot", "throttled", "unused", "energy,throttled=5")
            for scenario, objectives in ((folder / "trace.yaml", [""]), (folder / "openb.yaml", [""]), (folder / "record.yaml", [""]), ("heavytail", [""]),
                                         ("gpu-pool", gpus), ("energy", usage), ("traffic", ("traffic", "overload"))):
                for objective in objectives:
                    with self.subTest(scenario=scenario, objective=objective):
                        played = gnnsched("eval", "--scenario", scenario, "--seeds", 1, "--policies", f"linear:{weights}", "-o", "json",
                                          *(("--objective", objective) if objective else ()))
                        self.assertEqual(played.returncode, 0, played.stderr)
                        self.assertEqual(g.evaluate(least, scenario, [1], objective=objective).outcomes, json.loads(played.stdout)[0]["policies"][0]["outcomes"])

    @unittest.skipUnless(GNNSCHED, "GNNSCHED does not name the program")
    def test_a_saved_network_agrees(self):
        """A network that save writes, fed by the environments here, has the outcomes of gnnsched eval."""
        sets, rng = ("base", "whole"), np.random.default_rng(1)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "net.safetensors")
            g.save(path, {name: rng.normal(0, 0.3, shape) for name, shape in g.parameters(features=sets).items()}, features=sets)
            for scenario in ("traffic", "energy"):
                with self.subTest(scenario=scenario):
                    env = g.make_vec(scenario, 1, features=sets, autoreset=False)
                    obs, info = env.reset(options={"episode_seeds": [1]})
                    while info["unscheduled"][0] < 0:
                        obs, _, _, _, info = env.step(env.choose(np.concatenate(env.scores(path))))
                    played = gnnsched("eval", "--scenario", scenario, "--seeds", 1, "--policies", "random", "--checkpoint", f"x={path}", "-o", "json")
                    self.assertEqual([env.outcome(0)], json.loads(played.stdout)[0]["policies"][1]["outcomes"], played.stderr)

    def test_choose(self):
        """Default spreading is weighed against scores, in every layout, and outcomes do not hang on the scores' scale; -inf is never taken."""
        outcomes, masked = [], 0
        for layout, scale in (("ragged", 1), ("ragged", 2.0**60), ("padded", 1)):
            env = g.make_vec("small8", 2, autoreset=False, layout=layout)
            obs, info = env.reset(options={"episode_seeds": [1, 2]})
            while (info["unscheduled"] < 0).any():
                actions = env.choose(-scale * obs["candidate_x"][..., 0])
                if layout == "padded":
                    masked += (~obs["action_mask"][[0, 1], actions]).sum()
                else:
                    last = np.diff(obs["candidate_offsets"]) - 1
                    only = np.full(len(obs["action_mask"]), -np.inf)
                    only[obs["candidate_offsets"][1:] - 1] = 0
                    np.testing.assert_array_equal(env.choose(only)[info["unscheduled"] < 0], last[info["unscheduled"] < 0])
                    actions = env.choose(-scale * obs["candidate_x"][..., 0])
                obs, _, _, _, info = env.step(actions)
            outcomes.append([env.outcome(0), env.outcome(1)])
        self.assertGreater(masked, 0)
        self.assertEqual(outcomes[0], outcomes[1])
        self.assertEqual(outcomes[0], outcomes[2])
        for scores, want in (([1.0], "shape"), (np.full(obs["action_mask"].shape, np.nan), "no numbers")):
            with self.assertRaisesRegex(ValueError, want):
                env.choose(scores)

    def test_a_module_is_a_policy(self):
        seen = []
        module = types.SimpleNamespace(OBSERVATION={"features": "base"}, begin=seen.append, policy=lambda obs: -obs["candidate_x"][:, 0])
        results = g.evaluate(module, "small8", [4, 5])
        self.assertEqual((seen[0]["seeds"], results.about["names"]), ([4, 5], seen[0]["names"]))


class Save(unittest.TestCase):
    def test_errors(self):
        shapes = g.parameters(encoder="mlp", hidden=8)
        arrays = {name: np.zeros(shape) for name, shape in shapes.items()}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "x.safetensors")
            for change, want in (({"node.weight": None}, "missing: node.weight"), ({"odd": np.zeros(1)}, "no such parameters: odd"),
                                 ({"node.bias": np.zeros(3)}, r"shape \(3,\), want \(8,\)"), ({"node.bias": np.full(8, np.nan)}, "not finite")):
                changed = {name: x for name, x in {**arrays, **change}.items() if x is not None}
                with self.assertRaisesRegex(ValueError, want):
                    g.save(path, changed, encoder="mlp", hidden=8)
            for options in (dict(seed=-1), dict(training={"loss": float("nan")})):
                with self.assertRaises(ValueError, msg=options):
                    g.save(path, arrays, encoder="mlp", hidden=8, **options)
            self.assertFalse(path.exists())
        with self.assertRaisesRegex(ValueError, "encoder"):
            g.parameters(encoder="x")

    @unittest.skipUnless(torch, "needs torch")
    def test_go_scores_alike(self):
        """A network with random weights has the same scores in PyTorch and in Go."""
        import ppo_gnn
        torch.manual_seed(5)
        net = ppo_gnn.Network()
        with torch.no_grad():
            for x in net.parameters():
                x += 0.3 * torch.randn(x.shape)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "net.safetensors")
            g.save(path, net.arrays(), features=ppo_gnn.FEATURES, seed=5, training={"steps": 1})
            for scenario in ("small8", "bursty"):
                env = g.make_vec(scenario, 3, features=ppo_gnn.FEATURES, graph=True, mask="feasible")
                obs, _ = env.reset(seed=2)
                for _ in range(40):
                    scores = ppo_gnn.policy(net)(obs)
                    np.testing.assert_allclose(np.concatenate(env.scores(path)), scores, rtol=1e-4, atol=1e-4)
                    obs = env.step(g.argmax(scores, obs))[0]
            with self.assertRaisesRegex(ValueError, "no such file"):
                env.scores("none.safetensors")
            if GNNSCHED:
                played = gnnsched("eval", "--scenario", "tiny", "--seeds", 2, "--policies", "random", "--checkpoint", path, "-o", "json")
                self.assertEqual(played.returncode, 0, played.stderr)

    @unittest.skipUnless(torch, "needs torch")
    def test_example_learns(self):
        """The example runs, and its joined batches of graphs have the scores of the single ones."""
        import ppo_gnn
        env = g.make_vec("small8", 3, features=ppo_gnn.FEATURES, graph=True)
        obs, _ = env.reset(seed=1)
        steps = []
        for _ in range(3):
            steps.append(ppo_gnn.tensors(obs))
            obs = env.step(g.argmax(np.zeros(len(obs["action_mask"])), obs))[0]
        net = ppo_gnn.Network()
        joined, value = net(ppo_gnn.join(steps))
        single = [net(s) for s in steps]
        self.assertTrue(torch.allclose(joined, torch.cat([s for s, _ in single]), atol=1e-5) and torch.allclose(value, torch.cat([v for _, v in single]), atol=1e-5))
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, ppo_gnn.__file__, "--scenario", "tiny", "--minutes", "0.02", "--envs", "4", "--steps", "16", "--every", "1",
                            "--save", "net.safetensors"], cwd=folder, check=True, capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
            self.assertTrue(pathlib.Path(folder, "net.safetensors").exists())
            self.assertGreater(len(pathlib.Path(folder, "curve.csv").read_text().splitlines()), 1)


if __name__ == "__main__":
    unittest.main()
