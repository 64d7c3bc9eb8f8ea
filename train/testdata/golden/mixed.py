"""Makes bf16.json and f16.json beside a case: the same run with PyTorch, mixed as FSDP mixes it.

Parameters are rounded before each pass, activations and their gradients are bfloat16 (norms,
softmax and the loss inside in float32), each micro-batch's gradients, rounded as they are, are
widened to float32 and summed there, and AdamW updates float32 masters. In float16 the same by
rounding, with losses scaled by 2^10 / 2^k, where 2^k is the largest power of two that is not above
a micro-batch's positions.

    OPENBLAS_CORETYPE=SkylakeX python3 mixed.py llama-mha llama-gqa-accum qwen2 gpt2 bert-cls

With --check it runs in float32 instead, and fails unless case.json comes out.
"""
import json
import math
import struct
import sys

import torch
import torch.nn.functional as F


def load(path):
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        header, data = json.loads(f.read(n)), f.read()
    out = {}
    for name, t in header.items():
        if name != "__metadata__":
            lo, hi = t["data_offsets"]
            assert t["dtype"] == "F32"
            out[name] = torch.frombuffer(bytearray(data[lo:hi]), dtype=torch.float32).reshape(t["shape"]).clone()
    return out


class Rounded(torch.autograd.Function):
    """float16 where PyTorch has no products of it, which is on a CPU: each result, and each gradient, is
    rounded to it, and products are summed in float32, as they are on a GPU."""

    @staticmethod
    def forward(_, x):
        return x.half().float()

    @staticmethod
    def backward(_, dy):
        return dy.half().float()


class Network:
    """A model's loss, summed over label tokens. Parameters are p, by their names in files."""

    def __init__(self, config, p, half):
        self.c, self.p = config, p
        self.r = Rounded.apply if half else lambda x: x

    def linear(self, x, name):
        y = self.r(x @ self.p[name + ".weight"].T)
        return self.r(y + self.p[name + ".bias"]) if name + ".bias" in self.p else y

    def attention(self, q, k, v, hidden):  # [B H T E]
        s = self.r(q @ k.transpose(2, 3)).float() / math.sqrt(q.shape[-1]) + hidden
        o = self.r(self.r(torch.softmax(s, -1).to(v.dtype)) @ v)
        return o.transpose(1, 2).flatten(2)

    def layer_norm(self, x, name, eps):
        v = F.layer_norm(x.float(), x.shape[-1:], self.p[name + ".weight"].float(), self.p[name + ".bias"].float(), eps)
        return self.r(v.to(x.dtype))

    def shifted(self, x, head, labels):
        logits = self.r(x @ head.T).float()
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100, reduction="sum")


class Llama(Network):
    def norm(self, x, name):
        v = x.float()
        v = v * torch.rsqrt(v.pow(2).mean(-1, keepdim=True) + self.c["rms_norm_eps"])
        return self.r(self.p[name + ".weight"] * self.r(v.to(x.dtype)))

    def rotate(self, x, cos, sin):
        half = x.shape[-1] // 2
        v = x.float()
        turned = torch.cat((-v[..., half:], v[..., :half]), -1)
        return self.r((v * cos + turned * sin).to(x.dtype))

    def loss(self, rows):
        c, ids, r = self.c, rows["input_ids"], self.r
        B, T = ids.shape
        H, K, D = c["num_attention_heads"], c["num_key_value_heads"], c["hidden_size"]
        E = D // H
        inv = c["rope_theta"] ** -(torch.arange(0, E, 2).float() / E)
        angles = torch.arange(T).float()[:, None] * inv
        cos, sin = (torch.cat((f(angles),) * 2, -1) for f in (torch.cos, torch.sin))
        hidden = torch.full((T, T), float("-inf")).triu(1)
        x = F.embedding(ids, self.p["model.embed_tokens.weight"])
        for i in range(c["num_hidden_layers"]):
            at = "model.layers.%d." % i
            y = self.norm(x, at + "input_layernorm")
            q, k, v = (self.linear(y, at + "self_attn.%s_proj" % n).view(B, T, -1, E).transpose(1, 2) for n in "qkv")
            q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
            k, v = (t.repeat_interleave(H // K, 1) for t in (k, v))
            x = r(x + self.linear(self.attention(q, k, v, hidden), at + "self_attn.o_proj"))
            y = self.norm(x, at + "post_attention_layernorm")
            gated = r(r(F.silu(self.linear(y, at + "mlp.gate_proj"))) * self.linear(y, at + "mlp.up_proj"))
            x = r(x + self.linear(gated, at + "mlp.down_proj"))
        x = self.norm(x, "model.norm")
        return self.shifted(x, self.p["model.embed_tokens.weight" if c["tie_word_embeddings"] else "lm_head.weight"], rows["labels"])


class GPT2(Network):
    def conv(self, x, name):
        return self.r(self.r(x @ self.p[name + ".weight"]) + self.p[name + ".bias"])

    def loss(self, rows):
        c, ids, r = self.c, rows["input_ids"], self.r
        (B, T), H, eps = ids.shape, c["n_head"], c["layer_norm_epsilon"]
        hidden = torch.full((T, T), float("-inf")).triu(1)
        x = r(F.embedding(ids, self.p["transformer.wte.weight"]) + self.p["transformer.wpe.weight"][:T])
        for i in range(c["n_layer"]):
            at = "transformer.h.%d." % i
            qkv = self.conv(self.layer_norm(x, at + "ln_1", eps), at + "attn.c_attn").chunk(3, -1)
            o = self.attention(*(t.view(B, T, H, -1).transpose(1, 2) for t in qkv), hidden)
            x = r(x + self.conv(o, at + "attn.c_proj"))
            y = self.conv(self.layer_norm(x, at + "ln_2", eps), at + "mlp.c_fc")
            v = y.float()
            y = r((0.5 * v * (1 + torch.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)))).to(y.dtype))
            x = r(x + self.conv(y, at + "mlp.c_proj"))
        return self.shifted(self.layer_norm(x, "transformer.ln_f", eps), self.p["transformer.wte.weight"], rows["labels"])


class Bert(Network):
    def loss(self, rows):
        c, ids, r = self.c, rows["input_ids"], self.r
        (B, T), H, eps = ids.shape, c["num_attention_heads"], c["layer_norm_eps"]
        hidden = torch.zeros(B, 1, 1, T).masked_fill(rows["attention_mask"][:, None, None, :] == 0, float("-inf"))
        e = "bert.embeddings."
        x = r(F.embedding(ids, self.p[e + "word_embeddings.weight"]) + self.p[e + "token_type_embeddings.weight"][0])
        x = self.layer_norm(r(x + self.p[e + "position_embeddings.weight"][:T]), e + "LayerNorm", eps)
        for i in range(c["num_hidden_layers"]):
            at = "bert.encoder.layer.%d." % i
            qkv = (self.linear(x, at + "attention.self." + n).view(B, T, H, -1).transpose(1, 2) for n in ("query", "key", "value"))
            x = self.layer_norm(r(x + self.linear(self.attention(*qkv, hidden), at + "attention.output.dense")), at + "attention.output.LayerNorm", eps)
            y = r(F.gelu(self.linear(x, at + "intermediate.dense")))
            x = self.layer_norm(r(x + self.linear(y, at + "output.dense")), at + "output.LayerNorm", eps)
        pooled = r(torch.tanh(self.linear(x[:, 0], "bert.pooler.dense")))
        return F.cross_entropy(self.linear(pooled, "classifier").float(), rows["label"], reduction="sum")


NETWORKS = {"llama": Llama, "qwen2": Llama, "gpt2": GPT2, "bert": Bert}


def counted(rows):
    """The number of labels."""
    return rows["label"].numel() if "label" in rows else int((rows["labels"][:, 1:] >= 0).sum())


def rate(h, s):
    w, T = h["warmup_steps"], h["steps"]
    if s < w:
        return h["lr"] * s / max(1, w)
    x = (s - w) / max(1, T - w)
    return h["lr"] * (max(0, 0.5 * (1 + math.cos(math.pi * x))) if h["schedule"] == "cosine" else max(0, 1 - x))


def run(case, kind):
    info = json.load(open(case + "/case.json"))
    h, config = info["hyperparameters"], json.load(open(case + "/model/config.json"))
    lines = [json.loads(l) for l in open(case + "/data.jsonl")]
    p = load(case + "/model/model.safetensors")
    m, v = ({n: torch.zeros_like(t) for n, t in p.items()} for _ in range(2))
    b1, b2 = h["betas"]
    out, at, size = [], 0, h["micro_batch_size"]
    scale = 1.0
    if kind == "float16":
        scale = 2.0 ** (10 - math.floor(math.log2(size * h["sequence_length"])))
    for step in range(h["steps"]):
        g, total, tokens = {n: torch.zeros_like(t) for n, t in p.items()}, 0.0, 0
        for _ in range(h["gradient_accumulation_steps"]):
            part, at = lines[at:at + size], at + size
            rows = {k: torch.tensor([l[k] for l in part]) for k in part[0]}
            c = {n: t.half().float() if kind == "float16" else t.to(getattr(torch, kind)) for n, t in p.items()}
            c = {n: t.detach().requires_grad_() for n, t in c.items()}
            loss = NETWORKS[config["model_type"]](config, c, kind == "float16").loss(rows)
            (loss * scale).backward()
            total, tokens = total + loss.double().item(), tokens + counted(rows)
            for n, t in c.items():
                g[n] += (t.grad.half() if kind == "float16" else t.grad).float() / scale
        size_of = math.sqrt(sum(t.double().pow(2).sum().item() for t in g.values())) / tokens
        clip, lr = min(1, h["max_grad_norm"] / (size_of + 1e-6)) / tokens, rate(h, step)
        out.append({"step": step + 1, "loss": total / tokens, "grad_norm": size_of, "lr": lr})
        for n, t in p.items():
            d = g[n] * clip
            m[n].mul_(b1).add_(d, alpha=1 - b1)
            v[n].mul_(b2).addcmul_(d, d, value=1 - b2)
            if t.dim() >= 2:
                t.mul_(1 - lr * h["weight_decay"])
            t.addcdiv_(m[n], v[n].sqrt() / math.sqrt(1 - b2 ** (step + 1)) + h["eps"], value=-lr / (1 - b1 ** (step + 1)))
    return info["expected"], out


def main():
    check = "--check" in sys.argv
    for case in [a for a in sys.argv[1:] if not a.startswith("--")]:
        for kind, file in [("float32", "")] if check else [("bfloat16", "bf16"), ("float16", "f16")]:
            whole, got = run(case, kind)
            apart = {k: max(abs(a[k] - b[k]) / abs(b[k]) for a, b in zip(got, whole)) for k in ("loss", "grad_norm")}
            print(case, kind, "torch", torch.__version__, "maximum from float32, relative:", apart)
            if check:
                assert apart["loss"] < 1e-5 and apart["grad_norm"] < 1e-4, "float32 does not come out"
                continue
            with open("%s/%s.json" % (case, file), "w") as f:
                json.dump({"param_dtype": kind, "reduce_dtype": "float32", "expected": got}, f, indent=1)
                f.write("\n")


main()
