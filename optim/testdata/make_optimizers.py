#!/usr/bin/env python3
"""Generates optimizers.json: parameters after optimizer steps of the reference implementations.

    python3 make_optimizers.py

Needs torch 2.9.1, transformers 5.23, lion-pytorch 0.2.5 and bitsandbytes 0.50.2 (CPU build). LAMB and Adam without bias correction are the formulas of DeepSpeed 0.19.8
(csrc/lamb/fused_lamb_cuda_kernel.cu, csrc/adam/cpu_adam_impl.cpp) in float32, except that
1 - beta is rounded once, not computed from a rounded beta.

value and grad below define parameters and gradients, reproducible in any language. Weight decay
applies to w and big, not to b, which has one dimension. A case has w (4 x 6), b (5) or big (600)
after the steps KEPT.
"""
import json
import math
import os

import bitsandbytes
import lion_pytorch
import numpy as np
import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS, KEPT = 12, (1, 2, 5, 12)
SHAPES = {"w": (4, 6), "b": (5,), "big": (600,)}
FINE = [10, 12, 8, 10, 18, 11, 7, 10, 13, 10, 9, 10]  # gradients of step t are below 2^(10 - FINE[t])
f32 = np.float32


def count(shape):
    return int(np.prod(shape))


def value(name):
    i = np.arange(count(SHAPES[name])) + {"w": 0, "b": 100, "big": 200}[name]
    return (((i * 31 + 17) % 257 - 128) / 256).astype(f32).reshape(SHAPES[name])


def grad(name, t):
    i = np.arange(count(SHAPES[name])) + {"w": 0, "b": 100, "big": 200}[name]
    return (((i * 7919 + (t + 1) * 104729) % 2003 - 1001) / 2.0 ** FINE[t]).astype(f32).reshape(SHAPES[name])


def run(make, names=("w", "b"), after=None, decay=0.1, **args):
    """Returns the parameters after the steps KEPT of the optimizer make(groups, **args)."""
    params = {n: torch.nn.Parameter(torch.tensor(value(n))) for n in names}
    groups = [{"params": [p], "weight_decay": 0.0 if p.ndim == 1 and n != "big" else decay} for n, p in params.items()]
    o, kept = make(groups, **args), {}
    for t in range(STEPS):
        for n, p in params.items():
            p.grad = torch.tensor(grad(n, t))
        o.step()
        if after:
            after(o)
        if t + 1 in KEPT:
            kept[t + 1] = {n: p.detach().flatten().tolist() for n, p in params.items()}
    return kept


class ByFormula(torch.optim.Optimizer):
    """update(p, g, state, t, lr, weight_decay, **args) in numpy's float32."""

    def __init__(self, groups, update, lr, **args):
        super().__init__(groups, {"lr": lr})
        self.update, self.args, self.t = update, args, 0

    @torch.no_grad()
    def step(self):
        self.t += 1
        for g in self.param_groups:
            for p in g["params"]:
                s = self.state[p]
                for name in ("m", "v"):
                    s.setdefault(name, np.zeros(p.shape, f32))
                p.copy_(torch.tensor(self.update(p.numpy().copy(), p.grad.numpy(), s, self.t, f32(g["lr"]), f32(g["weight_decay"]), **self.args)))


def adam_of_deepspeed(p, g, s, t, lr, decay, betas=(0.9, 0.999), eps=1e-8, bias_correction=True, adam_w_mode=True):
    b1, b2 = f32(betas[0]), f32(betas[1])
    c1, c2 = (f32(1 - betas[0] ** t), f32(1 / math.sqrt(1 - betas[1] ** t))) if bias_correction else (f32(1), f32(1))
    if decay > 0 and not adam_w_mode:
        g = g + p * decay
    s["m"] = s["m"] * b1 + g * f32(1 - betas[0])
    s["v"] = s["v"] * b2 + g * g * f32(1 - betas[1])
    if decay > 0 and adam_w_mode:
        p = p - lr * decay * p
    return p - lr / c1 * (s["m"] / (np.sqrt(s["v"]) * c2 + f32(eps)))


def lamb_of_deepspeed(p, g, s, t, lr, decay, betas=(0.9, 0.999), eps=1e-8, bias_correction=True, eps_inside_sqrt=False, max_coeff=10.0, min_coeff=0.01):
    b1, b2, eps = f32(betas[0]), f32(betas[1]), f32(eps)
    step = f32(lr * math.sqrt(1 - betas[1] ** t) / (1 - betas[0] ** t)) if bias_correction else lr
    s["m"] = b1 * s["m"] + f32(1 - betas[0]) * g
    s["v"] = b2 * s["v"] + f32(1 - betas[1]) * g * g
    u = s["m"] / (np.sqrt(s["v"] + eps) if eps_inside_sqrt else np.sqrt(s["v"]) + eps) + decay * p
    w, n = np.sqrt(np.sum(p.astype(np.float64) ** 2)), np.sqrt(np.sum(u.astype(np.float64) ** 2))
    coefficient = f32(min(max(w / n, min_coeff), max_coeff)) if w and n else f32(1)
    return p - step * coefficient * u


def eight_bits(x, signed, block=256):
    """Rounds x like bitsandbytes' GPU kernels: to the nearest value of the map, per block."""
    numbers = bitsandbytes.functional.create_dynamic_map(signed).numpy()
    flat = x.ravel().copy()
    for at in range(0, flat.size, block):
        part = flat[at:at + block]
        scale = np.abs(part).max()
        if scale > 0:
            halfway = (numbers[:-1] + numbers[1:]) * f32(0.5)
            part[:] = numbers[np.searchsorted(halfway, part * (f32(1) / scale))] * scale
    return flat.reshape(x.shape)


def adam_of_eight_bits(p, g, s, t, lr, decay, min_8bit_size=4096, **args):
    p = adam_of_deepspeed(p, g, s, t, lr, decay, **args)
    if p.size >= min_8bit_size:
        s["m"], s["v"] = eight_bits(s["m"], True), eight_bits(s["v"], False)
    return p


def narrow(o):
    """Rounds the moments to bfloat16."""
    for s in o.state.values():
        for name in ("exp_avg", "exp_avg_sq"):
            s[name].copy_(s[name].bfloat16().float())




O, CASES = torch.optim, []


def case(optimizer, lr, given, make, names=("w", "b"), after=None, decay=0.1, theirs=None):
    """given are our parameters; theirs are the reference's, if different."""
    kept = run(make, names, after, decay, **({"lr": lr} | given if theirs is None else theirs))
    CASES.append({"optimizer": {"name": optimizer} | given, "lr": lr, "weight_decay": decay, "steps": kept})


case("sgd", 0.05, {}, O.SGD)
case("sgd", 0.05, {"momentum": 0.9}, O.SGD)
case("sgd", 0.05, {"momentum": 0.9, "dampening": 0.3}, O.SGD)
case("sgd", 0.05, {"momentum": 0.9, "nesterov": True}, O.SGD)
case("adamw", 0.01, {"betas": [0.9, 0.95], "eps": 1e-6}, O.AdamW)
case("adam", 0.01, {}, O.Adam)
for given in ({"bias_correction": False}, {"adam_w_mode": True}, {"adam_w_mode": True, "bias_correction": False}):
    case("adam", 0.01, given, ByFormula, theirs={"update": adam_of_deepspeed, "lr": 0.01, "adam_w_mode": False} | given)
case("adagrad", 0.05, {}, O.Adagrad)
case("adagrad", 0.05, {"lr_decay": 0.1, "initial_accumulator_value": 0.2, "eps": 1e-4}, O.Adagrad)
case("lion", 0.01, {"betas": [0.9, 0.99]}, lion_pytorch.Lion)
case("lion", 0.01, {"betas": [0.95, 0.98]}, lion_pytorch.Lion)
HF = transformers.Adafactor
fixed = {"scale_parameter": False, "relative_step": False}
case("adafactor", 0.01, fixed, HF)
case("adafactor", 0.01, fixed | {"beta1": 0.9, "decay_rate": -0.7, "clip_threshold": 0.5}, HF)
case("adafactor", 0.01, {"scale_parameter": True, "relative_step": False}, HF)
case("adafactor", 0.0, {"scale_parameter": True, "relative_step": True}, HF, theirs={"scale_parameter": True, "relative_step": True})
warm = {"scale_parameter": True, "relative_step": True, "warmup_init": True}
case("adafactor", 0.0, warm, HF, theirs=warm)
case("muon", 0.02, {}, O.Muon, names=("w",))
case("muon", 0.02, {"nesterov": False, "momentum": 0.8}, O.Muon, names=("w",))
case("muon", 0.02, {"adjust_lr_fn": "match_rms_adamw", "ns_steps": 3}, O.Muon, names=("w",))
for given in ({}, {"eps_inside_sqrt": True, "eps": 1e-6}, {"bias_correction": False}, {"max_coeff": 0.3, "min_coeff": 0.2}):
    case("lamb", 0.01, given, ByFormula, theirs={"update": lamb_of_deepspeed, "lr": 0.01} | given)
case("adamw_bf16", 0.01, {}, O.AdamW, after=narrow)
eight = {"betas": [0.9, 0.95]}
case("adamw_8bit", 0.01, eight, bitsandbytes.optim.AdamW8bit, names=("big",), theirs={"lr": 0.01, "min_8bit_size": 1} | eight)
case("adamw_8bit", 0.01, {}, bitsandbytes.optim.AdamW8bit)  # below 4096 elements: state in float32

if __name__ == "__main__":
    with open(os.path.join(HERE, "optimizers.json"), "w") as f:
        f.write('{"source": "torch %s, transformers %s, bitsandbytes %s, lion-pytorch 0.2.5, formulas of DeepSpeed 0.19.8, by make_optimizers.py",\n'
                % (torch.__version__, transformers.__version__, bitsandbytes.__version__))
        f.write('"dynamic_map": %s,\n' % json.dumps([float(f"{v:.9g}") for v in bitsandbytes.functional.create_dynamic_map(True).tolist()]))
        f.write('"unsigned_dynamic_map": %s,\n' % json.dumps([float(f"{v:.9g}") for v in bitsandbytes.functional.create_dynamic_map(False).tolist()]))
        f.write('"cases": [\n')
        for c in CASES:
            for kept in c["steps"].values():
                for n in kept:
                    kept[n] = [float(f"{v:.7g}") for v in kept[n]]
        f.write(",\n".join(json.dumps(c, separators=(",", ":")) for c in CASES) + "\n]}\n")
