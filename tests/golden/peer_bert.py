# SPDX-License-Identifier: Apache-2.0
"""The small BERTs of compare_runs.py: 4 layers of 128 channels on masked pairs of up to 64 bytes, by two optimizers.

The text has one sentence a line and an empty line between two documents. cltrain's pairs are those of `cltrain data prepare --mlm` with a
tokenizer of the 256 bytes and four special tokens. PyTorch's are made here, by the rules of Devlin et al. 2018, arXiv:1810.04805, from the
same lines with other draws, so that both ways to make them are compared, too."""
import json
import os
import shutil

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import nn
from transformers import BertConfig, BertForPreTraining
from transformers.convert_slow_tokenizer import bytes_to_unicode

from golden_optimizers import Lamb
from peer_training import groups, report_spread, run, torch_train, train_alone

BATCH, CONTEXT, CLIP = 16, 64, 1.0
SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[MASK]")
PAD, BEGIN, SEPARATOR, MASK = range(4)
VOCAB, UNCOUNTED = 256 + len(SPECIAL), -100
PLACES, SHARE, SHORTER = CONTEXT * 5 // 32, 0.15, 0.1
COMMON = 0  # the seed of the pairs and masks on which all networks are compared, so that they differ by their weights alone


class Net(nn.Module):
    """The BERT of the recipe; logits of all tokens and of pairs."""

    def __init__(self):
        super().__init__()
        self.inner = BertForPreTraining(BertConfig(
            vocab_size=VOCAB, hidden_size=128, num_hidden_layers=4, num_attention_heads=4, intermediate_size=512, max_position_embeddings=128,
            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, pad_token_id=PAD))

    def forward(self, x):
        out = self.inner(input_ids=x["ids"], attention_mask=x["attends"], token_type_ids=x["segments"])
        return out.prediction_logits, out.seq_relationship_logits


def losses_of(logits, y, reduction="mean"):
    """The losses of masked tokens and of pairs."""
    return (nn.functional.cross_entropy(logits[0].flatten(0, 1), y["ids"].flatten(), ignore_index=UNCOUNTED, reduction=reduction),
            nn.functional.cross_entropy(logits[1], y["follows"], reduction=reduction))


def read_documents(text):
    """Lists of lines of tokens, of the part to train on and of the one to evaluate on."""
    parts, done = ([[]], [[]]), 0
    for line in text.split(b"\n"):
        part = parts[done >= 0.9 * len(text)]
        done += len(line) + 1
        if line.strip():
            part[-1].append(list(np.frombuffer(line, np.uint8).astype(int) + len(SPECIAL)))
        elif part[-1]:
            part.append([])
    return [[document for document in part if document] for part in parts]


def joined(lines, enough=None):
    """The tokens of lines, in order, until there are enough."""
    out = []
    for line in lines:
        if enough is not None and len(out) >= enough:
            break
        out += line
    return out


def pairs_of(documents, rng):
    """(first text, second text, whether the second one does not follow) of all documents."""
    room = CONTEXT - 3
    for at, document in enumerate(documents):
        wanted = rng.randint(2, room + 1) if rng.uniform() < SHORTER else room
        left = document
        while left:
            count = 1
            while count < len(left) and sum(map(len, left[:count])) < wanted:
                count += 1
            split = rng.randint(1, count) if count > 1 else 1
            first, random = joined(left[:split]), count == 1 or rng.uniform() < 0.5
            if random:
                other = next((d for d in rng.randint(len(documents), size=10) if d != at), at)
                second = joined(documents[other][rng.randint(len(documents[other])):], max(1, wanted - len(first)))
            else:
                second = joined(left[split:count])
            left = left[split if random else count:]
            while len(first) + len(second) > room:
                longer = first if len(first) > len(second) else second
                del longer[0 if rng.uniform() < 0.5 else -1]
            yield first, second, random


def masked(ids, rng):
    """The tokens with masks, and the targets of their places."""
    y = np.full(CONTEXT, UNCOUNTED)
    count = min(PLACES, max(1, round(len(ids) * SHARE)))
    ids = np.array(ids)
    places = rng.permutation(np.flatnonzero((ids != BEGIN) & (ids != SEPARATOR)))[:count]
    y[places] = ids[places]
    for place, fate in zip(places, rng.uniform(size=count)):
        if fate < 0.8:
            ids[place] = MASK
        elif fate >= 0.9:
            ids[place] = rng.randint(VOCAB)
    return ids, y


def samples_of(documents, rng):
    """(x, y): dicts of arrays over all samples of the documents."""
    rows = list(pairs_of(documents, rng))
    x = {name: np.zeros((len(rows), CONTEXT), np.int64) for name in ("ids", "attends", "segments")}
    y = {"ids": np.zeros((len(rows), CONTEXT), np.int64), "follows": np.array([random for *_, random in rows], np.int64)}
    for i, (first, second, _) in enumerate(rows):
        ids, y["ids"][i] = masked([BEGIN, *first, SEPARATOR, *second, SEPARATOR], rng)
        x["ids"][i, :len(ids)] = ids
        x["attends"][i, :len(ids)] = 1
        x["segments"][i, len(first) + 2:len(ids)] = 1
    return x, y


def rows_of(samples, rows):
    return tuple({name: torch.from_numpy(value[rows]) for name, value in part.items()} for part in samples)


def write_tokenizer(folder):
    """A tokenizer of the special tokens and the 256 bytes, which joins none of them."""
    os.makedirs(folder)
    alphabet = bytes_to_unicode()
    names = [*SPECIAL, *(alphabet[b] for b in range(256))]
    tokenizer = Tokenizer(models.BPE({name: i for i, name in enumerate(names)}, []))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as f:
        json.dump(dict(zip(("pad_token", "cls_token", "sep_token", "mask_token"), SPECIAL)), f)


class Peer:
    figures = ("masked tokens", "pairs")
    recipes = {"adamw": 1e-3, "lamb": 1e-2}  # learning rates

    def __init__(self, cltrain, text, steps):
        self.cltrain, self.text, self.steps, self.warmup = cltrain, text, steps, round(0.2843 * steps)
        self.documents, self.held_out = read_documents(open(text, "rb").read())
        write_tokenizer("tokenizer")

    def rate_of(self, step, peak):
        """Linear warm-up, then the root of what is left of all steps, as the published recipe for LAMB has it."""
        return peak * ((step + 1) / self.warmup if step < self.warmup else (1 - (step + 1) / self.steps) ** 0.5)

    def batches(self, seed):
        rng = np.random.RandomState(seed)
        done = self.steps
        while done:
            samples = samples_of(self.documents, rng)
            order = rng.permutation(len(samples[0]["ids"]))
            for i in range(min(done, len(order) // BATCH)):
                yield rows_of(samples, order[i * BATCH:(i + 1) * BATCH])
                done -= 1

    def evaluate(self, net, seed):
        """The mean losses of all masked tokens and of all pairs of the evaluation part, with the pairs and masks that the seed draws."""
        samples = samples_of(self.held_out, np.random.RandomState(seed))
        y, total = samples[1], np.zeros(2)
        with torch.no_grad():
            for rows in np.array_split(np.arange(len(y["follows"])), 30):
                x, targets = rows_of(samples, rows)
                total += [loss.item() for loss in losses_of(net(x), targets, "sum")]
        return tuple(total / ((y["ids"] != UNCOUNTED).sum(), len(y["follows"])))

    def theirs(self, name, seed, factor=1.0):
        """PyTorch's figures and its losses of the steps; factor: of the learning rate."""
        peak = self.recipes[name]
        torch.manual_seed(seed)
        net = Net()
        make = torch.optim.AdamW if name == "adamw" else Lamb
        losses = torch_train(net, self.batches(seed), make(groups(net, 0.01), lr=peak, betas=(0.9, 0.999), eps=1e-6),
                             lambda k: factor * self.rate_of(k, peak), lambda logits, y: sum(losses_of(logits, y)), clip=CLIP)
        return self.evaluate(net.eval(), COMMON), losses

    def ours(self, name, seed):
        """Figures of cltrain's last weights, its losses of the steps, and what `check` takes: PyTorch's network with these weights, and the
        figures of cltrain's own evaluation, whose pairs and masks are its own."""
        shutil.rmtree("pairs", ignore_errors=True)
        run(self.cltrain, "data", "prepare", self.text, "--mlm", "--tokenizer", "tokenizer", "--context", str(CONTEXT), "--split", "0.1",
            "--seed", str(seed), "--out", "pairs")
        config = {"model": {"type": "bert", "layers": 4, "heads": 4, "channels": 128, "inner": 512, "context": CONTEXT, "positions": 128,
                            "dropout": 0, "vocab_pad": 1},
                  "data": {"type": "mlm", "path": "pairs", "micro_batch": BATCH},
                  "optimizer": {"type": name, "learning_rate": self.recipes[name], "weight_decay": 0.01, "beta1": 0.9, "beta2": 0.999,
                                "eps": 1e-6, "clip": CLIP},
                  "schedule": {"type": "poly", "power": 0.5, "warmup": self.warmup}, "train": {"seed": seed}}
        records, saved = train_alone(self.cltrain, config, self.steps)
        net = Net().eval()
        names = {n if n.startswith("cls.") else "bert." + n: t for n, t in saved.items()}
        tied = {"cls.predictions.decoder.weight": saved["embeddings.word_embeddings.weight"],
                "cls.predictions.decoder.bias": saved["cls.predictions.bias"]}
        net.inner.load_state_dict(names | tied)
        last = records["eval_losses"][-1]
        return self.evaluate(net, COMMON), records["loss"].astype(float), (net, (last["masked_loss"], last["follows_loss"]))

    def check(self, name, runs):
        """Whether cltrain's evaluation lies within three standard deviations of PyTorch's mean over a dozen draws of pairs and masks, with
        cltrain's weights after the first of the runs."""
        net, told = runs[0]
        draws = [self.evaluate(net, seed) for seed in range(12)]
        for at, figure in enumerate(self.figures):
            report_spread(f"{name}: {figure}, PyTorch evaluates cltrain's weights to the same loss", [told[at]], [d[at] for d in draws])
