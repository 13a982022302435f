#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models to and from Hugging Face's transformers, compared with transformers itself: logits within 1e-4 and the same token ids,
for odd sizes, tied and untied heads, with and without biases, three activations, Llama, Mistral, Qwen2 and Qwen3, BPE and bytes.

    check_hf.py CLTRAIN LOGITS FOLDER [quick]

CLTRAIN is the program, LOGITS the tool of tests/e2e/logits.c, FOLDER an empty folder to work in. Needs torch and transformers;
test_first_hour_hf.sh runs it where CLTRAIN_TEST_PYTHON names a Python that has them."""
import json
import os
import subprocess
import sys

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel, GPT2TokenizerFast

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from make_golden_hf import STRINGS  # noqa: E402

CLTRAIN, LOGITS, WORK = sys.argv[1:4]
QUICK = len(sys.argv) > 4
CORPUS = ["The quick brown fox's jumped over 12 lazy dogs; naïve coöperation, 日本語, don't you think?\n\n" * 30]
failures = 0


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def report(what, good, detail=""):
    global failures
    failures += not good
    print(f"{'ok  ' if good else 'FAIL'} {what} {detail}", flush=True)


def bpe(size):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=size, special_tokens=["<|endoftext|>"], show_progress=False,
                                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return t


def ours(config, init, vocab, context, overrides=()):
    """Logits of two random rows by cltrain, and the rows."""
    x = np.random.RandomState(5).randint(0, vocab, (2, context)).astype(np.int32)
    np.save("x.npy", x)
    np.save("y.npy", x)
    with open("rows.json", "w") as f:
        json.dump({"model": config, "data": {"type": "npy", "path": "x.npy", "targets": "y.npy", "micro_batch": 2,
                                             "shuffle": False}}, f)
    run(LOGITS, "logits.bin", "rows.json", init, *overrides)
    return torch.tensor(x.astype(np.int64)), np.fromfile("logits.bin", np.float32).reshape(2, context, vocab)


def compare_logits(what, model, config, init, vocab, context, limit=1e-4):
    x, got = ours(config, init, vocab, context)
    with torch.no_grad():
        want = model.eval()(x).logits.float().numpy()
    worst = np.abs(got - want).max()
    report(what, want.shape == got.shape and worst <= limit, f"logits off by {worst:.1e} of {np.abs(want).max():.2f}")


def compare_ids(what, tokenizer, path):
    """No text has the name of a special token in it: there it would be that token, here it is plain text."""
    bad = 0
    for s in STRINGS + CORPUS:
        with open("string.txt", "w", newline="") as f:
            f.write(s)
        mine = [int(i) for i in run(LOGITS, "--ids", path, "string.txt").split()]
        theirs = tokenizer(s)["input_ids"]
        if mine != theirs or tokenizer.decode(mine) != s:
            bad += 1
            print(f"     {s!r}: {mine} here, {theirs} there, back {tokenizer.decode(mine)!r}")
    report(what, bad == 0, f"ids of {len(STRINGS) + 1} texts")


def come_in(name, vocab, **keys):
    tokenizer = GPT2TokenizerFast(tokenizer_object=bpe(vocab))
    config = GPT2Config(vocab_size=vocab, bos_token_id=0, eos_token_id=0, **keys)
    torch.manual_seed(1)
    model = GPT2LMHeadModel(config)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.1)
    model.save_pretrained(name, max_shard_size="200KB")
    tokenizer.save_pretrained(name)
    compare_logits(f"in  {name}", model, {}, name, vocab, config.n_positions)
    compare_ids(f"in  {name}", tokenizer, name)


def go_out(name, model, tokenizer=None, dtype="f32", limit=1e-4, ids=True):
    with open("text.txt", "w") as f:
        f.write("".join(CORPUS))
    data = {"type": "text", "path": "text.txt", "micro_batch": 2}
    if tokenizer:
        tokenizer.save("tok.json")
        data["tokenizer"] = "tok.json"
    with open("train.json", "w") as f:
        json.dump({"model": {"type": "gpt", **model}, "data": data, "train": {"steps": 20},
                   "optimizer": {"learning_rate": 0.01}}, f)
    run(CLTRAIN, "train", "train.json", "--out", name + "_run")
    run(CLTRAIN, "export", name + "_run", "--out", name, "--dtype", dtype)
    got = AutoModelForCausalLM.from_pretrained(name)
    tok = AutoTokenizer.from_pretrained(name)
    vocab = got.config.vocab_size
    step = os.path.join(name + "_run", "checkpoints", "step_20", "model.safetensors")
    compare_logits(f"out {name}", got, {"type": "gpt", "vocab": vocab, **model}, step, vocab, model["context"], limit)
    if ids:
        compare_ids(f"out {name}", tok, "tok.json" if tokenizer else "bytes")
    if dtype == "f32":  # and back again
        compare_logits(f"and back {name}", got, {"context": model["context"]}, name, vocab, model["context"])
        again = name + "_again"
        got.save_pretrained(again)
        tok.save_pretrained(again)
        compare_logits(f"and back {again}", got, {"context": model["context"]}, again, vocab, model["context"])
    tok.pad_token = tok.eos_token
    text = got.generate(**tok("The quick", return_tensors="pt"), max_new_tokens=4, do_sample=False,
                        pad_token_id=tok.eos_token_id or 0)
    report(f"out {name}", text.shape[1] > 4, "generates")


os.chdir(WORK)
come_in("tied", 517, n_layer=2, n_head=3, n_embd=48, n_positions=33)
if not QUICK:
    come_in("untied", 519, n_layer=1, n_head=3, n_embd=96, n_positions=17, tie_word_embeddings=False, activation_function="gelu")
    come_in("relu", 301, n_layer=3, n_head=1, n_embd=7, n_positions=5, activation_function="relu")
    come_in("silu", 301, n_layer=1, n_head=2, n_embd=10, n_positions=40, activation_function="silu", resid_pdrop=0.0,
            embd_pdrop=0.0, attn_pdrop=0.0)
go_out("bpe_tied", dict(layers=2, heads=3, channels=48, context=33), bpe(517))
if not QUICK:
    go_out("bytes_free", dict(layers=1, heads=3, channels=96, context=17, bias=False, tied=False, activation="gelu"))
    go_out("relu_out", dict(layers=3, heads=1, channels=7, context=12, activation="relu", dropout=0.1), bpe(301))
    go_out("half", dict(layers=1, heads=2, channels=10, context=9), bpe(301), "bf16", 0.1)
for kind, keys in {
    "llama": dict(kv_heads=2, inner=40, tied=False, rope_scaling="llama3", rope_factor=8, rope_original=16, positions=64),
    "biases": dict(attention_bias="all", mlp_bias=True, rope_base=500, rope_scaling="linear", rope_factor=2),
    "mistral": dict(kv_heads=1, window=5, head_dim=10),
    "qwen2": dict(kv_heads=2, attention_bias="qkv", window=6, window_from=1),
    "qwen3": dict(head_norm=True, head_dim=14, rope_scaling="yarn", rope_factor=4, rope_original=8, rope_high=3),
    "dynamic": dict(rope_scaling="dynamic", rope_factor=3, rope_original=12),
    "yarn": dict(rope_scaling="yarn", rope_factor=4, rope_original=8, rope_attention=1.3),
}.items():
    if not QUICK or kind in ("llama", "qwen3"):
        # whatever tokenizer_config.json says, transformers 5 reads a qwen2's tokenizer by a class that normalises texts
        go_out(kind, dict(type="llama", layers=2, heads=4, channels=48, context=17, **keys), bpe(301) if kind == "llama" else None,
               ids=kind != "qwen2")
print(f"{failures} failed")
sys.exit(failures > 0)
