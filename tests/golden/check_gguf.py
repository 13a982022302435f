#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GGUF exports compared with llama.cpp itself: small models of every architecture, trained a few steps on a text, exported in every
type, loaded by llama.cpp: the same ids of the prompt, the same 64 most likely tokens, and logits within the error of the type.

    check_gguf.py CLTRAIN TEXT FOLDER

CLTRAIN is the program, TEXT a text of 50 kB or more, FOLDER an empty folder to work in. Needs numpy and llama-cpp-python."""
import json
import os
import subprocess
import sys

import llama_cpp
import numpy as np

CLTRAIN, TEXT, WORK = (os.path.abspath(path) for path in sys.argv[1:4])
PROMPT = "the rain in spain stays mainly in"
LLAMA = {"type": "llama", "layers": 2, "heads": 4, "kv_heads": 2, "channels": 64, "inner": 96}
MODELS = {
    "gpt": {"type": "gpt", "layers": 2, "heads": 2, "channels": 64},
    "llama": LLAMA | {"tied": False},
    "llama3": LLAMA | {"rope_scaling": "llama3", "rope_factor": 8, "rope_original": 64, "attention_bias": "all"},
    "linear": LLAMA | {"rope_scaling": "linear", "rope_factor": 4},
    "yarn": LLAMA | {"rope_scaling": "yarn", "rope_factor": 4, "rope_original": 32},
    "mistral": LLAMA | {"window": 128},
    "qwen2": LLAMA | {"attention_bias": "qkv"},
    "qwen3": LLAMA | {"head_norm": True, "head_dim": 32},
}
BARS = {"f32": 1e-4, "f16": 5e-3, "bf16": 3e-2, "q8_0": 8e-2}


def run(*command):
    done = subprocess.run([CLTRAIN, *command], capture_output=True, cwd=WORK, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr.decode()}")
    return done.stdout.decode("utf-8", "replace")


def train(name, model):
    config = {"model": model | {"context": 128}, "optimizer": {"type": "adamw", "learning_rate": 0.005}, "train": {"steps": 40},
              "data": {"type": "text", "path": TEXT, "tokenizer": "prepared", "micro_batch": 4}}
    with open(os.path.join(WORK, name + ".json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    run("train", name + ".json", "--out", name)
    text = run("generate", name, "--prompt", PROMPT, "--max-new", "64", "--temperature", "0", "--logits", "logits.npy", "--ignore-eos")
    return text, np.load(os.path.join(WORK, "logits.npy"))


def theirs(path):
    model = llama_cpp.Llama(path, n_ctx=128, logits_all=True, verbose=False, n_threads=1, type_k=0, type_v=0)
    ids = model.tokenize(PROMPT.encode(), add_bos=False, special=False)
    model.eval(ids)
    for _ in range(64):
        ids.append(int(np.argmax(model.scores[model.n_tokens - 1])))
        if len(ids) < 128:
            model.eval(ids[-1:])
    return model.detokenize(ids).decode("utf-8", "replace"), np.array(model.scores[:model.n_tokens])


def main():
    failures = 0
    run("data", "prepare", TEXT, "--train-bpe", "512", "--out", "prepared")
    for name, model in MODELS.items():
        text, logits = train(name, model)
        for kind, bar in BARS.items():
            run("export", name, "--out", name + ".gguf", "--dtype", kind)
            other_text, other = theirs(os.path.join(WORK, name + ".gguf"))
            rows = min(len(logits), len(other))
            distance = np.abs(logits[:rows] - other[:rows]).max()
            good = distance <= bar and other_text.strip() in text
            failures += not good
            print(f"{'ok  ' if good else 'FAIL'} {name} {kind}: logits differ by {distance:.2e} of {np.abs(logits).max():.2f}", flush=True)
    print(f"{failures} failed")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
