#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden values by PyTorch of norms over samples and of the losses of classification and segmentation.

Why: as in make_golden_spatial.py, whose rules hold here too: PyTorch itself says what the double-precision references of
these ops may have misunderstood. It has no Dice loss; that one is written here as a plain formula, and PyTorch differentiates
it. Run by hand when a case is added; its output in tests/golden/data is committed:

    venv/bin/python tests/golden/make_golden_losses.py

Everything is computed in float64 from numbers that are exactly float32. spatial_norms.safetensors has for each case NAME of the table in
test_golden_losses.c NAME.x, NAME.dy, NAME.y, NAME.dx, and with a factor and a shift NAME.weight, NAME.bias, NAME.dweight,
NAME.dbias. spatial_losses.safetensors has NAME.x, NAME.target (whole numbers), for mixed targets NAME.second and NAME.share;
NAME.loss: the mean; NAME.normaliser: what the sum over the targets was divided by; NAME.dx.
"""
import numpy as np
import torch
import torch.nn.functional as F

from make_golden_spatial import save_safetensors

# name -> shape of x, groups (0: instance norm), affine, eps
NORMS = {
    "group": ((3, 6, 5, 4), 3, False, 1e-5),
    "group_affine": ((2, 8, 3, 5), 4, True, 1e-5),
    "group_one": ((2, 4, 3, 2), 1, True, 1e-3),
    "group_volume": ((2, 6, 3, 4, 5), 2, True, 1e-5),
    "group_rows": ((5, 12), 3, True, 1e-5),
    "group_wide": ((2, 64, 3, 3), 8, True, 1e-5),
    "instance": ((3, 5, 7, 3), 0, False, 1e-5),
    "instance_affine": ((2, 3, 4, 6), 0, True, 1e-3),
    "instance_volume": ((2, 4, 3, 5, 4), 0, True, 1e-5),
    "instance_wide": ((2, 35, 4, 4), 0, False, 1e-5),
}

W5 = [0.5, 2.0, 0.0, 7.0, 1.25]
# name -> shape of x (classes are dimension 1), weights, smoothing, ignored class, mixed
CROSS_ENTROPIES = {
    "rows": ((11, 5), None, 0.0, None, False),
    "rows_weights": ((11, 5), W5, 0.0, None, False),
    "rows_all": ((31, 5), W5, 0.2, 3, False),
    "mask": ((2, 5, 6, 3), None, 0.0, None, False),
    "mask_smooth": ((2, 5, 6, 3), None, 0.1, None, False),
    "mask_ignore": ((3, 4, 5, 3), None, 0.1, 2, False),
    "mask_weights": ((2, 5, 4, 7), W5, 0.0, None, False),
    "mask_weights_smooth": ((2, 5, 4, 7), W5, 0.3, None, False),
    "mask_all": ((2, 5, 3, 4, 5), W5, 0.1, 1, False),
    "volume_weights": ((2, 2, 3, 4, 5), [0.25, 4.0], 0.0, None, False),
    "wide_all": ((2, 37, 3, 3), [0.125 * (c % 9) for c in range(37)], 0.1, 5, False),
    "mixed": ((9, 5), None, 0.0, None, True),
    "mixed_smooth": ((9, 5), None, 0.1, None, True),
    "mixed_weights": ((9, 5), W5, 0.0, None, True),
    "mixed_all": ((4, 5, 3, 2), W5, 0.1, None, True),
}

# name -> shape of x, activation, background counts, squared, smooth, weights, ignored class
DICES = {
    "dice": ((3, 4, 5, 6), "softmax", True, False, 1e-5, None, None),
    "dice_foreground": ((2, 3, 4, 5, 3), "softmax", False, False, 1e-5, None, None),
    "dice_squared": ((2, 4, 6, 5), "softmax", True, True, 1.0, None, None),
    "dice_sigmoid": ((2, 3, 6, 5), "sigmoid", True, False, 1e-5, None, None),
    "dice_binary": ((3, 1, 6, 5), "sigmoid", True, False, 1e-5, None, None),
    "dice_weights": ((2, 4, 6, 5), "softmax", True, False, 1e-5, [0.5, 2.0, 0.0, 3.0], None),
    "dice_all": ((2, 4, 3, 4, 5), "softmax", False, True, 0.5, [9.0, 2.0, 0.25, 3.0], 2),
}


def normal(random, shape):
    return random.standard_normal(shape).astype(np.float32)


def leaf(values):
    return torch.tensor(values.astype(np.float64), requires_grad=True)


def norms():
    tensors = {}
    for index, (name, (shape, groups, affine, eps)) in enumerate(NORMS.items()):
        random = np.random.RandomState(300 + index)
        x, dy = normal(random, shape) * np.float32(2) + np.float32(0.5), normal(random, shape)
        weight, bias = normal(random, shape[1]), normal(random, shape[1])
        at = {"x": leaf(x), "weight": leaf(weight), "bias": leaf(bias)}
        parameters = (at["weight"], at["bias"]) if affine else (None, None)
        y = (F.group_norm(at["x"], groups, *parameters, eps) if groups else
             F.instance_norm(at["x"], weight=parameters[0], bias=parameters[1], eps=eps))
        y.backward(torch.tensor(dy.astype(np.float64)))
        out = {"x": x, "dy": dy, "y": y.detach().numpy(), "dx": at["x"].grad.numpy()}
        if affine:
            out.update(weight=weight, bias=bias, dweight=at["weight"].grad.numpy(), dbias=at["bias"].grad.numpy())
        tensors.update({f"{name}.{key}": value for key, value in out.items()})
    save_safetensors("spatial_norms.safetensors", tensors)


def cross_entropy(x, target, second, share, weights, smoothing, ignore):
    """The mean, and what it was divided by."""
    weight = None if weights is None else torch.tensor(weights, dtype=torch.float64)
    if second is None:
        loss = F.cross_entropy(x, target, weight, ignore_index=-100 if ignore is None else ignore, label_smoothing=smoothing)
        counted = target[target != ignore] if ignore is not None else target.flatten()
        return loss, float(counted.numel() if weight is None else weight[counted].sum())
    classes = x.shape[1]
    hot = [F.one_hot(t, classes).double().movedim(-1, 1) for t in (target, second)]
    share = share.reshape([-1] + [1] * (x.dim() - 1))
    return F.cross_entropy(x, share * hot[0] + (1 - share) * hot[1], weight, label_smoothing=smoothing), float(target.numel())


def dice(x, target, activation, background, squared, smooth, weights, ignore):
    classes = x.shape[1]
    p = torch.softmax(x, 1) if activation == "softmax" else torch.sigmoid(x)
    t = target.unsqueeze(1).double() if classes == 1 else F.one_hot(target, classes).double().movedim(-1, 1)
    counts = torch.ones_like(target, dtype=torch.float64) if ignore is None else (target != ignore).double()
    counts, over = counts.unsqueeze(1), tuple(range(2, x.dim()))
    both = (p * t * counts).sum(over)
    below = ((p * p if squared else p) * counts).sum(over) + (t * counts).sum(over)
    loss = 1 - (2 * both + smooth) / (below + smooth)
    if weights is not None:
        loss = loss * torch.tensor(weights, dtype=torch.float64)
    return loss[:, 0 if background else 1:].mean(), float(x.shape[0])


def losses():
    tensors = {}
    for index, name in enumerate([*CROSS_ENTROPIES, *DICES]):
        random = np.random.RandomState(400 + index)
        shape = (CROSS_ENTROPIES.get(name) or DICES[name])[0]
        x, places = normal(random, shape) * np.float32(3), (shape[0],) + shape[2:]
        target = random.randint(0, max(shape[1], 2), places)
        out = {"x": x, "target": target.astype(np.float32)}
        at, second, share = leaf(x), None, None
        if name in DICES:
            loss, normaliser = dice(at, torch.tensor(target), *DICES[name][1:])
        else:
            _, weights, smoothing, ignore, mixed = CROSS_ENTROPIES[name]
            if mixed:
                out["second"] = random.randint(0, shape[1], places).astype(np.float32)
                out["share"] = random.random_sample(shape[0]).astype(np.float32)
                second, share = torch.tensor(out["second"].astype(np.int64)), torch.tensor(out["share"].astype(np.float64))
            loss, normaliser = cross_entropy(at, torch.tensor(target), second, share, weights, smoothing, ignore)
        loss.backward()
        out.update(loss=np.array([loss.item()]), normaliser=np.array([normaliser]), dx=at.grad.numpy())
        tensors.update({f"{name}.{key}": value for key, value in out.items()})
    save_safetensors("spatial_losses.safetensors", tensors)


if __name__ == "__main__":
    norms()
    losses()
