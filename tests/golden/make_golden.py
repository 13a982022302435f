#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden values by PyTorch: small nets, their data, and what ten steps of training do to them.

Why: the product's loss, gradients and optimizers are compared with an implementation that is not ours. Running the tests
needs no PyTorch; this script is run by hand when a net is added, and its output in tests/golden/data is committed:

    python3 -m venv venv && venv/bin/pip install torch numpy
    venv/bin/python tests/golden/make_golden.py

Everything random comes from numpy.random.RandomState, whose streams never change, and everything is computed in float64 from
parameters and data that are exactly float32. So the files are equal on every machine (up to the last bit of float64 that a
different BLAS may move) and the error that a test sees is the product's own. The same runs in float32 are made besides: their
distance from the files is printed, it shows what a float32 implementation can reach at best.

Per net NAME: NAME_x.npy and NAME_y.npy (150 samples; step k uses samples 15k..15k+14), NAME_init.safetensors (parameters
before step 1), NAME_first.safetensors (logits of the first five samples; "grad.P": gradient of each parameter P in step 1 over
all fifteen), NAME_OPT.safetensors and NAME_OPT_clip.safetensors (OPT: sgd, adam, adamw, for residual those of OTHERS as well; "loss" and "grad_norm" of ten steps,
f64, the norm before clipping; "param.P" after the tenth, buffers too). The configs that go with them are in test_golden.c.
"""
import json
import os
import struct

import numpy as np
import torch
import torch.nn.functional as F

import golden_optimizers

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
STEPS, BATCH, MICRO = 10, 15, 5
SAMPLES = STEPS * BATCH
OPTIMIZERS = {
    "sgd": dict(lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": dict(lr=0.01, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.05),
    "adamw": dict(lr=0.01, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1),
}
# Of one net only. "make": of golden_optimizers; by its paper's rule, which no file of torch.optim has; Muon
# is torch.optim's, for the layers `hidden`.
OTHERS = {
    "lars": dict(make=golden_optimizers.Lars, lr=1.0, momentum=0.9, trust=0.02, eps=1e-6, weight_decay=0.05),
    "lamb": dict(make=golden_optimizers.Lamb, lr=0.01, betas=(0.9, 0.99), eps=1e-6, weight_decay=0.1),
    "nvlamb": dict(make=golden_optimizers.Lamb, lr=0.01, betas=(0.9, 0.99), eps=1e-6, weight_decay=0.1, trust_all=True,
                   trust_limit=3.0),
    "ema": dict(make=torch.optim.AdamW, lr=0.01, betas=(0.7, 0.9), eps=1e-8, weight_decay=0.1),
    "lion": dict(make=golden_optimizers.Lion, lr=0.003, betas=(0.9, 0.98), weight_decay=0.1),
    "muon": dict(make=golden_optimizers.Muon, hidden=("stem", "fc1", "fc2", "fc4"), lr=0.01, momentum=0.9, nesterov=True,
                 adjust_lr_fn="match_rms_adamw", betas=(0.9, 0.99), eps=1e-8, others=0.5, weight_decay=0.1),
    "muon_original": dict(make=golden_optimizers.Muon, hidden=("stem", "fc2", "fc4"), lr=0.02, momentum=0.8, nesterov=False,
                          adjust_lr_fn="original", betas=(0.9, 0.99), eps=1e-8, others=0.2, weight_decay=0.1),
}


def save_safetensors(name, tensors):
    header, offset, blobs = {}, 0, []
    for key, value in tensors.items():
        value = np.ascontiguousarray(value)
        kind = {"float16": "F16", "float32": "F32", "float64": "F64", "int64": "I64"}[value.dtype.name]
        blob = value.tobytes()
        header[key] = {"dtype": kind, "shape": list(value.shape), "data_offsets": [offset, offset + len(blob)]}
        offset += len(blob)
        blobs.append(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(HERE, name), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def linear(p, name, x):
    return F.linear(x, p[name + ".weight"], p[name + ".bias"])


class Net:
    """sizes: parameter name -> shape. rows(): logits. losses(): list of (weight, sum over targets, targets).
    micro: samples that go through the net together, which only batch normalisation tells from others."""
    micro = BATCH
    training = True
    buffers = {}  # name -> value, moved by forward() when training
    besides = {}  # what PyTorch saves of such a net and nobody else needs

    def init(self, rng):
        out = {}
        for name, shape in self.sizes.items():
            scale = 0.3 if len(shape) == 1 else 1.2 / np.sqrt(shape[1])
            value = rng.uniform(-scale, scale, shape)
            if "norm" in name and name.endswith(("weight", "running_var")):
                value += 1
            out[name] = value.astype(np.float32)
        return out


def mask_targets(rng, y, ignored):
    """Three in ten targets do not count, and none of the micro-batch that begins at sample 20 does."""
    y = np.where(rng.uniform(size=y.shape) < 0.3, ignored, y)
    y[20:20 + MICRO] = ignored
    return y


class MlpTanh(Net):
    name, classes, ignored = "mlp_tanh", 7, -1
    sizes = {"fc1.weight": (29, 13), "fc1.bias": (29,), "fc2.weight": (17, 29), "fc2.bias": (17,),
             "out.weight": (7, 17), "out.bias": (7,)}

    def data(self, rng):
        x = rng.normal(size=(SAMPLES, 13)).astype(np.float32)
        y = np.argmax(x[:, :7] + 0.5 * rng.normal(size=(SAMPLES, 7)), axis=1)
        return x, mask_targets(rng, y, self.ignored).astype(np.int32)

    def forward(self, p, x):
        h = torch.tanh(linear(p, "fc1", x))
        return linear(p, "out", torch.tanh(linear(p, "fc2", h)))

    def losses(self, out, x, y):
        total = F.cross_entropy(out, y, ignore_index=self.ignored, label_smoothing=0.05, reduction="sum")
        return [(1.0, total, int((y != self.ignored).sum()))]


class MlpGelu(Net):
    name = "mlp_gelu"
    sizes = {"fc1.weight": (31, 11), "fc1.bias": (31,), "fc2.weight": (19, 31), "fc2.bias": (19,),
             "fc3.weight": (23, 19), "fc3.bias": (23,), "out.weight": (3, 23), "out.bias": (3,)}

    def data(self, rng):
        x = rng.normal(size=(SAMPLES, 11)).astype(np.float32)
        y = np.stack([np.sin(x[:, 0] + x[:, 1]), x[:, 2] * x[:, 3], np.tanh(x[:, 4:].sum(axis=1))], axis=1)
        return x, (2 * y).astype(np.float32)

    def forward(self, p, x):
        for layer in ("fc1", "fc2", "fc3"):
            x = F.gelu(linear(p, layer, x))
        return linear(p, "out", x)

    def losses(self, out, x, y):
        return [(1.0, ((out - y.to(out.dtype)) ** 2).sum(), out.numel())]


class Residual(Net):
    """Embedding, two residual branches, shared parameters, slices, a concat, two losses with weights."""
    name, vocab, classes, ignored = "residual", 23, 11, -100
    sizes = {"tokens.weight": (23, 19), "stem.weight": (21, 19), "stem.bias": (21,),
             "norm1.weight": (21,), "norm1.bias": (21,), "fc1.weight": (37, 21), "fc1.bias": (37,),
             "fc2.weight": (21, 37), "fc2.bias": (21,), "norm2.weight": (21,), "norm2.bias": (21,),
             "fc4.weight": (21, 37), "fc4.bias": (21,), "head.weight": (11, 21), "head.bias": (11,),
             "side.weight": (1, 21), "side.bias": (1,)}

    def data(self, rng):
        x = rng.randint(0, self.vocab, size=(SAMPLES, 5))
        y = (x * 3 + np.roll(x, 1, axis=1)) % self.classes
        return x.astype(np.int32), mask_targets(rng, y, self.ignored).astype(np.int32)

    def forward(self, p, x):
        def norm(layer, h):
            return F.layer_norm(h, (21,), p[layer + ".weight"], p[layer + ".bias"], 1e-5)
        stem = linear(p, "stem", F.embedding(x, p["tokens.weight"]))
        h = linear(p, "fc1", norm("norm1", stem))
        sum1 = stem + linear(p, "fc2", F.gelu(h, approximate="tanh"))
        h = linear(p, "fc1", norm("norm2", sum1))  # "fc3" in the config: shares the parameters of fc1
        h = linear(p, "fc4", F.gelu(h, approximate="tanh"))
        mixed = torch.cat([torch.tanh(h[..., 8:]), F.silu(h[..., :8])], dim=-1)
        sum2 = sum1 + mixed
        self.side = linear(p, "side", sum2 * sum1)[..., 0]
        return linear(p, "head", sum2)

    def losses(self, out, x, y):
        rows = F.cross_entropy(out.reshape(-1, self.classes), y.reshape(-1), ignore_index=self.ignored,
                               label_smoothing=0.1, reduction="sum")
        side = (x.to(out.dtype) - 10 * self.side).abs().sum()
        return [(1.0, rows, int((y != self.ignored).sum())), (0.02, side, x.numel())]


class Llama(Net):
    """A block as in Llama: rmsnorm, rotary positions (as complex numbers here), shared key heads, a gated layer."""
    name, vocab, classes, ignored = "llama", 19, 11, -100
    heads, shared, size = 4, 2, 6
    sizes = {"tokens.weight": (19, 20), "norm1.weight": (20,), "qkv.weight": (48, 20), "qkv.bias": (48,),
             "proj.weight": (20, 24), "proj.bias": (20,), "norm2.weight": (20,), "gate.weight": (26, 20),
             "gate.bias": (26,), "up.weight": (26, 20), "up.bias": (26,), "down.weight": (20, 26), "down.bias": (20,),
             "norm3.weight": (20,), "head.weight": (11, 20), "head.bias": (11,)}

    def data(self, rng):
        x = rng.randint(0, self.vocab, size=(SAMPLES, 7))
        y = (x * 5 + np.roll(x, 2, axis=1)) % self.classes
        return x.astype(np.int32), mask_targets(rng, y, self.ignored).astype(np.int32)

    def turned(self, x):
        """x (N, heads, T, size): element i and i + size/2 are one complex number."""
        half = self.size // 2
        speed = 500.0 ** (-torch.arange(half, dtype=torch.float64) / half)
        angle = torch.arange(x.shape[2], dtype=torch.float64)[:, None] * speed
        y = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angle), angle).to(
            torch.complex128 if x.dtype == torch.float64 else torch.complex64)
        return torch.cat([y.real, y.imag], dim=-1)

    def forward(self, p, x):
        def norm(layer, h):
            return F.rms_norm(h, (20,), p[layer + ".weight"], 1e-5)
        h = F.embedding(x, p["tokens.weight"])
        rows = linear(p, "qkv", norm("norm1", h)).unflatten(-1, (-1, self.size)).transpose(1, 2)
        q, k, v = rows.split([self.heads, self.shared, self.shared], dim=1)
        k, v = (t.repeat_interleave(self.heads // self.shared, dim=1) for t in (self.turned(k), v))
        a = F.scaled_dot_product_attention(self.turned(q), k, v, is_causal=True)
        h = h + linear(p, "proj", a.transpose(1, 2).flatten(2))
        n = norm("norm2", h)
        h = h + linear(p, "down", F.silu(linear(p, "gate", n)) * linear(p, "up", n))
        return linear(p, "head", norm("norm3", h))

    def losses(self, out, x, y):
        rows = F.cross_entropy(out.reshape(-1, self.classes), y.reshape(-1), ignore_index=self.ignored, reduction="sum")
        return [(1.0, rows, int((y != self.ignored).sum()))]


class BatchNorm(Net):
    """Normalised by the statistics of micro-batches, whose running means are kept; the second one without parameters."""
    name, classes, ignored, micro = "batch_norm", 7, -1, MICRO
    sizes = {"fc1.weight": (29, 13), "norm1.weight": (29,), "norm1.bias": (29,),
             "norm1.running_mean": (29,), "norm1.running_var": (29,), "fc2.weight": (17, 29),
             "norm2.running_mean": (17,), "norm2.running_var": (17,), "out.weight": (7, 17), "out.bias": (7,)}

    besides = {layer + ".num_batches_tracked": np.array(0) for layer in ("norm1", "norm2")}

    data = MlpTanh.data
    losses = MlpTanh.losses

    def forward(self, p, x):
        def norm(layer, h, momentum, eps):
            running = self.buffers[layer + ".running_mean"], self.buffers[layer + ".running_var"]
            return F.batch_norm(h, *running, p.get(layer + ".weight"), p.get(layer + ".bias"), self.training, momentum, eps)
        h = torch.tanh(norm("norm1", F.linear(x, p["fc1.weight"]), 0.1, 1e-5))
        return linear(p, "out", torch.tanh(norm("norm2", F.linear(h, p["fc2.weight"]), 0.4, 0.01)))


def optimizer(kind, p):
    """SGD decays every parameter (optimizer.decay = all), the Adams only matrices (the default)."""
    options = dict((OPTIMIZERS | OTHERS)[kind])
    decay = options.pop("weight_decay")
    everything = kind == "sgd"
    if "hidden" in options:
        options["hidden"] = [p[name + ".weight"] for name in options["hidden"]]
    groups = [{"params": [v for v in p.values() if v.dim() > 1 or everything], "weight_decay": decay},
              {"params": [v for v in p.values() if v.dim() <= 1 and not everything], "weight_decay": 0.0}]
    make = options.pop("make", None) or {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[kind]
    return make([g for g in groups if g["params"]], **options)


def parameters(net, values, dtype):
    """Those that are trained; the net keeps its buffers itself."""
    tensors = {k: torch.tensor(v, dtype=dtype) for k, v in values.items()}
    net.buffers = {k: v for k, v in tensors.items() if ".running_" in k}
    return {k: v.requires_grad_() for k, v in tensors.items() if k not in net.buffers}


def mean_loss(net, p, x, y):
    """Sums over the micro-batches, divided by the targets of all of them."""
    weights, totals, counts = [], [], []
    for xs, ys in zip(x.split(net.micro), y.split(net.micro)):
        weights, total, count = zip(*net.losses(net.forward(p, xs), xs, ys))
        totals.append(total)
        counts.append(count)
    return sum(weight * sum(total) / max(sum(count), 1) for weight, total, count in zip(weights, zip(*totals), zip(*counts)))


def evaluated(net, p, x):
    net.training = False
    out = net.forward(p, x).detach()
    net.training = True
    return out


def batch(net, values, k, dtype):
    piece = torch.tensor(values[k * BATCH:(k + 1) * BATCH])
    return piece.to(dtype) if piece.is_floating_point() else piece.long()


EMA_DECAY = 0.8  # of the kind "ema", whose parameters are averaged as by torch.optim.swa_utils.AveragedModel


def train(net, init, x, y, kind, clip, dtype):
    p = parameters(net, init, dtype)
    average, lerp = {}, torch.optim.swa_utils.get_ema_multi_avg_fn(EMA_DECAY)
    opt = optimizer(kind, p)
    losses, norms = [], []
    for k in range(STEPS):
        opt.zero_grad()
        loss = mean_loss(net, p, batch(net, x, k, dtype), batch(net, y, k, dtype))
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(list(p.values()), clip if clip else float("inf"))
        if clip:
            assert norm > 1.2 * clip, (net.name, kind, k, float(norm), "the clip must act in every step")
        opt.step()
        values = {"average." + k: v.detach().clone() for k, v in p.items()} if kind == "ema" else {}
        if average:
            lerp(list(average.values()), list(values.values()), k)
        average = average or values
        losses.append(loss.item())
        norms.append(float(norm))
    return np.array(losses), np.array(norms), {k: v.detach().numpy().astype(np.float64) for k, v in (p | average | net.buffers).items()}


def first(net, init, x, y):
    p = parameters(net, init, torch.float64)
    tensors = {"logits": evaluated(net, p, batch(net, x, 0, torch.float64)).numpy()[:MICRO].astype(np.float32)}
    loss = mean_loss(net, p, batch(net, x, 0, torch.float64), batch(net, y, 0, torch.float64))
    loss.backward()
    for name, value in p.items():
        tensors["grad." + name] = value.grad.numpy().astype(np.float32)
    return tensors


def make(net, seed, clip, others=()):
    rng = np.random.RandomState(seed)
    init = net.init(rng)
    x, y = net.data(rng)
    np.save(os.path.join(HERE, net.name + "_x.npy"), x)
    np.save(os.path.join(HERE, net.name + "_y.npy"), y)
    save_safetensors(net.name + "_init.safetensors", init | net.besides)
    save_safetensors(net.name + "_first.safetensors", first(net, init, x, y))
    for kind in (*OPTIMIZERS, *others):
        for limit in (0, clip):
            loss, norm, p = train(net, init, x, y, kind, limit, torch.float64)
            loss32, norm32, p32 = train(net, init, x, y, kind, limit, torch.float32)
            worst = max(np.abs(p[k] - p32[k]).max() / np.abs(p[k]).max() for k in p)
            print(f"{net.name:9} {kind:5} clip {limit:4}: loss {loss[0]:.4f} -> {loss[-1]:.4f}, norm {norm.min():.3f}.."
                  f"{norm.max():.3f}; float32 is off by {np.abs(loss - loss32).max():.1e} in the loss, "
                  f"{np.abs(norm / norm32 - 1).max():.1e} in the norm, {worst:.1e} in the parameters")
            tensors = {"loss": loss, "grad_norm": norm}
            tensors.update({"param." + k: v.astype(np.float32) for k, v in p.items()})
            save_safetensors(f"{net.name}_{kind}{'_clip' if limit else ''}.safetensors", tensors)


def make_joined(seed):
    """The net BatchNorm with the statistics of whole batches, whose samples several ranks share. SyncBatchNorm takes no tensors
    of a CPU; over the samples of all ranks it computes what batch norm computes in one process over all of them."""
    net, rng = BatchNorm(), np.random.RandomState(seed)
    net.micro = BATCH
    init = net.init(rng)
    _, _, p = train(net, init, *net.data(rng), "sgd", 0, torch.float64)
    save_safetensors("batch_norm_joined_sgd.safetensors", {"param." + k: v.astype(np.float32) for k, v in p.items()})


if __name__ == "__main__":
    torch.set_num_threads(1)
    os.makedirs(HERE, exist_ok=True)
    make(MlpTanh(), 20, 0.1)
    make(MlpGelu(), 21, 0.25)
    make(Residual(), 22, 0.2, OTHERS)
    make(Llama(), 23, 0.2)
    make(BatchNorm(), 24, 0.1)
    make_joined(24)
