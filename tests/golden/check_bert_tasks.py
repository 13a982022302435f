#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares predictions of a BERT with classes, labels of words and answers with transformers on the same records.

check_bert_tasks.py FOLDER: FOLDER holds what tests/e2e/test_bert_tasks.sh made: export_TASK, TASK_in.jsonl and TASK.predicted.jsonl.
Texts are not padded here, so that answers are compared without padding in the softmax, as cltrain computes them."""
import json
import sys

import torch
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


def main():
    folder = sys.argv[1]
    bad = 0
    for task, check, kind in (("class", classes, BertForSequenceClassification),
                              ("tokens", tokens, BertForTokenClassification),
                              ("span", span, BertForQuestionAnswering)):
        model = kind.from_pretrained(f"{folder}/export_{task}").eval()
        tokenizer = AutoTokenizer.from_pretrained(f"{folder}/export_{task}")
        records, got = lines(f"{folder}/{task}_in.jsonl"), lines(f"{folder}/{task}.predicted.jsonl")
        wrong = 0 if len(records) == len(got) else 1
        with torch.no_grad():
            wrong += sum(not check(model, tokenizer, r, g) for r, g in zip(records, got))
        print(f"{task}: {len(got)} predictions, {wrong} unlike what transformers predicts")
        bad += wrong
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
