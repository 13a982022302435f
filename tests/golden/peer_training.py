# SPDX-License-Identifier: Apache-2.0
"""What the scripts compare_losses.py, compare_half.py and compare_runs.py share: training the same network with cltrain and with PyTorch,
and judging how far the losses are apart. Needs torch and numpy."""
import json
import os
import shutil
import struct
import subprocess
import sys

import numpy as np
import torch
import torch.nn.functional as F

from make_golden import save_safetensors

CIFAR_CLASSES = "airplane automobile bird cat deer dog frog horse ship truck".split()
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616)
failures = 0


def report(what, good, detail=""):
    global failures
    failures += not good
    print(f"{'ok  ' if good else 'FAIL'} {what}{': ' if detail else ''}{detail}", flush=True)


def report_spread(what, ours, theirs, inside=True):
    """Whether each of our figures lies within the mean of theirs and three of their standard deviations, or all lie outside."""
    mean, deviation = float(np.mean(theirs)), float(np.std(theirs, ddof=1))
    away = np.abs(np.array(ours) - mean) / deviation
    figures = ", ".join(f"{v:.4f}" for v in ours)
    report(what, bool((away <= 3).all() if inside else (away > 3).all()),
           f"{figures}; PyTorch {mean:.4f} +- {deviation:.4f}: {away.max():.1f} standard deviations")


def finish():
    print(f"{failures} failed")
    sys.exit(failures > 0)


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


# --- files ---

def load_safetensors(path):
    """name -> f32 tensor."""
    with open(path, "rb") as f:
        size, = struct.unpack("<Q", f.read(8))
        header, blob = json.loads(f.read(size)), f.read()
    out = {}
    for name, t in header.items():
        if name != "__metadata__" and t["dtype"] == "F32":
            first, last = t["data_offsets"]
            out[name] = torch.tensor(np.frombuffer(blob[first:last], np.float32).reshape(t["shape"]).copy())
    return out


def save_weights(path, net):
    save_safetensors(os.path.abspath(path), {name: t.detach().numpy() for name, t in net.state_dict().items()})


def write_cifar(path, images, labels):
    """A file of CIFAR-10's binary version: images (N,3,32,32) u8, labels (N)."""
    np.concatenate([labels.astype(np.uint8)[:, None], images.reshape(len(images), -1)], axis=1).tofile(path)


# --- training ---

def train(cltrain, config, folder, init, steps, *overrides):
    """cltrain's records of the steps, and of evaluations, by key: "loss", "eval_loss" ... init: initial weights, or None for its own."""
    run(cltrain, "train", config, "--out", folder, *(["--init", init] if init else []), "--max-steps", str(steps), *overrides)
    records = [json.loads(line) for line in open(os.path.join(folder, "metrics.jsonl"))]
    keys = {key for r in records for key in r if "event" not in r}
    return {key: np.array([r[key] for r in records if key in r and "event" not in r and r[key] is not None], dtype=object)
            for key in keys}


def train_alone(cltrain, config, steps):
    """cltrain's records of a run from its own initial weights, and the weights after its last step. config: a dict; it is told to evaluate
    and to save then."""
    config["train"] |= {"steps": steps, "eval_every": steps}
    config["checkpoint"] = {"every": steps}
    with open("run.json", "w", encoding="utf-8") as f:
        json.dump(config, f)
    shutil.rmtree("run", ignore_errors=True)
    return train(cltrain, "run.json", "run", None, steps), load_safetensors(f"run/checkpoints/step_{steps}/model.safetensors")


def decaying(net):
    """The parameters that optimizer.decay=matrices lets decay, and the others."""
    return [p for p in net.parameters() if p.ndim > 1], [p for p in net.parameters() if p.ndim <= 1]


def groups(net, decay):
    some, others = decaying(net)
    return [{"params": some, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]


def shake(net, seed):
    """Moves each f32 parameter to the next number above or below it, at random: the smallest change there is."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in net.parameters():
            up = torch.rand(p.shape, generator=generator) < 0.5
            p.copy_(torch.nextafter(p, torch.where(up, torch.inf, -torch.inf)))


def torch_train(net, batches, optimizer, rate, loss_of, autocast=None, clip=0):
    """Losses of a network that PyTorch trains, each before its update. batches: (x, y) for each step; rate: learning rate of step
    k, from 0; autocast: None or a type of 16 bits, where f16 runs under a GradScaler as cltrain's does; clip: largest norm of all
    gradients, 0 for none."""
    net.train()
    scaler = torch.amp.GradScaler("cpu", enabled=autocast == torch.float16)
    losses = []
    for k, (x, y) in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = float(np.float32(rate(k)))
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=autocast or torch.bfloat16, enabled=autocast is not None):
            logits = net(x)
        loss = loss_of(logits if autocast is None else logits.float(), y)
        scaler.scale(loss).backward()
        if clip:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(net.parameters(), clip)
        scaler.step(optimizer)
        scaler.update()
        losses.append(float(loss.detach()))
    return np.array(losses)


def normalise(images, dtype):
    """u8 pixels (N,3,H,W) as data.scale, mean and std of CIFAR's recipes make them."""
    mean, std = (torch.tensor(v, dtype=dtype).view(1, 3, 1, 1) for v in (MEAN, STD))
    return (torch.from_numpy(images).to(dtype) / 255 - mean) / std


def cross_entropy(logits, y):
    return F.cross_entropy(logits, y)
