#!/usr/bin/env python3
"""Makes the reference runs of this folder that come from transformers' own models.

    python3 make_transformers.py [CASE ...]

Needs torch, numpy and transformers; these files were made with transformers 5.23 and torch 2.9 on
one thread. Rows of a case with a padding token have it where it is attended to and counted:
nn.Embedding's padding_idx gives its row no gradient from there. Files are as make.py writes them,
except the model directory, which transformers saved.
"""
import json
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F
from transformers import BertConfig, BertForMaskedLM, LlamaConfig, LlamaForCausalLM

from make import HERE, IGNORED, masked, plain, schedule, write_safetensors

BERT = dict(vocab_size=48, hidden_size=16, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=24,
            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, attn_implementation="eager")
LLAMA = dict(vocab_size=48, hidden_size=16, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2,
             max_position_embeddings=24, attn_implementation="eager")

# model, rows, padding token in them or None
CASES = {
    "bert-padding": (lambda: BertForMaskedLM(BertConfig(**BERT)), masked, 0),
    "bert-untied": (lambda: BertForMaskedLM(BertConfig(**BERT, pad_token_id=5, tie_word_embeddings=False)), masked, 5),
    "llama-padding": (lambda: LlamaForCausalLM(LlamaConfig(**LLAMA, pad_token_id=7, tie_word_embeddings=True)), plain, 7),
}
LENGTH, MICRO, ACCUMULATION = 16, 2, 2


def padded(row, rng, pad):
    """The row with the padding token at a fifth of its positions."""
    if pad is None:
        return row
    for i in np.flatnonzero(rng.random(len(row["input_ids"])) < 0.2):
        row["input_ids"][i] = pad
    return row


def make(name):
    network, rows_of, pad = CASES[name]
    torch.manual_seed(sum(map(ord, name)))
    rng = np.random.default_rng(sum(map(ord, name)))
    h = {
        "lr": 1e-2, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1, "max_grad_norm": 1.0, "warmup_steps": 2, "schedule": "cosine",
        "steps": 8, "sequence_length": LENGTH, "micro_batch_size": MICRO, "gradient_accumulation_steps": ACCUMULATION, "loss_normalization": "tokens",
    }
    m = network()
    with torch.no_grad():
        for p in m.parameters():  # the padding row too
            p.normal_(0.0, 0.15) if p.ndim > 1 else p.add_(0.1 * torch.randn(p.shape))
    rows = [padded(rows_of(rng, 48, LENGTH, i == 0), rng, pad) for i in range(h["steps"] * ACCUMULATION * MICRO)]
    out = os.path.join(HERE, name)
    m.save_pretrained(os.path.join(out, "model"))
    os.chmod(os.path.join(out, "model", "model.safetensors"), 0o644)
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
        for a in range(ACCUMULATION):
            at = (step * ACCUMULATION + a) * MICRO
            batch = {k: torch.tensor([r[k] for r in rows[at:at + MICRO]]) for k in rows[0]}
            labels = batch.pop("labels")
            logits = m(**batch).logits
            first = logits[0, -1, :32].tolist() if first is None else first
            if type(m).__name__.endswith("ForCausalLM"):
                logits, labels = logits[:, :-1], labels[:, 1:]
            loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum", ignore_index=IGNORED)
            loss.backward()
            total, counted = total + loss.item(), counted + int((labels != IGNORED).sum())
        for p in m.parameters():
            if p.grad is not None:  # untied, cls.predictions.bias has none
                p.grad /= counted
        norm = torch.nn.utils.clip_grad_norm_(m.parameters(), h["max_grad_norm"]).item()
        for g in opt.param_groups:
            g["lr"] = schedule(step, h)
        opt.step()
        expected.append({"step": step + 1, "loss": total / counted, "grad_norm": norm, "lr": schedule(step, h)})
    case = {"family": m.config.model_type, "hyperparameters": h, "first_logits": [round(v, 6) for v in first], "expected": expected}
    with open(os.path.join(out, "case.json"), "w") as f:
        json.dump(case, f, indent=1)
    write_safetensors(os.path.join(out, "final.safetensors"), {n: p for n, p in m.named_parameters() if p.grad is not None})
    print(name, sum(p.numel() for p in m.parameters()), "parameters, loss", expected[0]["loss"], "to", expected[-1]["loss"])


if __name__ == "__main__":
    torch.set_num_threads(1)
    for case in sys.argv[1:] or CASES:
        make(case)
