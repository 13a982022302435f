#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Folders as save_pretrained of Hugging Face's transformers writes them, with the logits and token ids that
transformers computes: data/hf_tied (tied head, tanh gelu, one file) and data/hf_shards (head of its own, exact gelu,
several files with an index, vocab.json with merges.txt). test_golden_hf.c compares. Needs torch and transformers;
the tests do not."""
import json
import os
import shutil

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, GPT2TokenizerFast

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
CORPUS = ["the rain in spain stays mainly in the plain, and the train is late again; rain, train, plain. " * 4]
STRINGS = ["", " ", "the rain", "  the   rain\t\tin\n\n spain ", "don't we'LL I'm they've", "ÅngstrÖm naïve coöperate",
           "a\u0301e\u0308 \u200d\u200b\u00ad\ufeff", "👩‍👩‍👧‍👦 🇪🇺 🏳️‍🌈", "日本語のテキスト 한국어 العربية",
           "1234567890 3.14159e-10 0x1F", "\u2028\u2029\u0085 \u3000 \u00a0", "<|endof", "|endoftext|>",
           "\x01\x02\x7f\x1b[31m", "the" * 40, "ǅ ʰ ⅷ ² ¼ ႁ ໐"]


def train_tokenizer(folder, size):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=size, special_tokens=["<|endoftext|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False))
    t.model.save(folder)


def make(name, keys, size, pair, shard):
    folder = os.path.join(HERE, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    train_tokenizer(folder, size)
    files = {f: os.path.join(folder, f) for f in ("vocab.json", "merges.txt")}
    tokenizer = GPT2TokenizerFast(vocab=files["vocab.json"], merges=files["merges.txt"])
    if not pair:
        for f in files.values():
            os.remove(f)
        tokenizer.save_pretrained(folder)
    config = GPT2Config(vocab_size=size, bos_token_id=0, eos_token_id=0, **keys)
    torch.manual_seed(len(name))
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():  # away from the zeros, ones and small numbers of the start
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.3)
    model.save_pretrained(folder, max_shard_size=shard)
    rng = np.random.RandomState(7)
    x = rng.randint(0, size, (2, config.n_positions)).astype(np.int32)
    y = rng.randint(0, size, (2, config.n_positions)).astype(np.int32)
    with torch.no_grad():
        logits = model(torch.tensor(x.astype(np.int64))).logits.numpy()
    np.save(os.path.join(HERE, name + "_x.npy"), x)
    np.save(os.path.join(HERE, name + "_y.npy"), y)
    np.save(os.path.join(HERE, name + "_logits.npy"), logits.reshape(-1, size))
    strings = [{"text": s, "ids": tokenizer(s)["input_ids"]} for s in STRINGS]
    with open(os.path.join(HERE, name + "_strings.json"), "w") as f:
        json.dump(strings, f, indent=0)
        f.write("\n")


if __name__ == "__main__":
    make("hf_tied", dict(n_layer=2, n_head=3, n_embd=12, n_positions=9), 267, False, "1GB")
    make("hf_shards", dict(n_layer=1, n_head=5, n_embd=10, n_positions=7, activation_function="gelu",
                           tie_word_embeddings=False, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0), 263, True, "8KB")
