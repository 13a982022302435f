#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden values of model.type bert by transformers: small models with each head and random weights, as save_pretrained writes them. Needs
torch and transformers (the files: torch 2.15, transformers 5.24); the tests need neither.

    venv/bin/python tests/golden/make_golden_bert.py [HEAD ...]      # all heads, or these

Per head NAME: the folder data/hf_bert_NAME and hf_bert_NAME_first.safetensors: the fields of a batch of four texts of unlike lengths ("x", "segments",
"document", "y" and for masked tokens "places", for pairs "follows"; a target of -1 does not count), "logits" of the first loss, for pairs
"follows_logits", the gradient "grad.P" of each parameter P in step 1, "loss", the losses of ten steps of AdamW, "lamb", those of LAMB as NVIDIA's
FusedLAMB computes it (clip 1, decay 0.01 and trust ratio for matrices alone), "apart.f16" and "apart.bf16" as in make_golden_llama.py. test_golden_bert.c
compares."""
import copy
import os
import shutil
import sys

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import BertConfig, BertForMaskedLM, BertForPreTraining, BertForQuestionAnswering, BertForSequenceClassification
from transformers import BertForTokenClassification

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
STEPS, TEXTS, LENGTH, VOCAB, PLACES, CLASSES = 10, 4, 24, 37, 5, 3
SIZES = dict(vocab_size=VOCAB, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=20, max_position_embeddings=30,
             type_vocab_size=2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, attn_implementation="eager")
KINDS = {"pretrain": (BertForPreTraining, {}), "masked": (BertForMaskedLM, dict(hidden_act="gelu_new", layer_norm_eps=1e-3)),
         "class": (BertForSequenceClassification, dict(num_labels=CLASSES)), "tokens": (BertForTokenClassification, dict(num_labels=CLASSES)),
         "span": (BertForQuestionAnswering, dict(hidden_act="relu")), "number": (BertForSequenceClassification, dict(num_labels=1))}


def batch(kind, rng):
    """The fields of four texts; padding is a document of its own for each token. Spans have no padding: transformers chooses among it, too."""
    lengths = np.array([LENGTH, 17, 9, 21] if kind != "span" else [LENGTH] * TEXTS)
    at = np.arange(LENGTH)
    inside = at[None] < lengths[:, None]
    fields = {"x": np.where(inside, rng.randint(1, VOCAB, size=(TEXTS, LENGTH)), 0),
              "segments": np.where(inside & (at[None] >= lengths[:, None] // 2), 1, 0), "document": np.where(inside, 0, at[None])}
    if kind in ("pretrain", "masked"):
        places, y = np.zeros((TEXTS, PLACES), int), np.full((TEXTS, PLACES), -1)
        for i, count in enumerate((5, 3, 1, 4)):
            places[i, :count] = np.sort(rng.permutation(np.arange(1, lengths[i]))[:count])
            y[i, :count] = rng.randint(1, VOCAB, size=count)
        fields.update(places=places, y=y)
        if kind == "pretrain":
            fields["follows"] = np.array([0, 1, 1, 0])
    elif kind == "class":
        fields["y"] = np.array([2, 0, 1, 2])
    elif kind == "number":
        fields["y"] = np.array([4.2, 0.0, -1.75, 3.0], np.float32)
    elif kind == "tokens":
        fields["y"] = np.where(inside & (rng.uniform(size=(TEXTS, LENGTH)) < .8), rng.randint(0, CLASSES, size=(TEXTS, LENGTH)), -1)
    else:
        first = rng.randint(1, lengths)
        fields["y"] = np.stack([first, np.minimum(first + 2, lengths - 1)], 1)
    return {name: torch.tensor(value if value.dtype == np.float32 else value.astype(np.int32)) for name, value in fields.items()}


def loss_of(model, kind, f):
    """The sum of the losses, the logits of the first one, and for pairs those of the second one."""
    attends = (f["document"] == 0).long()
    attends[:, 0] = 1
    inputs = dict(input_ids=f["x"].long(), attention_mask=attends, token_type_ids=f["segments"].long())
    if kind == "number":  # the loss that transformers chooses for one label
        out = model(**inputs, labels=f["y"])
        return out.loss, out.logits, None
    out = model(**inputs)
    ce = torch.nn.functional.cross_entropy
    y = f["y"].long()
    if kind in ("pretrain", "masked"):
        all_logits = out.prediction_logits if kind == "pretrain" else out.logits
        logits = torch.gather(all_logits, 1, f["places"].long()[..., None].expand(-1, -1, VOCAB))
        loss = ce(logits.reshape(-1, VOCAB), y.reshape(-1), ignore_index=-1)
        if kind == "masked":
            return loss, logits, None
        return loss + ce(out.seq_relationship_logits, f["follows"].long()), logits, out.seq_relationship_logits
    if kind == "span":
        logits = torch.stack([out.start_logits, out.end_logits], 1)
        return (ce(out.start_logits, y[:, 0]) + ce(out.end_logits, y[:, 1])) / 2, logits, None
    return ce(out.logits.reshape(-1, CLASSES), y.reshape(-1), ignore_index=-1), out.logits, None


def apart(model, kind, f, dtype):
    results = []
    for half in (False, True):
        model.zero_grad()
        scale = 1024.0 if half and dtype == torch.float16 else 1.0
        with torch.autocast("cpu", dtype=dtype, enabled=half):
            loss, logits, _ = loss_of(model, kind, f)
        (loss * scale).backward()
        gradients = torch.cat([p.grad.flatten().double() / scale for p in model.parameters() if p.grad is not None])
        results.append((logits.detach().double(), gradients))
    model.zero_grad()
    return torch.tensor([((b - a).norm() / a.norm()).item() for a, b in zip(*results)], dtype=torch.float64)


class Lamb:
    """NVIDIA's form: gradients over max(1, their norm), decay inside the update, a trust ratio for decayed tensors."""

    def __init__(self, parameters, lr=0.01, betas=(0.9, 0.999), eps=1e-6, decay=0.01):
        self.lr, self.betas, self.eps, self.decay, self.step_count = lr, betas, eps, decay, 0
        self.state = [(p, torch.zeros_like(p), torch.zeros_like(p)) for p in parameters]

    @torch.no_grad()
    def step(self):
        self.step_count += 1
        b1, b2 = self.betas
        clip = max(1.0, torch.cat([p.grad.flatten() for p, _, _ in self.state]).norm().item())
        for p, m, v in self.state:
            g, decay = p.grad / clip, self.decay if p.ndim > 1 else 0.0
            m.mul_(b1).add_(g, alpha=1 - b1)
            v.mul_(b2).addcmul_(g, g, value=1 - b2)
            u = (m / (1 - b1 ** self.step_count)) / ((v / (1 - b2 ** self.step_count)).sqrt() + self.eps) + decay * p
            size, change = p.norm().item(), u.norm().item()
            ratio = size / change if decay and size > 0 and change > 0 else 1.0
            p.sub_(u, alpha=self.lr * ratio)


def train(model, kind, f, optimizer, out=None):
    losses = []
    for step in range(STEPS):
        model.zero_grad()
        loss, logits, follows = loss_of(model, kind, f)
        loss.backward()
        for name, p in model.named_parameters():
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            if step == 0 and out is not None:
                out["grad." + name.removeprefix("bert.")] = p.grad.clone().contiguous()
        if step == 0 and out is not None:
            out["logits"] = logits.detach().clone().contiguous()
            if follows is not None:
                out["follows_logits"] = follows.detach().clone().contiguous()
        losses.append(loss.item())
        optimizer.step()
    return torch.tensor(losses, dtype=torch.float64)


def make(kind, seed):
    model_class, keys = KINDS[kind]
    torch.manual_seed(seed)
    model = model_class(BertConfig(**{**SIZES, **keys}))
    model.eval()
    with torch.no_grad():  # norms away from one, biases away from zero
        for name, p in model.named_parameters():
            p.add_(torch.randn_like(p) * (0.05 if "embeddings" in name and p.ndim > 1 else 0.3))
        model.bert.embeddings.word_embeddings.weight[0] = 0
    folder = os.path.join(HERE, "hf_bert_" + kind)
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    f = batch(kind, np.random.RandomState(seed))
    out = {f"apart.{mode}": apart(model, kind, f, dtype) for mode, dtype in (("f16", torch.float16), ("bf16", torch.bfloat16))}
    out.update(f)
    twin = copy.deepcopy(model)
    matrices, others = ([p for p in model.parameters() if (p.ndim > 1) == wide] for wide in (True, False))
    out["loss"] = train(model, kind, f, torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=0.003,
                                                          betas=(0.9, 0.99)), out)
    out["lamb"] = train(twin, kind, f, Lamb(list(twin.parameters())))
    save_file(out, os.path.join(HERE, f"hf_bert_{kind}_first.safetensors"))
    print(f"{kind}: f16 apart {out['apart.f16'].tolist()}, bf16 {out['apart.bf16'].tolist()}; loss {out['loss'][0]:.4f} -> {out['loss'][-1]:.4f}, "
          f"LAMB {out['lamb'][-1]:.4f}, {sum(p.numel() for p in model.parameters())} parameters")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for number, kind in enumerate(KINDS):
        if len(sys.argv) == 1 or kind in sys.argv[1:]:
            make(kind, 80 + number)
