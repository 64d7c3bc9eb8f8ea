"""Trains a configuration of `trireme bench step` in JAX and prints one JSON line.

Parameters are float32, computation is in bfloat16, layers are a scan, attention is
jax.nn.dot_product_attention (cuDNN on GPUs), the optimizer AdamW.
"""
import argparse
import functools
import json
import statistics
import time

BEGAN = time.time()  # first_step_s has the time to import

import jax
import jax.numpy as jnp

from peer_configs import CONFIGS


def init(config):
    family, layers, d, heads, kv, ff, vocab, t, _ = config
    e, llama = d // heads, family == "llama"
    shapes = {"qkv": (d, (heads + 2 * kv) * e), "out": (d, d), "up": (d, (2 if llama else 1) * ff), "down": (ff, d)}
    keys = iter(jax.random.split(jax.random.key(0), 16))
    blocks = {n: 0.02 * jax.random.normal(next(keys), (layers, *s)) for n, s in shapes.items()}
    blocks |= {n: jnp.ones((layers, d)) for n in ("norm1", "norm2")}
    if not llama:
        blocks |= {n + "_bias": jnp.zeros((layers, s[1])) for n, s in shapes.items()}
        blocks |= {n + "_bias": jnp.zeros((layers, d)) for n in ("norm1", "norm2")}
    p = {"tokens": 0.02 * jax.random.normal(next(keys), (vocab, d)), "blocks": blocks, "norm": jnp.ones(d)}
    if llama:
        p["head"] = 0.02 * jax.random.normal(next(keys), (vocab, d))
    else:
        p |= {"positions": 0.02 * jax.random.normal(next(keys), (t, d)), "norm_bias": jnp.zeros(d)}
    return p


def norm(x, w, b):
    y = x.astype(jnp.float32)
    if b is not None:
        y = y - y.mean(-1, keepdims=True)
    y = y * jax.lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-5)
    y = y * w + (0 if b is None else b)
    return y.astype(x.dtype)


def rotate(x, cos, sin):
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)


def loss_of(p, ids, targets, config, dtype):
    family, _, d, heads, kv, ff, _, t, _ = config
    llama, e, rows = family == "llama", d // heads, ids.shape[0]
    half = {k: v for k, v in p.items() if k != "blocks"} | {"blocks": jax.tree.map(lambda v: v.astype(dtype), p["blocks"])}
    x = half["tokens"].astype(dtype)[ids]
    if not llama:
        x = x + half["positions"].astype(dtype)[None]
    angles = jnp.outer(jnp.arange(t), 10000.0 ** (-jnp.arange(0, e, 2) / e))
    cos, sin = (f(angles)[None, :, None].astype(dtype) for f in (jnp.cos, jnp.sin))
    implementation = "cudnn" if jax.default_backend() == "gpu" and dtype != jnp.float32 else None

    def linear(w, name, x):
        y = x @ w[name]
        return y if llama else y + w[name + "_bias"]

    def block(x, w):
        h = linear(w, "qkv", norm(x, w["norm1"], w.get("norm1_bias")))
        q, k, v = (z.reshape(rows, t, -1, e) for z in jnp.split(h, [heads * e, (heads + kv) * e], -1))
        if llama:
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        y = jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation=implementation)
        x = x + linear(w, "out", y.reshape(rows, t, d))
        h = linear(w, "up", norm(x, w["norm2"], w.get("norm2_bias")))
        if llama:
            gate, up = jnp.split(h, 2, -1)
            h = jax.nn.silu(gate) * up
        else:
            h = jax.nn.gelu(h, approximate=True)
        return x + linear(w, "down", h), None

    x, _ = jax.lax.scan(block, x, half["blocks"])
    x = norm(x, half["norm"], half.get("norm_bias"))
    logits = (x @ half.get("head", half["tokens"]).astype(dtype).T).astype(jnp.float32)
    picked = jnp.take_along_axis(logits, targets[..., None], -1)[..., 0]
    return (jax.nn.logsumexp(logits, -1) - picked).mean()


@functools.partial(jax.jit, static_argnames=("config", "dtype"), donate_argnums=(0, 1))
def step(p, state, ids, targets, n, config, dtype):
    loss, g = jax.value_and_grad(loss_of)(p, ids, targets, config, dtype)
    m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, state[0], g)
    v = jax.tree.map(lambda a, b: 0.999 * a + 0.001 * b * b, state[1], g)
    bias1, bias2 = 1 - 0.9**n, 1 - 0.999**n
    p = jax.tree.map(lambda w, a, b: w * (1 - 3e-5) - 3e-4 * (a / bias1) / (jnp.sqrt(b / bias2) + 1e-8), p, m, v)
    return p, (m, v), loss


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--config", default="gpt2-1k")
    a.add_argument("--device", default="cuda")
    a.add_argument("--dtype", default="bfloat16")
    a.add_argument("--steps", type=int, default=20)
    a.add_argument("--warmup", type=int, default=3)
    a = a.parse_args()
    jax.config.update("jax_platforms", a.device)
    config, dtype = CONFIGS[a.config], jnp.dtype(a.dtype)
    vocab, t, rows = config[6:]
    p = init(config)
    state = tuple(jax.tree.map(jnp.zeros_like, p) for _ in range(2))
    batches = [jax.random.randint(jax.random.key(i), (rows, t + 1), 0, vocab) for i in range(4)]
    times, losses, first, last, total = [], [], 0.0, time.time(), a.warmup + a.steps
    for i in range(total + 1):  # one step is enqueued before the loss of the last is read
        if i < total:
            ids = batches[i % 4]
            p, state, loss = step(p, state, ids[:, :-1], ids[:, 1:], jnp.float32(i + 1), config=config, dtype=dtype)
            losses.append(loss)
        if i == 0:
            continue
        losses[i - 1] = float(losses[i - 1])
        now = time.time()
        if i == 1:
            first = now - BEGAN
        if i > a.warmup:
            times.append(now - last)
        last = now
    median = statistics.median(times)
    stats = jax.local_devices()[0].memory_stats() or {}
    print(json.dumps({
        "program": "jax " + jax.__version__, "config": a.config, "dtype": a.dtype, "step_ms": 1e3 * median, "tokens_per_s": rows * t / median,
        "first_step_s": first, "device_peak_mib": stats.get("peak_bytes_in_use", 0) >> 20, "loss_first": losses[0], "loss_last": losses[-1], "steps": a.steps,
    }))


if __name__ == "__main__":
    main()
