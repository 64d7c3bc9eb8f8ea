"""Training steps of a Llama-style decoder in PyTorch on the processor, with the options of a careful user.

Attention is scaled_dot_product_attention, the optimizer fused AdamW. bfloat16 is autocast over float32
parameters on one rank and under DDP; fully_shard has its own mixed precision, which also sends bfloat16.
PyTorch 1.13 has neither of the first two, and gets the plain formula and the plain AdamW.
"""
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

VERSION = tuple(int(n) for n in torch.__version__.split("+")[0].split(".")[:2])


def require(version, what):
    if VERSION < version:
        raise RuntimeError("%s needs PyTorch %d.%d or later, this is %s" % ((what,) + version + (torch.__version__,)))


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        if hasattr(F, "rms_norm"):
            return F.rms_norm(x, self.weight.shape, self.weight, 1e-5)
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


def attention(q, k, v):
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    t = q.shape[-2]
    mask = torch.full((t, t), float("-inf")).triu(1)
    return torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + mask, -1) @ v


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos.to(x.dtype) + torch.cat((-b, a), -1) * sin.to(x.dtype)


class Layer(nn.Module):
    def __init__(self, width, heads, ffn):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 2 * ffn, bias=False)
        self.down = nn.Linear(ffn, width, bias=False)

    def forward(self, x, cos, sin):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.norm1(x)).chunk(3, -1))
        y = attention(rotate(q, cos, sin), rotate(k, cos, sin), v)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        gate, up = self.up(self.norm2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Decoder(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.tokens = nn.Embedding(a.vocab, a.width)
        self.layers = nn.ModuleList(Layer(a.width, a.heads, a.ffn) for _ in range(a.layers))
        self.norm = RMSNorm(a.width)
        self.head = nn.Linear(a.width, a.vocab, bias=False)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)
        head = a.width // a.heads
        angles = torch.outer(torch.arange(a.positions).float(), 10000 ** (-torch.arange(0, head, 2).float() / head))
        self.register_buffer("cos", angles.cos().repeat(1, 2))
        self.register_buffer("sin", angles.sin().repeat(1, 2))

    def forward(self, ids, targets):
        x = self.tokens(ids)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), targets.flatten())


def share(a, model):
    """Returns the model on several ranks, compiled if a.compiled."""
    if a.strategy == "ddp":
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, broadcast_buffers=False)
        return torch.compile(model) if a.compiled else model
    require((2, 6), "fully_shard")
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    options = {"mesh": init_device_mesh("cpu", (a.ranks,))}
    if a.dtype == "bfloat16":
        options["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.layers:
        if a.compiled:
            layer.compile()
        fully_shard(layer, **options)
    return fully_shard(model, **options)


def peak_mib():
    """Returns this process's peak of resident memory, of its program alone where the system has that."""
    try:
        with open("/proc/self/status") as f:
            return next(int(line.split()[1]) >> 10 for line in f if line.startswith("VmHWM:"))
    except OSError:
        import resource
        import sys

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> (20 if sys.platform == "darwin" else 10)


def step(a, connect):
    """Measures a.steps steps after a.warmup. connect joins the ranks; only rank 0 returns figures."""
    if a.compiled:
        require((2, 0), "compiled")
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    model, rank, world = Decoder(a), 0, a.ranks
    if world > 1:
        rank = connect(a)
        run = share(a, model)
    else:
        run = torch.compile(model) if a.compiled else model
    fused = {"fused": True} if VERSION >= (2, 4) else {}
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, **fused)
    random = torch.Generator().manual_seed(7 + rank)
    batches = [torch.randint(a.vocab, (a.sequences, a.positions + 1), generator=random) for _ in range(4)]
    autocast = a.dtype == "bfloat16" and not (world > 1 and a.strategy == "fully_shard")
    times, losses, first = [], [], 0.0
    for i in range(a.warmup + a.steps):
        began, ids = time.perf_counter(), batches[i % 4]
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            loss = run(ids[:, :-1], ids[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        if i == 0:
            first = time.time() - a.began
        if i >= a.warmup:
            times.append(time.perf_counter() - began)
    if world > 1:
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
    if rank != 0:
        return None
    seconds = statistics.median(times)
    return {
        "tokens_per_s": world * a.sequences * a.positions / seconds, "step_ms": 1e3 * seconds, "rss_mib": peak_mib(), "first_step_s": first,
        "loss_first": losses[0], "loss_last": losses[-1],
    }
