#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden values by PyTorch of ops on images and volumes: pooling and upsampling, forward and backward.

Why: the double-precision references of these ops were written from PyTorch's documentation; here PyTorch itself says what
the outputs and gradients are, in the corners where it matters: which of several equal elements gets the gradient, NaN,
what ceil_mode and padding count as, where the outputs of an interpolation lie. Running the tests needs no PyTorch; this
script is run by hand when a case is added, and its output in tests/golden/data is committed:

    python3 -m venv venv && venv/bin/pip install torch numpy
    venv/bin/python tests/golden/make_golden_spatial.py

Everything is computed in float64 from numbers that are exactly float32. spatial_pool.safetensors has for each case NAME, which is
one of the table in test_golden_spatial.c: NAME.x, NAME.dy, NAME.y and NAME.dx. Numbers of the kind "whole" are
small integers, so that many are equal.
"""
import json
import os
import struct

import numpy as np
import torch
import torch.nn.functional as F

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")


def save_safetensors(name, tensors):
    header, offset, blobs = {}, 0, []
    for key, value in tensors.items():
        value = np.ascontiguousarray(value)
        blob = value.tobytes()
        header[key] = {"dtype": {"float32": "F32", "float64": "F64"}[value.dtype.name], "shape": list(value.shape),
                       "data_offsets": [offset, offset + len(blob)]}
        offset += len(blob)
        blobs.append(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(HERE, name), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


# name -> shape of x, kind of numbers, function
CASES = {
    "max_stem": ((2, 3, 9, 8), "whole", lambda x: F.max_pool2d(x, 3, 2, 1)),
    "max_dilated": ((2, 2, 9, 10), "whole", lambda x: F.max_pool2d(x, (2, 3), (2, 1), 1, (3, 2))),
    "max_ceil": ((2, 2, 8, 6), "whole", lambda x: F.max_pool2d(x, 3, 2, 0, 1, True)),
    "max_ceil_padded": ((1, 2, 6, 5), "whole", lambda x: F.max_pool2d(x, 2, 3, 1, 1, True)),
    "max_nan": ((2, 2, 6, 7), "nan", lambda x: F.max_pool2d(x, 3, 2, 1)),
    "max_volume": ((2, 2, 5, 6, 4), "whole", lambda x: F.max_pool3d(x, (2, 3, 2), (1, 2, 2), (1, 1, 0))),
    "max_adaptive": ((2, 2, 7, 5), "whole", lambda x: F.adaptive_max_pool2d(x, (3, 4))),
    "max_adaptive_volume": ((1, 2, 5, 4, 6), "whole", lambda x: F.adaptive_max_pool3d(x, (2, 3, 5))),
    "avg_padded": ((2, 2, 7, 9), "normal", lambda x: F.avg_pool2d(x, 3, 2, 1)),
    "avg_without_pad": ((2, 2, 7, 9), "normal", lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)),
    "avg_ceil": ((2, 2, 8, 6), "normal", lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True)),
    "avg_ceil_without_pad": ((1, 2, 6, 6), "normal",
                             lambda x: F.avg_pool2d(x, (2, 3), (3, 2), (1, 0), ceil_mode=True, count_include_pad=False)),
    "avg_volume": ((2, 2, 5, 7, 4), "normal", lambda x: F.avg_pool3d(x, (2, 3, 1), (1, 2, 2), (1, 1, 0))),
    "avg_adaptive": ((2, 2, 7, 11), "normal", lambda x: F.adaptive_avg_pool2d(x, (3, 5))),
    "avg_adaptive_larger": ((1, 2, 3, 4), "normal", lambda x: F.adaptive_avg_pool2d(x, (5, 4))),
    "avg_global_volume": ((2, 2, 5, 6, 7), "normal", lambda x: F.adaptive_avg_pool3d(x, 1)),
    "up_nearest": ((2, 2, 3, 4), "normal", lambda x: F.interpolate(x, scale_factor=(2, 3), mode="nearest")),
    "up_bilinear": ((2, 2, 3, 4), "normal", lambda x: F.interpolate(x, scale_factor=(2, 3), mode="bilinear")),
    "up_bilinear_corners": ((2, 2, 3, 4), "normal",
                            lambda x: F.interpolate(x, scale_factor=(2, 3), mode="bilinear", align_corners=True)),
    "up_nearest_volume": ((1, 2, 2, 3, 4), "normal", lambda x: F.interpolate(x, scale_factor=(3, 1, 2), mode="nearest")),
    "up_trilinear": ((1, 2, 2, 3, 4), "normal", lambda x: F.interpolate(x, scale_factor=(3, 1, 2), mode="trilinear")),
    "up_trilinear_corners": ((1, 2, 2, 3, 4), "normal",
                             lambda x: F.interpolate(x, scale_factor=2, mode="trilinear", align_corners=True)),
}


def numbers(random, shape, kind):
    if kind == "whole":
        return random.randint(-3, 4, shape).astype(np.float32)
    values = random.standard_normal(shape).astype(np.float32)
    if kind == "nan":
        values[random.random_sample(shape) < 0.06] = np.nan
    return values


def main():
    tensors = {}
    for index, (name, (shape, kind, function)) in enumerate(CASES.items()):
        random = np.random.RandomState(100 + index)
        values = numbers(random, shape, kind)
        x = torch.tensor(values.astype(np.float64), requires_grad=True)
        y = function(x)
        dy = random.standard_normal(tuple(y.shape)).astype(np.float32)
        y.backward(torch.tensor(dy.astype(np.float64)))
        tensors.update({name + ".x": values, name + ".dy": dy, name + ".y": y.detach().numpy(), name + ".dx": x.grad.numpy()})
    save_safetensors("spatial_pool.safetensors", tensors)


if __name__ == "__main__":
    main()
