#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes engine/data/tokenizer/wordpiece_tables.h: the treatment of each character by BERT's
normaliser and splitter.

usage: make_wordpiece_tables.py

The tables come from the Python package tokenizers, which must be installed: the script calls it for each code
point, because its own tables come from several versions of Unicode, and token ids must equal those of
tokenizers.
"""
import os
import sys

from make_unicode_tables import array, runs
from tokenizers import __version__, normalizers, pre_tokenizers

DROPPED, SPACE, PUNCTUATION, MARK = 1, 2, 4, 8
TWO_CHARACTERS = 0x130


def normaliser(**on):
    flags = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    return normalizers.BertNormalizer(**{**flags, **on}).normalize_str


def class_of(code, clean, strip, decompose, split):
    if 0xD800 <= code < 0xE000:
        return DROPPED
    x = chr(code)
    bits = DROPPED if clean(f"a{x}b") == "ab" else 0
    words = [word for word, _ in split(f"a{x}b")]
    if words != [f"a{x}b"]:
        bits |= SPACE if words == ["a", "b"] else PUNCTUATION
    if decompose(x) == x and strip(x) == "":
        bits |= MARK
    return bits


def main():
    if len(sys.argv) != 1:
        print(__doc__.strip())
        return 0 if sys.argv[1:] == ["--help"] else 2
    clean, strip, lower = normaliser(clean_text=True), normaliser(strip_accents=True), normaliser(lowercase=True)
    decompose, split = normalizers.NFD().normalize_str, pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    classes = runs(lambda code: class_of(code, clean, strip, decompose, split))
    smaller = {code: lower(chr(code)) for code in range(0x110000) if not 0xD800 <= code < 0xE000 and lower(chr(code)) != chr(code)}
    assert [code for code, text in smaller.items() if len(text) != 1] == [TWO_CHARACTERS]
    pairs = [code << 21 | ord(text) for code, text in smaller.items() if len(text) == 1]
    body = ("/* first code point << 4 | dropped by cleaning 1, white space 2, punctuation 4, mark without width 8 */\n"
            + array("uint32_t", "wordpiece_runs", [code << 4 | bits for code, bits in classes], 1)
            + "\n/* capital letter << 21 | its small letter; not U+0130, which becomes two characters */\n"
            + array("uint64_t", "small_letters", pairs, 1))
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "engine", "data", "tokenizer", "wordpiece_tables.h")
    with open(path, "w", encoding="ascii") as out:
        out.write("/* SPDX-License-Identifier: Apache-2.0\n *\n * What BERT's normaliser and splitter do with characters, as in version "
                  f"{__version__} of the tokenizers library.\n * Written by scripts/make_wordpiece_tables.py.\n */\n"
                  "#ifndef ENGINE_DATA_TOKENIZER_WORDPIECE_TABLES_H\n#define ENGINE_DATA_TOKENIZER_WORDPIECE_TABLES_H\n\n"
                  f"#include <stdint.h>\n\n/* clang-format off */\n{body}/* clang-format on */\n\n#endif\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
