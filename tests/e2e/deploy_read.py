# SPDX-License-Identifier: Apache-2.0
"""Reads the files of deploy/ for deploy_check.py without a library: the part of YAML that they are written in, Terraform's blocks, a
Dockerfile's instructions, commands of the program. What it does not understand is an error that names the line."""
import re
import shlex


class Wrong(Exception):
    """A file that cannot be read."""


def plain(text):
    """A scalar of YAML."""
    text = text.strip()
    if text[:1] in ('"', "'"):
        if len(text) < 2 or text[-1] != text[0]:
            raise Wrong(f'a quote is open: {text}')
        return text[1:-1]
    if text in ('true', 'false'):
        return text == 'true'
    return int(text) if re.fullmatch(r'-?[0-9]+', text) and not re.fullmatch(r'0[0-9]+', text) else text


def flow(text):
    """[a, b], {a: 1}, or a scalar."""
    text = text.strip()
    if text[:1] not in ('[', '{'):
        return plain(text)
    if text[-1] != {'[': ']', '{': '}'}[text[0]]:
        raise Wrong(f'a bracket is open: {text}')
    parts = [part for part in text[1:-1].split(',') if part.strip()]
    if text[0] == '[':
        return [plain(part) for part in parts]
    return {key.strip(): plain(value) for key, value in (part.split(':', 1) for part in parts)}


class Yaml:
    """One file. `lines` are (indent, text, number) without comments and blank lines; `raw` are all lines, for block scalars."""

    def __init__(self, text):
        self.raw = text.split('\n')
        self.anchors = {}
        self.lines = []
        for number, line in enumerate(self.raw):
            if '\t' in line:
                raise Wrong(f'line {number + 1}: a tab')
            body = re.sub(r'(^|\s)#.*$', '', line) if not re.search(r'''["'][^"']*#''', line) else line
            if body.strip():
                self.lines.append((len(body) - len(body.lstrip()), body.strip(), number))
        self.at = 0

    def documents(self):
        found = []
        while self.at < len(self.lines):
            if self.lines[self.at][1] == '---':
                self.at += 1
                continue
            found.append(self.node(0))
            if self.at < len(self.lines) and self.lines[self.at][1] != '---':
                raise Wrong(f'line {self.lines[self.at][2] + 1}: an unexpected indentation')
        return found

    def node(self, indent):
        return self.items(indent) if self.lines[self.at][1].startswith('- ') else self.mapping(indent)

    def items(self, indent):
        found = []
        while self.at < len(self.lines) and self.lines[self.at][0] == indent and self.lines[self.at][1].startswith('- '):
            _, text, number = self.lines[self.at]
            if re.match(r'- [\w./-]+:( |$)', text):  # a mapping that begins in this line
                self.lines[self.at] = (indent + 2, text[2:], number)
                found.append(self.mapping(indent + 2))
            else:
                found.append(flow(text[2:]))
                self.at += 1
        return found

    def mapping(self, indent):
        found = {}
        while self.at < len(self.lines) and self.lines[self.at][0] == indent and self.lines[self.at][1] != '---':
            _, text, number = self.lines[self.at]
            match = re.match(r'([\w./-]+):(?: +(.*))?$', text)
            if not match:
                raise Wrong(f'line {number + 1}: neither a key nor an item: {text}')
            key, value = match[1], match[2] or ''
            if key in found:
                raise Wrong(f'line {number + 1}: the key {key} stands there twice')
            self.at += 1
            found[key] = self.value(value, indent, number)
        return found

    def value(self, text, indent, number):
        anchor = re.match(r'&(\w+)\s*(.*)', text)
        if anchor:
            self.anchors[anchor[1]] = self.value(anchor[2], indent, number)
            return self.anchors[anchor[1]]
        if text.startswith('*'):
            if text[1:] not in self.anchors:
                raise Wrong(f'line {number + 1}: {text} names nothing')
            return self.anchors[text[1:]]
        if text == '|':
            return self.block(indent, number)
        if text:
            return flow(text)
        if self.at < len(self.lines) and (self.lines[self.at][0] > indent or self.lines[self.at][1].startswith('- ')):
            return self.node(self.lines[self.at][0])
        raise Wrong(f'line {number + 1}: a key without a value')

    def block(self, indent, number):
        end = number + 1
        while end < len(self.raw) and (not self.raw[end].strip() or len(self.raw[end]) - len(self.raw[end].lstrip()) > indent):
            end += 1
        lines = self.raw[number + 1:end]
        least = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
        while self.at < len(self.lines) and self.lines[self.at][2] < end:
            self.at += 1
        return '\n'.join(line[least:] for line in lines).rstrip('\n') + '\n'


def yaml(text):
    return Yaml(text).documents()


def terraform(text):
    """Blocks as dictionaries: {'resource aws_instance machine': {'ami': '...', 'metadata_options': {...}}}."""
    root = {}
    stack = [root]
    held = ''
    for number, line in enumerate(text.split('\n'), 1):
        line = re.sub(r'(^|\s)#.*$', '', line).strip()
        if held:
            line, held = f'{held} {line}', ''
        block = re.fullmatch(r'(\w+)((?: "[^"]+")*) \{', line)
        setting = re.fullmatch(r'([\w-]+)\s*= (.*)', line)
        if not line:
            continue
        if block:
            name = ' '.join([block[1], *re.findall(r'"([^"]+)"', block[2])])
            if name in stack[-1]:
                raise Wrong(f'line {number}: {name} stands there twice')
            stack[-1][name] = {}
            stack.append(stack[-1][name])
        elif line == '}' and len(stack) > 1:
            stack.pop()
        elif setting:
            bare = line
            while '${' in bare and bare != (bare := re.sub(r'\$\{[^{}]*\}', '', bare)):  # the innermost first
                pass
            if sum(bare.count(c) for c in '([{') > sum(bare.count(c) for c in ')]}'):
                held = line
            elif setting[1] in stack[-1]:
                raise Wrong(f'line {number}: {setting[1]} stands there twice')
            else:
                stack[-1][setting[1]] = setting[2]
        else:
            raise Wrong(f'line {number}: neither a block nor an argument: {line}')
    if len(stack) > 1 or held:
        raise Wrong('a block is not closed')
    return root


def dockerfile(text):
    """Instructions as (word, rest), without comments."""
    found, held = [], ''
    for line in text.split('\n'):
        if line.strip().startswith('#') or not line.strip():
            continue
        held += line.strip()
        if held.endswith('\\'):
            held = held[:-1]
            continue
        word, _, rest = held.partition(' ')
        found.append((word, rest.strip()))
        held = ''
    return found


def commands(name, text):
    """Commands of the program in a file, each a list of words that begins with `cltrain`."""
    found = []
    if name.startswith('kubernetes/'):
        for document in yaml(text):
            found += [['cltrain', *map(str, c['args'])] for c in containers(document) if 'args' in c]
    else:
        for line in text.replace('\\\n', ' ').split('\n'):
            match = re.search(r'(?:^ {4,}|exec |`)(?:\./|build/)?cltrain ([a-z]+ [^`]*)', re.sub(r'\s#.*$', '', line))
            if match and '...' not in match[1]:
                found.append(['cltrain', *shlex.split(re.split(r"'$|\s[>|&]", match[1])[0])])
    return found


def containers(node):
    """Every container of an object of Kubernetes."""
    if isinstance(node, list):
        return [c for item in node for c in containers(item)]
    if not isinstance(node, dict):
        return []
    return [c for key, value in node.items() for c in (value if key == 'containers' else containers(value))]
