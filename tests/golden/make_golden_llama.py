#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden values of model.type llama by transformers: small models of each kind with random weights, as save_pretrained
writes them. Needs torch and transformers (the files: torch 2.15, transformers 5.24); the tests need neither.

    venv/bin/python tests/golden/make_golden_llama.py

Per kind NAME: the folder data/hf_NAME, hf_NAME_x.npy and hf_NAME_y.npy (four sequences; target -1 does not count), and
hf_NAME_first.safetensors: "logits", the gradient "grad.P" of each parameter P in step 1, and "loss", the losses of ten steps of
AdamW over all four sequences, and "apart.f16", "apart.bf16": how far torch.autocast is from f32, in the logits and in all
gradients of step 1 (norm of the difference over norm; f16 with a loss scale of 1024). hf_qwen3_attention.safetensors: "logits" with another
factor of yarn. hf_llama3 has the spelling of transformers 4 and hf_qwen2 the names of the base model, without
their prefix and without the copy of the tied head. test_golden_llama.c compares."""
import json
import os
import shutil

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM
from transformers import Qwen3Config, Qwen3ForCausalLM

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
STEPS, SEQUENCES, LENGTH, VOCAB = 10, 4, 24, 37
SIZES = dict(vocab_size=VOCAB, hidden_size=16, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, attn_implementation="eager")
KINDS = {
    "llama": (LlamaConfig, LlamaForCausalLM, dict(rms_norm_eps=1e-5, rope_parameters={"rope_type": "default", "rope_theta": 500.0})),
    "llama3": (LlamaConfig, LlamaForCausalLM, dict(tie_word_embeddings=True, num_attention_heads=2, num_key_value_heads=1, rope_parameters={
        "rope_type": "llama3", "rope_theta": 5000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32})),
    "biases": (LlamaConfig, LlamaForCausalLM, dict(attention_bias=True, mlp_bias=True, rope_parameters={
        "rope_type": "linear", "rope_theta": 10000.0, "factor": 2.5})),
    "dynamic": (LlamaConfig, LlamaForCausalLM, dict(num_key_value_heads=4, max_position_embeddings=10, rope_parameters={
        "rope_type": "dynamic", "rope_theta": 10000.0, "factor": 3.0})),
    "mistral": (MistralConfig, MistralForCausalLM, dict(sliding_window=7, head_dim=6)),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM, dict(tie_word_embeddings=True, use_sliding_window=True, sliding_window=5,
                                                  max_window_layers=1)),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, dict(head_dim=10, rope_parameters={
        "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 3.0})),
}


def batch(rng):
    text = rng.randint(0, VOCAB, size=(SEQUENCES, LENGTH + 1))
    for t in range(2, LENGTH + 1):
        follow = (text[:, t - 1] * 3 + text[:, t - 2]) % VOCAB
        text[:, t] = np.where(rng.uniform(size=SEQUENCES) < 0.8, follow, text[:, t])
    targets = np.where(rng.uniform(size=(SEQUENCES, LENGTH)) < 0.15, -1, text[:, 1:])
    return text[:, :-1].astype(np.int32), targets.astype(np.int32)


def loss_of(model, x, y):
    logits = model(input_ids=x).logits
    return torch.nn.functional.cross_entropy(logits.reshape(-1, VOCAB), y.reshape(-1), ignore_index=-1), logits


def apart(model, x, y, dtype):
    """The distances of autocast in this type from f32: of the logits, of all gradients."""
    results = []
    for half in (False, True):
        model.zero_grad()
        scale = 1024.0 if half and dtype == torch.float16 else 1.0
        with torch.autocast("cpu", dtype=dtype, enabled=half):
            loss, logits = loss_of(model, x, y)
        (loss * scale).backward()
        gradients = torch.cat([p.grad.flatten().double() / scale for p in model.parameters()])
        results.append((logits.detach().double(), gradients))
    model.zero_grad()
    return torch.tensor([((b - a).norm() / a.norm()).item() for a, b in zip(*results)], dtype=torch.float64)


def older_spelling(folder):
    """config.json as transformers 4 wrote it."""
    path = os.path.join(folder, "config.json")
    with open(path) as f:
        config = json.load(f)
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = {**rope, "type": rope["rope_type"]}
    config["torch_dtype"] = config.pop("dtype")
    with open(path, "w") as f:
        json.dump(config, f, indent=2)
        f.write("\n")


def base_names(folder):
    """The names that a file saved from the model without its head has."""
    path = os.path.join(folder, "model.safetensors")
    tensors = {name.removeprefix("model."): value.clone() for name, value in load_file(path).items() if name != "lm_head.weight"}
    save_file(tensors, path, metadata={"format": "pt"})


def other_attention(model, x):
    """Writes the logits with a factor of yarn that follows from two other numbers."""
    config = model.config.to_dict()
    config["rope_parameters"] |= {"mscale": 2.0, "mscale_all_dim": 0.5}
    other = type(model)(type(model.config)(**config)).eval()
    other.load_state_dict(model.state_dict())
    with torch.no_grad():
        save_file({"logits": other(input_ids=x).logits.reshape(-1, VOCAB).contiguous()}, os.path.join(HERE, "hf_qwen3_attention.safetensors"))


def make(name, seed):
    config_class, model_class, keys = KINDS[name]
    torch.manual_seed(seed)
    model = model_class(config_class(**{**SIZES, **keys}))
    model.eval()
    with torch.no_grad():  # norms away from one, biases away from zero, and an embedding so small that eps counts
        for parameter_name, p in model.named_parameters():
            wide = 0.02 if "embed" in parameter_name else 0.3
            p.add_(torch.randn_like(p) * wide)
    folder = os.path.join(HERE, "hf_" + name)
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, max_shard_size="12KB" if name == "qwen3" else "1GB")
    for extra in ("generation_config.json",):
        if os.path.exists(os.path.join(folder, extra)):
            os.remove(os.path.join(folder, extra))
    if name == "llama3":
        older_spelling(folder)
    if name == "qwen2":
        base_names(folder)
    x, y = batch(np.random.RandomState(seed))
    np.save(os.path.join(HERE, f"hf_{name}_x.npy"), x)
    np.save(os.path.join(HERE, f"hf_{name}_y.npy"), y)
    x, y = torch.tensor(x.astype(np.int64)), torch.tensor(y.astype(np.int64))
    if name == "qwen3":
        other_attention(model, x)
    matrices = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                                  lr=0.003, betas=(0.9, 0.99))
    out, losses = {f"apart.{mode}": apart(model, x, y, dtype) for mode, dtype in (("f16", torch.float16), ("bf16", torch.bfloat16))}, []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss, logits = loss_of(model, x, y)
        loss.backward()
        if step == 0:
            out["logits"] = logits.detach().reshape(-1, VOCAB).clone().contiguous()
            for parameter_name, p in model.named_parameters():
                out["grad." + parameter_name.removeprefix("model.")] = p.grad.clone().contiguous()
        losses.append(loss.item())
        optimizer.step()
    out["loss"] = torch.tensor(losses, dtype=torch.float64)
    save_file(out, os.path.join(HERE, f"hf_{name}_first.safetensors"))
    print(f"{name}: f16 apart {out['apart.f16'].tolist()}, bf16 {out['apart.bf16'].tolist()}; loss {losses[0]:.4f} -> {losses[-1]:.4f}, {sum(p.numel() for p in model.parameters())} parameters")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for number, kind in enumerate(KINDS):
        make(kind, 50 + number)
