import os, sys, torch, torch.nn as nn, torch.distributed as dist, time
from torch.profiler import profile, schedule, ProfilerActivity, record_function
dist.init_process_group("gloo")
r = dist.get_rank()
torch.manual_seed(0)
torch.set_num_threads(1)
m = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))
m = nn.parallel.DistributedDataParallel(m)
opt = torch.optim.AdamW(m.parameters(), lr=1e-3)
class D(torch.utils.data.Dataset):
    def __len__(self): return 64
    def __getitem__(self, i): return torch.full((64,), float(i))
dl = iter(torch.utils.data.DataLoader(D(), batch_size=8))
out = sys.argv[1]
with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=2),
             on_trace_ready=lambda p: p.export_chrome_trace(f"{out}/rank{r}.json")) as p:
    for i in range(4):
        x = next(dl)
        if r == 1: time.sleep(0.01)
        loss = m(x).square().mean()
        loss.backward()
        opt.step(); opt.zero_grad()
        p.step()
dist.destroy_process_group()
