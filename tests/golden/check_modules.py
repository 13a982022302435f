#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole modules of torchvision and transformers (torch.save(model)) beside their state dicts: every tensor is equal to the bit.

    check_modules.py SAME FOLDER

SAME is the tool of tests/e2e/same_weights.c, FOLDER an empty folder to work in. Needs torch, torchvision, transformers and
safetensors; test_pytorch_modules.sh runs it where CLTRAIN_TEST_PYTHON names a Python that has them."""
import os
import subprocess
import sys

import torch
import torchvision
from safetensors.torch import save_file
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel

SAME, WORK = sys.argv[1:]
FORMS = {"zip": {}, "protocol 4": {"pickle_protocol": 4}, "old": {"_use_new_zipfile_serialization": False}}


def models():
    torch.manual_seed(4)
    yield "resnet18", torchvision.models.resnet18(num_classes=7)
    yield "resnet50", torchvision.models.resnet50(num_classes=3)
    yield "resnext50_32x4d", torchvision.models.resnext50_32x4d(num_classes=3)
    yield "gpt2", GPT2LMHeadModel(GPT2Config(vocab_size=99, n_layer=2, n_head=2, n_embd=16, n_positions=12))
    yield "bert", BertModel(BertConfig(vocab_size=99, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
                                       max_position_embeddings=12))
    yield "gpt2 in bf16", GPT2LMHeadModel(GPT2Config(vocab_size=99, n_layer=1, n_head=2, n_embd=16, n_positions=12)).to(torch.bfloat16)


def main():
    failures = 0
    os.chdir(WORK)
    for name, model in models():
        state = {key: tensor.detach().clone().contiguous() for key, tensor in model.state_dict().items()}
        save_file(state, "state.safetensors")
        for form, options in FORMS.items():
            torch.save({"model": model, "epoch": 3} if form == "protocol 4" else model, "module.pth", **options)
            done = subprocess.run([SAME, "module.pth:model" if form == "protocol 4" else "module.pth", "state.safetensors"],
                                  capture_output=True, text=True)
            good = done.stdout == f"same: {len(state)} tensors\n"
            failures += not good
            print(f"{'ok  ' if good else 'FAIL'} {name}, {form}: {(done.stdout + done.stderr).strip()}", flush=True)
    print(f"{failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
