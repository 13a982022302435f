#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torchvision's rate for bench_images.sh: peer_images.py FOLDER [SECONDS]. One thread; decode, a random part resized to 224, half of
them mirrored, to a tensor, normalised. With --make FOLDER IMAGES...: makes images of 500 x 375 from small ones."""
import os
import sys
import time


def make(folder, sources):
    from PIL import Image
    for number, source in enumerate(sources):
        image = Image.open(source).convert("RGB").resize((500, 375), Image.BICUBIC)
        noise = Image.frombytes("RGB", (500, 375), os.urandom(500 * 375 * 3))
        path = os.path.join(folder, "class%d" % (number % 4))
        os.makedirs(path, exist_ok=True)
        Image.blend(image, noise, 0.1).save(os.path.join(path, "%04d.jpg" % number), quality=90)


def rate(folder, seconds):
    import torch
    from torchvision import datasets, transforms
    torch.set_num_threads(1)
    data = datasets.ImageFolder(folder, transforms.Compose([
        transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]))
    best = 0
    for _ in range(3):
        begin, done = time.thread_time(), 0
        while time.thread_time() - begin < seconds / 3:
            data[done % len(data)]
            done += 1
        best = max(best, done / (time.thread_time() - begin))
    return best


if __name__ == "__main__":
    if sys.argv[1] == "--make":
        make(sys.argv[2], sys.argv[3:])
    else:
        print("torchvision, samples of 224: %.0f images/s" % rate(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 3))
