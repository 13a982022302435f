#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training in f16 and bf16 beside PyTorch's autocast: how far losses and gradients in 16 bits are from those in f32.

    compare_half.py CLTRAIN SOURCE FOLDER [quick]

CLTRAIN is the program, SOURCE the repository, FOLDER an empty folder to work in. Two networks, each with several initial weights: the
residual network of configs/resnet18-cifar10-tiny.json, narrower, on images of ten classes that are made here, and a small unet3d
with cross entropy and Dice loss and the optimizer of configs/unet3d-tiny.json, on volumes with balls. cltrain and PyTorch start from
the same weights and take the same samples in the same order; PyTorch computes f16 and bf16 by torch.autocast on the CPU, f16 with a
GradScaler, and losses in f32. For each type, relative to f32 of the same program:

  gradients   of the first step: the norm of the difference over the norm
  losses      of 100 steps: the mean of |loss in 16 bits - loss in f32|; frozen: a learning rate so small that only rounding in the forward pass counts; gentle: one with which rounding
              errors do not take over; recipe: that of the config, with which they do, in f32 of PyTorch as well

What is judged: cltrain's median over the initial weights may be at most 1.15 times PyTorch's, since both are samples of rounding errors.
With the recipe it may be 1.5 times PyTorch's own, or 1.5 times what PyTorch in f32 makes of weights that are moved to a neighbouring
number, because there chance decides. None of cltrain's figures may be garbage: NaN, or above 1 or 5 times its median. PyTorch 2.15's
convolutions of volumes in bf16 give garbage at times, wholly or in part: medians hardly notice that, and figures above 1 or NaN are left
out of PyTorch's. Only printed: how many of PyTorch's figures are garbage, and, for losses, the median of the difference between the means
of the last 20 losses.

Arithmetic of a CPU device is f32 in all types, so what is measured is the rounding of what is stored.
Needs torch, torchvision and numpy; test_peer_losses.sh runs it where CLTRAIN_TEST_PYTHON names a Python that has them."""
import json
import os
import shutil
import sys
import warnings

import numpy as np
import torch
from torchvision.models import resnet

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from make_golden_nets import Narrow, Unet, dice_loss, instance_norm  # noqa: E402
from peer_training import (cross_entropy, finish, groups, load_safetensors, normalise, report,  # noqa: E402
                           save_weights, shake, torch_train, train, write_cifar)

warnings.simplefilter("ignore")
torch.set_num_threads(1)
CLTRAIN, SOURCE, WORK = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3]
QUICK = len(sys.argv) > 4
os.chdir(WORK)
TYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
LAST = 20  # losses of the final mean
NOISE, CHAOS = 1.15, 1.5  # times PyTorch's median that cltrain's may be
GARBAGE = 5  # times the median


class Images:
    """A residual network on images: of each class a pattern, at a random place, under noise."""
    name, batch, steps = "resnet", 16, 100
    momentum, decay, width = 0.9, 5e-4, 8

    def __init__(self, scale):
        self.rate = 0.1 * scale
        rng = np.random.RandomState(5)
        n = self.batch * self.steps
        patterns = rng.uniform(0, 255, (10, 3, 8, 8)).repeat(4, axis=2).repeat(4, axis=3)
        self.y = rng.randint(0, 10, n)
        shifts = rng.randint(-6, 7, (n, 2))
        self.x = np.stack([np.roll(patterns[c], tuple(s), (1, 2)) for c, s in zip(self.y, shifts)])
        self.x = np.clip(0.5 * self.x + rng.normal(64, 60, self.x.shape), 0, 255).astype(np.uint8)
        write_cifar("images.bin", self.x, self.y)
        with open(os.path.join(SOURCE, "configs/resnet18-cifar10-tiny.json")) as f:
            config = json.load(f)
        config["model"]["width"] = self.width
        config["data"].update(path="images.bin", eval_path="images.bin", crop="center", flip=0, shuffle=False, micro_batch=self.batch)
        config["optimizer"].update(learning_rate=self.rate)
        config["schedule"] = {"type": "constant", "warmup": 100}
        config["train"] = {"steps": self.steps, "eval_batches": 1}
        self.config = config
        self.batches = [(normalise(x, torch.float32), torch.tensor(y)) for x, y in
                        zip(np.split(self.x, self.steps), np.split(self.y, self.steps))]

    def net(self):
        return Narrow(resnet.BasicBlock, [2, 2, 2, 2], self.width, 10, cifar=True)

    def optimizer(self, net):
        return torch.optim.SGD(groups(net, self.decay), lr=1, momentum=self.momentum, nesterov=True)

    def rate_of(self, step):
        return self.rate * min(1, (step + 1) / 100)

    loss = staticmethod(cross_entropy)


class Volumes:
    """A U-Net on volumes: balls of two brightnesses in noise."""
    name, batch, steps = "unet3d", 2, 100
    shape, width, levels, decay = (8, 16, 16), 6, 3, 1e-4

    def __init__(self, scale):
        self.rate = 0.003 * scale
        rng = np.random.RandomState(6)
        n = self.batch * self.steps
        place = np.stack(np.meshgrid(*(np.arange(s) for s in self.shape), indexing="ij"))
        self.y = np.zeros((n,) + self.shape, np.int32)
        for volume in self.y:
            for label in (1, 2):
                middle = rng.uniform(2, 14, (3, 1, 1, 1)) * np.array([0.5, 1, 1]).reshape(3, 1, 1, 1)
                volume[((place - middle) ** 2).sum(0) < rng.uniform(2.5, 5) ** 2] = label
        self.x = (self.y * 0.7 + rng.normal(0, 0.6, self.y.shape)).astype(np.float32)[:, None]
        np.save("volumes.npy", self.x)
        np.save("masks.npy", self.y)
        self.config = {
            "model": {"type": "unet3d", "levels": self.levels, "width": self.width, "classes": 3},
            "data": {"type": "npy", "path": "volumes.npy", "targets": "masks.npy", "shuffle": False, "micro_batch": self.batch},
            "optimizer": {"type": "adamw", "learning_rate": self.rate, "weight_decay": self.decay},
            "schedule": {"type": "constant", "warmup": 20}, "train": {"steps": self.steps}}
        self.batches = [(torch.tensor(x), torch.tensor(y.astype(np.int64))) for x, y in
                        zip(np.split(self.x, self.steps), np.split(self.y, self.steps))]

    def net(self):
        return Unet(1, self.width, 320, self.levels, 3, False, instance_norm)

    def optimizer(self, net):
        return torch.optim.AdamW(groups(net, self.decay), lr=1)

    def rate_of(self, step):
        return self.rate * min(1, (step + 1) / 20)

    @staticmethod
    def loss(logits, y):
        return cross_entropy(logits, y) + dice_loss(logits, y)


def theirs(work, seed, autocast, shaken=None):
    torch.manual_seed(seed)
    net = work.net()
    if shaken is not None:
        shake(net, shaken)
    return torch_train(net, work.batches, work.optimizer(net), work.rate_of, work.loss, autocast)


def ours(work, mode):
    shutil.rmtree("run", ignore_errors=True)
    with open("run.json", "w") as f:
        json.dump(work.config, f)
    return train(CLTRAIN, "run.json", "run", "init.safetensors", work.steps, f"precision.mode={mode}")["loss"].astype(float)


def distances(low, full):
    return np.array([np.abs(low - full).mean(), abs(low[-LAST:].mean() - full[-LAST:].mean())])


def judge(what, found, chaos=None):
    """found: who, type -> a row of figures for each initial weights; the first one decides. chaos: such a row of PyTorch's f32."""
    for mode in TYPES:
        mine, other = (np.nan_to_num(found[who, mode], nan=np.inf, posinf=np.inf) for who in ("cltrain", "PyTorch"))
        some = other[other[:, 0] <= 1]
        if not len(some):
            report(f"{what} in {mode}", False, "PyTorch's autocast gave nothing but garbage")
            continue
        ours, theirs = np.median(mine, axis=0), np.median(some, axis=0)
        garbage = int((other[:, 0] > min(1, GARBAGE * theirs[0])).sum())
        bound = NOISE * theirs[0] if chaos is None else CHAOS * max(theirs[0], chaos[0])
        worst = mine[:, 0].max()
        rest = "" if len(ours) < 2 else f"; means of the last {LAST}: {ours[1]:.2e} and {theirs[1]:.2e}"
        rest += "" if chaos is None else f"; f32 with weights moved by 2^-24: {chaos[0]:.2e} and {chaos[1]:.2e}"
        rest += f"; PyTorch's are garbage with {garbage} of {len(other)} initial weights" if garbage else ""
        report(f"{what} in {mode}", ours[0] <= bound and worst <= min(1, GARBAGE * ours[0]),
               f"{ours[0]:.2e} from f32 (at most {worst:.2e}), PyTorch's autocast {theirs[0]:.2e}, ratio {ours[0] / theirs[0]:.2f}{rest}")


def compare_losses(name, work, seeds, chaotic):
    found, shaken = {}, []

    def note(who, mode, low, full):
        found.setdefault((who, mode), []).append(distances(low, full))

    for seed in seeds:
        torch.manual_seed(seed)
        save_weights("init.safetensors", work.net())
        mine, full = ours(work, "f32"), theirs(work, seed, None)
        if chaotic:
            shaken.append(distances(theirs(work, seed, None, 1), full))
        for mode, dtype in TYPES.items():
            note("cltrain", mode, ours(work, mode), mine)
            note("PyTorch", mode, theirs(work, seed, dtype), full)
        print(f"     {name}, weights {seed}: loss {full[0]:.3f} to {full[-LAST:].mean():.3f}, off in f32 "
              f"{np.abs(mine - full).mean():.1e}; " + ", ".join(f"{who} {mode} {d[-1][0]:.1e}" for (who, mode), d in found.items()),
              flush=True)
    judge(f"{name}, losses", found, np.median(shaken, axis=0) if chaotic else None)


def compare_gradients(name, work, seeds):
    """Gradients of the first batch; cltrain's are what a step of plain SGD at learning rate 1 takes from the parameters."""
    work.config.update(optimizer={"type": "sgd", "learning_rate": 1.0}, schedule={"type": "constant"})
    work.config["train"]["steps"] = work.steps = 1
    found, x, y = {}, *work.batches[0]
    for seed in seeds:
        torch.manual_seed(seed)
        net = work.net().train()
        save_weights("init.safetensors", net)

        def by_torch(dtype):
            scale = 65536.0 if dtype == torch.float16 else 1.0
            net.zero_grad()
            with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
                logits = net(x)
            (work.loss(logits.float(), y) * scale).backward()
            return {name: p.grad.double() / scale for name, p in net.named_parameters()}

        def by_cltrain(mode):
            ours(work, mode)
            after = load_safetensors("run/checkpoints/step_1/model.safetensors")
            return {name: p.detach().double() - after[name].double() for name, p in net.named_parameters()}

        def relative(low, full):
            return [float(sum(((low[n] - full[n]) ** 2).sum() for n in full) / sum((full[n] ** 2).sum() for n in full)) ** 0.5]

        full, mine = by_torch(None), by_cltrain("f32")
        for mode, dtype in TYPES.items():
            found.setdefault(("cltrain", mode), []).append(relative(by_cltrain(mode), mine))
            found.setdefault(("PyTorch", mode), []).append(relative(by_torch(dtype), full))
    judge(f"{name}, gradients", found)


SEEDS = range(3 if QUICK else 6)
for kind, rates in ((Images, {"frozen": 1e-8, "gentle": 1e-3, "recipe": 1}), (Volumes, {"gentle": 1e-2, "recipe": 1})):
    compare_gradients(kind.name, kind(1), range(12))
    for rate, scale in rates.items():
        compare_losses(f"{kind.name}, {rate}", kind(scale), SEEDS, rate == "recipe")
finish()
