"""Measures steps a second of the scenario mixed: python3 python/speed.py. A step is one decision of one environment, with the first allowed
candidate. The Go side is go test ./scheduler/sim/vector -run '^$' -bench Step."""

import os
import time

import gnnsched

print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors; steps/s of step alone, and per second of processor time in it")
for name, options in (("none", dict(features=())), ("padded", dict(layout="padded")), ("ragged", {}), ("graph", dict(graph=True))):
    for threads in (1, 2):
        for n in (1, 16, 64, 256):
            env = gnnsched.make_vec("mixed", n, threads=threads, copy=False, **options)
            obs, _ = env.reset(seed=1)
            wall = busy = calls = 0
            while wall < 2:
                actions = gnnsched.argmax(0.0, obs)
                w, b = time.perf_counter(), time.process_time()
                obs, *_ = env.step(actions)
                wall, busy, calls = wall + time.perf_counter() - w, busy + time.process_time() - b, calls + 1
            env.close()
            print(f"{name:8} {threads} threads {n:4} environments {calls * n / wall:9.0f} {calls * n / busy:9.0f}", flush=True)
