#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares predictions of a BERT with classes, labels of words and answers with transformers on the same records.

check_bert_tasks.py FOLDER [--adapters]: FOLDER holds what tests/e2e/test_bert_tasks.sh made: export_TASK, TASK_in.jsonl and
TASK.predicted.jsonl; and for numbers number_eval.tsv, number.predicted.csv and number_step, a step of training on all of its rows, whose loss
and gradient norm are those of transformers. With --adapters it is what test_lora_parts.sh made: the base model in `folder`, adapter_TASK and the predictions; PEFT
puts the adapter on the base. Then theirs_TASK becomes an adapter with a head that PEFT made, and theirs_TASK.loss its loss over
TASK_eval.jsonl.
Texts are not padded here, so that answers are compared without padding in the softmax, as cltrain computes them."""
import json
import sys
import warnings

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import (AutoTokenizer, BertForQuestionAnswering, BertForSequenceClassification,
                          BertForTokenClassification)

TOLERANCE = 1e-4


def lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def classes(model, tokenizer, record, got):
    logits = model(**tokenizer(record["sentence"], return_tensors="pt")).logits[0]
    want = torch.softmax(logits, 0)
    return float((want - torch.tensor(got["probabilities"])).abs().max()) < TOLERANCE


def tokens(model, tokenizer, record, got):
    encoded = tokenizer(record["tokens"], is_split_into_words=True, return_tensors="pt")
    logits = model(**encoded).logits[0]
    seen = set()
    for at, word in enumerate(encoded.word_ids()):
        if word is None or word in seen:
            continue
        seen.add(word)
        want = torch.softmax(logits[at], 0)
        if got["labels"][word] != model.config.id2label[int(want.argmax())]:
            return False
        if abs(float(want.max()) - got["probabilities"][word]) > TOLERANCE:
            return False
    return len(seen) == len(record["tokens"])


def span(model, tokenizer, record, got):
    encoded = tokenizer(record["question"], record["context"], truncation="only_second", max_length=32, stride=10,
                        return_overflowing_tokens=True, return_offsets_mapping=True)
    best, text = -float("inf"), ""
    for w, ids in enumerate(encoded["input_ids"]):
        kinds = torch.tensor([encoded["token_type_ids"][w]])
        result = model(torch.tensor([ids]), token_type_ids=kinds)
        start, end = result.start_logits[0], result.end_logits[0]
        inside = [i for i, s in enumerate(encoded.sequence_ids(w)) if s == 1]
        for i in inside:
            for k in inside:
                score = float(start[i] + end[k])
                if i <= k < i + 30 and score > best:
                    offsets = encoded["offset_mapping"][w]
                    best, text = score, record["context"][offsets[i][0]:offsets[k][1]]
    return got["answer"] == text and abs(got["score"] - best) < 1e-3


def numbers(folder):
    """The number of predictions, and of loss and gradient norm, that are unlike transformers' own."""
    with open(f"{folder}/number_eval.tsv", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:]
    with open(f"{folder}/number.predicted.csv", encoding="utf-8") as file:
        got = torch.tensor([float(line.split(",")[1]) for line in list(file)[1:]])
    model = BertForSequenceClassification.from_pretrained(f"{folder}/export_number").eval()
    encoded = AutoTokenizer.from_pretrained(f"{folder}/export_number")([r[1] for r in rows], [r[2] for r in rows], padding=True, return_tensors="pt")
    result = model(**encoded, labels=torch.tensor([float(r[3]) for r in rows]))
    result.loss.backward()
    norm = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]).norm()
    step = next(line for line in lines(f"{folder}/number_step/metrics.jsonl") if "grad_norm" in line)
    wrong = int(((result.logits[:, 0] - got).abs() > TOLERANCE).sum()) + (len(got) != len(rows) or len(rows) != 60)
    wrong += abs(step["loss"] - result.loss.item()) > TOLERANCE * result.loss.item()
    wrong += abs(step["grad_norm"] - norm.item()) > 10 * TOLERANCE * norm.item()
    print(f"number: {len(got)} predictions, loss {step['loss']:.6f} and {result.loss.item():.6f}, gradient norm {step['grad_norm']:.6f} and "
          f"{norm.item():.6f}: {wrong} unlike transformers'")
    return wrong


LABELS = {"class": ["down", "up"], "tokens": ["B-DOWN", "B-UP", "O"], "span": ["start", "end"]}


def adapted(folder, task, kind):
    """The base with a new head and PEFT's adapter for it. PEFT's own class for answers (0.21) leaves the token types out: its inner model
    is returned, in which the adapter is."""
    names = LABELS[task]
    base = kind.from_pretrained(f"{folder}/folder", id2label=dict(enumerate(names)), label2id={n: i for i, n in enumerate(names)})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = PeftModel.from_pretrained(base, f"{folder}/adapter_{task}").eval()
    lost = [str(w.message) for w in caught if "missing" in str(w.message).lower() or "unexpected" in str(w.message).lower()]
    if lost:
        sys.exit(f"{task}: PEFT does not take the adapter: {lost}")
    return model.get_base_model()


def make_adapter(folder, task, kind, tokenizer, records):
    """An adapter of PEFT's with random values and a random head, and its mean loss over the records."""
    torch.manual_seed(5)
    names = LABELS[task]
    base = kind.from_pretrained(f"{folder}/folder", num_labels=len(names))
    kinds = {"class": "SEQ_CLS", "tokens": "TOKEN_CLS", "span": "QUESTION_ANS"}
    model = get_peft_model(base, LoraConfig(task_type=kinds[task], r=3, lora_alpha=5, target_modules=["query", "value", "intermediate.dense"]))
    for name, p in model.named_parameters():
        if "lora_B" in name or "modules_to_save" in name:
            p.copy_(torch.randn_like(p) * 0.3)
    model.eval().save_pretrained(f"{folder}/theirs_{task}")
    total = count = 0.0
    for record in records if task != "span" else []:
        words = record["sentence"] if task == "class" else record["tokens"]
        encoded = tokenizer(words, is_split_into_words=task == "tokens", return_tensors="pt")
        logits = torch.log_softmax(model(**encoded).logits[0], -1)
        if task == "class":
            rows = [(logits, record["label"])]
        else:
            ids = encoded.word_ids()
            rows = [(logits[ids.index(w)], tag) for w, tag in enumerate(record["ner_tags"])]
        total -= sum(float(row[names.index(label)]) for row, label in rows)
        count += len(rows)
    with open(f"{folder}/theirs_{task}.loss", "w") as file:
        print(total / max(count, 1), file=file)


def main():
    folder, adapters = sys.argv[1], "--adapters" in sys.argv
    torch.set_num_threads(1)
    bad = 0 if adapters else numbers(folder)
    for task, check, kind in (("class", classes, BertForSequenceClassification),
                              ("tokens", tokens, BertForTokenClassification),
                              ("span", span, BertForQuestionAnswering)):
        model = adapted(folder, task, kind) if adapters else kind.from_pretrained(f"{folder}/export_{task}").eval()
        names = dict(enumerate(LABELS[task])) if task != "span" and not adapters else model.config.id2label
        if model.config.id2label != names or model.config.num_labels != len(names):
            print(f"{task}: the exported labels are {model.config.id2label}, and the classes {names}")
            bad += 1
        tokenizer = AutoTokenizer.from_pretrained(f"{folder}/folder" if adapters else f"{folder}/export_{task}")
        records, got = lines(f"{folder}/{task}_in.jsonl"), lines(f"{folder}/{task}.predicted.jsonl")
        wrong = 0 if len(records) == len(got) else 1
        with torch.no_grad():
            wrong += sum(not check(model, tokenizer, r, g) for r, g in zip(records, got))
            if adapters:
                make_adapter(folder, task, kind, tokenizer, lines(f"{folder}/{task}_eval.jsonl"))
        print(f"{task}: {len(got)} predictions, {wrong} unlike what transformers predicts")
        bad += wrong
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
