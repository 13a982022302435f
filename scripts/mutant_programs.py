# SPDX-License-Identifier: Apache-2.0
"""The programs that checks build, as the compiler sees them. Finds the programs that a mutant changes, and the checks that run them.

A program is a kernel file with options. Its live text is the preprocessor's output without the functions that its kernel does not
call. An edit that does not change the live text of any program cannot be noticed, because the compiler gets the same code.
"""
import collections
import os
import re
import subprocess

from mutants import TOKEN

INCLUDE = re.compile(r'\s*#\s*include\s*"([^"]+)"')
OPTION = re.compile(r"#pragma option (\w+) ([^\n]+)")
LOGGED = re.compile(r"(?:debug|trace): program '([^']+)' \((.*)\): (?:[0-9.]+ s, |used again)")
RESULT = re.compile(r"(PASS|FAIL|SKIP|UNIMPL|MISTRUST) +(\S+)(?:.* ([0-9.]+) ms)?")

Check = collections.namedtuple("Check", "name ms programs")  # programs: indices into Recorded.programs


def option_defaults(text):
    """Replaces `#pragma option NAME VALUE` as the build does (cl/kernels/embed.cmake)."""
    return OPTION.sub(r"#ifndef \1\n#define \1 \2\n#endif", text)


def expand(texts, file, depth=0):
    """The text of a file with its includes inserted, and a #line before each piece."""
    out = [f'#line 1 "{file}"']
    for number, line in enumerate(texts[file].split("\n"), 1):
        m = INCLUDE.match(line)
        if m and m.group(1) in texts and depth < 8:
            out += [expand(texts, m.group(1), depth + 1), f'#line {number + 1} "{file}"']
        elif line.startswith("#pragma option"):
            out += [option_defaults(line), f'#line {number + 1} "{file}"']
        else:
            out.append(line)
    return "\n".join(out)


def closure(texts, file, seen=None):
    """The names of the file and of all files that it includes, directly or not."""
    seen = set() if seen is None else seen
    if file in texts and file not in seen:
        seen.add(file)
        for m in re.finditer(r'^\s*#\s*include\s*"([^"]+)"', texts[file], re.M):
            closure(texts, m.group(1), seen)
    return seen


def preprocess(text, options, defines):
    """The output of cpp with line markers and the names of the macros it used (-dU)."""
    macros = [word for word in options.split() if word.startswith("-D")]
    run = subprocess.run(["cpp", "-undef", "-w", "-dU", *defines, *macros, "-"], input=text, capture_output=True, text=True, check=False)
    return run.stdout


class Item:
    """A function of a program, or a declaration."""

    def __init__(self, tokens, lines):
        self.text, self.lines, self.name, self.kernel = " ".join(tokens), lines, None, False
        depth = 0
        for word, after in zip(tokens, tokens[1:]):
            if depth == 0 and word in ("{", "="):
                break
            if depth == 0 and after == "(" and re.match(r"[A-Za-z_]\w*$", word) and word != "__attribute__" and self.name is None:
                self.name = word
            self.kernel = self.kernel or depth == 0 and word == "__kernel"
            depth += (word == "(") - (word == ")")
        self.function = self.name is not None and tokens[-1] == "}"
        self.words = set(tokens)


def items_of(output):
    """(items, names of macros used) of the preprocessor's output."""
    items, macros, file, number = [], set(), "", 0
    words, lines, depth, call = [], set(), 0, 0
    for row in output.split("\n"):
        if row.startswith("# "):
            m = re.match(r'# (\d+) "([^"]*)"', row)
            if m:
                number, file = int(m.group(1)), m.group(2)
            continue
        if row.startswith("#"):
            m = re.match(r"#define (\w+)", row)
            if m:
                macros.add(m.group(1))
            number += 1
            continue
        for m in TOKEN.finditer(row):
            if m.lastgroup in ("space", "comment"):
                continue
            word = m.group()
            words.append(word)
            lines.add((file, number))
            depth += (word == "{") - (word == "}")
            call += (word in "([") - (word in ")]")
            if depth == 0 and call == 0 and (word == ";" or word == "}" and ")" in words and "typedef" not in words[:1]):
                items.append(Item(words, lines))
                words, lines = [], set()
        number += 1
    return items, macros


def live(texts, program, defines):
    """(live text, {(file, line)} of its functions, macros used) of a program (family, options)."""
    family, options = program
    items, macros = items_of(preprocess(expand(texts, family + ".cl"), options, defines))
    only = re.search(r"-DONLY=(\w+)", options)
    functions = {i.name: i for i in items if i.function}
    todo = [i for i in items if i.function and i.kernel and (only is None or i.name == only.group(1))]
    kept = set()
    while todo:
        item = todo.pop()
        if item.name not in kept:
            kept.add(item.name)
            todo += [functions[word] for word in item.words if word in functions]
    chosen = [i for i in items if not i.function or i.name in kept]
    return "\n".join(i.text for i in chosen), set().union(*(i.lines for i in chosen)) if chosen else set(), macros


class Recorded:
    """The record of one run of all checks on a device: its programs, its checks, and the lines of code of each program."""

    def __init__(self, log, texts, defines):
        self.texts, self.defines = texts, defines
        self.programs, self.checks, index, used = [], [], {}, []
        for line in log:
            m = LOGGED.match(line)
            if m:
                key = m.group(1), m.group(2)
                if key not in index and m.group(1) + ".cl" in texts:
                    index[key] = len(self.programs)
                    self.programs.append(key)
                if key in index:
                    used.append(index[key])
                continue
            m = RESULT.match(line)
            if m:
                if m.group(1) == "PASS":
                    self.checks.append(Check(m.group(2), float(m.group(3) or 0), sorted(set(used))))
                used = []
        self.live = [live(texts, p, defines) for p in self.programs]
        self.by_line, self.by_macro = collections.defaultdict(list), collections.defaultdict(list)
        files = {f + ".cl": closure(texts, f + ".cl") for f, _ in self.programs}
        self.files = [files[f + ".cl"] for f, _ in self.programs]
        for i, (_, lines, macros) in enumerate(self.live):
            for place in lines:
                self.by_line[place].append(i)
            for name in macros:
                self.by_macro[name].append(i)
        self.cheapest = {}
        for check in self.checks:
            for p in check.programs if not check.name.endswith("bitwise") else []:
                if p not in self.cheapest or check.ms < self.cheapest[p].ms:
                    self.cheapest[p] = check
        self.by_program = collections.defaultdict(list)  # checks of correct results and gradients, the cheapest first
        for check in sorted(self.checks, key=lambda c: c.ms):
            for p in check.programs if not check.name.endswith("bitwise") else []:
                self.by_program[p].append(check)

    def candidates(self, mutant):
        """Programs that the mutant may change; programs with quick checks, of different kernels, come first."""
        if mutant.macro is not None:
            near = [p for p in self.by_macro[mutant.macro] if mutant.file in self.files[p]]
        else:
            ends = mutant.line + mutant.old.count("\n")
            near = sorted({p for line in range(mutant.line, ends + 1) for p in self.by_line[mutant.file, line]})
        turn, order = collections.Counter(), []
        for p in sorted((p for p in near if p in self.cheapest), key=lambda p: self.cheapest[p].ms):
            family, options = self.programs[p]
            kernel = (re.search(r"-DONLY=\w+", options) or [family])[0]
            order.append((turn[kernel], p))
            turn[kernel] += 1
        return [p for _, p in sorted(order, key=lambda pair: pair[0])]

    def changed(self, mutant, program):
        """True if the mutant changes the live text of this program."""
        texts = {**self.texts, mutant.file: mutant.apply(self.texts[mutant.file])}
        return live(texts, self.programs[program], self.defines)[0] != self.live[program][0]


