#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adapters to and from PEFT, compared with PEFT itself, over the base models of tests/golden/data: a run's exported adapter loads with
no missing or unexpected key, base with adapter, the merged export and cltrain have the same logits within 1e-5 of the largest, and cltrain
computes what PEFT computes with an adapter that PEFT made.

    check_peft.py CLTRAIN LOGITS FOLDER

CLTRAIN is the program, LOGITS the tool of tests/e2e/logits.c, FOLDER an empty folder to work in. Needs torch, transformers and peft;
test_lora.sh runs it where CLTRAIN_TEST_PYTHON names a Python that has them."""
import json
import os
import subprocess
import sys
import warnings

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors import safe_open
from transformers import AutoModelForCausalLM

CLTRAIN, LOGITS, WORK = sys.argv[1:4]
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
CASES = {  # name: base, targets, other keys of the model section, the same for PEFT
    "llama": ("llama", ["q_proj", "v_proj"], {}, {}),
    "qwen2": ("qwen2", ["all-linear"], {"lora_rs": True}, {"use_rslora": True}),
    "qwen3": ("qwen3", ["o_proj", "down_proj"], {}, {}),
    "gpt2": ("tied", ["c_attn", "mlp.c_proj"], {}, {"fan_in_fan_out": True}),
    "own": ("llama", ["embed_tokens", "lm_head", "q_proj", "down_proj"],
            {"lora_rank_pattern": ["embed_tokens=2", "layers.1.mlp.down_proj=4"], "lora_alpha_pattern": ["lm_head=5"]},
            {"rank_pattern": {"lm_head": 2}, "alpha_pattern": {"q_proj": 4}}),
}
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


def base_model(base):
    return AutoModelForCausalLM.from_pretrained(os.path.join(DATA, "hf_" + base), dtype=torch.float32, attn_implementation="eager").eval()


def logits_of(model, x):
    with torch.no_grad():
        return model(input_ids=x).logits.numpy()


def apart(a, b):
    return float(np.abs(a - b).max() / np.abs(b).max())


def write_config(path, base, rows, keys, rate, steps):
    data = {"type": "npy", "path": os.path.join(DATA, f"hf_{base}_x.npy"), "targets": os.path.join(DATA, f"hf_{base}_y.npy"),
            "micro_batch": rows, "shuffle": False}
    with open(path, "w") as f:
        json.dump({"model": {"dropout": 0, **keys}, "data": data, "optimizer": {"type": "adamw", "learning_rate": rate},
                   "train": {"steps": steps}}, f)


def load(base, folder):
    """The base model with the adapter; the number of tensors that PEFT did not find or did not use."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = PeftModel.from_pretrained(base_model(base), folder).eval()
    return model, sum("missing" in str(w.message).lower() or "unexpected" in str(w.message).lower() for w in caught)


def check(name):
    base, targets, ours, theirs = CASES[name]
    folder = os.path.join(DATA, "hf_" + base)
    x = torch.tensor(np.load(os.path.join(DATA, f"hf_{base}_x.npy")).astype(np.int64))
    rows = x.shape[0]
    write_config("train.json", base, rows, {"lora_rank": 3, "lora_alpha": 7, "lora_targets": targets, **ours}, 0.01, 20)
    write_config("plain.json", base, rows, {}, 1e-30, 1)
    run(CLTRAIN, "train", "train.json", "--init", folder, "--out", name)
    run(CLTRAIN, "export", name, "--format", "peft", "--out", f"{name}_adapter", "--base", folder)
    run(CLTRAIN, "export", name, "--merge", "--out", f"{name}_merged")
    run(CLTRAIN, "export", name, "--format", "safetensors", "--out", f"{name}.safetensors")
    run(LOGITS, "logits.bin", "train.json", f"{name}.safetensors", *keys_of(name))
    own = np.fromfile("logits.bin", np.float32).reshape(rows, x.shape[1], -1)
    model, lost = load(base, f"{name}_adapter")
    adapted, plain = logits_of(model, x), logits_of(base_model(base), x)
    report(f"{name}: PEFT finds and uses every tensor", lost == 0)
    with safe_open(f"{name}_adapter/adapter_model.safetensors", "pt") as f:
        used = {n.replace(".default", "") for n, p in model.named_parameters() if "lora_" in n}
        report(f"{name}: the file holds the adapter alone", set(f.keys()) == used, f"{len(used)} tensors")
    report(f"{name}: the adapter does something", apart(adapted, plain) > 1e-2, f"{apart(adapted, plain):.2e}")
    report(f"{name}: cltrain's logits are PEFT's", apart(own, adapted) <= 1e-5, f"{apart(own, adapted):.2e}")
    merged = logits_of(AutoModelForCausalLM.from_pretrained(f"{name}_merged", dtype=torch.float32, attn_implementation="eager").eval(), x)
    report(f"{name}: the merged model's, too", apart(merged, adapted) <= 1e-5, f"{apart(merged, adapted):.2e}")
    # an adapter of PEFT's, taken by --adapter; its logits are those of the run's merged export
    model = get_peft_model(base_model(base), LoraConfig(task_type="CAUSAL_LM", r=5, lora_alpha=3,
                                                        target_modules="all-linear" if targets == ["all-linear"] else targets, **theirs))
    torch.manual_seed(7)
    with torch.no_grad():
        for n, p in model.named_parameters():
            if "lora_B" in n or "lora_embedding_A" in n:
                p.copy_(torch.randn_like(p) * 0.2)
    model.eval().save_pretrained(f"{name}_theirs")
    run(CLTRAIN, "train", "plain.json", "--init", folder, "--adapter", f"{name}_theirs", "--out", f"{name}_again")
    run(CLTRAIN, "export", f"{name}_again", "--merge", "--out", f"{name}_again_merged")
    merged = logits_of(AutoModelForCausalLM.from_pretrained(f"{name}_again_merged", dtype=torch.float32, attn_implementation="eager").eval(), x)
    adapted = logits_of(model, x)
    report(f"{name}: an adapter that PEFT made", apart(merged, adapted) <= 1e-5, f"{apart(merged, adapted):.2e}")


def keys_of(name):
    """The model section of the run as words of a command line: a file of weights alone does not say it."""
    with open(f"{name}/config.resolved.json") as f:
        model = json.load(f)["model"]
    return [f"model.{key}={json.dumps(value)}" for key, value in model.items()]


if __name__ == "__main__":
    torch.set_num_threads(1)
    os.chdir(WORK)
    for case in CASES:
        check(case)
    print(f"{failures} failed")
    sys.exit(failures > 0)
