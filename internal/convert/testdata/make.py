"""Writes the fixtures of this directory with PyTorch: python make.py DIR. See README.md."""
import collections
import dataclasses
import json
import os
import pathlib
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp

out = pathlib.Path(sys.argv[1])


def expect(name, tensors, **more):
    """Writes the values a conversion must give."""
    want = {}
    for key, t in tensors.items():
        t = t.detach().contiguous()
        raw = t.reshape(-1).view(torch.uint8) if t.numel() else torch.empty(0, dtype=torch.uint8)
        want[key] = {"dtype": str(t.dtype)[6:], "shape": list(t.shape), "hex": bytes(raw.tolist()).hex()}
    (out / (name + ".json")).write_text(json.dumps({"tensors": want, **more}, indent=1) + "\n")


@dataclasses.dataclass
class DDPConfig:
    model_name: str = "tiny"
    learning_rate: float = 1e-3


def weights(seed=1):
    g = torch.Generator().manual_seed(seed)
    return {
        "embed.weight": torch.randn(7, 4, generator=g),
        "layer.weight": torch.randn(4, 3, generator=g),
        "layer.bias": torch.randn(3, generator=g),
        "norm.weight": torch.randn(5, generator=g),
    }


def plain():
    """Every type of parameters, views of one storage, strides, a scalar, an empty tensor."""
    base = torch.arange(24, dtype=torch.float32)
    tensors = collections.OrderedDict(
        f64=torch.tensor([1.5, -2.0], dtype=torch.float64), f32=base.view(4, 6), f16=torch.tensor([[1.0, 65504.0]]).half(),
        bf16=torch.tensor([3.0, -1e30]).bfloat16(), i64=torch.tensor([2**40, -1]), i32=torch.tensor([7], dtype=torch.int32),
        u8=torch.tensor([0, 255], dtype=torch.uint8), rows=base.view(4, 6)[1:3], columns=base.view(4, 6)[:, 2:4],
        transposed=base.view(4, 6).t(), tied=base.view(4, 6), scalar=torch.tensor(2.5), empty=torch.empty(0, 3),
        parameter=torch.nn.Parameter(torch.ones(2)),
    )
    torch.save(tensors, out / "plain.pt")
    expect("plain", tensors)
    f8 = {"e4m3": torch.tensor([1.5, -448.0, 0.001953125]).to(torch.float8_e4m3fn), "e5m2": torch.tensor([1.5, -57344.0, float("inf")]).to(torch.float8_e5m2)}
    torch.save(f8, out / "float8.pt")
    expect("float8", {k: v.bfloat16() for k, v in f8.items()})
    torch.save(weights(), out / "legacy.pt", _use_new_zipfile_serialization=False)


def trainer():
    """A checkpoint_step_N.pt of a DDP trainer: state dicts, an object of the trainer's own class."""
    sd = weights()
    model = torch.nn.Linear(2, 2)
    opt = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    opt.step()
    wrapped = {"module._orig_mod." + k.replace("layer.", "layer._fsdp_wrapped_module."): v for k, v in sd.items()}
    for step in (2, 10):
        torch.save({
            "model_state_dict": wrapped, "optimizer_state_dict": opt.state_dict(), "scheduler_state_dict": {"last_epoch": 3, "_last_lr": [0.1]},
            "scaler_state_dict": None, "global_step": step, "epoch": 1, "config": DDPConfig(),
        }, out / "steps" / f"checkpoint_step_{step}.pt")
    expect("steps", sd, step=10)


class Evil:
    def __reduce__(self):
        return os.system, ("echo run",)


def rank(r, path):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29471")
    dist.init_process_group("gloo", rank=r, world_size=2)
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    mesh = dist.init_device_mesh("cpu", (2,))
    sd = weights()
    split = {"embed.weight": Shard(0), "layer.weight": Shard(1), "layer.bias": Shard(0), "norm.weight": Replicate()}
    put = lambda k, t: distribute_tensor(t, mesh, [split[k]])
    moments = {k: {"step": torch.tensor(4.0), "exp_avg": put(k, t * 2), "exp_avg_sq": put(k, t * t)} for k, t in sd.items()}
    state = {"model": {k: put(k, t) for k, t in sd.items()}, "optimizer": {"state": moments, "param_groups": [{"lr": 0.1}]}, "step": 4}
    dcp.save(state, checkpoint_id=path)
    dist.destroy_process_group()


def distributed():
    mp.spawn(rank, args=(str(out / "dcp"),), nprocs=2)
    sd = weights()
    expect("dcp", sd, step=4, exp_avg={k: (v * 2).reshape(-1).tolist() for k, v in sd.items()})


def zero(stage, ranks):
    """The files of DeepSpeed's engine.save_checkpoint under ZeRO, as its writer lays them out."""
    sd = weights()
    moments = {"exp_avg": {k: v * 2 for k, v in sd.items()}, "exp_avg_sq": {k: v * v for k, v in sd.items()}}
    groups = [["embed.weight", "layer.weight"], ["layer.bias", "norm.weight"]]
    d = out / f"zero{stage}" / "global_step6"
    d.mkdir(parents=True)
    (out / f"zero{stage}" / "latest").write_text("global_step6")

    def partitions(values):
        """[rank][group] flat float32"""
        if stage == 3:
            parts = [[[] for _ in groups] for _ in range(ranks)]
            for g, names in enumerate(groups):
                for n in names:
                    flat = values[n].reshape(-1)
                    per = -(-flat.numel() // ranks)
                    flat = torch.cat([flat, torch.zeros(per * ranks - flat.numel())])
                    for r in range(ranks):
                        parts[r][g].append(flat[r * per:(r + 1) * per])
            return [[torch.cat(p) for p in by] for by in parts]
        parts = [[] for _ in range(ranks)]
        for names in groups:
            flat = torch.cat([values[n].reshape(-1) for n in names])
            align = 2 * ranks
            flat = torch.cat([flat, torch.zeros(-flat.numel() % align)])
            per = flat.numel() // ranks
            for r in range(ranks):
                parts[r].append(flat[r * per:(r + 1) * per].clone())
        return parts

    fp32 = partitions(sd)
    slots = {k: partitions(v) for k, v in moments.items()}
    module = {k: v.bfloat16() for k, v in sd.items()} | {"head.weight": sd["embed.weight"].bfloat16(), "rotary": torch.tensor([1.0, 0.5])}
    frozen = torch.arange(6, dtype=torch.float32).view(2, 3)
    for r in range(ranks):
        if stage == 3 or r == 0:
            part = torch.cat([frozen.reshape(-1), torch.zeros(-6 % ranks)])
            per = part.numel() // ranks
            name = f"zero_pp_rank_{r}_mp_rank_00_model_states.pt" if stage == 3 else "mp_rank_00_model_states.pt"
            torch.save({
                "module": module, "buffer_names": ["rotary"], "optimizer": None, "param_shapes": [collections.OrderedDict((n, sd[n].shape) for n in names) for names in groups],
                "frozen_param_shapes": {"frozen.weight": frozen.shape},
                "frozen_param_fragments": {"frozen.weight": part[r * per:(r + 1) * per].clone() if stage == 3 else frozen},
                "shared_params": {"head.weight": "embed.weight"}, "lr_scheduler": None, "skipped_steps": 0, "global_steps": 6, "global_samples": 12,
                "dp_world_size": ranks, "mp_world_size": 1, "ds_config": {"zero_optimization": {"stage": stage}}, "ds_version": "0.17.0",
            }, d / name)
        state = {i: {"step": torch.tensor(6.0)} | {k: slots[k][r][i] for k in slots} for i in range(len(groups))}
        base = {"state": state, "param_groups": [{"lr": 0.1, "params": [i]} for i in range(len(groups))]}
        if stage == 3:
            osd = {"zero_stage": 3, "partition_count": ranks, "optimizer_state_dict": base, "fp32_flat_groups": fp32[r]}
        else:
            osd = {"zero_stage": stage, "partition_count": [ranks] * len(groups), "base_optimizer_state": base, "single_partition_of_fp32_groups": fp32[r],
                   "group_paddings": [0, 0], "ds_version": "0.17.0"}
        torch.save({"optimizer_state_dict": osd, "ds_config": {}, "ds_version": "0.17.0"}, d / f"bf16_zero_pp_rank_{r}_mp_rank_00_optim_states.pt")
    want = sd | {"head.weight": sd["embed.weight"], "rotary": torch.tensor([1.0, 0.5]), "frozen.weight": frozen}
    expect(f"zero{stage}", want, step=6, exp_avg={k: v.reshape(-1).tolist() for k, v in moments["exp_avg"].items()})


if __name__ == "__main__":
    for name in ("steps", "bin"):
        (out / name).mkdir(parents=True, exist_ok=True)
    plain()
    trainer()
    torch.save({"model": Evil()}, out / "evil.pt")
    sd = weights()
    first = {k: sd[k] for k in ("embed.weight", "norm.weight")}
    torch.save(first, out / "bin" / "pytorch_model-00001-of-00002.bin")
    torch.save({k: v for k, v in sd.items() if k not in first}, out / "bin" / "pytorch_model-00002-of-00002.bin")
    (out / "bin" / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {}, "weight_map": {k: f"pytorch_model-0000{1 if k in first else 2}-of-00002.bin" for k in sd}}))
    expect("bin", sd)
    distributed()
    zero(1, 2)
    zero(2, 3)
    zero(3, 3)
