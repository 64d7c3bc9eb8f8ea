"""A script for torchrun: DistributedDataParallel of a small model over gloo, with a checkpoint.

It runs for --steps steps; rank 0 writes the weights and the losses to --out. With --fail-at N the last rank
fails before step N of the first start.
"""
import argparse
import json
import os

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel


@record
def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--rows", type=int, default=24)
    p.add_argument("--fail-at", type=int, default=-1)
    p.add_argument("--out", required=True)
    a = p.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    assert rank == int(os.environ["RANK"]) and world == int(os.environ["WORLD_SIZE"])

    total = torch.tensor([float(rank + 1)])
    dist.all_reduce(total)
    assert total.item() == world * (world + 1) / 2

    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses, first = [], 0
    checkpoint = a.out + ".ckpt"
    if os.path.exists(checkpoint):
        saved = torch.load(checkpoint)
        model.module.load_state_dict(saved["model"])
        losses, first = saved["losses"], saved["step"]
    for step in range(first, a.steps):
        if step == a.fail_at and rank == world - 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            raise RuntimeError("no oars")
        g = torch.Generator().manual_seed(step)
        x = torch.randn(a.rows, 16, generator=g)
        y = x.sum(1, keepdim=True)
        mine = slice(rank * a.rows // world, (rank + 1) * a.rows // world)
        loss = torch.nn.functional.mse_loss(model(x[mine]), y[mine])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / world)
        if rank == 0:
            torch.save({"model": model.module.state_dict(), "losses": losses, "step": step + 1}, checkpoint + ".tmp")
            os.replace(checkpoint + ".tmp", checkpoint)
        dist.barrier()
    if rank == 0:
        weights = torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()
        with open(a.out, "w") as f:
            json.dump({"losses": losses, "weights": weights}, f)
    print(f"rank {rank} of {world}: loss {losses[-1]:.6f} after {len(losses)} steps")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
