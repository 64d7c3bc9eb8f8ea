"""Trains a configuration of `trireme bench step` in PyTorch and prints one JSON line.

bfloat16 is torch.autocast with float32 parameters, the usual form of mixed precision; attention is
scaled_dot_product_attention, the optimizer fused AdamW, the model compiled by torch.compile.
"""
import argparse
import json
import statistics
import time

BEGAN = time.time()  # first_step_s has the time to import

import torch
import torch.nn as nn
import torch.nn.functional as F

from peer_configs import CONFIGS


class RMSNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x):
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(x) * self.weight


class Block(nn.Module):
    def __init__(self, family, d, heads, kv, ff):
        super().__init__()
        self.llama, self.heads, self.kv, self.e = family == "llama", heads, kv, d // heads
        bias = not self.llama
        norm = RMSNorm if self.llama else nn.LayerNorm
        self.norm1, self.norm2 = norm(d), norm(d)
        self.qkv = nn.Linear(d, (heads + 2 * kv) * self.e, bias=bias)
        self.out = nn.Linear(d, d, bias=bias)
        self.up = nn.Linear(d, (2 if self.llama else 1) * ff, bias=bias)
        self.down = nn.Linear(ff, d, bias=bias)

    def forward(self, x, cos, sin):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).split([self.heads * self.e, self.kv * self.e, self.kv * self.e], -1)
        q, k, v = (z.view(b, t, -1, self.e).transpose(1, 2) for z in (q, k, v))
        if self.llama:
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.kv != self.heads)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        h = self.up(self.norm2(x))
        if self.llama:
            gate, up = h.chunk(2, -1)
            h = F.silu(gate) * up
        else:
            h = F.gelu(h, approximate="tanh")
        return x + self.down(h)


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).type_as(x)


class Model(nn.Module):
    def __init__(self, family, layers, d, heads, kv, ff, vocab, t, _):
        super().__init__()
        self.llama, self.layers = family == "llama", layers
        self.tokens = nn.Embedding(vocab, d)
        self.positions = None if self.llama else nn.Embedding(t, d)
        self.blocks = nn.ModuleList(Block(family, d, heads, kv, ff) for _ in range(layers))
        self.norm = (RMSNorm if self.llama else nn.LayerNorm)(d)
        self.head = nn.Linear(d, vocab, bias=False)
        if not self.llama:
            self.head.weight = self.tokens.weight
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)
        e = d // heads
        angles = torch.outer(torch.arange(t).float(), 10000 ** (-torch.arange(0, e, 2).float() / e))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, ids, targets):
        x = self.tokens(ids)
        if not self.llama:
            x = x + self.positions.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), targets.flatten())


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--config", default="gpt2-1k")
    p.add_argument("--device", default="cuda")
    p.add_argument("--dtype", default="bfloat16")
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--warmup", type=int, default=3)
    a = p.parse_args()
    config = CONFIGS[a.config]
    vocab, t, rows = config[6:]
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("highest")
    model = Model(*config).to(a.device)
    step_model = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1, fused=True)
    batches = [torch.randint(vocab, (rows, t + 1), device=a.device) for _ in range(4)]
    cuda = a.device == "cuda"
    times, losses, ends, first, last, total = [], [], [], 0.0, time.time(), a.warmup + a.steps
    for i in range(total + 1):  # one step is enqueued before the end of the last is awaited
        if i < total:
            ids = batches[i % 4]
            with torch.autocast(a.device, torch.bfloat16, enabled=a.dtype == "bfloat16"):
                loss = step_model(ids[:, :-1], ids[:, 1:])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append(loss.detach())
            if cuda:
                ends.append(torch.cuda.Event())
                ends[i].record()
        if i == 0:
            continue
        if cuda:
            ends[i - 1].synchronize()
        now = time.time()
        if i == 1:
            first = now - BEGAN
        if i > a.warmup:
            times.append(now - last)
        last = now
    median = statistics.median(times)
    peak = torch.cuda.max_memory_allocated() >> 20 if cuda else 0
    print(json.dumps({
        "program": "torch " + torch.__version__, "config": a.config, "dtype": a.dtype, "step_ms": 1e3 * median, "tokens_per_s": rows * t / median,
        "first_step_s": first, "device_peak_mib": peak, "loss_first": losses[0].item(), "loss_last": losses[-1].item(), "steps": a.steps,
    }))


if __name__ == "__main__":
    main()
