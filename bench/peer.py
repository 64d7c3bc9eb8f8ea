"""Measures PyTorch on the processor for `go run ./bench`, and prints one JSON line.

    peer.py version
    peer.py step --layers 4 --width 256 --heads 8 --ffn 688 --vocab 512 --positions 256 --sequences 8
        [--dtype float32|bfloat16] [--compiled] [--threads N] [--ranks N --strategy ddp|fully_shard]
    peer.py gemm --shapes 512x512x512,2048x768x3072_t [--dtype float32|bfloat16] [--threads N]
    peer.py collectives --ranks 2
    peer.py load --model FILE [--dtype float32|bfloat16]
    peer.py generate --model DIR [--dtype float32|bfloat16] [--threads N] [--prompt_tokens N] [--new_tokens N]

An error is one line on the standard error, and the exit status is 1. On PyTorch 1.13 all but bfloat16,
--compiled and fully_shard runs; these need 2.x.
"""
import argparse
import datetime
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

BEGAN = time.time()


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("what", choices=["version", "step", "gemm", "collectives", "load", "generate"])
    p.add_argument("--began", type=float, default=BEGAN, help="start of first_step_s, in seconds since 1970")
    p.add_argument("--threads", type=int, default=1, help="per rank")
    p.add_argument("--ranks", type=int, default=1)
    p.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    for name in ("layers", "width", "heads", "ffn", "vocab", "positions", "sequences"):
        p.add_argument("--" + name, type=int, help="of the model and batch of step")
    p.add_argument("--compiled", action="store_true", help="torch.compile")
    p.add_argument("--strategy", choices=["ddp", "fully_shard"], default="ddp", help="of several ranks")
    p.add_argument("--steps", type=int, default=5)
    p.add_argument("--warmup", type=int, default=3)
    p.add_argument("--shapes", default="", help="products of gemm")
    p.add_argument("--memory", type=int, default=1 << 20, help="bytes of load to touch before")
    p.add_argument("--model", help="safetensors file of load, directory of generate")
    p.add_argument("--prompt_tokens", type=int, default=512)
    p.add_argument("--new_tokens", type=int, default=64)
    p.add_argument("--seconds", type=float, default=0.6, help="per product or collective")
    return p.parse_args()


def start_ranks(a):
    """Runs this command as a.ranks processes and returns the exit status. If one fails, the others are killed."""
    with tempfile.TemporaryDirectory() as d:
        env = dict(os.environ, PEER_STORE=os.path.join(d, "store"))
        for _, name in socket.if_nameindex():
            if name in ("lo", "lo0"):
                env["GLOO_SOCKET_IFNAME"] = name
        command = [sys.executable] + sys.argv + ["--began", repr(a.began)]
        ranks = [subprocess.Popen(command, env=dict(env, PEER_RANK=str(r))) for r in range(a.ranks)]
        try:
            while True:
                states = [p.poll() for p in ranks]
                failed = [s for s in states if s]
                if failed or None not in states:
                    return 1 if failed else 0
                time.sleep(0.01)
        finally:
            for p in ranks:
                p.kill()
                p.wait()


def connect(a):
    """Joins the ranks of start_ranks over gloo and returns this rank's number."""
    import torch.distributed as dist

    rank = int(os.environ["PEER_RANK"])
    dist.init_process_group(
        "gloo", init_method="file://" + os.environ["PEER_STORE"], rank=rank, world_size=a.ranks, timeout=datetime.timedelta(minutes=5)
    )
    return rank


def gemm(a):
    import torch

    torch.set_num_threads(a.threads)
    dtype, speeds = getattr(torch, a.dtype), {}
    for name in a.shapes.split(","):
        size, _, transposed = name.partition("_")
        m, k, n = map(int, size.split("x"))
        x = torch.randn(m, k).to(dtype)
        w = torch.randn(n, k).to(dtype).t() if transposed else torch.randn(k, n).to(dtype)
        y = torch.empty(m, n, dtype=dtype)
        times, ends = [], 0.0
        for i in range(1 << 30):
            began = time.perf_counter()
            torch.mm(x, w, out=y)
            now = time.perf_counter()
            if i == 1:  # two products are a warm-up
                ends = now + a.seconds
            elif i > 1:
                times.append(now - began)
                if now > ends and len(times) >= 9:
                    break
        speeds[name] = {"median": 2e-9 * m * k * n / statistics.median(times), "n": len(times)}
    return {"gflops": speeds}


def collectives(a):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(a.threads)
    rank, n, figures = connect(a), a.ranks, {}

    def measure(name, sent, f):
        def once():
            began = time.perf_counter()
            f()
            return time.perf_counter() - began

        once()
        once()
        each = torch.tensor([(once() + once()) / 2], dtype=torch.float64)
        dist.all_reduce(each, op=dist.ReduceOp.MAX)
        calls = max(7, min(3000, int(a.seconds / max(each.item(), 1e-6))))
        m = statistics.median([once() for _ in range(calls)])
        figures[name] = {"us": m * 1e6, "busbw_GBps": sent / m / 1e9, "n": calls}

    one = torch.zeros(1)
    measure("all_reduce_4B", 8 * (n - 1) / n, lambda: dist.all_reduce(one))
    measure("barrier", 0, dist.barrier)
    for kib in (1024, 16384, 65536):
        x = torch.zeros(kib * 256)
        measure("all_reduce_%dKiB" % kib, 2 * (n - 1) / n * kib * 1024, lambda: dist.all_reduce(x))
    kib = 16384
    part = torch.zeros(kib * 256 // n)
    parts = list(torch.zeros(n, kib * 256 // n).unbind())
    measure("all_gather_%dKiB_total" % kib, (n - 1) / n * kib * 1024, lambda: dist.all_gather(parts, part))
    try:
        full = torch.zeros(kib * 256)
        measure("reduce_scatter_%dKiB_total" % kib, (n - 1) / n * kib * 1024, lambda: dist.reduce_scatter_tensor(part, full))
    except (AttributeError, RuntimeError):
        pass  # not in every version of gloo
    dist.barrier()
    dist.destroy_process_group()
    return {"res": figures} if rank == 0 else None


def use_memory(n):
    """Touches n bytes and frees them, as useMemory does."""
    import mmap

    m = mmap.mmap(-1, n)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        m.madvise(mmap.MADV_HUGEPAGE)
    for i in range(0, n, mmap.PAGESIZE):
        m[i] = 1
    m.close()


def load(a):
    """Reads each tensor into memory of its own, converted to the type, as a model's parameters are."""
    import torch
    from safetensors import safe_open

    use_memory(a.memory)
    began, state = time.perf_counter(), {}
    with safe_open(a.model, framework="pt", device="cpu") as f:
        for name in f.keys():
            tensor = f.get_tensor(name)
            state[name] = torch.empty(tensor.shape, dtype=getattr(torch, a.dtype)).copy_(tensor)
    return {"seconds": time.perf_counter() - began}


def main():
    a = arguments()
    if a.ranks > 1 and "PEER_RANK" not in os.environ:
        return start_ranks(a)
    try:
        import torch

        if a.dtype == "bfloat16" and int(torch.__version__.split(".")[0]) < 2:
            raise RuntimeError("bfloat16 needs PyTorch 2.x, this is %s" % torch.__version__)
        if a.what == "version":
            result = {"instructions": torch.backends.cpu.get_cpu_capability() if hasattr(torch.backends, "cpu") else ""}
        elif a.what == "gemm":
            result = gemm(a)
        elif a.what == "collectives":
            result = collectives(a)
        elif a.what == "load":
            result = load(a)
        elif a.what == "generate":
            import peer_generate

            result = peer_generate.generate(a)
        else:
            import peer_step

            result = peer_step.step(a, connect)
        if result is not None:
            print(json.dumps(dict(result, torch=torch.__version__)), flush=True)
        return 0
    except Exception as e:
        lines = str(e).strip().splitlines() or [""]
        sys.stderr.write("%s: %s\n" % (type(e).__name__, lines[0]))  # at once: ranks share it
        return 1


if __name__ == "__main__":
    sys.exit(main())
