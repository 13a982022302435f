#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes unicode_classes.h, unicode_compose.h and unicode_uncertain.h in engine/data/texts: tables that split texts
into words and normalise them.

usage: make_unicode_tables.py AGES

AGES is DerivedAge.txt of the Unicode Character Database (Debian's package unicode-data, /usr/share/unicode). The classes of characters have
the Unicode version of the Python module unicodedata2, or of unicodedata where that is not installed; ids equal those of transformers if
it is the version of the tokenizers library (16.0 since 0.22). Normal form C has the version of that library, too, which is older: 9.0.
"""
import os
import sys

try:
    import unicodedata2 as unicodedata
except ImportError:
    import unicodedata

COMPOSE_VERSION = (9, 0)
LETTER, NUMBER, SPACE, WORD = 1, 2, 4, 8
SPACES = {*range(0x9, 0xE), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}
# Symbols that have the property Alphabetic: letters in circles and squares.
CIRCLED = {*range(0x24B6, 0x24EA), *range(0x1F130, 0x1F14A), *range(0x1F150, 0x1F16A), *range(0x1F170, 0x1F18A)}
JOINERS = {0x200C, 0x200D}


def class_of(code):
    category = unicodedata.category(chr(code))
    bits = LETTER if category[0] == "L" else NUMBER if category[0] == "N" else 0
    if code in SPACES:
        bits |= SPACE
    if category[0] in "LM" or category in ("Nd", "Nl", "Pc") or code in CIRCLED or code in JOINERS:
        bits |= WORD
    return bits


def runs(function):
    """Lists the first code point of every run of equal values, with the value."""
    result, last = [], None
    for code in range(0x110000):
        value = function(code)
        if value != last:
            result.append((code, value))
            last = value
    return result


def array(kind, name, values, digits):
    lines, line = [], "   "
    for value in values:
        word = f" 0x{value:0{digits}x},"
        if len(line) + len(word) > 108:
            lines.append(line)
            line = "   "
        line += word
    lines.append(line)
    return f"static const {kind} {name}[{len(values)}] = {{\n" + "\n".join(lines) + "\n};\n"


def write(name, comment, body):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "engine", "data", "texts", name)
    guard = "ENGINE_DATA_TEXTS_" + name.upper().replace(".", "_")
    with open(path, "w", encoding="ascii") as out:
        out.write(f"/* SPDX-License-Identifier: Apache-2.0\n *\n{comment} */\n"
                  f"#ifndef {guard}\n#define {guard}\n\n#include <stdint.h>\n\n/* clang-format off */\n{body}/* clang-format on */\n\n#endif\n")


def uncertain_pages(pairs, orders):
    """The characters that normal form C may change or join to an earlier one, as bits in distinct pages of 256."""
    kept = [pair >> 1 & (1 << 42) - 1 for pair in pairs if not pair & 1]
    found = {pair >> 43 for pair in pairs if pair & 1} | {parts & (1 << 21) - 1 for parts in kept}
    found |= {*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)}
    for (first, order), (end, _) in zip(orders, [*orders[1:], (0x110000, 0)]):
        found.update(range(first, end) if order else ())
    words = {code >> 5: 0 for code in range(0, (max(found) | 0xFF) + 1, 32)}
    for code in found:
        words[code >> 5] |= 1 << (code & 31)
    pages = [tuple(words[at + i] for i in range(8)) for at in range(0, len(words), 8)]
    distinct = sorted(set(pages))
    return [distinct.index(page) for page in pages], [word for page in distinct for word in page]


def read_ages(path):
    ages = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            fields = [part.strip() for part in line.split("#")[0].split(";")]
            if len(fields) == 2:
                ends = [int(end, 16) for end in fields[0].split("..")]
                age = tuple(int(part) for part in fields[1].split("."))
                ages.update((code, age) for code in range(ends[0], ends[-1] + 1))
    return ages


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__.strip())
        return 0 if sys.argv[1:] == ["--help"] else 2
    ages = read_ages(sys.argv[1])
    version = unicodedata.unidata_version.rsplit(".", 1)[0]
    write("unicode_classes.h", f" * Letters, numbers, white space and characters of words in Unicode {version}: runs of code points with equal\n"
          " * classes. Written by scripts/make_unicode_tables.py.\n",
          f"#define CLT_UNICODE_VERSION \"{version}\"\n"
          "/* first code point << 4 | letter 1, number 2, white space 4, character of a word 8 */\n"
          + array("uint32_t", "class_runs", [code << 4 | bits for code, bits in runs(class_of)], 1)
          + array("uint8_t", "ascii_classes", [class_of(code) for code in range(128)], 1))

    def known(code):
        return ages.get(code, (99,)) <= COMPOSE_VERSION

    pairs = []
    for code in range(0x110000):
        parts = unicodedata.decomposition(chr(code))
        if parts and not parts.startswith("<") and known(code):
            first, second = ([int(part, 16) for part in parts.split()] + [0])[:2]
            excluded = unicodedata.normalize("NFC", chr(code)) != chr(code)
            pairs.append(code << 43 | first << 22 | second << 1 | excluded)
    made = [(pair >> 1 & (1 << 42) - 1, at) for at, pair in enumerate(pairs) if not pair & 1]
    orders = runs(lambda code: unicodedata.combining(chr(code)) if known(code) else 0)
    numbers, words = uncertain_pages(pairs, orders)
    wanted = ".".join(str(part) for part in COMPOSE_VERSION)
    write("unicode_compose.h", f" * Canonical decompositions and combining classes of Unicode {wanted}. Written by\n"
          " * scripts/make_unicode_tables.py.\n",
          "/* character << 43 | first part << 22 | second part or 0 << 1 | 1 if the parts are not composed again */\n"
          + array("uint64_t", "decompositions", pairs, 1)
          + "\n/* places in this table of those that are composed, in the order of their parts */\n"
          + array("uint16_t", "compositions", [at for _, at in sorted(made)], 1)
          + "\n/* first code point << 8 | combining class, of runs with equal classes */\n"
          + array("uint32_t", "combining_runs", [code << 8 | order for code, order in orders], 1))
    write("unicode_uncertain.h", f" * Characters that normal form C may change or join to an earlier one, in Unicode {wanted}. Written by\n"
          " * scripts/make_unicode_tables.py.\n",
          "/* for each 256 code points the number of a page of 8 words with a bit for each code point */\n"
          + array("uint8_t", "uncertain_page", numbers, 1) + array("uint32_t", "uncertain_bits", words, 1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
