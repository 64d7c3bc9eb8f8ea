# One rank of torch.distributed with gloo: all-reduces until one fails, then prints when and why.
import time
import torch
import torch.distributed as dist

dist.init_process_group("gloo", init_method="env://")
x = torch.zeros(1 << 16)
i = 0
while True:
    try:
        dist.all_reduce(x)
    except Exception as e:
        print("lost", time.time_ns(), str(e).split("\n")[0], flush=True)
        break
    if i == 0:
        print("runs", flush=True)
    i += 1
