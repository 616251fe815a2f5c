"""gnnsched's simulator as reinforcement-learning environments, and its judge.

    import gnnsched
    env = gnnsched.make_vec("mixed", num_envs=64, layout="padded")
    obs, info = env.reset(seed=1)
    obs, reward, terminated, truncated, info = env.step(actions)

docs/how-to/python.md of gnnsched is the guide. Needs NumPy; uses Gymnasium's classes and spaces where it is installed.
"""

from ._library import GnnschedError, library_path
from .env import GnnschedEnv, GnnschedVectorEnv, argmax, make, make_vec, owner, sample
from .judge import Results, evaluate
from .weights import parameters, save

__all__ = ["GnnschedEnv", "GnnschedError", "GnnschedVectorEnv", "Results", "argmax", "evaluate", "make", "make_vec", "owner",
           "parameters", "sample", "save"]

library_path()  # an import says what is wrong; the library is loaded with the first environment
