#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden values of low-rank adapters by PEFT, over base models that make_golden_llama.py and make_golden_hf.py wrote. Needs torch,
transformers and peft (the files: torch 2.15, transformers 5.24, peft 0.21); the tests need none of them.

    venv/bin/python tests/golden/make_golden_lora.py

Per adapter NAME: the folder data/lora_NAME as PEFT saves it, with a B that is not zero, and lora_NAME_first.safetensors: "logits" of the
base model's sequences, the gradient "grad.P" of each adapter tensor P in step 1, and "loss", the losses of twenty steps of AdamW of
the adapters alone. test_golden_lora.c compares."""
import os
import shutil

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
STEPS = 20
ADAPTERS = {
    "llama": ("llama", dict(r=4, lora_alpha=6, target_modules=["q_proj", "v_proj", "down_proj"])),
    "qwen2": ("qwen2", dict(r=3, lora_alpha=5, use_rslora=True, target_modules="all-linear")),
    "gpt2": ("tied", dict(r=2, lora_alpha=4, target_modules=["c_attn", "c_proj"], fan_in_fan_out=True)),
    "pattern": ("llama", dict(r=2, lora_alpha=2, target_modules=r"model\.layers\.1\.(self_attn|mlp)\.(o|up)_proj")),
    "own": ("llama", dict(r=3, lora_alpha=4, target_modules=["embed_tokens", "lm_head", "q_proj", "v_proj", "down_proj"],
                          rank_pattern={"v_proj": 2, "model.layers.1.mlp.down_proj": 5, "embed_tokens": 4}, alpha_pattern={"v_proj": 7, "lm_head": 2.5})),
}


def make(name, seed):
    base, keys = ADAPTERS[name]
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_pretrained(os.path.join(HERE, "hf_" + base), dtype=torch.float32, attn_implementation="eager")
    model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **keys))
    adapters = {n: p for n, p in model.named_parameters() if p.requires_grad}
    with torch.no_grad():
        for parameter_name, p in adapters.items():
            if "lora_B" in parameter_name or "lora_embedding_A" in parameter_name:
                p.copy_(torch.randn_like(p) * 0.1)
    model.eval()
    folder = os.path.join(HERE, "lora_" + name)
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    os.remove(os.path.join(folder, "README.md"))
    config = os.path.join(folder, "adapter_config.json")
    with open(config) as f:  # the base model's path on this machine
        text = f.read().replace(os.path.join(HERE, "hf_" + base), "a/base/that/is/gone")
    with open(config, "w") as f:
        f.write(text)
    x, y = (torch.tensor(np.load(os.path.join(HERE, f"hf_{base}_{part}.npy")).astype(np.int64)) for part in "xy")
    optimizer = torch.optim.AdamW(adapters.values(), lr=0.003, betas=(0.9, 0.99), weight_decay=0.1)
    out, losses = {}, []
    for step in range(STEPS):
        optimizer.zero_grad()
        logits = model(input_ids=x).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1), ignore_index=-1)
        loss.backward()
        if step == 0:
            out["logits"] = logits.detach().reshape(-1, logits.shape[-1]).clone().contiguous()
            for parameter_name, p in adapters.items():
                short = parameter_name.replace("base_model.model.", "", 1).replace(".default", "")
                gradient = p.grad.T if "lora_embedding_A" in short else p.grad  # cltrain keeps a row for each token
                out["grad." + short.removeprefix("model.").removeprefix("transformer.")] = gradient.clone().contiguous()
        losses.append(loss.item())
        optimizer.step()
    out["loss"] = torch.tensor(losses, dtype=torch.float64)
    save_file(out, os.path.join(HERE, f"lora_{name}_first.safetensors"))
    print(f"{name}: {len(adapters)} tensors, {sum(p.numel() for p in adapters.values())} values; loss {losses[0]:.4f} -> {losses[-1]:.4f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for number, adapter in enumerate(ADAPTERS):
        make(adapter, 80 + number)
