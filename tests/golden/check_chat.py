#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fine-tuning on conversations beside PyTorch: fifty losses of GPT-2 and Llama, all weights or adapters of PEFT, rows of one sample or
packed ones, with the same order of data. Ids and trained tokens are those of transformers' apply_chat_template.

    check_chat.py CLTRAIN FOLDER [quick]

CLTRAIN is the program, FOLDER an empty folder to work in. Needs torch, transformers and peft; test_first_hour_hf.sh runs it (quick: packed
rows only) where CLTRAIN_TEST_PYTHON names a Python that has them."""
import json
import os
import subprocess
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from make_golden_chat import OUT, TEMPLATES  # noqa: E402

CLTRAIN, WORK = sys.argv[1:3]
STEPS, BATCH, CONTEXT = 50, 4, 384
ADAMW = {"type": "adamw", "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.01, "decay": "all"}
failures = 0


def samples(tokenizer, template):
    """Ids and labels of all conversations; a sample's last token is a target only."""
    result = []
    with open(os.path.join(OUT, "chats.jsonl"), encoding="utf-8") as f:
        for line in f:
            out = tokenizer.apply_chat_template(json.loads(line)["messages"], chat_template=TEMPLATES[template][1], tokenize=True, return_dict=True,
                                                return_assistant_tokens_mask=True)
            result.append((out["input_ids"], [i if t else -100 for i, t in zip(out["input_ids"], out["assistant_masks"])]))
    return result


def rows_of(data, packed):
    """Indices of the samples of each row, next fit."""
    rows, left = [], 0
    for i, (ids, _) in enumerate(data):
        if not packed or len(ids) - 1 > left:
            rows.append([])
            left = CONTEXT
        rows[-1].append(i)
        left -= len(ids) - 1
    return rows


def theirs(model, data, rows, rate):
    """Losses of PyTorch, a sample at a time, divided by the trained tokens of the batch."""
    weights = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=rate, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
    losses = []
    for step in range(STEPS):
        chosen = [i for k in range(BATCH) for i in rows[(step * BATCH + k) % len(rows)]]
        count = sum(label >= 0 for i in chosen for label in data[i][1][1:])
        total = 0.0
        for i in chosen:
            ids, labels = (torch.tensor(v)[None] for v in data[i])
            logits = model(input_ids=ids).logits[0, :-1].float()
            loss = torch.nn.functional.cross_entropy(logits, labels[0, 1:], ignore_index=-100, reduction="sum") / count
            loss.backward()
            total += loss.item()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
    return losses


def ours(name, template, kind, packed, rate, adapter):
    config = {"model": {"context": CONTEXT},
              "data": {"type": "chat", "path": os.path.join(OUT, "chats.jsonl"), "tokenizer": os.path.join(OUT, kind), "template": template,
                       "split": 0, "packing": "next" if packed else "none", "shuffle": False, "micro_batch": BATCH, "global_batch": BATCH},
              "optimizer": {**ADAMW, "learning_rate": rate}, "train": {"steps": STEPS}}
    with open("chat.json", "w") as f:
        json.dump(config, f)
    done = subprocess.run([CLTRAIN, "train", "chat.json", "--init", "hf", "--out", name, *(["--adapter", "adapter"] if adapter else [])],
                          capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    lines = [json.loads(line) for line in open(os.path.join(name, "metrics.jsonl"))]
    return [line["loss"] for line in lines if "update" in line and "loss" in line]


def check(family, template, packed, adapters):
    global failures
    torch.manual_seed(3)
    kind = TEMPLATES[template][0]
    tokenizer = AutoTokenizer.from_pretrained(os.path.join(OUT, kind))
    if family == "gpt2":
        model = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), n_positions=CONTEXT, n_embd=128, n_layer=3, n_head=4, resid_pdrop=0, embd_pdrop=0,
                                           attn_pdrop=0, bos_token_id=None, eos_token_id=None))
    else:
        model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), hidden_size=128, intermediate_size=344, num_hidden_layers=3,
                                             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=CONTEXT, bos_token_id=None, eos_token_id=None))
    model.save_pretrained("hf")
    if adapters:
        model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules=["c_attn"] if family == "gpt2" else ["q_proj", "v_proj"]))
        model.save_pretrained("adapter")
    data = samples(tokenizer, template)
    rate = 1e-2 if adapters else 1e-3
    want = theirs(model, data, rows_of(data, packed), rate)
    name = "%s_%s_%s" % (family, "packed" if packed else "apart", "lora" if adapters else "full")
    got = ours(name, template, kind, packed, rate, adapters)
    worst = max(abs(a - b) for a, b in zip(got, want)) if len(got) == len(want) else float("inf")
    failures += worst > 1e-3
    print("%s %-18s %-8s losses %.4f to %.4f, largest difference %.1e" % ("ok  " if worst <= 1e-3 else "FAIL", name, template, want[0], want[-1], worst),
          flush=True)


os.chdir(WORK)
for family, template in (("gpt2", "chatml"), ("llama", "llama3")):
    for packed in (True,) if len(sys.argv) > 3 else (False, True):
        for adapters in (False, True):
            check(family, template, packed, adapters)
            subprocess.run(["rm", "-rf", "hf", "adapter"])
sys.exit(failures > 0)
