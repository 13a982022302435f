#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden values of model.type gpt by PyTorch: two small decoders with odd sizes. See make_golden.py, whose rules hold here
too (numpy's random streams, float64 computation from exact float32 values, nothing of PyTorch needed to run the tests):

    venv/bin/python tests/golden/make_golden_gpt.py

The nets are written out below as plain torch functions over parameters that have GPT-2's published names and file layout
(linear layers are Conv1D: weights (in, out), y = x W + b).

Per net NAME: NAME_x.npy and NAME_y.npy (150 sequences; step k uses sequences 15k..15k+14; some targets are -1, which do not
count, and all of sequences 20..24 are), NAME_init.safetensors, NAME_first.safetensors (logits of the first five sequences
without the padding of the vocabulary, gradient "grad.P" of each parameter P in step 1 over all fifteen sequences) and
NAME_sgd.safetensors, NAME_adamw.safetensors ("loss" and "grad_norm" of ten steps, "param.P" after the tenth; AdamW clips).
gpt_published.safetensors holds the initial parameters of "gpt" as a published file does: f16, names behind "transformer.",
the causal masks, and the head's copy of the token table. The configs that go with them are in test_golden_gpt.c.
"""
import os

import numpy as np
import torch
import torch.nn.functional as F

from make_golden import HERE, MICRO, SAMPLES, BATCH, Net, first, mask_targets, save_safetensors, train


class Gpt(Net):
    def __init__(self, name, layers, heads, channels, context, vocab, bias, tied, gelu):
        self.name, self.layers, self.heads, self.channels = name, layers, heads, channels
        self.context, self.vocab, self.bias, self.tied, self.gelu = context, vocab, bias, tied, gelu
        c = channels
        self.sizes = {"wte.weight": (vocab, c), "wpe.weight": (context, c)}
        for i in range(layers):
            block = {"ln_1": (c,), "attn.c_attn": (c, 3 * c), "attn.c_proj": (c, c), "ln_2": (c,),
                     "mlp.c_fc": (c, 4 * c), "mlp.c_proj": (4 * c, c)}
            for part, shape in block.items():
                self.add(f"h.{i}.{part}", shape)
        self.add("ln_f", (c,))
        if not tied:
            self.sizes["lm_head.weight"] = (vocab, c)

    def add(self, name, shape):
        self.sizes[name + ".weight"] = shape
        if self.bias:
            self.sizes[name + ".bias"] = shape[-1:]

    def init(self, rng):
        """Far from GPT-2's own initial values, whose gradients are too small to tell anything. Exact in f16."""
        out = {}
        for name, shape in self.sizes.items():
            value = rng.uniform(-0.3, 0.3, shape) if len(shape) == 1 else rng.normal(size=shape) * 0.35
            if "ln_" in name and name.endswith("weight"):
                value += 1
            out[name] = value.astype(np.float16).astype(np.float32)
        return out

    def data(self, rng):
        """The next token depends on the last two, most of the time."""
        text = rng.randint(0, self.vocab, size=(SAMPLES, self.context + 1))
        for t in range(2, self.context + 1):
            follow = (text[:, t - 1] * 3 + text[:, t - 2]) % self.vocab
            text[:, t] = np.where(rng.uniform(size=SAMPLES) < 0.8, follow, text[:, t])
        return text[:, :-1].astype(np.int32), mask_targets(rng, text[:, 1:], -1).astype(np.int32)

    def linear(self, p, name, x):
        y = x @ p[name + ".weight"]
        return y + p[name + ".bias"] if self.bias else y

    def norm(self, p, name, x):
        return F.layer_norm(x, (self.channels,), p[name + ".weight"], p.get(name + ".bias"), 1e-5)

    def attention(self, p, name, x):
        n, t, c = x.shape
        q, k, v = self.linear(p, name + ".c_attn", x).split(c, dim=2)
        q, k, v = (z.reshape(n, t, self.heads, c // self.heads).transpose(1, 2) for z in (q, k, v))
        scores = q @ k.transpose(2, 3) / np.sqrt(c // self.heads)
        scores = scores.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), float("-inf"))
        y = (torch.softmax(scores, dim=-1) @ v).transpose(1, 2).reshape(n, t, c)
        return self.linear(p, name + ".c_proj", y)

    def forward(self, p, x):
        h = F.embedding(x, p["wte.weight"]) + p["wpe.weight"][:x.shape[1]]
        for i in range(self.layers):
            h = h + self.attention(p, f"h.{i}.attn", self.norm(p, f"h.{i}.ln_1", h))
            inner = self.linear(p, f"h.{i}.mlp.c_fc", self.norm(p, f"h.{i}.ln_2", h))
            h = h + self.linear(p, f"h.{i}.mlp.c_proj", F.gelu(inner, approximate=self.gelu))
        return self.norm(p, "ln_f", h) @ p["wte.weight" if self.tied else "lm_head.weight"].T

    def losses(self, out, x, y):
        rows = F.cross_entropy(out.reshape(-1, self.vocab), y.reshape(-1), ignore_index=-1, reduction="sum")
        return [(1.0, rows, int((y != -1).sum()))]


def published(net, init):
    """What save_pretrained of the common library writes."""
    tensors = {"transformer." + name: value.astype(np.float16) for name, value in init.items()}
    mask = np.tril(np.ones((1, 1, net.context, net.context), dtype=np.float16))
    for i in range(net.layers):
        tensors[f"transformer.h.{i}.attn.bias"] = mask
        tensors[f"transformer.h.{i}.attn.masked_bias"] = np.array(-1e4, dtype=np.float16)
    tensors["lm_head.weight"] = tensors["transformer.wte.weight"]
    save_safetensors(net.name + "_published.safetensors", tensors)


def make(net, seed, clip):
    rng = np.random.RandomState(seed)
    init = net.init(rng)
    x, y = net.data(rng)
    np.save(os.path.join(HERE, net.name + "_x.npy"), x)
    np.save(os.path.join(HERE, net.name + "_y.npy"), y)
    save_safetensors(net.name + "_init.safetensors", init)
    save_safetensors(net.name + "_first.safetensors", first(net, init, x, y))
    for kind, limit in (("sgd", 0), ("adamw", clip)):
        loss, norm, p = train(net, init, x, y, kind, limit, torch.float64)
        loss32, norm32, p32 = train(net, init, x, y, kind, limit, torch.float32)
        worst = max(np.abs(p[k] - p32[k]).max() / np.abs(p[k]).max() for k in p)
        print(f"{net.name:9} {kind:5} clip {limit:4}: loss {loss[0]:.4f} -> {loss[-1]:.4f}, norm {norm.min():.3f}.."
              f"{norm.max():.3f}; float32 is off by {np.abs(loss - loss32).max():.1e} in the loss, "
              f"{np.abs(norm / norm32 - 1).max():.1e} in the norm, {worst:.1e} in the parameters")
        tensors = {"loss": loss, "grad_norm": norm}
        tensors.update({"param." + k: v.astype(np.float32) for k, v in p.items()})
        save_safetensors(f"{net.name}_{kind}.safetensors", tensors)
    return init


if __name__ == "__main__":
    torch.set_num_threads(1)
    os.makedirs(HERE, exist_ok=True)
    assert BATCH % MICRO == 0
    decoder = Gpt("gpt", 2, 3, 15, 7, 29, True, True, "tanh")
    published(decoder, make(decoder, 30, 0.5))
    make(Gpt("gpt_free", 2, 2, 16, 9, 21, False, False, "none"), 31, 0.5)
