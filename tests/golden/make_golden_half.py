#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden values of half-precision training by PyTorch: torch.autocast and torch.amp.GradScaler on the CPU, over the decoder
"gpt" of make_golden_gpt.py, whose data and initial parameters these runs share. See make_golden.py for the rules.

    venv/bin/python tests/golden/make_golden_half.py

One file, gpt_half.safetensors, each tensor with one number per step of 100 (batch k is k modulo 10):
  OPT.MODE.loss     OPT sgd or adamw, MODE f32, f16 or bf16: the loss curve. f16 runs under a GradScaler.
  CASE.*            the cases of CASES below, where Inf, -Inf or NaN is put into a gradient after a certain micro-batch of
                    certain steps: "loss"; "scale" and "tracker" (the scaler's, after the step), "update" (the optimizer's own
                    step count), "lr" (of the learning rate that the step had). A skipped step does not advance the schedule.
  CASE.inject       (injections, 3): step, micro-batch, kind (0 Inf, 1 -Inf, 2 NaN)
test_golden_half.c repeats all of it.
"""
import math
import os

import numpy as np
import torch

from make_golden import BATCH, HERE, optimizer, parameters, save_safetensors
from make_golden_gpt import Gpt

STEPS = 100
CURVES = {"sgd": dict(lr=0.01, clip=0), "adamw": dict(lr=0.001, clip=1)}
WARMUP, FLOOR = 10, 0.1  # of the cases: linear warm-up, then cosine down to a tenth

# name: mode, optimizer, micro-batch, GradScaler's settings
CASES = {
    "plain": ("f16", "adamw", 15, dict(init_scale=512.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=4)),
    "parts": ("f16", "sgd", 5, dict(init_scale=256.0, growth_factor=1.5, backoff_factor=0.75, growth_interval=4)),
    "adam_parts": ("f16", "adamw", 5, dict(init_scale=1024.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=5)),
    "odd": ("f16", "sgd", 15, dict(init_scale=300.0, growth_factor=1.7, backoff_factor=0.37, growth_interval=3)),
    "bf16": ("bf16", "adamw", 15, dict(init_scale=64.0, growth_factor=4.0, backoff_factor=0.125, growth_interval=5)),
}
INJECT = [(0, 0, 0), (7, 1, 2), (20, 2, 1), (21, 0, 0), (22, 1, 0), (30, 0, 2), (31, 2, 2), (47, 0, 0), (55, 1, 1), (56, 1, 1),
          (57, 2, 0), (58, 0, 2), (73, 2, 0), (90, 0, 0), (99, 1, 2)]
KINDS = (math.inf, -math.inf, math.nan)
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def lr_factor(update):
    if update < WARMUP:
        return (update + 1) / WARMUP
    return FLOOR + (1 - FLOOR) * 0.5 * (1 + math.cos(math.pi * (update - WARMUP) / (STEPS - WARMUP)))


def micro_batches(net, x, y, k, micro):
    """(x, y, share of the batch's mean loss that one counted target has)"""
    first = k % (len(x) // BATCH) * BATCH
    count = int((y[first:first + BATCH] != -1).sum())
    for at in range(first, first + BATCH, micro):
        yield torch.tensor(x[at:at + micro]).long(), torch.tensor(y[at:at + micro]).long(), max(count, 1)


def run(net, init, x, y, mode, kind, micro, lr, clip, settings, inject=(), schedule=False):
    p = parameters(init, torch.float32)
    opt = optimizer(kind, p)
    for group in opt.param_groups:
        group["lr"] = lr
    falls = torch.optim.lr_scheduler.LambdaLR(opt, lr_factor if schedule else lambda update: 1.0)
    scaler = torch.amp.GradScaler("cpu", enabled=settings is not None, **(settings or {}))
    out = {key: [] for key in ("loss", "scale", "tracker", "update", "lr")}
    updates = 0
    for k in range(STEPS):
        opt.zero_grad()
        total = 0.0
        for m, (bx, by, count) in enumerate(micro_batches(net, x, y, k, micro)):
            with torch.autocast("cpu", dtype=DTYPES[mode], enabled=mode != "f32"):
                logits = net.forward(p, bx)
            (_, rows, _), = net.losses(logits.float(), bx, by)
            scaler.scale(rows / count).backward()
            total += rows.item() / count
            for step, part, what in inject:
                if step == k and part % (BATCH // micro) == m:
                    p["h.1.mlp.c_fc.weight"].grad[3, 5] = KINDS[what]
        used = opt.param_groups[0]["lr"]
        scaler.unscale_(opt) if settings else None
        if clip:
            torch.nn.utils.clip_grad_norm_(list(p.values()), clip)
        before = scaler.get_scale()
        scaler.step(opt)
        scaler.update() if settings else None
        skipped = any(step == k for step, _, _ in inject)
        if settings:  # nothing overflows by itself
            assert (scaler.get_scale() < before) == skipped, (mode, kind, k, before, scaler.get_scale())
        if not skipped:
            updates += 1
            falls.step()
        if kind == "adamw":
            counts = {int(s["step"]) for s in opt.state.values()}
            assert counts <= {updates}, (counts, updates)
        for key, value in (("loss", total), ("scale", scaler.get_scale()), ("update", updates), ("lr", used),
                           ("tracker", scaler._get_growth_tracker() if settings else 0)):
            out[key].append(value)
    return {key: np.array(value, dtype=np.float32) for key, value in out.items()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    decoder = Gpt("gpt", 2, 3, 15, 7, 29, True, True, "tanh")
    rng = np.random.RandomState(30)
    init = decoder.init(rng)
    x, y = decoder.data(rng)
    tensors = {}
    for kind, o in CURVES.items():
        curve = {}
        for mode in DTYPES:
            settings = dict(init_scale=1024.0) if mode == "f16" else None
            curve[mode] = run(decoder, init, x, y, mode, kind, BATCH, o["lr"], o["clip"], settings)["loss"]
            tensors[f"{kind}.{mode}.loss"] = curve[mode]
            apart = np.abs(curve[mode] - curve["f32"])
            print(f"{kind:5} {mode:4}: loss {curve[mode][0]:.4f} -> {curve[mode][-1]:.4f}, from f32 {apart.max():.1e} at most, "
                  f"{apart.mean():.1e} on average")
    for name, (mode, kind, micro, settings) in CASES.items():
        o = CURVES[kind]
        got = run(decoder, init, x, y, mode, kind, micro, o["lr"], o["clip"], settings, INJECT, True)
        tensors.update({f"{name}.{key}": value for key, value in got.items()})
        tensors[f"{name}.inject"] = np.array([(s, m % (BATCH // micro), w) for s, m, w in INJECT], dtype=np.float32)
        print(f"{name}: loss {got['loss'][0]:.4f} -> {got['loss'][-1]:.4f}, scale {got['scale'].min()}..{got['scale'].max()}, "
              f"{int(got['update'][-1])} updates")
    save_safetensors("gpt_half.safetensors", tensors)
