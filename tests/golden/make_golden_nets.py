#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden values of the model types resnet, cnn3d and unet3d by PyTorch and torchvision. See make_golden.py, whose rules hold
here too (float64 computation from exact float32 values, nothing of PyTorch needed to run the tests):

    venv/bin/pip install torch torchvision numpy
    venv/bin/python tests/golden/make_golden_nets.py

Such networks have too many weights for files in a repository, so weights and data follow from a formula that this script and
test_golden_nets.c both compute: element i of the tensor `name` is a hash of both (see `noise`), scaled so that it is exact
in float32. Weights are those of a state_dict of torchvision in its order of elements, running statistics included.

Per net NAME one file, NAME.safetensors, with f64 tensors:
  logits       predictions of the first batch in evaluation, classes last, with the initial weights and running statistics; of
               more than LOGITS of them so many samples
  loss, norm   cross entropy and gradient norm of five steps of SGD with momentum and weight decay, each on a batch of its own
  grad         for each parameter, sorted by name: the norm of its gradient in step 1 and SAMPLES of its elements
  after        for each parameter and buffer, sorted by name: the same of its value after step 5
  salt         the data is the noise of the name "x" with this number behind it
  error        largest relative differences of these between float64 and float32 with weights changed by rounding errors, both in
               PyTorch, in the order of the list above: what can be expected of a float32 implementation that adds in another
               order. Tolerances in the test follow from them.
"""
import os

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torchvision.models import resnet

from make_golden import HERE, save_safetensors

STEPS, SAMPLES, LOGITS, SHAKES = 5, 7, 200, 6


def mix(x):
    """The finalizer of MurmurHash3, on uint32."""
    x = x ^ (x >> np.uint32(16))
    x = x * np.uint32(0x85EBCA6B)
    x = x ^ (x >> np.uint32(13))
    x = x * np.uint32(0xC2B2AE35)
    return x ^ (x >> np.uint32(16))


def words(name, count):
    """A hash of the name (FNV-1a) and each index."""
    seed = 2166136261
    for byte in name.encode():
        seed = (seed ^ byte) * 16777619 % (1 << 32)
    return mix(np.arange(count, dtype=np.uint32) * np.uint32(0x9E3779B9) ^ np.uint32(seed))


def noise(name, shape):
    """Uniform in [-1, 1), a multiple of 2^-23, f32."""
    whole = (words(name, int(np.prod(shape))) >> np.uint32(8)).astype(np.float32)
    return (whole * np.float32(2.0 ** -23) - np.float32(1)).reshape(shape)


def value_of(name, shape):
    f32, u = np.float32, noise(name, shape)
    if len(shape) > 1:
        return u * f32(np.sqrt(6.0 / (np.prod(shape) // shape[0])))
    if name.endswith("running_var"):
        return f32(1) + f32(0.5) * u
    if name.endswith("weight"):  # small where a bottleneck ends: without that, rounding errors double from block to block
        return (f32(0.75) + f32(0.25) * u) * f32(0.25 if name.endswith("bn3.weight") else 1)
    return f32(0.125) * u


def samples_of(name, count):
    return words("sample." + name, SAMPLES) % np.uint32(count)


def summary(name, value):
    """The norm and a few elements."""
    flat = value.detach().double().flatten()
    return [float(flat.norm())] + [float(flat[int(i)]) for i in samples_of(name, flat.numel())]


class Narrow(resnet.ResNet):
    """torchvision's ResNet with another width, and perhaps the stem for small images. width_per_group as in torchvision for
    a width of 64."""

    def __init__(self, block, layers, width, classes, cifar=False, groups=1, width_per_group=64):
        nn.Module.__init__(self)
        self._norm_layer, self.dilation = nn.BatchNorm2d, 1
        self.inplanes, self.groups, self.base_width = width, groups, width_per_group
        self.conv1 = nn.Conv2d(3, width, 3 if cifar else 7, 1 if cifar else 2, 1 if cifar else 3, bias=False)
        self.bn1, self.relu = nn.BatchNorm2d(width), nn.ReLU()
        self.maxpool = nn.Identity() if cifar else nn.MaxPool2d(3, 2, 1)
        for i, count in enumerate(layers):
            setattr(self, f"layer{i + 1}", self._make_layer(block, width << i, count, stride=1 if i == 0 else 2))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear((width << 3) * block.expansion, classes)


def group_norm(channels):
    return nn.GroupNorm(3, channels)


def instance_norm(channels):
    return nn.InstanceNorm3d(channels, affine=True)


class Block3d(nn.Module):
    def __init__(self, before, planes, stride, norm):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv3d(before, planes, 3, stride, 1, bias=False), norm(planes)
        self.conv2, self.bn2 = nn.Conv3d(planes, planes, 3, 1, 1, bias=False), norm(planes)
        self.downsample = None
        if stride != 1 or before != planes:
            self.downsample = nn.Sequential(nn.Conv3d(before, planes, 1, stride, bias=False), norm(planes))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class Cnn3d(nn.Module):
    def __init__(self, channels, width, blocks, classes, large, norm):
        super().__init__()
        self.conv1 = nn.Conv3d(channels, width, 7 if large else 3, 2 if large else 1, 3 if large else 1, bias=False)
        self.bn1, before = norm(width), width
        self.maxpool = nn.MaxPool3d(3, 2, 1) if large else nn.Identity()
        for i, count in enumerate(blocks):
            stage = [Block3d(before if k == 0 else width << i, width << i, 2 if i > 0 and k == 0 else 1, norm)
                     for k in range(count)]
            setattr(self, f"layer{i + 1}", nn.Sequential(*stage))
            before = width << i
        self.fc = nn.Linear(before, classes)

    def forward(self, x):
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean(dim=(2, 3, 4)))


class Level(nn.Module):
    def __init__(self, before, channels, stride, norm):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv3d(before, channels, 3, stride, 1, bias=False), norm(channels)
        self.conv2, self.norm2 = nn.Conv3d(channels, channels, 3, 1, 1, bias=False), norm(channels)

    def forward(self, x):
        return F.relu(self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x))))))


class Unet(nn.Module):
    def __init__(self, channels, width, limit, levels, classes, pools, norm):
        super().__init__()
        self.levels, self.pools = levels, pools
        sizes = [min(width << i, limit) for i in range(levels)]
        for i, size in enumerate(sizes):
            stride = 2 if i > 0 and not pools else 1
            setattr(self, f"enc{i + 1}", Level(sizes[i - 1] if i > 0 else channels, size, stride, norm))
            if i + 1 < levels:
                setattr(self, f"up{i + 1}", nn.ConvTranspose3d(sizes[i + 1], size, 2, 2))
                setattr(self, f"dec{i + 1}", Level(2 * size, size, 1, norm))
        self.head = nn.Conv3d(width, classes, 1)

    def forward(self, x):
        skips = []
        for i in range(self.levels):
            x = getattr(self, f"enc{i + 1}")(F.max_pool3d(x, 2) if i > 0 and self.pools else x)
            skips.append(x)
        for i in reversed(range(self.levels - 1)):
            x = getattr(self, f"dec{i + 1}")(torch.cat([skips[i], getattr(self, f"up{i + 1}")(x)], dim=1))
        return self.head(x)


def dice_loss(logits, y):
    """1 - the Dice coefficient of the probabilities, the mean over samples and classes without the background."""
    p, t = logits.softmax(1)[:, 1:], F.one_hot(y, logits.shape[1]).movedim(-1, 1)[:, 1:].to(logits.dtype)
    places = tuple(range(2, logits.ndim))
    return (1 - (2 * (p * t).sum(places) + 1e-5) / (p.sum(places) + t.sum(places) + 1e-5)).mean()


def run(net, shape, classes, dense, dice, batch, lr, salt, dtype, shaken=None, steps=STEPS):
    """What the golden file holds, as a dict of lists. shaken: a seed for changes of the weights by rounding errors."""
    places = shape[1:] if dense else ()
    x = torch.tensor(np.float32(1.75) * noise(f"x{salt}", (STEPS * batch,) + shape)).to(dtype)
    y = torch.tensor((words("y", STEPS * batch * int(np.prod(places))) % np.uint32(classes)).astype(np.int64)
                     .reshape((STEPS * batch,) + places))
    net.load_state_dict({name: torch.tensor(value_of(name, tuple(t.shape))) if t.is_floating_point() else t
                         for name, t in net.state_dict().items()})
    if shaken is not None:
        generator = torch.Generator().manual_seed(shaken)
        for p in net.parameters():
            p.data *= 1 + 2.0 ** -21 * (2 * torch.rand(p.shape, generator=generator) - 1)
    net.to(dtype).eval()
    with torch.no_grad():
        logits = net(x[:batch])
    logits = logits.movedim(1, -1).double().flatten()
    if logits.numel() > LOGITS:
        logits = logits[(words("sample.logits", LOGITS) % np.uint32(logits.numel())).astype(np.int64)]
    out = {"logits": logits.tolist(), "loss": [], "norm": []}
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9, weight_decay=0.01)
    net.train()
    for step in range(steps):
        optimizer.zero_grad()
        got, want = net(x[step * batch:(step + 1) * batch]), y[step * batch:(step + 1) * batch]
        loss = F.cross_entropy(got, want)
        (loss + dice * dice_loss(got, want) if dice else loss).backward()
        out["loss"].append(float(loss.detach()))
        out["norm"].append(float(torch.sqrt(sum((p.grad.double() ** 2).sum() for p in net.parameters()))))
        if step == 0:
            grads = {name: p.grad for name, p in net.named_parameters()}
            out["grad"] = [summary(name, grads[name]) for name in sorted(grads)]
        optimizer.step()
    after = {name: t for name, t in net.state_dict().items() if t.is_floating_point()}
    out["after"] = [summary(name, after[name]) for name in sorted(after)]
    return {key: np.array(value, dtype=np.float64) for key, value in out.items()}


def difference(a, b):
    """The largest one of a row, relative to its first element, the norm, and to the largest of the others; or to the largest of a
    list."""
    if a.ndim == 1:
        return np.abs(a - b).max() / np.abs(a).max()
    norms = np.abs(a - b)[:, 0] / a[:, 0]
    return max(norms.max(), (np.abs(a - b)[:, 1:].max(axis=1) / np.maximum(np.abs(a[:, 1:]).max(axis=1), 1e-30)).max())


def make(name, net, shape, classes, batch, lr, dense=False, dice=0, most=2e-4):
    """A ReLU whose input is nearly zero may go either way, and the gradient through it comes or goes as a whole. The data is
    chosen such that in the first step no such input has much weight: gradients change by less than `most`."""
    args = (net, shape, classes, dense, dice, batch, lr)
    for salt in range(40):
        first = run(*args, salt, torch.float64, steps=1)
        if all(difference(first["grad"], run(*args, salt, torch.float32, shaken, 1)["grad"]) < most for shaken in range(SHAKES)):
            break
    else:
        raise SystemExit(f"{name}: in 40 sets of data there is always an input of a ReLU that is too small")
    exact = run(*args, salt, torch.float64)
    near = [run(*args, salt, torch.float32, shaken) for shaken in range(SHAKES)]
    error = {key: max(difference(exact[key], other[key]) for other in near) for key in exact}
    print(f"{name:12} salt {salt} loss {exact['loss'].round(3)} norm {exact['norm'].round(2)}; float32 is off by " +
          ", ".join(f"{key} {value:.1e}" for key, value in error.items()), flush=True)
    save_safetensors(name + ".safetensors", dict(exact, error=np.array(list(error.values())), salt=np.array([float(salt)])))


if __name__ == "__main__":
    torch.set_num_threads(1)
    np.seterr(over="ignore")
    bottle, basic = resnet.Bottleneck, resnet.BasicBlock
    make("resnet50_narrow", Narrow(bottle, [3, 4, 6, 3], 16, 7), (3, 64, 48), 7, 4, 1e-4)
    make("resnext50_narrow", Narrow(bottle, [3, 4, 6, 3], 16, 7, groups=4, width_per_group=32), (3, 64, 48), 7, 4, 1e-4)
    make("resnet18_cifar", Narrow(basic, [2, 2, 2, 2], 8, 10, cifar=True), (3, 32, 32), 10, 4, 1e-4)
    make("cnn3d", Cnn3d(2, 6, [1, 1, 1, 1], 3, False, nn.BatchNorm3d), (2, 10, 14, 12), 3, 4, 1e-2)
    make("cnn3d_large", Cnn3d(1, 6, [2, 2, 2, 2], 3, True, group_norm), (1, 34, 40, 31), 3, 3, 1e-3)
    make("unet3d", Unet(1, 6, 320, 3, 3, False, instance_norm), (1, 8, 16, 12), 3, 2, 1e-2, dense=True, dice=0.5)
    make("unet3d_pool", Unet(2, 5, 10, 3, 4, True, nn.BatchNorm3d), (2, 12, 8, 8), 4, 2, 1e-2, dense=True)
    make("resnet50", Narrow(bottle, [3, 4, 6, 3], 64, 10), (3, 64, 64), 10, 2, 1e-4, most=2e-3)
