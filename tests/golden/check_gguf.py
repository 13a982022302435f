#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GGUF exports compared with llama.cpp itself: small models of every architecture, trained a few steps on a text, exported in every
type, loaded by llama.cpp: the same ids of the prompt, the same 64 most likely tokens, and logits within the error of the type.

    check_gguf.py CLTRAIN TEXT FOLDER

CLTRAIN is the program, TEXT a text of 50 kB or more, FOLDER an empty folder to work in. Needs numpy and llama-cpp-python."""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import unicodedata

import llama_cpp
import numpy as np
from llama_cpp.llama_chat_format import Jinja2ChatFormatter

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import make_golden_chat as golden_chat  # noqa: E402
from make_golden_tokens import strings  # noqa: E402

CHAT = golden_chat.OUT
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
    "sentence": LLAMA,
}
TOKENIZERS = {"sentence": os.path.join(CHAT, "llama2")}  # by model; the others have byte-level BPE
BARS = {"f32": 1e-4, "f16": 5e-3, "bf16": 3e-2, "q8_0": 8e-2}


def run(*command):
    done = subprocess.run([CLTRAIN, *command], capture_output=True, cwd=WORK, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr.decode()}")
    return done.stdout.decode("utf-8", "replace")


def train(name, model):
    config = {"model": model | {"context": 128}, "optimizer": {"type": "adamw", "learning_rate": 0.005}, "train": {"steps": 40},
              "data": {"type": "text", "path": TEXT, "tokenizer": TOKENIZERS.get(name, "prepared"), "micro_batch": 4}}
    with open(os.path.join(WORK, name + ".json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    run("train", name + ".json", "--out", name)
    text = run("generate", name, "--prompt", PROMPT, "--max-new", "64", "--temperature", "0", "--logits", "logits.npy", "--ignore-eos")
    return text, np.load(os.path.join(WORK, "logits.npy"))


def theirs(path):
    model = llama_cpp.Llama(path, n_ctx=128, logits_all=True, verbose=False, n_threads=1, type_k=0, type_v=0)
    ids = model.tokenize(PROMPT.encode(), add_bos=True, special=False)
    model.eval(ids)
    for _ in range(64):
        ids.append(int(np.argmax(model.scores[model.n_tokens - 1])))
        if len(ids) < 128:
            model.eval(ids[-1:])
    return model.detokenize(ids).decode("utf-8", "replace"), np.array(model.scores[:model.n_tokens])


def ids_of(tokenizer, texts, special):
    """The ids that cltrain gives for each text."""
    with open(os.path.join(WORK, "strings.jsonl"), "w", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in texts)
    shutil.rmtree(os.path.join(WORK, "ids"), ignore_errors=True)
    run("data", "prepare", "strings.jsonl", "--json-key", "text", "--tokenizer", tokenizer, "--split", "0", "--out", "ids",
        *(["--special-tokens"] if special else []))
    with open(os.path.join(WORK, "ids", "train_000.bin"), "rb") as shard:
        data = shard.read()[1024:]
    return list(struct.unpack(f"<{len(data) // 2}H", data))


def compare_ids(tokenizer):
    """A model of one step with this tokenizer; the ids of random texts without and with special tokens, joined by the end of text."""
    name = os.path.basename(tokenizer)
    config = {"model": LLAMA | {"layers": 1, "context": 64}, "train": {"steps": 1},
              "data": {"type": "text", "path": TEXT, "tokenizer": tokenizer, "micro_batch": 1}}
    with open(os.path.join(WORK, "ids.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    run("train", "ids.json", "--out", "ids_" + name)
    said = run("export", "ids_" + name, "--out", "ids.gguf")
    model = llama_cpp.Llama(os.path.join(WORK, "ids.gguf"), vocab_only=True, verbose=False)
    failures = 0
    for special in (False, True):
        texts = [text for text in strings(5, 600) if special or not any(marker in text for marker in ("<s>", "</s>"))]
        if "begins with one" in said:  # an option of the tokenizer that the file cannot tell
            texts = [text for text in texts if not special and not text.startswith((" ", "\u2581"))]
        theirs_too = []
        for text in texts:
            theirs_too += ([model.token_eos()] if theirs_too else []) + model.tokenize(text.encode(), add_bos=True, special=special)
        ours = ids_of(tokenizer, texts, special) if texts else []
        at = next((i for i, pair in enumerate(zip(ours, theirs_too)) if pair[0] != pair[1]), min(len(ours), len(theirs_too)))
        good = ours == theirs_too
        failures += not good
        print(f"{'ok  ' if good else 'FAIL'} ids of {name}{' with special tokens' if special else ''}: {len(texts)} texts, {len(ours)} ids"
              + ("" if good else f", the first other one is number {at}: {ours[at - 3:at + 6]} and {theirs_too[at - 3:at + 6]}"), flush=True)
    return failures


def stored_sums():
    """By template and tokenizer, length and sum of the ids of each conversation, or none."""
    result = {}
    with open(os.path.join(CHAT, "sums.txt"), encoding="ascii") as file:
        for line in file:
            words = line.split()
            if len(words) == 2:
                rows = result[tuple(words)] = []
            else:
                rows.append(None if words == ["none"] else (int(words[0]), int(words[1], 16)))
    return result


def compare_chat(template, kind, sums):
    """The template that the file holds, rendered by llama_cpp, and tokenised by llama.cpp."""
    config = {"model": LLAMA | {"layers": 1, "context": 512}, "train": {"steps": 1},
              "data": {"type": "chat", "path": os.path.join(CHAT, "chats.jsonl"), "tokenizer": os.path.join(CHAT, kind), "template": template,
                       "micro_batch": 1, "on_bad_sample": "skip", **({"date": "29 Nov 2026"} if template == "llama3.2" else {})}}
    with open(os.path.join(WORK, "chat.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    name = f"chat_{template}_{kind}"
    run("train", "chat.json", "--out", name)
    if "beginning of a conversation" in run("export", name, "--out", "chat.gguf"):
        print(f"ok   chat template {template} with the tokenizer {kind}: the export says that ids differ at the beginning", flush=True)
        return False
    model = llama_cpp.Llama(os.path.join(WORK, "chat.gguf"), vocab_only=True, verbose=False)
    names = [model._model.token_get_text(i) if i >= 0 else "" for i in (model.token_eos(), model.token_bos())]
    formatter = Jinja2ChatFormatter(model.metadata["tokenizer.chat_template"], *names, add_generation_prompt=False)
    compared = wrong = 0
    with open(os.path.join(CHAT, "chats.jsonl"), encoding="utf-8") as file:
        for line, expected in zip(file, sums):
            prompt = formatter(messages=json.loads(line)["messages"]).prompt if expected else ""
            if not expected or (kind == "qwen2" and not unicodedata.is_normalized("NFC", prompt)):
                continue  # the template has no system turn; llama.cpp does not apply normal form C
            ids = model.tokenize(prompt.encode(), add_bos=False, special=True)
            compared += 1
            wrong += (len(ids), golden_chat.fnv(ids)) != expected
    good = compared > 20 and wrong == 0
    print(f"{'ok  ' if good else 'FAIL'} chat template {template} with the tokenizer {kind}: {compared} conversations, {wrong} have other ids", flush=True)
    return not good


def compare_ends():
    """The tokens at which llama.cpp ends a text: all of cltrain's but the ones that the export tells."""
    failures = 0
    for stops in ([], [7], [7, 9], [7, 9, 11, 13]):
        config = {"model": LLAMA | {"layers": 1, "context": 512, "stop_tokens": stops}, "train": {"steps": 1},
                  "data": {"type": "chat", "path": os.path.join(CHAT, "chats.jsonl"), "tokenizer": os.path.join(CHAT, "qwen2"),
                           "template": "qwen2", "micro_batch": 1, "on_bad_sample": "skip"}}
        with open(os.path.join(WORK, "ends.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        shutil.rmtree(os.path.join(WORK, "ends"), ignore_errors=True)
        run("train", "ends.json", "--out", "ends")
        told = {int(id) for id in re.findall(r'" \((\d+)\)', run("export", "ends", "--out", "ends.gguf"))}
        model = llama_cpp.Llama(os.path.join(WORK, "ends.gguf"), vocab_only=True, verbose=False)
        vocab = llama_cpp.llama_model_get_vocab(model.model)
        theirs_too = {i for i in range(model.n_vocab()) if llama_cpp.llama_vocab_is_eog(vocab, i)}
        named = {name: model.tokenize(name, add_bos=False, special=True)[0] for name in (b"</s>", b"<|im_end|>", b"<|endoftext|>", b"<|eot_id|>")}
        ours = set(stops) | {named[b"</s>"], named[b"<|im_end|>"]}  # the tokenizer's end of text, and the template's end marker
        good = ours - theirs_too == told and theirs_too <= ours | set(named.values()) and len(told) == max(0, len(stops) - 2)
        failures += not good
        print(f"{'ok  ' if good else 'FAIL'} ends of texts with the stop tokens {stops}: {sorted(theirs_too)}, not told {sorted(told)}", flush=True)
    return failures


def main():
    failures = compare_ends()
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
    for tokenizer in [os.path.join(CHAT, "llama2"), os.path.join(CHAT, "mistral"), *map(os.path.abspath, sys.argv[4:])]:
        failures += compare_ids(tokenizer)
    for (template, kind), sums in stored_sums().items():
        failures += compare_chat(template, kind, sums)
    print(f"{failures} failed")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
