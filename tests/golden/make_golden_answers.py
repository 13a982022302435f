#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exact match and F1 of answers by the rules of SQuAD 2.0's evaluation, written anew from their description (arXiv:1606.05250, arXiv:1806.03822).

usage: make_golden_answers.py     writes tests/golden/tasks/answers.json, which test_answers reads

The rules: small letters; each character of string.punctuation is dropped; a, an and the as whole words become a space; white space is
one space. Exact: the texts are equal. F1: of the multisets of words; without words on one side, 1 if both have none. The best over all
answers that have a word left, or else over the empty answer."""
import json
import os
import re
import string

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tasks", "answers.json")
PAIRS = [
    ("The Denver Broncos", ["Denver Broncos"]), ("denver broncos!", ["Denver Broncos", "the Broncos"]), ("Broncos", ["Denver Broncos", "The Broncos"]),
    ("a an the", ["the"]), ("", []), ("something", []), ("the", []), ("", ["word"]), ("...", ["---"]), ("a", ["the", "b"]),
    ("U.S.A.", ["USA"]), ("state-of-the-art", ["state of the art"]), ("rock 'n' roll", ["rock n roll"]), ("theory of a thing", ["theory of the thing"]),
    ("1,000,000", ["1000000"]), ("$5", ["5"]), ("20%", ["20 percent", "20"]), ("in the year 1999", ["1999", "the year 1999"]),
    ("to be or not to be", ["to be"]), ("be be be", ["be be"]), ("\u00c9COLE", ["\u00e9cole"]), ("\u00c4RGER der Stra\u00dfe", ["\u00e4rger der stra\u00dfe"]),
    ("\u039f\u0394\u039f\u03a3", ["\u03bf\u03b4\u03bf\u03c2"]), ("\u0130stanbul", ["i\u0307stanbul"]), ("\u041c\u041e\u0421\u041a\u0412\u0410", ["\u043c\u043e\u0441\u043a\u0432\u0430"]),
    ("one\u00a0two\u2003three", ["one two three"]), ("one\u001ctwo", ["one two"]), ("one\u0007two", ["one two"]), ("a\u2013b", ["\u2013b"]), ("1914\u20131918", ["1914-1918"]),
    ("\u201cthe end\u201d", ["\u201c \u201d end", "\u201cend\u201d"]), ("\u4e2d\u6587 the \u6771\u4eac", ["\u4e2d\u6587 \u6771\u4eac"]), ("thea\u0301", ["the"]), ("a\u0301b", ["b"]), ("an\u00e9", ["n\u00e9"]),
    ("  leading and trailing  ", ["leading trailing and"]), ("x_a_y", ["xay"]), ("the_end", ["theend"]), ("\u2167 the \u00b2", ["\u2167 \u00b2", "\u2177 \u00b2"]),
    ("\u00a0", ["\u00a0x"]), ("THE THE band", ["The The", "the band"]),
]


def normal(text):
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(?:a|an|the)\b", " ", text).split())


def f1(mine, theirs):
    a, b = mine.split(), theirs.split()
    if not a or not b:
        return float(a == b)
    left, both = list(b), 0
    for word in a:
        if word in left:
            left.remove(word)
            both += 1
    return 2 * both / (len(a) + len(b))


def main():
    cases = []
    for prediction, answers in PAIRS:
        mine = normal(prediction)
        wanted = [normal(a) for a in answers if normal(a)] or [""]
        cases.append({"prediction": prediction, "answers": answers, "exact": max(int(mine == w) for w in wanted), "f1": max(f1(mine, w) for w in wanted)})
    with open(OUT, "w", encoding="ascii", newline="\n") as file:
        file.write("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
