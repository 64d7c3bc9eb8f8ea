#!/usr/bin/env python3
"""Makes optimizers.json: losses of the network and the rows of llama-answers, by each optimizer.

    python3 optimizers.py

Needs what optim/testdata/make_optimizers.py needs, beside this folder's make.py. A run goes through
the rows three times in their order, at one learning rate and with gradients clipped at a norm of
1. State of 8 bits is the formula of bitsandbytes' kernels for GPUs: those for CPUs round the
smallest numbers to 0, because their table is as fine everywhere. Weight decay applies to parameters of two or more dimensions.
"""
import importlib.util
import json
import os

import torch
import torch.nn.functional as F
from torch import nn

import make

HERE = os.path.dirname(os.path.abspath(__file__))
CASE, STEPS = os.path.join(HERE, "llama-answers"), 24
spec = importlib.util.spec_from_file_location("make_optimizers", os.path.join(HERE, *[".."] * 3, "optim", "testdata", "make_optimizers.py"))
of = importlib.util.module_from_spec(spec)
spec.loader.exec_module(of)


class Both:
    """Muon for the matrices of the layers, AdamW for the rest."""

    def __init__(self, m, lr, decay, **args):
        inside = [p for n, p in m.named_parameters() if p.ndim == 2 and ".layers." in n]
        self.of = [torch.optim.Muon(inside, lr=lr, weight_decay=decay, **args),
                   torch.optim.AdamW(groups([p for n, p in m.named_parameters() if p.ndim == 1 or ".layers." not in n], decay), lr=lr, betas=(0.9, 0.95))]

    def step(self):
        for o in self.of:
            o.step()


def groups(params, decay):
    return [{"params": [p for p in params if p.ndim > 1], "weight_decay": decay}, {"params": [p for p in params if p.ndim == 1], "weight_decay": 0.0}]


def simple(make_optimizer, after=None, **theirs):
    def build(m, lr, decay, **args):
        o = make_optimizer(groups(list(m.parameters()), decay), lr=lr, **(args | theirs))
        if after:
            step = o.step
            o.step = lambda: (step(), after(o))
        return o
    return build


def relative(m, lr, decay, **args):
    return of.HF(groups(list(m.parameters()), decay), **args)


O, betas = torch.optim, [0.9, 0.95]
RUNS = [
    ("sgd", 0.2, {"momentum": 0.9, "nesterov": True}, simple(O.SGD)),
    ("adamw", 0.01, {"betas": betas}, simple(O.AdamW)),
    ("adam", 0.01, {"betas": betas}, simple(O.Adam)),
    ("adam", 0.002, {"betas": betas, "bias_correction": False}, simple(of.ByFormula, update=of.adam_of_deepspeed, adam_w_mode=False)),
    ("adagrad", 0.02, {}, simple(O.Adagrad)),
    ("lion", 0.002, {"betas": [0.9, 0.99]}, simple(of.lion_pytorch.Lion)),
    ("adafactor", 0.01, {"scale_parameter": False, "relative_step": False}, simple(of.HF)),
    ("adafactor", 0.0, {"scale_parameter": True, "relative_step": True, "warmup_init": False}, relative),
    ("lamb", 0.01, {}, simple(of.ByFormula, update=of.lamb_of_deepspeed)),
    ("muon", 0.01, {"adjust_lr_fn": "match_rms_adamw"}, Both),
    ("adamw_bf16", 0.01, {"betas": betas}, simple(O.AdamW, of.narrow)),
    ("adamw_8bit", 0.01, {"betas": betas, "min_8bit_size": 256}, simple(of.ByFormula, update=of.adam_of_eight_bits)),
]


def network(config):
    with open(os.path.join(CASE, "model", "model.safetensors"), "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    m = make.Decoder(config)
    m.load_state_dict({n: torch.frombuffer(bytearray(data[slice(*t["data_offsets"])]), dtype=torch.float32).view(t["shape"]) for n, t in header.items() if n != "__metadata__"})
    return m


def losses(build, lr, given):
    _, config, _, _, micro, accumulation = make.CASES["llama-answers"]
    m = network(config)
    with open(os.path.join(CASE, "data.jsonl")) as f:
        rows = [json.loads(line) for line in f]
    o, out = build(m, lr, 0.1, **given), []
    for step in range(STEPS):
        total, counted = 0.0, 0
        m.zero_grad()
        for a in range(accumulation):
            at = (step * accumulation + a) * micro % len(rows)
            batch = {k: torch.tensor([r[k] for r in rows[at:at + micro]]) for k in rows[0]}
            _, flat, labels = m.losses(batch)
            loss = F.cross_entropy(flat, labels, reduction="sum", ignore_index=make.IGNORED)
            loss.backward()
            total, counted = total + loss.item(), counted + int((labels != make.IGNORED).sum())
        for p in m.parameters():
            p.grad /= counted
        nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        o.step()
        out.append(float(f"{total / counted:.8g}"))
    return out


if __name__ == "__main__":
    torch.set_num_threads(1)
    lines = []
    for name, lr, given, build in RUNS:
        run = {"optimizer": {"name": name} | given, "lr": lr, "losses": losses(build, lr, given)}
        print(name, given, run["losses"][0], run["losses"][7], run["losses"][-1])
        lines.append(json.dumps(run, separators=(",", ":")))
    with open(os.path.join(HERE, "optimizers.json"), "w") as f:
        f.write('{"case": "llama-answers", "weight_decay": 0.1, "runs": [\n' + ",\n".join(lines) + "\n]}\n")
