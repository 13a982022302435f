#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A hundred items in HellaSwag's form and what a small GPT-2 chooses, computed by transformers with the rules of lm-evaluation-harness 0.4.

usage: make_golden_tasks.py     writes tests/golden/tasks, which test_tasks.sh reads

Needs torch and transformers (the golden files: 2.15, 5.24). The tokenizer is the one of make_golden_chat.py.
"""
import json
import os
import random
import re

import torch
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "tasks")
CONTEXT = 96
WORDS = "A man is standing on the roof and then he the woman takes water from [header] [substeps] how to wash dishes; caf\u00e9, \u4f60\u597d don't 12 (3)".split(" ")


def text(rng, low, high):
    words = [rng.choice(WORDS) for _ in range(rng.randint(low, high))]
    if rng.random() < .3:
        words.insert(1, rng.choice(["[title]", "[step]", " ", "[a\nb]", "x  y"]))
    return " ".join(words)


def clean(value):
    value = value.strip().replace(" [title]", ". ")
    return re.sub(r"\[.*?\]", "", value).replace("  ", " ")


def items():
    rng = random.Random(4)
    for i in range(100):
        endings = [text(rng, 2, 9) + rng.choice(["", ".", " "]) for _ in range(4)]
        yield {"ind": i, "activity_label": text(rng, 1, 3), "ctx_a": text(rng, 3, 20), "ctx_b": rng.choice(["", "He", "the MAN then"]), "endings": endings,
               "label": str(rng.randrange(4)) if i % 2 else rng.randrange(4)}


def scores(model, tokenizer, query, choice):
    whole = query + " " + choice
    context = tokenizer(query.rstrip(), add_special_tokens=False)["input_ids"]
    ids = tokenizer(whole, add_special_tokens=False)["input_ids"]
    scored = len(ids) - len(context)
    ids = ids[-(CONTEXT + 1):]
    with torch.no_grad():
        logits = model(torch.tensor([ids[:-1]])).logits[0].double().log_softmax(-1)
    scored = min(scored, len(ids) - 1)
    return sum(logits[len(ids) - 1 - k, ids[-k]].item() for k in range(scored, 0, -1))


def main():
    os.makedirs(OUT, exist_ok=True)
    torch.manual_seed(9)
    tokenizer = AutoTokenizer.from_pretrained(os.path.join(HERE, "chat", "gpt2"))
    model = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), n_positions=CONTEXT, n_embd=16, n_layer=2, n_head=2, initializer_range=0.3,
                                       bos_token_id=None, eos_token_id=None)).eval()
    model.save_pretrained(os.path.join(OUT, "model"))
    chosen, normalised, margin = [], [], 1.0
    with open(os.path.join(OUT, "items.jsonl"), "w", encoding="utf-8", newline="\n") as f:
        for item in items():
            f.write(json.dumps(item) + "\n")
            query = clean(item["activity_label"] + ": " + item["ctx_a"] + " " + item["ctx_b"].capitalize())
            choices = [clean(e) for e in item["endings"]]
            values = [scores(model, tokenizer, query, c) for c in choices]
            each = [v / len(c) for v, c in zip(values, choices)]
            for found, all_values in ((chosen, values), (normalised, each)):
                found.append(all_values.index(max(all_values)))
                top = sorted(all_values)[-2:]
                margin = min(margin, abs(top[1] - top[0]) / abs(top[1]))
    right = [int(i["label"]) for i in items()]
    with open(os.path.join(OUT, "chosen.json"), "w", encoding="ascii") as f:
        json.dump({"accuracy": sum(a == b for a, b in zip(chosen, right)) / 100, "accuracy_normalised": sum(a == b for a, b in zip(normalised, right)) / 100,
                   "chosen": chosen, "chosen_normalised": normalised}, f)
        f.write("\n")
    print("accuracy", sum(a == b for a, b in zip(chosen, right)), "the closest call differs by", margin)


main()
