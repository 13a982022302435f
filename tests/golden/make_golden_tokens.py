#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ids that transformers gives for 2,000 strings and for code points in five contexts, by twelve tokenizers, and the text of ids.

usage: make_golden_tokens.py write [NAME...]    writes tests/golden/tokenizers (NAME: only these), which test_golden_tokens.c reads
       make_golden_tokens.py live PROGRAM SEED   compares 2,000 other strings with what PROGRAM data prepare makes of them

Needs transformers (the golden files: 5.24, tokenizers 0.23.3).
"""
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "tokenizers")
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CONTEXTS = ["{0}", "a{0}b", " {0} x", "'{0} 1{0}", "\n{0}{0}\n\n!"]
BLOCK = 4096
WORDS = ["hello", "the", "well", "Hello", "WORLD", "don't", "I'm", "WE'LL", "they'VE", "it's", "he'd", "l'\u017fa", "x's", "'s", "1234567", "3.14",
         "12", "\u0663\u0664", "\u00bd", "caf\u00e9", "cafe\u0301", "a\u0323\u0307", "\u1100\u1161\u11a8", "\ud55c\uae00", "\u65e5\u672c\u8a9e",
         "\u041f\u0440\u0438\u0432\u0435\u0442", "\U0001f600", "\u0928\u092e\u0938\u094d\u0924\u0947", "\u212b", "...", "!!", "?!\n", "();", "{\n", "}\r\n",
         "--", "_x_", "//", "#", "<speaker>", "<|endoftext|>", "[PAD]", "<left>", "<right>", "whole", "caf\u00e9s", "<|im_start|>", "</s>", "<s>"]
SPACES = [" ", " ", " ", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n ", "\u00a0", "\u3000", "\u2028", "\u0085", "\u180e", "", ""]


def strings(seed, count):
    rng = random.Random(seed)
    result = []
    for _ in range(count):
        parts = []
        for _ in range(rng.randrange(1, 12)):
            if rng.random() < 0.08:
                code = rng.choice([rng.randrange(1, 0x250), rng.randrange(1, 0x3000), rng.randrange(1, 0x110000)])
                parts.append("" if 0xD800 <= code < 0xE000 else chr(code))
            else:
                parts.append(rng.choice(WORDS))
            parts.append(rng.choice(SPACES))
        text = "".join(parts)
        result.append(text or "x")
    return result


def corpus():
    rng = random.Random(7)
    return [" ".join(rng.choice(WORDS[:24] + ["theory", "hell", "wellness", "12345", "there"]) for _ in range(30)) for _ in range(200)]


def pieces():
    """A WordPiece vocabulary of words, and of letters that lowering and decomposing lead to, alone and inside of words."""
    words = sorted({word for text in corpus() for word in text.lower().split() if word.isalnum()})
    letters = [chr(code) for code in range(0x21, 0x250)] + [chr(code).lower() for code in range(0x250, 0x20000) if chr(code).lower() != chr(code)]
    letters += [chr(code) for code in (*range(0x300, 0x330), *range(0x1100, 0x1113), *range(0x1161, 0x1176), *range(0x11A8, 0x11C3), 0x65E5, 0x672C)]
    letters = [letter for letter in dict.fromkeys(letters) if len(letter) == 1 and letter.strip() and letter.isprintable()]
    specials = ["[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    return list(dict.fromkeys(specials + letters + ["##" + letter for letter in letters] + words + ["##lo", "##ness", "well", "##ll", "caf", "\U0001f600"]))


SENTENCE = {
    # name: (prepend by a normalizer or none, Metaspace's scheme and split, model settings, whether bytes are tokens, what the decoder strips)
    "llama2": ("normalizer", None, {"byte_fallback": True, "fuse_unk": True, "unk_token": "<unk>"}, True, 1),
    "mistral": (None, ("first", False), {"byte_fallback": True, "fuse_unk": True, "unk_token": "<unk>"}, True, 1),
    "gemma": ("replace", None, {"byte_fallback": True, "fuse_unk": True, "unk_token": "<unk>"}, True, 0),
    "metaspace": (None, ("always", True), {"unk_token": "<unk>"}, False, None),
    "letters": (None, ("never", False), {"byte_fallback": True, "fuse_unk": True, "unk_token": "<unk>", "ignore_merges": True}, False, 0),
}


def build_sentence(folder):
    """Writes tokenizers of SentencePiece's kind: all ways of spaces, of characters without a token, and merges across a space."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    for name, (normal, meta, settings, bytes_too, strip) in SENTENCE.items():
        specials = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256 if bytes_too else 0)]
        base = Tokenizer(models.BPE())
        base.normalizer = normalizers.Replace(" ", "\u2581")
        base.pre_tokenizer = None if name == "letters" else pre_tokenizers.Metaspace(split=True)  # without it, merges reach across spaces
        texts = [text.replace("well", "we\u2581ll  ") for text in corpus()]
        base.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=len(specials) + 300, special_tokens=specials, show_progress=False))
        model = json.loads(base.to_str())["model"]
        made = Tokenizer(models.BPE(vocab=model["vocab"], merges=[tuple(pair) for pair in model["merges"]], **settings))
        replace = normalizers.Replace(" ", "\u2581")
        made.normalizer = {"normalizer": normalizers.Sequence([normalizers.Prepend("\u2581"), replace]), "replace": replace, None: None}[normal]
        if meta:
            made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=meta[0], split=meta[1])
        elif normal == "replace":
            made.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
        steps = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()] + ([decoders.Strip(" ", 1, 0)] if strip else [])
        made.decoder = decoders.Metaspace(prepend_scheme=meta[0]) if strip is None else decoders.Sequence(steps)
        made.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in ("<unk>", "<s>", "</s>")])
        made.add_tokens([AddedToken("<speaker>", normalized=True), AddedToken("<left>", lstrip=True, normalized=False),
                         AddedToken("<right>", rstrip=True, normalized=name != "gemma"), AddedToken("the well", normalized=True)])
        if name != "letters":
            made.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
        PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>", unk_token="<unk>").save_pretrained(os.path.join(folder, name))
    return list(SENTENCE)


def build(folder):
    """Writes the twelve tokenizers as folders; returns their names."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    base = Tokenizer(models.BPE())
    base.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    base.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=420, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                                            special_tokens=["<|endoftext|>"], show_progress=False))
    model = json.loads(base.to_str())["model"]
    merges = [tuple(pair) for pair in model["merges"]]

    def put(name, data):
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        with open(os.path.join(folder, name), "w", encoding="utf-8", newline="\n") as out:
            out.write(data if isinstance(data, str) else json.dumps(data, ensure_ascii=False))

    for name, extra in (("gpt2", {}), ("prefix", {"add_prefix_space": True, "add_bos_token": True})):
        put(name + "/vocab.json", model["vocab"])
        put(name + "/merges.txt", "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
        put(name + "/tokenizer_config.json", {"tokenizer_class": "GPT2Tokenizer", "bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", **extra})

    def tokenizer(ignore=False):
        made = Tokenizer(models.BPE(vocab=model["vocab"], merges=merges, ignore_merges=ignore))
        made.decoder = decoders.ByteLevel()
        return made

    added = tokenizer()
    added.normalizer = normalizers.NFC()
    added.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    fast = PreTrainedTokenizerFast(tokenizer_object=added, eos_token="<|endoftext|>", pad_token="[PAD]")
    fast.add_tokens([AddedToken("<speaker>"), AddedToken("<left>", lstrip=True), AddedToken("<right>", rstrip=True, normalized=False),
                     AddedToken("whole", single_word=True), AddedToken("cafe\u0301s"), AddedToken("hello the", normalized=False),
                     AddedToken("the well")])
    fast.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    fast.save_pretrained(os.path.join(folder, "added"))

    llama = tokenizer(ignore=True)
    llama.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
                                                   pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    llama.add_special_tokens(["<s>"])
    llama.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", llama.token_to_id("<s>"))])])
    PreTrainedTokenizerFast(tokenizer_object=llama, eos_token="<|endoftext|>", bos_token="<s>").save_pretrained(os.path.join(folder, "llama3"))

    put("qwen2/vocab.json", model["vocab"])
    put("qwen2/merges.txt", "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    put("qwen2/tokenizer_config.json", {"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"})
    saved = AutoTokenizer.from_pretrained(os.path.join(folder, "qwen2"))
    saved.add_tokens([AddedToken("<speaker>", normalized=True)])
    shutil.rmtree(os.path.join(folder, "qwen2"))
    saved.save_pretrained(os.path.join(folder, "qwen2"))

    for name, lower in (("bert", True), ("bert_cased", False)):
        put(name + "/vocab.txt", "".join(piece + "\n" for piece in pieces()))
        put(name + "/tokenizer_config.json", {"tokenizer_class": "BertTokenizer", "do_lower_case": lower})
    saved = AutoTokenizer.from_pretrained(os.path.join(folder, "bert"))
    saved.add_tokens([AddedToken("<Speaker>", normalized=True)])
    shutil.rmtree(os.path.join(folder, "bert"))
    saved.save_pretrained(os.path.join(folder, "bert"))
    return ["gpt2", "prefix", "added", "llama3", "qwen2", "bert", "bert_cased"] + build_sentence(folder)


def ids_of(tokenizer, texts, special):
    return tokenizer(texts, split_special_tokens=not special)["input_ids"]


def fnv(lists):
    value = 0x811C9DC5
    for ids in lists:
        for byte in struct.pack(f"<{len(ids) + 1}I", *ids, 0xFFFFFFFF):
            value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return f"{value:08x}"


def is_checked(name, start):
    """Whether a block of code points is. Tokenizers of SentencePiece's kind know no classes of characters: some blocks are enough."""
    return name not in SENTENCE or start in (0, 0x1000, 0x2000, 0x3000, 0xF000, 0x1F000, 0x10F000)


def write(only):
    from transformers import AutoTokenizer
    if not only:
        shutil.rmtree(OUT, ignore_errors=True)
    os.makedirs(OUT, exist_ok=True)
    texts = strings(1, 2000)
    with open(os.path.join(OUT, "strings.json"), "w", encoding="utf-8", newline="\n") as out:
        json.dump(texts, out, ensure_ascii=False, indent=0)
    with tempfile.TemporaryDirectory() as folder:
        names = [name for name in build(folder) if name in only or not only]
        for name in names:
            shutil.copytree(os.path.join(folder, name), os.path.join(OUT, name), dirs_exist_ok=True)
    for name in names:
        tokenizer = AutoTokenizer.from_pretrained(os.path.join(OUT, name))
        with open(os.path.join(OUT, name, "ids.txt"), "w", encoding="ascii") as out:
            for special in (False, True):
                out.write("\n".join(fnv([ids]) for ids in ids_of(tokenizer, texts, special)) + "\n")
            for context in CONTEXTS:
                for start in range(0, 0x110000, BLOCK):
                    block = [context.format(chr(code)) for code in range(max(start, 1), start + BLOCK) if not 0xD800 <= code < 0xE000 and is_checked(name, start)]
                    out.write((fnv(ids_of(tokenizer, block, False)) if block else "none") + "\n")
            if name in SENTENCE:
                for ids in tokenizer(texts, split_special_tokens=True, add_special_tokens=False)["input_ids"]:
                    out.write(fnv([list(tokenizer.decode(ids, clean_up_tokenization_spaces=False).encode())]) + "\n")
        print(name, len(tokenizer))


def live(program, seed):
    from transformers import AutoTokenizer
    texts, wrong = strings(seed, 2000), 0
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "strings.jsonl")
        with open(source, "w", encoding="utf-8") as out:
            out.writelines(json.dumps({"text": text}) + "\n" for text in texts)
        for name in build(folder):
            place = os.path.join(folder, name)
            tokenizer = AutoTokenizer.from_pretrained(place)
            for option in ([], ["--special-tokens"]):
                out = os.path.join(folder, "out")
                shutil.rmtree(out, ignore_errors=True)
                subprocess.run([program, "data", "prepare", source, "--json-key", "text", "--tokenizer", place, "--split", "0", "--out", out, *option],
                               check=True, stdout=subprocess.DEVNULL)
                with open(os.path.join(out, "train_000.bin"), "rb") as shard:
                    data = shard.read()[1024:]
                made = list(struct.unpack(f"<{len(data) // 2}H", data))
                wanted = []
                for ids in ids_of(tokenizer, texts, bool(option)):
                    wanted += ([tokenizer.eos_token_id] if wanted and tokenizer.eos_token_id is not None else []) + ids
                if made != wanted:
                    at = next((i for i, pair in enumerate(zip(made, wanted)) if pair[0] != pair[1]), min(len(made), len(wanted)))
                    print(f"WRONG {name} {option}: id {at} of {len(made)} and {len(wanted)}: {made[at - 4:at + 8]}, transformers: {wanted[at - 4:at + 8]}: "
                          + repr(tokenizer.decode(wanted[max(0, at - 12):at + 8])))
                    wrong += 1
    print(f"{wrong} of 24 differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        sys.exit(write(sys.argv[2:]))
    if len(sys.argv) == 4 and sys.argv[1] == "live":
        sys.exit(live(sys.argv[2], int(sys.argv[3])))
    print(__doc__.strip())
    sys.exit(0 if sys.argv[1:] == ["--help"] else 2)
