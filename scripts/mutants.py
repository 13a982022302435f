# SPDX-License-Identifier: Apache-2.0
"""Mutants of kernels: small wrong edits of OpenCL C, made by rules from the tokens of the code.

A mutant replaces one piece of one file. Comments, strings, attributes, sizes of arrays in declarations, and directives except the
bodies of macros are not changed. Edits whose form shows that they change nothing, such as x + 0 -> x - 0, are skipped.
The list of mutants depends only on the text of the kernels.
"""
import collections
import glob
import os
import re

TOKEN = re.compile(r"""
    (?P<comment>/\*.*?\*/|//[^\n]*)
   |(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
   |(?P<space>(?:[ \t\r\f\v]|\\\n)+)
   |(?P<newline>\n)
   |(?P<number>0[xX][0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?(?:[pP][+-]?\d+)?[uUlLfF]*
              |(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?[uUlLfF]*)
   |(?P<word>[A-Za-z_]\w*)
   |(?P<op>\+\+|--|<<=|>>=|[-+*/%&|^]=|&&|\|\||<<|>>|<=|>=|==|!=|\#\#|->|.)
""", re.X | re.S)
TYPE = re.compile(r"(u?char|u?short|u?int|u?long|float|double|half|size_t|bool|void|REALS|CLT_REAL|CLT_INT)\d*$")
KEYWORDS = {"return", "case", "else", "sizeof", "if", "for", "while", "do", "switch", "typedef", "struct", "static", "const", "goto"}

# operator -> its replacements
OPERATORS = {
    "+": ["-"], "-": ["+"], "*": ["+"], "/": ["*"], "%": ["/"], "<<": [">>"], ">>": ["<<"], "&": ["|"], "|": ["&"], "^": ["|"],
    "&&": ["||"], "||": ["&&"], "+=": ["-="], "-=": ["+="], "*=": ["+="], "/=": ["*="], "|=": ["&="], "&=": ["|="], "^=": ["|="],
    "<<=": [">>="], ">>=": ["<<="],
}
# a looser and a tighter bound
BOUNDS = {"<": ["<=", "+ 1 <"], "<=": ["<"], ">": [">=", "> 1 +"], ">=": [">"], "==": ["!="], "!=": ["=="]}
WORDS = {
    "fmin": "fmax", "fmax": "fmin", "min": "max", "max": "min", "floor": "ceil", "ceil": "floor", "any": "all", "all": "any",
    "exp": "exp2", "log": "log2", "rsqrt": "sqrt", "sqrt": "", "fabs": "", "abs": "", "rint": "floor", "true": "false",
    "false": "true", "get_local_id": "get_group_id", "get_group_id": "get_local_id", "get_global_id": "get_local_id",
    "hadd": "rhadd", "copysign": "fmax",
}
PARTS = {"x": "y", "y": "x", "z": "w", "w": "z", "lo": "hi", "hi": "lo", "even": "odd", "odd": "even", "s0": "s1", "s1": "s0"}
SWAPPED = {"fma": (1, 2), "mad": (1, 2), "select": (0, 1), "bitselect": (0, 1)}  # the arguments that change places
HINTS = re.compile(r"(CLT_FORGET|prefetch|PREFETCH\w*|.*_AHEAD)$")  # statements that change no value
# Kernels that probe or time a device; no check uses their results.
OUTSIDE = {"probe.cl", "probe_wgmma.cl", "measure.cl", "warnings.clh"}

Token = collections.namedtuple("Token", "kind text start end macro")  # macro: the name of the macro whose body it is in, or None


class Mutant:
    """Replaces text[start:end] of a file by `new`."""

    def __init__(self, file, text, start, end, new, kind, macro):
        self.file, self.start, self.end, self.new, self.kind, self.macro = file, start, end, new, kind, macro
        self.old = text[start:end]
        self.line = text.count("\n", 0, start) + 1
        first = text.rfind("\n", 0, start) + 1
        self.column = start - first + 1
        self.line_text = squeeze(text[first:text.find("\n", start)])
        self.number = 0
        self.key = ""

    def __str__(self):
        return f"{self.file}:{self.line}:{self.column}: {self.kind}: {squeeze(self.old)} -> {squeeze(self.new) or '(nothing)'}"

    def apply(self, text):
        return text[:self.start] + self.new + text[self.end:]


def squeeze(text):
    return " ".join(text.replace("\\\n", " ").split()).removesuffix(" \\")


def kernel_files(root):
    """Base name -> path of every kernel source: the same files that CMakeLists.txt embeds."""
    paths = [p for room in ("cl", "engine") for end in ("cl", "clh") for p in glob.glob(f"{root}/{room}/**/*.{end}", recursive=True)]
    return {os.path.basename(p): p for p in sorted(paths, key=os.path.basename)}


def tokens(text):
    """The tokens of code, including the bodies of macros, without comments, spaces and other directives. A string is one token."""
    found, directive, macro, fresh = [], None, None, True
    for m in TOKEN.finditer(text):
        kind = m.lastgroup
        if kind == "newline":
            if macro is not None or directive is not None:
                found.append(Token("op", ";end", m.start(), m.start(), None))  # ends statements
            directive, macro, fresh = None, None, True
        elif kind in ("comment", "space"):
            continue
        elif directive is None and fresh and m.group() == "#":
            directive, fresh = "#", False
        elif directive == "#":
            directive = m.group()
        elif directive == "define":
            macro = m.group()
            directive = "head" if text[m.end():m.end() + 1] == "(" else "body"
            if directive == "body":
                found.append(Token("op", ";begin", m.end(), m.end(), macro))
        elif directive == "head":
            if m.group() == ")":
                directive = "body"
                found.append(Token("op", ";begin", m.end(), m.end(), macro))
        elif directive in (None, "body"):
            fresh = False
            found.append(Token(kind, m.group(), m.start(), m.end(), macro))
    return found


def closing(list_, at):
    """The index of the bracket that closes list_[at], or None."""
    depth = 0
    for i in range(at, len(list_)):
        if list_[i].text in ("(", "[", "{"):
            depth += 1
        elif list_[i].text in (")", "]", "}"):
            depth -= 1
            if depth == 0:
                return i
        elif list_[i].text == ";end":
            return None
    return None


def opening(list_, at):
    """The index of the bracket that list_[at] closes, or None."""
    depth = 0
    for i in range(at, -1, -1):
        depth += (list_[i].text in ")]}") - (list_[i].text in "([{")
        if depth == 0:
            return i
        if list_[i].text == ";begin":
            return None
    return None


def begins_statement(list_, i):
    """True if list_[i] is the first token of a statement. If `)` comes before it, that must end the head of a loop or condition, or a
    macro call."""
    before = list_[i - 1].text if i else ";"
    if before == ")":
        first = opening(list_, i - 1)
        return bool(first) and list_[first - 1].kind == "word" and (
            list_[first - 1].text in ("if", "for", "while") or list_[first - 1].text.isupper())
    return before in (";", "{", "}", "else", ";begin", ";end")


def untouchable(list_):
    """Indices of tokens in attributes and in the sizes of declared arrays."""
    skip = set()
    for i, t in enumerate(list_):
        if t.text == "__attribute__" and i + 1 < len(list_):
            skip.update(range(i, (closing(list_, i + 1) or i) + 1))
        elif t.text == "[" and i >= 2 and list_[i - 1].kind == "word" and (
                TYPE.match(list_[i - 2].text) or (list_[i - 2].text == ")" and list_[i - 3].text.startswith("DT"))):
            skip.update(range(i, (closing(list_, i) or i) + 1))
    return skip


def other_numbers(text):
    """The numbers with which mutants replace this number."""
    m = re.match(r"(0[xX])([0-9a-fA-F]+)([uUlL]*)$", text)
    if m:
        return [f"0x{int(m.group(2), 16) ^ 1:x}{m.group(3)}"]
    m = re.match(r"(\d+)([uUlL]*)$", text)
    if m:
        value = int(m.group(1))
        return [f"{v}{m.group(2)}" for v in ([1] if value == 0 else [0, 2] if value == 1 else [value + 1])]
    value = float.fromhex(text.rstrip("fF")) if text[:2].lower() == "0x" else float(text.rstrip("fF"))
    return ["1.0f"] if value == 0 else ["0.0f", f"(2.0f * {text})"] if value == 1 else ["0.0f"] if value < 1e-3 else [f"(2.0f * {text})"]


def is_binary(list_, i):
    before, after = list_[i - 1], list_[i + 1] if i + 1 < len(list_) else list_[i]
    if i == 0 or after.text in ("restrict", "const", "volatile", ")", ",", ";", ";end"):
        return False
    if before.kind == "word":
        return before.text not in KEYWORDS and not TYPE.match(before.text)
    if before.text == ")":
        first = opening(list_, i - 1)
        return not (first and list_[first - 1].text == "STORAGE")
    return before.kind == "number" or before.text == "]"


def leaves_to_rest(list_, i):
    """True if list_[i] is the <= of a loop `c + W <= n; c += W` that is followed by a loop over the rest: with < the second loop would
    compute the last W elements, with the same result."""
    words = [t.text for t in list_[max(i - 3, 0):i + 70]]
    if len(words) < 9 or words[1] != "+" or words[5:10] != [";", words[0], "+=", words[2], ")"]:
        return False
    return any(words[k:k + 5] == ["for", "(", ";", words[0], "<"] for k in range(10, len(words) - 4))


def of_operator(list_, i):
    """(new text, kind) of the operator's mutants."""
    t, after = list_[i], list_[i + 1].text if i + 1 < len(list_) else ""
    if t.text == "<=" and leaves_to_rest(list_, i):
        return []
    if t.text in BOUNDS:
        return [(new, "bound" if t.text[0] in "<>" else "comparison") for new in BOUNDS[t.text]]
    if t.text in OPERATORS:
        if not is_binary(list_, i):
            return [("", "sign")] if t.text == "-" and after[:1] not in "0123456789." else []
        zero, one = re.match(r"0[uUlL]*$|0\.0f$", after), re.match(r"1[uUlL]*$|1\.0f$", after)
        if (zero and t.text in ("+", "-", "<<", ">>", "+=", "-=")) or (one and t.text in ("/", "/=")):
            return []
        return [(new, "operator") for new in OPERATORS[t.text]]
    if t.text in ("!", "~") and i and not is_binary(list_, i):
        return [("", "negation")]
    if t.text == "++" and i and (list_[i - 1].kind == "word" or list_[i - 1].text == "]") and after in (")", ";", ";end"):
        return [(" += 2", "stride")]
    return []


def of_word(list_, i):
    t, before, after = list_[i], list_[i - 1].text if i else "", list_[i + 1].text if i + 1 < len(list_) else ""
    if before in (".", "->"):
        return [(PARTS[t.text], "part")] if t.text in PARTS else []
    if t.text in WORDS and (after == "(" or t.text in ("true", "false")):
        return [(WORDS[t.text], "function")]
    rounding = re.sub(r"_rte\b", "_rtz", t.text)
    if rounding != t.text:
        return [(rounding, "conversion")]
    if re.match(r"convert_\w+_sat", t.text):
        return [(t.text.replace("_sat", ""), "conversion")]
    return []


def swapped_arguments(text, list_, i):
    """The call list_[i](...) with two arguments exchanged, as (start, end, new), or None."""
    end = closing(list_, i + 1) if i + 1 < len(list_) and list_[i + 1].text == "(" else None
    if end is None:
        return None
    cuts, depth = [i + 1], 0
    for k in range(i + 2, end):
        depth += (list_[k].text in "([{") - (list_[k].text in ")]}")
        if list_[k].text == "," and depth == 0:
            cuts.append(k)
    cuts.append(end)
    if len(cuts) != 4:
        return None
    spans = [(list_[a].end, list_[b].start) for a, b in zip(cuts, cuts[1:])]
    a, b = (spans[n] for n in SWAPPED[list_[i].text])
    one, other = text[slice(*a)], text[slice(*b)]
    lead = len(one) - len(one.lstrip()), len(other) - len(other.lstrip())
    new = one[:lead[0]] + other[lead[1]:] + text[a[1]:b[0]] + other[:lead[1]] + one[lead[0]:]
    return None if squeeze(one) == squeeze(other) else (a[0], b[1], new)


def statement_end(list_, i):
    """The index of the ; that ends the statement at list_[i], if a mutant can remove it: an assignment, a call, or a jump. Else None."""
    if list_[i].text in ("return", "break", "continue"):
        return i + 1 if i + 1 < len(list_) and list_[i + 1].text == ";" else None
    if list_[i].kind != "word" or list_[i].text in KEYWORDS or TYPE.match(list_[i].text) or HINTS.match(list_[i].text):
        return None
    if i + 1 >= len(list_) or list_[i + 1].kind == "word" or list_[i + 1].text not in ("=", "(", "[", ".", "->", "++", "--") and (
            list_[i + 1].text not in OPERATORS or not list_[i + 1].text.endswith("=")):
        return None
    depth, assigns = 0, False
    for k in range(i, len(list_)):
        word = list_[k].text
        depth += (word in "([{") - (word in ")]}")
        if depth < 0 or word in ("{", ";end", ";begin"):
            return None
        if depth == 0 and word == ";":
            call = list_[i + 1].text == "(" and closing(list_, i + 1) == k - 1
            return k if assigns or call or word == "++" else None
        assigns = assigns or depth == 0 and (word == "=" or word.endswith("=") and word in OPERATORS or word in ("++", "--"))
    return None


def in_file(file, text):
    list_ = tokens(text)
    skip, out = untouchable(list_), []

    def add(start, end, new, kind, macro):
        out.append(Mutant(file, text, start, end, new, kind, macro))

    for i, t in enumerate(list_):
        if i in skip or t.text in (";begin", ";end"):
            continue
        before = list_[i - 1].text if i else ";"
        if begins_statement(list_, i):
            end = statement_end(list_, i)
            if end is not None:
                kept = "".join(re.findall(r"[ \t]*\\\n|\n", text[t.start:list_[end].start]))
                add(t.start, list_[end].start, kept, "barrier" if "barrier" in t.text else "removed", t.macro)
        if t.text == "if" and i + 1 < len(list_) and (end := closing(list_, i + 1)):
            inside = text[list_[i + 1].start:list_[end].end]
            add(list_[i + 1].start, list_[end].end, f"(!{inside})", "condition", t.macro)
        if t.kind == "number" and not (before == "(" and i > 1 and list_[i - 2].text == "while") and before not in ("##", "."):
            if not (t.text == "0" and i > 1 and list_[i - 2].text == "void"):
                for new in other_numbers(t.text):
                    add(t.start, t.end, new, "constant", t.macro)
        elif t.kind == "word":
            for new, kind in of_word(list_, i):
                add(t.start, t.end, new, kind, t.macro)
            if t.text in SWAPPED and (span := swapped_arguments(text, list_, i)):
                add(*span, "arguments", t.macro)
        elif t.kind == "op":
            for new, kind in of_operator(list_, i):
                add(t.start, t.end, new, kind, t.macro)
    return out


def all_mutants(root):
    """Every mutant of the kernels under `root`, numbered from 1; also {file: text}."""
    texts = {name: open(path, encoding="utf-8").read() for name, path in kernel_files(root).items()}
    out, seen = [], collections.Counter()
    for name, text in texts.items():
        for m in in_file(name, text) if name not in OUTSIDE else []:
            key = f"{m.file} :: {m.line_text} :: {squeeze(m.old)} -> {squeeze(m.new) or '(nothing)'}"
            seen[key] += 1
            m.key = key if seen[key] == 1 else f"{key} #{seen[key]}"
            out.append(m)
            m.number = len(out)
    return out, texts
