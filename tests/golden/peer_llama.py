# SPDX-License-Identifier: Apache-2.0
"""The small Llamas of compare_runs.py: 4 layers of 128 channels on windows of 64 bytes, by four optimizers."""
import math

import numpy as np
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from golden_optimizers import Lamb, Lion, Muon
from peer_training import cross_entropy, groups, report, torch_train, train_alone

BATCH, CONTEXT, CLIP = 12, 64, 1.0


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


class Peer:
    figures = ("evaluation",)
    recipes = {  # learning rate, weight decay, keys of cltrain
        "adamw": (1e-3, 0.1, {"beta1": 0.9, "beta2": 0.99}),
        "muon": (1e-3, 0.1, {"beta1": 0.9, "beta2": 0.99, "muon_scale": "match_rms_adamw"}),
        "lion": (3e-4, 0.3, {"beta1": 0.9, "beta2": 0.99}),
        "lamb": (1e-2, 0.01, {"beta1": 0.9, "beta2": 0.999, "eps": 1e-6}),
    }

    def __init__(self, cltrain, text, steps):
        self.cltrain, self.text, self.steps, self.warmup = cltrain, text, steps, steps // 10
        self.tokens = np.frombuffer(open(text, "rb").read(), np.uint8).astype(np.int64)
        self.first = int(len(self.tokens) * 0.9)  # of the evaluation

    def rate_of(self, step, peak):
        """Linear warm-up, then a cosine down to a tenth."""
        if step < self.warmup:
            return peak * (step + 1) / self.warmup
        done = (step - self.warmup) / (self.steps - self.warmup)
        return peak * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * done)))

    def batches(self, seed):
        rng = np.random.RandomState(seed)
        for _ in range(self.steps):
            rows = np.stack([self.tokens[i:i + CONTEXT + 1] for i in rng.randint(0, self.first - CONTEXT, BATCH)])
            yield torch.from_numpy(rows[:, :-1].copy()), torch.from_numpy(rows[:, 1:].copy())

    def evaluate(self, net):
        """The mean loss of all targets of the evaluation part, in windows one after the other; the last window begins earlier to be whole,
        and what the one before it has counted does not count again."""
        text = self.tokens[self.first:]
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

    def theirs(self, name, seed, factor=1.0):
        """PyTorch's figures and its losses of the steps; factor: of the learning rate."""
        peak, decay, _ = self.recipes[name]
        torch.manual_seed(seed)
        net = Net()
        losses = torch_train(net, self.batches(seed), optimizer_of(name, net, peak, decay), lambda k: factor * self.rate_of(k, peak), loss_of,
                             clip=CLIP)
        return (self.evaluate(net.eval()),), losses

    def ours(self, name, seed):
        """cltrain's figures, its losses of the steps, and what `check` takes: PyTorch's network with its last weights, and the figures."""
        peak, decay, keys = self.recipes[name]
        config = {"model": {"type": "llama", "layers": 4, "heads": 4, "kv_heads": 2, "channels": 128, "inner": 344, "context": CONTEXT,
                            "tied": False},
                  "data": {"type": "text", "path": self.text, "split": 0.1, "micro_batch": BATCH},
                  "optimizer": {"type": name, "learning_rate": peak, "weight_decay": decay, "clip": CLIP, **keys},
                  "schedule": {"type": "cosine", "warmup": self.warmup, "min_learning_rate": peak / 10},
                  "train": {"seed": seed}}
        records, saved = train_alone(self.cltrain, config, self.steps)
        net = Net().eval()
        net.inner.load_state_dict({n if n.startswith("lm_head") else "model." + n: t for n, t in saved.items()})
        figures = (float(records["eval_loss"][-1]),)
        return figures, records["loss"].astype(float), (net, figures)

    def check(self, name, runs):
        """Whether PyTorch finds cltrain's losses with cltrain's weights, after each of the runs."""
        off = max(abs(self.evaluate(net) - loss) for net, (loss,) in runs)
        report(f"{name}: PyTorch evaluates cltrain's weights to the same loss", off < 1e-4, f"off by {off:.1e}")
