#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small Llamas trained on the bytes of a text, beside PyTorch, by four optimizers with three seeds each: the losses of the evaluation
after the last step lie within PyTorch's mean and three of its standard deviations.

    compare_runs.py CLTRAIN TEXT FOLDER [STEPS]

CLTRAIN is the program, TEXT a text whose first nine tenths are trained on, FOLDER an empty folder to work in; STEPS: 1000. Each side draws
its own initial weights and windows, so that nothing is shared but the recipe. Two checks keep the comparison honest: PyTorch evaluates
cltrain's last weights to cltrain's own loss, and PyTorch at half the learning rate, a mistake that is put in, is found outside. Needs torch,
numpy and transformers; the test test_peer_losses_runs (500 steps) runs it where CLTRAIN_TEST_PYTHON names a Python that has them."""
import json
import math
import os
import shutil
import sys

import numpy as np
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from golden_optimizers import Lamb, Lion, Muon  # noqa: E402
from peer_training import cross_entropy, finish, groups, load_safetensors, report, report_spread, torch_train, train  # noqa: E402

torch.set_num_threads(1)
CLTRAIN, TEXT = (os.path.abspath(p) for p in sys.argv[1:3])
os.chdir(sys.argv[3])
STEPS = int(sys.argv[4]) if len(sys.argv) > 4 else 1000
BATCH, CONTEXT, WARMUP, CLIP, SEEDS = 12, 64, STEPS // 10, 1.0, (1, 2, 3)
RECIPES = {  # learning rate, weight decay, keys of cltrain
    "adamw": (1e-3, 0.1, {"beta1": 0.9, "beta2": 0.99}),
    "muon": (1e-3, 0.1, {"beta1": 0.9, "beta2": 0.99, "muon_scale": "match_rms_adamw"}),
    "lion": (3e-4, 0.3, {"beta1": 0.9, "beta2": 0.99}),
    "lamb": (1e-2, 0.01, {"beta1": 0.9, "beta2": 0.999, "eps": 1e-6}),
}
TOKENS = np.frombuffer(open(TEXT, "rb").read(), np.uint8).astype(np.int64)
FIRST = int(len(TOKENS) * 0.9)  # of the evaluation


class Net(nn.Module):
    """The Llama of the recipe; logits of rows of tokens."""

    def __init__(self):
        super().__init__()
        self.inner = LlamaForCausalLM(LlamaConfig(
            vocab_size=256, hidden_size=128, intermediate_size=344, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=CONTEXT, rms_norm_eps=1e-5, tie_word_embeddings=False, bos_token_id=None, eos_token_id=None))

    def forward(self, x):
        return self.inner(input_ids=x, use_cache=False).logits


def loss_of(logits, y):
    return cross_entropy(logits.flatten(0, 1), y.flatten())


def rate_of(step, peak):
    """Linear warm-up, then a cosine down to a tenth."""
    if step < WARMUP:
        return peak * (step + 1) / WARMUP
    done = (step - WARMUP) / (STEPS - WARMUP)
    return peak * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * done)))


def optimizer_of(name, net, rate, decay):
    parts = groups(net, decay)
    if name == "adamw":
        return torch.optim.AdamW(parts, lr=rate, betas=(0.9, 0.99), eps=1e-8)
    if name == "lion":
        return Lion(parts, lr=rate, betas=(0.9, 0.99))
    if name == "lamb":
        return Lamb(parts, lr=rate, betas=(0.9, 0.999), eps=1e-6)
    hidden = [p for n, p in net.named_parameters() if p.ndim > 1 and ".layers." in n]
    return Muon(parts, hidden, lr=rate, momentum=0.95, nesterov=True, adjust_lr_fn="match_rms_adamw", betas=(0.9, 0.99), eps=1e-8, others=1)


def batches(seed):
    rng = np.random.RandomState(seed)
    for _ in range(STEPS):
        rows = np.stack([TOKENS[i:i + CONTEXT + 1] for i in rng.randint(0, FIRST - CONTEXT, BATCH)])
        yield torch.from_numpy(rows[:, :-1].copy()), torch.from_numpy(rows[:, 1:].copy())


def evaluate(net):
    """The mean loss of all targets of the evaluation part, in windows one after the other; the last window begins earlier to be whole, and
    what the one before it has counted does not count again."""
    text = TOKENS[FIRST:]
    begins = np.minimum(np.arange(0, len(text) - 1, CONTEXT), len(text) - 1 - CONTEXT)
    y = np.stack([text[b + 1:b + CONTEXT + 1] for b in begins])
    x = np.stack([text[b:b + CONTEXT] for b in begins])
    y[-1, :len(begins) * CONTEXT - (len(text) - 1)] = -100
    total = 0.0
    with torch.no_grad():
        for rows in np.array_split(np.arange(len(x)), 30):
            logits = net(torch.from_numpy(x[rows])).flatten(0, 1)
            total += nn.functional.cross_entropy(logits, torch.from_numpy(y[rows]).flatten(), ignore_index=-100, reduction="sum").item()
    return total / (len(text) - 1)


def theirs(name, seed, factor=1.0):
    peak, decay, _ = RECIPES[name]
    torch.manual_seed(seed)
    net = Net()
    losses = torch_train(net, batches(seed), optimizer_of(name, net, peak, decay), lambda k: factor * rate_of(k, peak), loss_of, clip=CLIP)
    return evaluate(net.eval()), losses


def ours(name, seed):
    peak, decay, keys = RECIPES[name]
    config = {"model": {"type": "llama", "layers": 4, "heads": 4, "kv_heads": 2, "channels": 128, "inner": 344, "context": CONTEXT, "tied": False},
              "data": {"type": "text", "path": TEXT, "split": 0.1, "micro_batch": BATCH},
              "optimizer": {"type": name, "learning_rate": peak, "weight_decay": decay, "clip": CLIP, **keys},
              "schedule": {"type": "cosine", "warmup": WARMUP, "min_learning_rate": peak / 10},
              "train": {"steps": STEPS, "eval_every": STEPS, "seed": seed}, "checkpoint": {"every": STEPS}}
    with open("run.json", "w", encoding="utf-8") as f:
        json.dump(config, f)
    shutil.rmtree("run", ignore_errors=True)
    records = train(CLTRAIN, "run.json", "run", None, STEPS)
    net = Net()
    saved = load_safetensors(f"run/checkpoints/step_{STEPS}/model.safetensors")
    net.inner.load_state_dict({n if n.startswith("lm_head") else "model." + n: t for n, t in saved.items()})
    return float(records["eval_loss"][-1]), records["loss"].astype(float), evaluate(net.eval())


def main():
    for name in RECIPES:
        mine, again, peers = [], [], []
        for seed in SEEDS:
            loss, losses, checked = ours(name, seed)
            mine.append(loss)
            again.append(abs(checked - loss))
            loss, peer_losses = theirs(name, seed)
            peers.append(loss)
            print(f"     {name}, seed {seed}: step 1 {losses[0]:.3f} and {peer_losses[0]:.3f} (PyTorch), last 20 steps {losses[-20:].mean():.3f} and "
                  f"{peer_losses[-20:].mean():.3f}, evaluation {mine[-1]:.4f} and {loss:.4f}", flush=True)
        report(f"{name}: PyTorch evaluates cltrain's weights to the same loss", max(again) < 1e-4, f"off by {max(again):.1e}")
        report_spread(f"{name}: evaluation after {STEPS} steps", mine, peers)
        report_spread(f"{name}: half the learning rate is seen", [theirs(name, 4, 0.5)[0]], peers, inside=False)


main()
finish()
