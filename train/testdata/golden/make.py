#!/usr/bin/env python3
"""Makes the reference runs of this folder that the project keeps itself, with PyTorch alone.

    python3 make.py [CASE ...]

Needs torch (1.13 or newer) and numpy; networks, loss and files are written out below, so that
nothing is taken from a library of models. Each case writes CASE/model (a Hugging Face
directory, float32), CASE/data.jsonl, CASE/case.json and CASE/final.safetensors. Numbers differ in
the last digits between versions of PyTorch; the files here are from 1.13 on one thread.
"""
import json
import math
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
IGNORED = -100


def write_safetensors(path, tensors):
    header, data, end = {"__metadata__": {"format": "pt"}}, [], 0  # without which transformers does not load it
    for name, t in tensors.items():
        b = t.detach().contiguous().numpy().astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [end, end + len(b)]}
        data.append(b)
        end += len(b)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + b"".join(data))


class RMSNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(dim)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def frequencies(c):
    """The angles per position of each pair of a head, and what cosines are multiplied by."""
    dim, theta = c["head_dim"], c["rope_theta"]
    f = 1.0 / theta ** (torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    s = c.get("rope_scaling")
    if s is None:
        return f, 1.0
    context, factor = s["original_max_position_embeddings"], s["factor"]
    rotations = context * f / (2 * math.pi)
    if s["rope_type"] == "llama3":  # Llama 3.1 model card
        kept = (rotations - s["low_freq_factor"]) / (s["high_freq_factor"] - s["low_freq_factor"])
        kept = kept.clamp(0, 1)
        return kept * f + (1 - kept) * f / factor, 1.0
    # YaRN (Peng et al. 2023), with the bounds of the ramp rounded to pairs.
    pair = [dim * math.log(context / (t * 2 * math.pi)) / (2 * math.log(theta)) for t in (32, 1)]
    low, high = max(math.floor(pair[0]), 0), min(math.ceil(pair[1]), dim - 1)
    divided = ((torch.arange(dim // 2, dtype=torch.float64) - low) / (high - low)).clamp(0, 1)
    return divided * f / factor + (1 - divided) * f, 0.1 * math.log(factor) + 1


def rotate(x, cos, sin):  # x [B heads T E]
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class DecoderAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        d, e, h, k = c["hidden_size"], c["head_dim"], c["num_attention_heads"], c["num_key_value_heads"]
        bias = c["model_type"] == "qwen2"
        self.q_proj, self.k_proj = nn.Linear(d, h * e, bias), nn.Linear(d, k * e, bias)
        self.v_proj, self.o_proj = nn.Linear(d, k * e, bias), nn.Linear(h * e, d, False)
        if c["model_type"] == "qwen3":
            self.q_norm, self.k_norm = RMSNorm(e, c["rms_norm_eps"]), RMSNorm(e, c["rms_norm_eps"])

    def forward(self, x, cos, sin):
        c, (n, t, _) = self.c, x.shape
        e, h, k = c["head_dim"], c["num_attention_heads"], c["num_key_value_heads"]
        q, key, v = self.q_proj(x).view(n, t, h, e), self.k_proj(x).view(n, t, k, e), self.v_proj(x).view(n, t, k, e)
        if c["model_type"] == "qwen3":
            q, key = self.q_norm(q), self.k_norm(key)
        q, key, v = rotate(q.transpose(1, 2), cos, sin), rotate(key.transpose(1, 2), cos, sin), v.transpose(1, 2)
        key, v = key.repeat_interleave(h // k, 1), v.repeat_interleave(h // k, 1)
        i, j = torch.arange(t)[:, None], torch.arange(t)[None, :]
        seen = j <= i
        if c.get("sliding_window"):
            seen = seen & (j > i - c["sliding_window"])
        scores = (q @ key.transpose(2, 3) / math.sqrt(e)).masked_fill(~seen, -math.inf)
        return self.o_proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, h * e))


class GatedMLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        d, f = c["hidden_size"], c["intermediate_size"]
        self.gate_proj, self.up_proj, self.down_proj = nn.Linear(d, f, False), nn.Linear(d, f, False), nn.Linear(f, d, False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class DecoderLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.input_layernorm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])
        self.self_attn = DecoderAttention(c)
        self.post_attention_layernorm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])
        self.mlp = GatedMLP(c)

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    """Llama and its relatives."""

    def __init__(self, c):
        super().__init__()
        self.c = c
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.model.layers = nn.ModuleList(DecoderLayer(c) for _ in range(c["num_hidden_layers"]))
        self.model.norm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])
        if not c["tie_word_embeddings"]:
            self.lm_head = nn.Linear(c["hidden_size"], c["vocab_size"], False)

    def forward(self, batch):
        f, gain = frequencies(self.c)
        angles = torch.arange(batch["input_ids"].shape[1]).float()[:, None] * f.float()[None, :]
        cos, sin = gain * angles.cos(), gain * angles.sin()
        x = self.model.embed_tokens(batch["input_ids"])
        for layer in self.model.layers:
            x = layer(x, cos, sin)
        head = self.model.embed_tokens if self.c["tie_word_embeddings"] else self.lm_head
        return self.model.norm(x) @ head.weight.T

    def losses(self, batch):
        """The logits, and labels of each, one position ahead."""
        logits = self(batch)
        return logits, logits[:, :-1].flatten(0, 1), batch["labels"][:, 1:].flatten()


class EncoderLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        d, eps, self.heads = c["hidden_size"], c["layer_norm_eps"], c["num_attention_heads"]
        self.attention, self.intermediate, self.output = nn.Module(), nn.Module(), nn.Module()
        self.attention.self, self.attention.output = nn.Module(), nn.Module()
        for name in ("query", "key", "value"):
            setattr(self.attention.self, name, nn.Linear(d, d))
        self.attention.output.dense, self.attention.output.LayerNorm = nn.Linear(d, d), nn.LayerNorm(d, eps)
        self.intermediate.dense = nn.Linear(d, c["intermediate_size"])
        self.output.dense, self.output.LayerNorm = nn.Linear(c["intermediate_size"], d), nn.LayerNorm(d, eps)

    def forward(self, x, hidden):
        n, t, d = x.shape
        a = self.attention
        q, k, v = (p(x).view(n, t, self.heads, -1).transpose(1, 2) for p in (a.self.query, a.self.key, a.self.value))
        scores = (q @ k.transpose(2, 3) / math.sqrt(d // self.heads)).masked_fill(hidden, -math.inf)
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, d)
        x = a.output.LayerNorm(a.output.dense(y) + x)
        return self.output.LayerNorm(self.output.dense(F.gelu(self.intermediate.dense(x))) + x)


class MaskedEncoder(nn.Module):
    """BERT with its masked-LM head."""

    def __init__(self, c):
        super().__init__()
        d, eps = c["hidden_size"], c["layer_norm_eps"]
        self.bert, self.cls = nn.Module(), nn.Module()
        self.bert.embeddings = e = nn.Module()
        e.word_embeddings, e.position_embeddings = nn.Embedding(c["vocab_size"], d), nn.Embedding(c["max_position_embeddings"], d)
        e.token_type_embeddings, e.LayerNorm = nn.Embedding(c["type_vocab_size"], d), nn.LayerNorm(d, eps)
        self.bert.encoder = nn.Module()
        self.bert.encoder.layer = nn.ModuleList(EncoderLayer(c) for _ in range(c["num_hidden_layers"]))
        self.cls.predictions = p = nn.Module()
        p.bias = nn.Parameter(torch.zeros(c["vocab_size"]))
        p.transform = nn.Module()
        p.transform.dense, p.transform.LayerNorm = nn.Linear(d, d), nn.LayerNorm(d, eps)

    def forward(self, batch):
        ids, e, p = batch["input_ids"], self.bert.embeddings, self.cls.predictions
        x = e.word_embeddings(ids) + e.position_embeddings.weight[: ids.shape[1]] + e.token_type_embeddings.weight[0]
        x = e.LayerNorm(x)
        hidden = (batch["attention_mask"] == 0)[:, None, None, :]
        for layer in self.bert.encoder.layer:
            x = layer(x, hidden)
        x = p.transform.LayerNorm(F.gelu(p.transform.dense(x)))
        return x @ e.word_embeddings.weight.T + p.bias

    def losses(self, batch):
        logits = self(batch)
        return logits, logits.flatten(0, 1), batch["labels"].flatten()


def text(rng, vocab, length):
    """A row to train on: steps of one width, with some of them changed."""
    ids = (rng.integers(vocab) + rng.integers(1, 4) * np.arange(length)) % (vocab - 4) + 4
    changed = rng.random(length) < 0.1
    ids[changed] = rng.integers(4, vocab, changed.sum())
    return ids.tolist()


def plain(rng, vocab, length, whole):
    ids = text(rng, vocab, length)
    return {"input_ids": ids, "labels": ids}


def answered(rng, vocab, length, whole):
    """A prompt without labels, an answer with labels, and padding unless the row is full."""
    ids, prompt = text(rng, vocab, length), int(rng.integers(2, length // 2))
    n = length if whole else int(rng.integers(length // 2, length + 1))
    pad = length - n
    return {"input_ids": ids[:n] + [0] * pad, "attention_mask": [1] * n + [0] * pad, "labels": [IGNORED] * prompt + ids[prompt:n] + [IGNORED] * pad}


def masked(rng, vocab, length, whole):
    """A row with some tokens replaced by token 3; those are the labels."""
    ids, n = text(rng, vocab, length), length if whole else int(rng.integers(length // 2, length + 1))
    hide = rng.random(n) < 0.2
    hide[0] = True
    pad = length - n
    return {
        "input_ids": [3 if hide[i] else ids[i] for i in range(n)] + [0] * pad,
        "attention_mask": [1] * n + [0] * pad,
        "labels": [ids[i] if hide[i] else IGNORED for i in range(n)] + [IGNORED] * pad,
    }


def decoder(kind, **changes):
    return {
        "architectures": [{"llama": "Llama", "mistral": "Mistral", "qwen3": "Qwen3"}[kind] + "ForCausalLM"], "model_type": kind,
        "hidden_act": "silu", "vocab_size": 96, "hidden_size": 32, "intermediate_size": 88, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 8, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "max_position_embeddings": 64,
        "tie_word_embeddings": False, **changes,
    }


BERT = {
    "architectures": ["BertForMaskedLM"], "model_type": "bert", "hidden_act": "gelu", "vocab_size": 96, "hidden_size": 32,
    "intermediate_size": 80, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 40, "type_vocab_size": 2,
    "layer_norm_eps": 1e-12, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}

# network, configuration, rows, positions, rows of a micro-batch, micro-batches of a step
CASES = {
    "mistral-window": (Decoder, decoder("mistral", sliding_window=7), plain, 24, 2, 2),
    "qwen3": (Decoder, decoder("qwen3", tie_word_embeddings=True, head_dim=12), plain, 20, 2, 2),
    "llama3-rope": (Decoder, decoder("llama", rope_scaling=LLAMA3, rope_theta=500.0), plain, 32, 4, 1),
    "qwen3-yarn": (Decoder, decoder("qwen3", rope_scaling=YARN, head_dim=16), plain, 32, 4, 1),
    "llama-answers": (Decoder, decoder("llama"), answered, 20, 2, 2),
    "bert-masked": (MaskedEncoder, BERT, masked, 20, 4, 2),
}


def schedule(step, h):
    """transformers' cosine with warm-up; the first step is at 0."""
    if step < h["warmup_steps"]:
        return h["lr"] * step / h["warmup_steps"]
    done = (step - h["warmup_steps"]) / (h["steps"] - h["warmup_steps"])
    return h["lr"] * 0.5 * (1 + math.cos(math.pi * done))


def make(name):
    network, config, row, length, micro, accumulation = CASES[name]
    torch.manual_seed(sum(map(ord, name)))
    rng = np.random.default_rng(sum(map(ord, name)))
    h = {
        "lr": 1e-2, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1, "max_grad_norm": 1.0, "warmup_steps": 2, "schedule": "cosine",
        "steps": 8, "sequence_length": length, "micro_batch_size": micro, "gradient_accumulation_steps": accumulation, "loss_normalization": "tokens",
    }
    m = network(config)
    for p in m.parameters():  # gains and shifts too, so that none is left out unseen
        nn.init.normal_(p, 0.0, 0.15) if p.ndim > 1 else p.data.add_(0.1 * torch.randn(p.shape))
    rows = [row(rng, config["vocab_size"], length, i == 0) for i in range(h["steps"] * accumulation * micro)]
    out = os.path.join(HERE, name)
    os.makedirs(os.path.join(out, "model"), exist_ok=True)
    with open(os.path.join(out, "model", "config.json"), "w") as f:
        json.dump(config, f, indent=1)
    write_safetensors(os.path.join(out, "model", "model.safetensors"), m.state_dict())
    with open(os.path.join(out, "data.jsonl"), "w") as f:
        f.writelines(json.dumps(r, separators=(",", ":")) + "\n" for r in rows)

    decayed = [p for p in m.parameters() if p.ndim > 1]
    others = [p for p in m.parameters() if p.ndim == 1]
    opt = torch.optim.AdamW([{"params": decayed, "weight_decay": h["weight_decay"]}, {"params": others, "weight_decay": 0.0}],
                            lr=h["lr"], betas=tuple(h["betas"]), eps=h["eps"])
    expected, first = [], None
    for step in range(h["steps"]):
        total, counted = 0.0, 0
        opt.zero_grad()
        for a in range(accumulation):
            at = (step * accumulation + a) * micro
            batch = {k: torch.tensor([r[k] for r in rows[at:at + micro]]) for k in rows[0]}
            logits, flat, labels = m.losses(batch)
            first = logits[0, -1, :32] if first is None else first
            loss = F.cross_entropy(flat, labels, reduction="sum", ignore_index=IGNORED)
            loss.backward()
            total, counted = total + loss.item(), counted + int((labels != IGNORED).sum())
        for p in m.parameters():
            p.grad /= counted
        norm = nn.utils.clip_grad_norm_(m.parameters(), h["max_grad_norm"]).item()
        lr = schedule(step, h)
        for g in opt.param_groups:
            g["lr"] = lr
        opt.step()
        expected.append({"step": step + 1, "loss": total / counted, "grad_norm": norm, "lr": lr})
    case = {"family": config["model_type"], "hyperparameters": h, "first_logits": [round(v, 6) for v in first.tolist()], "expected": expected}
    with open(os.path.join(out, "case.json"), "w") as f:
        json.dump(case, f, indent=1)
    write_safetensors(os.path.join(out, "final.safetensors"), m.state_dict())
    print(name, sum(p.numel() for p in m.parameters()), "parameters, loss", expected[0]["loss"], "to", expected[-1]["loss"])


if __name__ == "__main__":
    torch.set_num_threads(1)
    for case in sys.argv[1:] or CASES:
        make(case)
