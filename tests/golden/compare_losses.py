#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The first 50 losses of configs/resnet18-cifar10-tiny.json on a subset of CIFAR-10 as JPEG files, beside PyTorch's from the same
initial weights, on the same samples in the same order.

    compare_losses.py CLTRAIN SOURCE IMAGES FOLDER [quick]

CLTRAIN is the program, SOURCE the repository, IMAGES the folder with train/CLASS/0000.jpg and test/CLASS/0000.jpg, FOLDER an empty
folder to work in. Such a network at its initial weights is chaotic: in PyTorch in float64, too, weights that differ by one rounding
error of f32 give other losses in the second digit after 50 steps. Therefore the measure is PyTorch in float64, and how far PyTorch in
f32 is from it:

  exact     PyTorch in float64, from the same f32 weights and pixels
  controls  PyTorch in f32, with its tensors in two layouts, that is, in two orders of sums, and from weights each of which is moved
            to a neighbouring number of f32
  bar       up to each step, cltrain's losses are at most twice as far from the exact ones as the controls', for the initial
            weights that are worst for each. The same holds for parameters and running statistics after one step at the recipe's
            full learning rate
  wrong     PyTorch with a small mistake (no Nesterov momentum, the warm-up one step late, ...) has to fail the bar: else the
            comparison would show nothing

What is trained: gently, with a thousandth of the recipe's learning rate, where the bar is judged and the losses have to agree within
0.2 % as well; and by the recipe (up to 0.05 in these steps, in its warm-up), where chance decides about the losses, so that how far they
are from the exact ones is only printed.

  jpeg      cltrain reads the JPEG files, in its own order, with its own augmentation, 20 images a step; PyTorch takes the pixels
            of `cltrain data show`, which shows samples as training sees them
  batch128  the recipe's 128 images a step, decoded by Pillow and augmented here, which both read from a file; not with quick

Pixels that cltrain decodes must be Pillow's, and the loss and the probabilities of the evaluation images after the last step those
of PyTorch in evaluation mode with the same weights and running statistics. Needs torch, torchvision, numpy and Pillow;
test_peer_losses.sh runs it where CLTRAIN_TEST_PYTHON names a Python that has them."""
import base64
import io
import os
import re
import shutil
import sys
import warnings

import numpy as np
import torch
from PIL import Image
from torch import nn
from torchvision.models import resnet

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from make_golden_nets import Narrow  # noqa: E402
from peer_training import (CIFAR_CLASSES, cross_entropy, finish, groups, load_safetensors, normalise, report, run,  # noqa: E402
                           save_weights, shake, torch_train, train, write_cifar)

warnings.simplefilter("ignore")
torch.set_num_threads(1)
CLTRAIN, SOURCE, IMAGES = (os.path.abspath(p) for p in sys.argv[1:4])
QUICK = len(sys.argv) > 5
os.chdir(sys.argv[4])
CONFIG = os.path.join(SOURCE, "configs/resnet18-cifar10-tiny.json")
STEPS, MARGIN = 50, 2.0
AGREE = 2e-3  # of the first loss: how far the gentle losses may be from float64
FLOOR = 1e-6  # of a loss: what rounding the loss itself to f32 makes of it
SHOWN = (1, 2, 5, 10, 20, 30, 40, 50)
RATES = {"gentle": 0.001, "recipe": 1}
KINDS = ("weights", "norms", "running statistics")
RATE, WARMUP, MOMENTUM, DECAY = 0.1, 100, 0.9, 5e-4  # the recipe's
JPEG = [f"data.path={IMAGES}/train", f"data.eval_path={IMAGES}/test", "data.type=images", "data.size=32", "data.resize=32"]


# --- pixels ---

def decoded(split, each):
    """Images (N,3,32,32) u8 as Pillow decodes them, and labels (N)."""
    files = [f"{IMAGES}/{split}/{name}/{i:04}.jpg" for name in CIFAR_CLASSES for i in range(each)]
    pixels = np.stack([np.asarray(Image.open(f).convert("RGB")).transpose(2, 0, 1) for f in files])
    return pixels, np.arange(len(CIFAR_CLASSES)).repeat(each)


def shown(samples, *overrides):
    """Training samples of the first epoch in their order, as cltrain shows them: images and labels."""
    run(CLTRAIN, "data", "show", CONFIG, "--out", "page.html", "--samples", str(samples), *JPEG, *overrides)
    with open("page.html") as f:
        found = re.findall(r'base64,([^"]*)"><figcaption><b>([a-z]+)</b>', f.read())[:samples]
    pixels = np.stack([np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")).transpose(2, 0, 1)
                       for data, _ in found])
    return pixels, np.array([CIFAR_CLASSES.index(name) for _, name in found])


def augmented(images, labels, count):
    """count samples, each epoch in another order: a random place in the padded image, and half of them mirrored."""
    rng = np.random.RandomState(1)
    order = np.concatenate([rng.permutation(len(images)) for _ in range(-(-count // len(images)))])[:count]
    padded = np.pad(images[order], ((0, 0), (0, 0), (4, 4), (4, 4)))
    out = np.empty((count,) + images.shape[1:], np.uint8)
    for i, image in enumerate(padded):
        top, left = rng.randint(0, 9, 2)
        cut = image[:, top:top + 32, left:left + 32]
        out[i] = cut[:, :, ::-1] if rng.rand() < 0.5 else cut
    return out, labels[order]


# --- training ---

class Work:
    """A training: pixels and labels of all steps, initial weights, learning rates."""

    def __init__(self, samples, width, seed, scale, overrides, steps=STEPS):
        self.width, self.seed, self.scale, self.steps = width, seed, scale, steps
        self.warmup = 0 if "schedule.warmup=0" in overrides else WARMUP
        self.pixels, self.labels = samples
        self.batch = len(self.labels) // steps
        self.overrides = [*overrides, f"model.width={width}", f"data.micro_batch={self.batch}",
                          f"optimizer.learning_rate={RATE * scale}"]

    def rate(self, step):
        return RATE * self.scale * (min(1, (step + 1) / self.warmup) if self.warmup else 1)

    def net(self):
        torch.manual_seed(self.seed)
        return Narrow(resnet.BasicBlock, [2, 2, 2, 2], self.width, 10, cifar=True)

    def ours(self):
        shutil.rmtree("run", ignore_errors=True)
        save_weights("init.safetensors", self.net())
        got = train(CLTRAIN, CONFIG, "run", "init.safetensors", self.steps, *self.overrides)
        return got["loss"].astype(float), load_safetensors(f"run/checkpoints/step_{self.steps}/model.safetensors"), got

    def theirs(self, dtype=torch.float32, shaken=None, channels_last=False, change=None, nesterov=True, decay_all=False, late=0):
        """Losses, and the state_dict after the last step."""
        net = self.net()
        if shaken is not None:
            shake(net, shaken)
        if change:
            net.apply(change)
        layout = torch.channels_last if channels_last else torch.contiguous_format
        net = net.to(dtype).to(memory_format=layout)
        parts = groups(net, DECAY)
        parts[1]["weight_decay"] = DECAY if decay_all else 0.0
        optimizer = torch.optim.SGD(parts, lr=1, momentum=MOMENTUM, nesterov=nesterov)
        batches = ((normalise(x, dtype).contiguous(memory_format=layout), torch.tensor(y)) for x, y in
                   zip(np.split(self.pixels, self.steps), np.split(self.labels, self.steps)))
        losses = torch_train(net, batches, optimizer, lambda k: self.rate(k - late), cross_entropy)
        return losses, net.state_dict()


def apart(losses, exact):
    """The largest difference up to each step."""
    return np.maximum.accumulate(np.abs(losses - exact))


def state_apart(state, exact, kind):
    """The distance of the tensors of a kind, relative to the norm of the exact ones."""
    def kind_of(name, tensor):
        return KINDS[2] if "running" in name else KINDS[0] if tensor.ndim > 1 else KINDS[1]
    names = [n for n, t in exact.items() if t.is_floating_point() and kind_of(n, t) == kind]
    difference = sum(float(((state[n].double() - exact[n]) ** 2).sum()) for n in names)
    return (difference / sum(float((exact[n] ** 2).sum()) for n in names)) ** 0.5


def other_eps(layer):
    if isinstance(layer, nn.BatchNorm2d):
        layer.eps = 1e-3


def other_momentum(layer):
    if isinstance(layer, nn.BatchNorm2d):
        layer.momentum = 0.099


WRONG_LOSSES = {"without Nesterov": dict(nesterov=False), "warm-up a step late": dict(late=1), "eps of 1e-3": dict(change=other_eps)}
WRONG_STATES = {"decay of all": dict(decay_all=True), "momentum 0.099 of statistics": dict(change=other_momentum),
                "without Nesterov": dict(nesterov=False)}
CONTROLS = [dict(), dict(channels_last=True), dict(shaken=1), dict(shaken=2, channels_last=True)]


def compare(name, samples, scale, seeds, overrides, judged):
    """The losses of a training with several initial weights."""
    apart_ours, apart_controls, exact = [], [], []
    for seed in seeds:
        work = Work(samples, 16, seed, scale, overrides)
        exact.append(work.theirs(torch.float64, channels_last=True)[0])
        apart_controls += [apart(work.theirs(**control)[0], exact[-1]) for control in CONTROLS]
        mine, state, records = work.ours()
        assert len(mine) == STEPS
        apart_ours.append(apart(mine, exact[-1]))
    ours, controls = np.max(apart_ours, axis=0), np.max(apart_controls, axis=0)
    allowed = MARGIN * np.maximum(controls, FLOOR * exact[0])
    what, figures = f"{name}: {STEPS} losses, {len(exact)} initial weights", (
        f"{np.mean([e[0] for e in exact]):.3f} to {np.mean([e[-5:] for e in exact]):.3f}; largest ratio to PyTorch's f32 "
        f"{MARGIN * (ours / allowed).max():.2f}")
    if judged:
        report(what, (ours <= allowed).all(), figures)
    else:
        print(f"     {what}, not judged: {figures}")
    for who, curve in (("cltrain", ours), ("PyTorch f32", controls)):
        print(f"     {who:11} from float64 up to step " + ", ".join(f"{s}: {curve[s - 1]:.1e}" for s in SHOWN))
    shaken = apart(work.theirs(torch.float64, 1, True)[0], exact[-1])
    print("     float64 with weights moved by 2^-24: " + ", ".join(f"{s}: {shaken[s - 1]:.1e}" for s in SHOWN), flush=True)
    if not judged:
        return work, state, records
    report(f"{name}: losses agree", ours[-1] < AGREE * exact[0][0], f"within {ours[-1]:.1e}")
    for what, change in WRONG_LOSSES.items():
        ratio = MARGIN * float((apart(work.theirs(**change)[0], exact[-1]) / allowed).max())
        report(f"{name}: wrong training is seen, {what}", ratio > MARGIN, f"ratio {ratio:.1f}")
    return work, state, records


def compare_step(samples, seeds, overrides):
    """Parameters and running statistics after a single step with the recipe's whole learning rate."""
    distances = {}
    for seed in seeds:
        work = Work(samples, 16, seed, 1, overrides + ["schedule.warmup=0"], 1)
        exact = work.theirs(torch.float64, channels_last=True)[1]
        runs = [("ours", work.ours()[1])] + [("controls", work.theirs(**control)[1]) for control in CONTROLS]
        runs += [(what, work.theirs(**change)[1]) for what, change in WRONG_STATES.items()]
        for who, state in runs:
            found = np.array([state_apart(state, exact, kind) for kind in KINDS])
            distances[who] = np.maximum(distances.get(who, 0), found)
    ratios = {who: d / distances["controls"] for who, d in distances.items()}
    for i, kind in enumerate(KINDS):
        report(f"{kind} after one step, {len(seeds)} initial weights", ratios["ours"][i] <= MARGIN,
               f"{distances['ours'][i]:.1e} from float64, PyTorch's f32 {distances['controls'][i]:.1e}")
    for what in WRONG_STATES:
        report(f"wrong step is seen, {what}", ratios[what].max() > MARGIN, f"ratio {ratios[what].max():.1f}")


def check_evaluation(work, state, records, test):
    """The run's evaluation against PyTorch with the run's weights and running statistics."""
    net = work.net()
    missing = net.load_state_dict(state, strict=False)
    assert not missing.unexpected_keys and all("num_batches" in name for name in missing.missing_keys)
    pixels, labels = test
    with torch.no_grad():
        logits = net.double().eval()(normalise(pixels, torch.float64))
    loss = float(cross_entropy(logits, torch.tensor(labels)))
    mine = float(records["eval_loss"][-1])
    report("loss of the evaluation images", abs(mine - loss) < 1e-5 * loss, f"{mine:.6f}, PyTorch {loss:.6f}")
    run(CLTRAIN, "predict", "run", "--out", "predicted.npy")
    got, want = np.load("predicted.npy"), logits.softmax(1).numpy()
    report("probabilities of the evaluation images", got.shape == want.shape and np.abs(got - want).max() < 1e-5,
           f"off by {np.abs(got - want).max():.1e}" if got.shape == want.shape else f"shapes {got.shape} and {want.shape}")


train_set, test_set = decoded("train", 500), decoded("test", 100)
plain, labels = shown(1000, "data.crop=center", "data.flip=0", "data.shuffle=false")
report("decoded pixels are Pillow's", np.array_equal(plain, train_set[0][:1000]) and np.array_equal(labels, train_set[1][:1000]))
jpeg = shown(STEPS * 20)
compare_step((jpeg[0][:100], jpeg[1][:100]), range(3), JPEG)
for name, scale in RATES.items():
    last = compare(f"jpeg, {name}", jpeg, scale, range(2 if QUICK else 4), JPEG, name == "gentle")
    check_evaluation(*last, test_set)
if not QUICK:
    samples = augmented(*train_set, STEPS * 128)
    write_cifar("train.bin", *samples)
    write_cifar("test.bin", *test_set)
    files = ["data.path=train.bin", "data.eval_path=test.bin", "data.crop=center", "data.flip=0", "data.shuffle=false"]
    for name, scale in RATES.items():
        last = compare(f"batch128, {name}", samples, scale, range(3), files, name == "gentle")
        check_evaluation(*last, test_set)  # whose last batch is not full
finish()
