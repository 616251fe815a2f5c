"""Plays a policy on the episodes of gnnsched eval. Go measures the outcomes."""

import json
import pathlib

import numpy as np

from .env import GnnschedVectorEnv


class Results:
    """The outcomes of a policy: outcomes[i] has the metrics of the episode of seeds[i]."""

    def __init__(self, name, about, seeds, outcomes):
        self.name, self.about, self.seeds, self.outcomes = name, about, list(seeds), outcomes

    def mean(self, metric="cost"):
        return sum(o[metric] for o in self.outcomes) / len(self.outcomes)

    def write(self, path):
        """Writes a file for `gnnsched eval --from BASE.json --from PATH`, which compares it with what BASE.json has of the same scenario."""
        kept = {key: self.about[key] for key in ("scenario", "hash", "about", "objective")}
        policy = dict(name=self.name, kind="network", mean={}, outcomes=self.outcomes)
        samples = 1 if self.about["oneWorkload"] else len(self.seeds)
        pathlib.Path(path).write_text(json.dumps([dict(kept, seeds=self.seeds, samples=samples, baseline=self.name, policies=[policy])]))


def evaluate(policy, scenario, seeds, *, name="python", at_once=256, **options):
    """Plays the episodes of `gnnsched eval --scenario SCENARIO` with these seeds. policy(obs) returns a score for each candidate, or an
    action for each environment. It may be a module too, as `gnnsched eval --policies python:FILE` loads. options are those of GnnschedVectorEnv."""
    seeds, outcomes, about = [int(s) for s in seeds], [], None
    if not seeds:
        raise ValueError("no seed")
    module, policy, options = policy, getattr(policy, "policy", policy), {**getattr(policy, "OBSERVATION", {}), **options}
    for first in range(0, len(seeds), at_once):
        some = seeds[first:first + at_once]
        env = GnnschedVectorEnv(scenario, len(some), autoreset=False, **options)
        try:
            getattr(module, "begin", lambda info: None)({**(about := env.about), "seeds": some})
            obs, info = env.reset(options={"episode_seeds": some})
            while (info["unscheduled"] < 0).any():
                try:
                    answer = np.asarray(policy(obs))
                    if answer.dtype.kind not in "iuf":
                        raise ValueError(f"the policy answered {answer.dtype}: want a score for each candidate, floats, or an action for each "
                                         "environment, integers")
                    actions = env.choose(answer) if answer.dtype.kind == "f" else answer
                except Exception as e:
                    e.args = (f"seeds {some[0]} to {some[-1]}, decision {info['decisions'].max() + 1}: {e}",)
                    raise
                obs, _, _, _, info = env.step(actions)
            outcomes += [env.outcome(i) for i in range(len(some))]
        finally:
            env.close()
    return Results(name, about, seeds, outcomes)
