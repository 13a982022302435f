#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Renders the Jinja programs that an export writes for chat templates by transformers, over the conversations of tests/golden/chat, and
compares the ids with the stored ones, which published programs gave: conversations without tools, and with tools, calls and thoughts.

    check_chat_programs.py LOGITS

LOGITS is the tool of tests/e2e/logits.c. Needs transformers. A conversation that the published program refuses is left out, unless
ours has to refuse it, too: then it must not give a text."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import make_golden_chat as golden  # noqa: E402
from transformers import AutoTokenizer  # noqa: E402


def program_of(logits, template):
    date = "29 Nov 2026" if template == "llama3.2" else ""
    return subprocess.run([logits, "--program", template, date], check=True, capture_output=True, text=True).stdout.removesuffix("\n")


def lines(name):
    with open(os.path.join(golden.OUT, name), encoding="utf-8") as file:
        return [line for line in file.read().split("\n") if line]


def sections(name):
    """The pairs of a template and a tokenizer, each with its lines of sums: a length and a hash, or none."""
    found = []
    for line in lines(name):
        words = line.split()
        if words[0] != "none" and not words[0].isdigit():
            found.append((words[0], words[1], []))
        else:
            found[-1][2].append(None if words[0] == "none" else (int(words[0]), words[1]))
    return found


def compare(logits, template, kind, sums, records):
    tokenizer = AutoTokenizer.from_pretrained(os.path.join(golden.OUT, kind))
    program = program_of(logits, template)
    compared = wrong = refused = 0
    for record, expected in zip(records, sums, strict=True):
        try:
            ids = tokenizer.apply_chat_template(record["messages"], tools=record.get("tools"), chat_template=program, tokenize=True,
                                                return_dict=True)["input_ids"]
        except Exception:  # the program refuses it
            refused += expected is None
            wrong += expected is not None
            continue
        if expected is None:
            continue
        compared += 1
        if (len(ids), f"{golden.fnv(ids):08x}") != expected:
            wrong += 1
            if wrong == 1:
                print(repr(tokenizer.apply_chat_template(record["messages"], tools=record.get("tools"), chat_template=program, tokenize=False)))
    good = wrong == 0 and compared > 0
    print(f"{'ok  ' if good else 'FAIL'} {template} with the tokenizer {kind}: {compared} conversations compared, {refused} refused, {wrong} differ", flush=True)
    return not good


def main():
    failures = 0
    for sums, records in (("sums.txt", "chats.jsonl"), ("tools_sums.txt", "tools.jsonl")):
        conversations = [json.loads(line) for line in lines(records)]
        for template, kind, expected in sections(sums):
            failures += compare(sys.argv[1], template, kind, expected, conversations)
    print(f"{failures} failed")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
