"""Writes the fixtures of this directory that other programs save themselves. See README.md.

    python make_real.py DIR transformers|accelerate|fsdp|deepspeed1|deepspeed2 ...
"""
import json
import os
import pathlib
import shutil
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

out, wanted = pathlib.Path(sys.argv[1]), sys.argv[2:]


def expect(name, tensors, **more):
    """Writes the values a conversion must give, as make.py does."""
    want = {}
    for key, t in tensors.items():
        t = t.detach().contiguous()
        want[key] = {"dtype": str(t.dtype)[6:], "shape": list(t.shape), "hex": bytes(t.reshape(-1).view(torch.uint8).tolist()).hex()}
    (out / (name + ".json")).write_text(json.dumps({"tensors": want, **more}, indent=1) + "\n")


def fresh(name):
    shutil.rmtree(out / name, ignore_errors=True)
    return out / name


class Tiny(torch.nn.Module):
    """An embedding, a layer and a norm; the seed is the same on all ranks."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.embed = torch.nn.Embedding(7, 4)
        self.layer = torch.nn.Linear(4, 3)
        self.norm = torch.nn.LayerNorm(3)

    def forward(self, ids):
        return self.norm(self.layer(self.embed(ids))).square().sum()


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(5)
    config = LlamaConfig(vocab_size=12, hidden_size=8, intermediate_size=12, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=16)
    return LlamaForCausalLM(config)


def transformers():
    for dtype, short, safe, size in (
        (torch.float32, "safetensors-f32-sharded", True, "1KB"), (torch.bfloat16, "safetensors-bf16", True, "1GB"),
        (torch.float32, "bin-f32", False, "1GB"), (torch.bfloat16, "bin-bf16-sharded", False, "1KB"),
    ):
        model = llama().to(dtype)
        model.save_pretrained(fresh("hf-" + short), safe_serialization=safe, max_shard_size=size)
        expect("hf-" + short, model.state_dict())


def steps(model, optimizer, backward=lambda loss: loss.backward(), n=2):
    for i in range(n):
        optimizer.zero_grad()
        backward(model(torch.tensor([i, 3, 6])))
        optimizer.step()


def accelerate():
    from accelerate import Accelerator

    a = Accelerator(cpu=True)
    model = Tiny()
    model, optimizer = a.prepare(model, torch.optim.AdamW(model.parameters(), lr=0.1))
    steps(model, optimizer, a.backward)
    a.save_state(str(fresh("accelerate")))
    expect("accelerate", a.unwrap_model(model).state_dict())


def join(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2")


def fsdp_rank(rank):
    """Accelerate's own functions that save_state calls under FSDP, on two ranks."""
    join(rank, 29473)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    from accelerate import Accelerator
    from accelerate.utils import FullyShardedDataParallelPlugin
    from accelerate.utils.fsdp_utils import save_fsdp_model, save_fsdp_optimizer

    a = Accelerator(cpu=True)
    model = Tiny()
    from torch.distributed.fsdp import fully_shard

    fully_shard(model, mesh=dist.init_device_mesh("cpu", (2,)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    steps(model, optimizer)
    full = {k: v.full_tensor() for k, v in model.state_dict().items()}
    mean = {k: optimizer.state[p]["exp_avg"].full_tensor().reshape(-1).tolist() for k, p in model.named_parameters()}
    for name, kind in (("accelerate-fsdp", "SHARDED_STATE_DICT"), ("accelerate-fsdp-full", "FULL_STATE_DICT")):
        plugin = FullyShardedDataParallelPlugin(fsdp_version=2, state_dict_type=kind)
        save_fsdp_model(plugin, a, model, str(out / name))
        save_fsdp_optimizer(plugin, a, optimizer, model, str(out / name))
        if rank == 0:
            expect(name, full, step=2, exp_avg=mean)
    dist.destroy_process_group()


def fsdp():
    fresh("accelerate-fsdp").mkdir()
    fresh("accelerate-fsdp-full").mkdir()
    mp.spawn(fsdp_rank, nprocs=2)


def deepspeed_rank(rank, ranks, stage):
    join(rank, 29475 + stage)
    os.environ["WORLD_SIZE"] = str(ranks)
    import deepspeed

    deepspeed.ops.__compatible_ops__.clear()  # no extension is compiled
    deepspeed.init_distributed("gloo", auto_mpi_discovery=False)
    name = f"deepspeed-zero{stage}"
    model = Tiny()
    config = {
        "train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": stage}, "bf16": {"enabled": True},
        "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False,
    }
    engine, optimizer, _, _ = deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=0.1), config=config)
    for i in range(2):
        engine.backward(engine(torch.tensor([i, 3, 6])))
        engine.step()
    engine.save_checkpoint(str(out / name), tag="global_step2")
    dist.barrier()
    if rank == 0:
        from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

        expect(name, get_fp32_state_dict_from_zero_checkpoint(str(out / name)), step=2)


def deepspeed(stage):
    os.environ.update(DS_ACCELERATOR="cpu", DS_BUILD_OPS="0")
    fresh(f"deepspeed-zero{stage}").mkdir()
    mp.spawn(deepspeed_rank, args=(2, stage), nprocs=2)


if __name__ == "__main__":
    for what in wanted:
        if what.startswith("deepspeed"):
            deepspeed(int(what[len("deepspeed"):]))
        else:
            globals()[what]()
