#!/usr/bin/env python3
"""Generates schedules.json: learning rates per step of the reference implementations.

    python3 make_schedules.py FOLDER

Needs torch 2.9.1 and transformers 5.23; FOLDER is the unpacked source of DeepSpeed 0.19.8; only
runtime/lr_schedules.py is loaded. transformers' rates are taken before scheduler.step(), DeepSpeed's
from get_lr() at last_batch_iteration.
"""
import importlib.util
import json
import os
import sys
import types

import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
LR, STEPS = 0.003, 20
HF = [
    ("cosine", "cosine_with_min_lr", {"warmup_steps": 3, "min_lr": 0.0004}, {"min_lr": 0.0004}),
    ("cosine", "cosine_with_min_lr", {"warmup_steps": 3, "min_lr_ratio": 0.1}, {"min_lr_rate": 0.1}),
    ("cosine_with_restarts", "cosine_with_restarts", {"warmup_steps": 3, "lr_cycles": 3}, {"num_cycles": 3}),
    ("polynomial", "polynomial", {"warmup_steps": 3, "lr_power": 2.5, "lr_end": 0.0002}, {"power": 2.5, "lr_end": 0.0002}),
    ("inverse_sqrt", "inverse_sqrt", {"warmup_steps": 3}, {}),
    ("inverse_sqrt", "inverse_sqrt", {}, {}),
    ("inverse_sqrt", "inverse_sqrt", {"warmup_steps": 2, "lr_timescale": 7}, {"timescale": 7}),
]
for warmup, decay in (("linear", "cosine"), ("cosine", "linear"), ("1-sqrt", "1-sqrt")):
    ours = {"warmup_steps": 4, "warmup_type": warmup, "lr_decay_steps": 6, "lr_decay_type": decay}
    theirs = {"num_decay_steps": 6, "warmup_type": warmup, "decay_type": decay}
    HF += [("wsd", "warmup_stable_decay", ours, theirs),
           ("wsd", "warmup_stable_decay", ours | {"min_lr_ratio": 0.1}, theirs | {"min_lr_ratio": 0.1})]
DEEPSPEED = [
    ("WarmupLR", {"warmup_steps": 5, "min_lr": 0.0001}, {"warmup_min_lr": 0.0001, "warmup_max_lr": LR}),
    ("WarmupLR", {"warmup_steps": 5, "warmup_type": "linear"}, {"warmup_max_lr": LR}),
    ("WarmupDecayLR", {"warmup_steps": 5}, {"warmup_max_lr": LR}),
    ("WarmupCosineLR", {"warmup_steps": 5, "min_lr_ratio": 0.0001}, {}),
    ("WarmupCosineLR", {"warmup_steps": 1, "warmup_type": "linear", "warmup_min_ratio": 0.2, "min_lr_ratio": 0.05}, {"warmup_min_ratio": 0.2, "cos_min_ratio": 0.05}),
]


def optimizer():
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=LR)


def of_transformers(name, ours, theirs):
    o = optimizer()
    s = transformers.get_scheduler(name, o, ours.get("warmup_steps", 0), STEPS, scheduler_specific_kwargs=theirs)
    rates = []
    for _ in range(STEPS):
        rates.append(o.param_groups[0]["lr"])
        o.step()
        s.step()
    return rates


def lr_schedules(folder):
    """Loads DeepSpeed's module without its package, whose other imports need a device."""
    utils = types.ModuleType("deepspeed.utils")
    utils.logger = types.SimpleNamespace(warning=lambda *_: None)
    sys.modules |= {"deepspeed": types.ModuleType("deepspeed"), "deepspeed.utils": utils}
    spec = importlib.util.spec_from_file_location("lr_schedules", os.path.join(folder, "deepspeed", "runtime", "lr_schedules.py"))
    m = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(m)
    return m


def of_deepspeed(m, name, ours, theirs):
    args = dict(theirs, warmup_num_steps=ours["warmup_steps"], warmup_type=ours.get("warmup_type", "log"))
    if name != "WarmupLR":
        args["total_num_steps"] = STEPS
    s = getattr(m, name)(optimizer(), **args)
    rates = []
    for i in range(STEPS + 2):
        s.step(i)
        rates.append(s.get_lr()[0])
    return rates


m = lr_schedules(sys.argv[1])
cases = [{"name": name, "args": ours, "lrs": of_transformers(their, ours, theirs)} for name, their, ours, theirs in HF]
cases += [{"name": name, "args": ours, "lrs": of_deepspeed(m, name, ours, theirs)} for name, ours, theirs in DEEPSPEED]
with open(os.path.join(HERE, "schedules.json"), "w") as f:
    f.write('{"source": "transformers %s and DeepSpeed 0.19.8, by make_schedules.py", "learning_rate": %r, "steps": %d, "cases": [\n' % (transformers.__version__, LR, STEPS))
    f.write(",\n".join(json.dumps(c) for c in cases) + "\n]}\n")
