#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/data/images.json: what torchvision (with Pillow) makes of an image that a formula gives
(tests/unit/data/image_test.h has the same one). Usage: make_golden_images.py > tests/golden/data/images.json"""
import json
import sys

import torch
import torchvision
from PIL import Image
from torchvision.transforms import InterpolationMode, functional as F


def image(width, height):
    pixels = bytes((x * x * 3 + y * 11 + c * 57 + x * y * (c + 1)) % 256
                   for y in range(height) for x in range(width) for c in range(3))
    return Image.frombytes("RGB", (width, height), pixels)


def planes(img):
    tensor = img if isinstance(img, torch.Tensor) else F.pil_to_tensor(img)
    return tensor.contiguous().numpy().tobytes().hex()


def main():
    cases = []

    def case(op, width, height, result, **values):
        cases.append({"op": op, "width": width, "height": height, **values, "planes": planes(result)})

    for width, height, to_h, to_w in ((37, 29, 13, 17), (37, 29, 29, 20), (16, 12, 24, 31), (90, 70, 8, 9), (5, 40, 11, 5),
                                      (64, 48, 32, 32)):
        case("resize", width, height, F.resize(image(width, height), [to_h, to_w], InterpolationMode.BILINEAR),
             to=[to_h, to_w])
    for width, height, top, left, h, w, to in ((60, 44, 5, 9, 30, 41, 12), (60, 44, 0, 0, 10, 8, 12), (33, 47, 20, 3, 27, 30, 16)):
        case("resized_crop", width, height, F.resized_crop(image(width, height), top, left, h, w, [to, to]),
             box=[left, top, w, h], to=[to, to])
    # evaluation: the shorter side to `resize`, then the middle
    for width, height, resize, size in ((61, 40, 21, 16), (40, 61, 21, 16), (33, 33, 18, 17), (50, 31, 16, 16), (20, 9, 12, 15)):
        case("center", width, height, F.center_crop(F.resize(image(width, height), resize), [size, size]), resize=resize,
             size=size)
    case("flip", 21, 13, F.hflip(image(21, 13)))
    for left, top in ((0, 0), (8, 8), (3, 5), (4, 4)):
        case("pad", 12, 12, F.crop(F.pad(image(12, 12), 4), top, left, 12, 12), at=[left, top])
    tensor = F.pil_to_tensor(image(19, 11))
    for op in ("brightness", "contrast", "saturation", "hue"):
        for value in (-0.37, -0.1, 0.0, 0.21, 0.5) if op == "hue" else (0.0, 0.4, 0.93, 1.0, 1.7):
            case(op, 19, 11, getattr(F, "adjust_" + op)(tensor, value), value=value)
    made = {"torchvision": torchvision.__version__, "pillow": Image.__version__}
    print(json.dumps({"made_by": made, "cases": cases}, separators=(",", ":")).replace('{"op"', '\n{"op"'))


if __name__ == "__main__":
    sys.exit(main())
