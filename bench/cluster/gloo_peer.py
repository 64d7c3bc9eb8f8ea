"""gloo's collectives between the ranks of a job, in the format of `trireme bench collectives --json`.

Arguments: sizes in KiB, seconds per measurement. Rank 0 prints one JSON line.
"""
import json
import sys
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
torch.set_num_threads(1)
n, rank = dist.get_world_size(), dist.get_rank()
seconds = float(sys.argv[2])
res = {}


def measure(name, sent, f):
    def once():
        t = time.perf_counter()
        f()
        return time.perf_counter() - t

    once()
    once()
    each = torch.tensor([(once() + once()) / 2], dtype=torch.float64)
    dist.all_reduce(each, op=dist.ReduceOp.MAX)
    times = sorted(once() for _ in range(max(7, min(3000, int(seconds / max(each.item(), 1e-6))))))
    median = times[len(times) // 2]
    res[name] = {"us": median * 1e6, "busbw_GBps": sent / median / 1e9, "n": len(times)}


for kib in map(int, sys.argv[1].split(",")):
    total = kib * 1024
    x = torch.zeros(total // 4)
    measure(f"all_reduce_{kib}KiB", 2 * (n - 1) / n * total, lambda: dist.all_reduce(x))
    part = torch.zeros(total // 4 // n)
    whole = torch.zeros(part.numel() * n)
    measure(f"all_gather_{kib}KiB_total", (n - 1) / n * total, lambda: dist.all_gather_into_tensor(whole, part))
    try:
        measure(f"reduce_scatter_{kib}KiB_total", (n - 1) / n * total, lambda: dist.reduce_scatter_tensor(part, whole))
    except RuntimeError:
        pass  # not in every version of gloo
if rank == 0:
    print(json.dumps({"res": res}))
dist.destroy_process_group()
