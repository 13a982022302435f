#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ids and trained tokens that transformers' apply_chat_template gives for 200 conversations in every chat template, and ids of 120 conversations
with tools or thoughts.

usage: make_golden_chat.py write     writes tests/golden/chat, which test_golden_chat.c reads; needs trl
       make_golden_chat.py tools     writes the conversations with tools alone; needs trl
       make_golden_chat.py known     checks that the programs of trl's chat templates are those that cltrain recognises, and that ours render as they do

The templates below are written anew, with marks around what is trained. Needs transformers and jinja2 (the golden files: 5.24); `known` needs trl.
"""
import json
import os
import random
import re
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "chat")
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<s>", "</s>",
           "[INST]", "[/INST]"]
SPLIT = {"llama3": r"\p{N}{1,3}", "qwen2": r"\p{N}"}
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
WORDS = ("the and to of a in that is it you for on was with as be this have are not but they his from at we can what said there will would who out up "
         "don't I'm WE'LL 12345678 3.14 def f(x): return x**2 {\"a\": [1,2]} # !! ?! caf\u00e9 cafe\u0301 \u041f\u0440\u0438\u0432\u0435\u0442 \u4f60\u597d "
         "\u3053\u3093\u306b\u3061\u306f \u0645\u0631\u062d\u0628\u0627 \u0928\u092e\u0938\u094d\u0924\u0947 \U0001f600 \u212b \ufb01 \t \r\n").split(" ")


def turn(role, before, text, after, end=None):
    """One turn: `end` and what is before it are trained if the role is the assistant's."""
    inner = text + (" + '%s'" % end if end and end != "eos" else " + eos_token" if end else "")
    body = "{%% generation %%}{{ %s }}{%% endgeneration %%}" % inner if role == "assistant" else "{{ %s }}" % inner
    return "{%% if m.role == '%s' %%}{{ '%s' }}%s{{ '%s' }}{%% endif %%}" % (role, before, body, after)


def chatml(system):
    first = "{%% if messages[0].role != 'system' %%}{{ '<|im_start|>system\\n%s<|im_end|>\\n' }}{%% endif %%}" % system if system else ""
    turns = "".join(turn(r, "<|im_start|>%s\\n" % r, "m.content", "\\n", "<|im_end|>") for r in ("system", "user", "assistant"))
    return first + "{% for m in messages %}" + turns + "{% endfor %}"


def llama3(date):
    head = "<|start_header_id|>%s<|end_header_id|>\\n\\n"
    dated = "Cutting Knowledge Date: December 2023\\nToday Date: %s\\n\\n" % date if date else ""
    turns = "".join(turn(r, head % r, "m.content|trim", "", "<|eot_id|>") for r in ("user", "assistant"))
    if not date:
        return "{{ bos_token }}{% for m in messages %}" + turn("system", head % "system", "m.content|trim", "", "<|eot_id|>") + turns + "{% endfor %}"
    system = "{{ '%s%s' }}{%% if messages[0].role == 'system' %%}{{ messages[0].content|trim }}{%% endif %%}{{ '<|eot_id|>' }}" % (head % "system", dated)
    return "{{ bos_token }}" + system + "{% for m in messages %}" + turns + "{% endfor %}"


def mistral(before, text, question, after):
    return ("{{ bos_token }}{% for m in messages %}" + turn("user", "[INST] ", "m.content", question) + turn("assistant", before, text, after, "eos")
            + "{% endfor %}")


def marked(start, after_question, end_question):
    names = {"system": "System", "user": "User", "assistant": "Assistant"} if start.startswith("#") else {r: r for r in ("system", "user", "assistant")}
    turns = "".join(turn(r, start % names[r], "m.content", "" if r == "assistant" and start.startswith("#") else after_question,
                         "eos" if r == "assistant" or end_question else None) for r in names)
    return "{% for m in messages %}" + turns + "{% endfor %}"


TEMPLATES = {
    "chatml": ("gpt2", chatml("")),
    "qwen2": ("qwen2", chatml("You are a helpful assistant.")),
    "qwen2.5": ("qwen2", chatml("You are Qwen, created by Alibaba Cloud. You are a helpful assistant.")),
    "smollm2": ("gpt2", chatml("You are a helpful AI assistant named SmolLM, trained by Hugging Face")),
    "llama3": ("llama3", llama3("")),
    "llama3.1": ("llama3", llama3("26 Jul 2024")),
    "llama3.2": ("llama3", llama3("29 Nov 2026")),
    "mistral-v0.1": ("gpt2", mistral("", "m.content", " [/INST]", " ")),
    "mistral-v0.2": ("llama3", mistral("", "m.content", " [/INST]", "")),
    "mistral-v0.3": ("gpt2", mistral(" ", "m.content|trim", "[/INST]", "")),
    "zephyr": ("gpt2", marked("<|%s|>\\n", "\\n", True)),
    "plain": ("qwen2", marked("### %s:\\n", "\\n\\n", False)),
}


# The same templates with tokenizers of SentencePiece's kind: Mistral's, without tokens for [INST], and Llama 2's, which puts a space after each token.
SENTENCE = [("mistral-v0.1", "mistral"), ("mistral-v0.2", "mistral"), ("mistral-v0.1", "llama2"), ("mistral-v0.3", "llama2"), ("zephyr", "mistral"),
            ("plain", "llama2")]


def sentence(rng):
    n = rng.randint(1, 7)
    text = rng.choice([" ", " ", " ", "\n", "  "]).join(rng.choice(WORDS) for _ in range(n))
    kind = rng.random()
    text = "\n" + text if kind < .08 else " " + text if kind < .16 else text + "\n\n" if kind < .22 else text + " " if kind < .27 else text
    return text


def conversations():
    rng = random.Random(11)
    result = []
    for i in range(200):
        messages = [{"role": "system", "content": sentence(rng)}] if i % 5 < 2 else []
        for _ in range(rng.randint(1, 3)):
            answer = sentence(rng)
            messages += [{"role": "user", "content": sentence(rng)}, {"role": "assistant", "content": answer if answer.strip() else "yes"}]
        if i % 17 == 0:
            messages.append({"role": "user", "content": sentence(rng)})
        result.append(messages)
    return result


def make_tokenizer(kind):
    """A small tokenizer with the special tokens of all templates, in a folder of tests/golden/chat."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast
    t = Tokenizer(models.BPE(ignore_merges=kind == "llama3"))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind == "gpt2")
    split = [] if kind == "gpt2" else [pre_tokenizers.Split(Regex(PATTERN % SPLIT[kind]), "isolated")]
    t.pre_tokenizer = pre_tokenizers.Sequence(split + [byte_level]) if split else byte_level
    t.normalizer = normalizers.NFC() if kind == "qwen2" else None
    t.decoder = decoders.ByteLevel()
    text = [" ".join(WORDS) + "\n\n" + "system user assistant Cutting Knowledge Date" for _ in range(40)]
    t.train_from_iterator(text, trainers.BpeTrainer(vocab_size=330, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.add_special_tokens(SPECIAL)
    fast = PreTrainedTokenizerFast(tokenizer_object=t, bos_token="<|begin_of_text|>" if kind == "llama3" else "<s>",
                                   eos_token="<|eot_id|>" if kind == "llama3" else "</s>", pad_token="<|endoftext|>")
    fast.save_pretrained(os.path.join(OUT, kind))
    return fast


def make_sentence(kind):
    """A small tokenizer of SentencePiece's kind: mistral with Metaspace, llama2 with a normalizer and special tokens for [INST]."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast
    specials = ["<unk>", "<s>", "</s>"] + (["[INST]", "[/INST]"] if kind == "llama2" else [])
    first = specials + [f"<0x{byte:02X}>" for byte in range(256)]
    base = Tokenizer(models.BPE())
    base.pre_tokenizer = pre_tokenizers.Metaspace()
    text = [" ".join(WORDS[:60]) + " [INST] [/INST] system user assistant" for _ in range(40)]
    base.train_from_iterator(text, trainers.BpeTrainer(vocab_size=len(first) + 180, special_tokens=first, show_progress=False))
    model = json.loads(base.to_str())["model"]
    t = Tokenizer(models.BPE(vocab=model["vocab"], merges=[tuple(pair) for pair in model["merges"]], unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    if kind == "mistral":
        t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    else:
        t.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.add_special_tokens(specials)
    fast = PreTrainedTokenizerFast(tokenizer_object=t, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    fast.save_pretrained(os.path.join(OUT, kind))
    return fast


def fnv(numbers):
    value = 0x811C9DC5
    for n in list(numbers) + [0xFFFFFFFF]:
        for byte in range(4):
            value = ((value ^ (n >> 8 * byte & 0xFF)) * 0x01000193) & 0xFFFFFFFF
    return value


def fits(name, messages):
    """Mistral's templates have no system turn; all other conversations suit every template."""
    return not (name.startswith("mistral") and messages[0]["role"] == "system")


def write():
    shutil.rmtree(OUT, ignore_errors=True)
    os.makedirs(OUT)
    tokenizers = {kind: make_tokenizer(kind) for kind in ("gpt2", "llama3", "qwen2")}
    tokenizers.update((kind, make_sentence(kind)) for kind in ("mistral", "llama2"))
    chats = conversations()
    with open(os.path.join(OUT, "chats.jsonl"), "w", encoding="utf-8", newline="\n") as f:
        for i, messages in enumerate(chats):
            f.write(json.dumps({"messages": messages}, ensure_ascii=i % 2 == 0) + "\n")
    with open(os.path.join(OUT, "sums.txt"), "w", encoding="ascii") as f:
        for name, kind in [(name, kind) for name, (kind, _) in TEMPLATES.items()] + SENTENCE:
            program = TEMPLATES[name][1]
            f.write("%s %s\n" % (name, kind))
            for messages in chats:
                if not fits(name, messages):
                    f.write("none\n")
                    continue
                out = tokenizers[kind].apply_chat_template(messages, chat_template=program, tokenize=True, return_dict=True,
                                                           return_assistant_tokens_mask=True)
                f.write("%d %08x %08x\n" % (len(out["input_ids"]), fnv(out["input_ids"]), fnv(out["assistant_masks"])))


def trl_templates():
    import trl
    return os.path.join(os.path.dirname(trl.__file__), "chat_templates")


# --- tools and thoughts: by the programs that published models bring, which trl holds; Mistral's is written anew ---

MISTRAL_TOOLS = (
    "{% set users = messages|selectattr('role', 'equalto', 'user')|list %}{% set ns = namespace(n=0) %}"
    "{% for m in messages %}{% if m.role != 'tool' and not m.tool_calls %}{% if (m.role == 'user') != (ns.n % 2 == 0) %}"
    "{{ raise_exception('order') }}{% endif %}{% set ns.n = ns.n + 1 %}{% endif %}{% endfor %}{{ bos_token }}"
    "{% for m in messages %}{% if m.role == 'user' %}{% if tools and m == users[-1] %}{{ '[AVAILABLE_TOOLS] [' }}"
    "{% for tool in tools %}{{ '{\"type\": \"function\", \"function\": {' }}{% for k, v in tool.function.items() %}"
    "{{ '\"' + k + '\": ' }}{% if v is string %}{{ '\"' + v + '\"' }}{% else %}{{ v|tojson }}{% endif %}{{ ', ' if not loop.last else '' }}{% endfor %}"
    "{{ '}}' }}{{ ', ' if not loop.last else ']' }}{% endfor %}{{ '[/AVAILABLE_TOOLS]' }}{% endif %}{{ '[INST] ' + m.content + '[/INST]' }}"
    "{% elif m.tool_calls %}{{ '[TOOL_CALLS] [' }}{% for c in m.tool_calls %}{% if not c.id or c.id|length != 9 %}{{ raise_exception('id') }}{% endif %}"
    "{{ (c.function|tojson)[:-1] + ', \"id\": \"' + c.id + '\"}' }}{{ ', ' if not loop.last else ']' }}{% endfor %}{{ eos_token }}"
    "{% elif m.role == 'assistant' %}{{ ' ' + m.content|trim + eos_token }}{% elif m.role == 'tool' %}"
    "{% if not m.tool_call_id or m.tool_call_id|length != 9 %}{{ raise_exception('id') }}{% endif %}"
    "{{ '[TOOL_RESULTS] {\"content\": ' + m.content + ', \"call_id\": \"' + m.tool_call_id + '\"}[/TOOL_RESULTS]' }}"
    "{% else %}{{ raise_exception('role') }}{% endif %}{% endfor %}")
TOOL_TEMPLATES = {"qwen2.5": ("qwen2", "qwen2_5"), "qwen3": ("qwen2", "qwen3"), "llama3.1": ("llama3", "llama3_1"), "llama3.2": ("llama3", "llama3_2"),
                  "mistral-v0.3": ("gpt2", None)}
VALUES = [0, -7, 3.5, 1e-05, 1e17, 0.1, 2.0, 123456789012.5, True, False, None, "", "a \"b\" \\ \n\t", "caf\u00e9 \U0001f600", "\x7f\x01", [], {}]


def value(rng, depth=0):
    kind = rng.random()
    if depth < 2 and kind < .2:
        return {"k%d" % i: value(rng, depth + 1) for i in range(rng.randint(0, 3))}
    if depth < 2 and kind < .3:
        return [value(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    return rng.choice(VALUES)


def call(rng):
    arguments = {"a%d" % i: value(rng) for i in range(rng.randint(0, 3))} if rng.random() < .9 else "{\"x\": 1}"
    made = {"type": "function", "function": {"name": rng.choice(["find", "add_2"]), "arguments": arguments}}
    if rng.random() < .9:
        made["id"] = "abcdef%03d" % rng.randint(0, 999)
    return made


def answer(rng, thoughts):
    text = sentence(rng).strip() or "yes"
    kind = rng.random() if thoughts else 1
    if kind < .25:
        return {"role": "assistant", "content": text, "reasoning_content": rng.choice(["", "\nso\n", "it is"])}
    return {"role": "assistant", "content": "<think>\n" + sentence(rng) + "\n</think>\n\n" + text if kind < .5 else text}


def tool_turns(rng):
    several = rng.random() < .2
    calls = [call(rng) for _ in range(2 if several else 1)]
    first = {"role": "assistant", "content": rng.choice([None, "", "let me see"]), "tool_calls": calls}
    return [first] + [{"role": "tool", "content": rng.choice(["{\"t\": 21}", "none", "a \"quote\"\n"]), "tool_call_id": c.get("id", "abcdefghi")} for c in calls]


def tool_conversations():
    rng = random.Random(12)
    for i in range(120):
        messages = [{"role": "system", "content": sentence(rng)}] if rng.random() < .3 else []
        for _ in range(rng.randint(1, 3)):
            messages.append({"role": "user", "content": sentence(rng)})
            if rng.random() < .6:
                messages += tool_turns(rng)
            messages.append(answer(rng, i % 2 == 0))
        record = {"messages": messages}
        if rng.random() < .6:
            record["tools"] = [{"type": "function", "function": {"name": "find", "description": "looks \"it\" up", "parameters": value(rng)}}
                               for _ in range(rng.randint(1, 2))]
        yield record


def write_tools():
    from transformers import AutoTokenizer
    records = list(tool_conversations())
    with open(os.path.join(OUT, "tools.jsonl"), "w", encoding="utf-8", newline="\n") as f:
        for i, record in enumerate(records):
            f.write(json.dumps(record, ensure_ascii=i % 2 == 0) + "\n")
    with open(os.path.join(OUT, "tools_sums.txt"), "w", encoding="ascii") as f:
        for name, (kind, file) in TOOL_TEMPLATES.items():
            program = open(os.path.join(trl_templates(), file + ".jinja"), encoding="utf-8").read() if file else MISTRAL_TOOLS
            tokenizer = AutoTokenizer.from_pretrained(os.path.join(OUT, kind))
            dated = {"date_string": "29 Nov 2026"} if name == "llama3.2" else {}
            f.write("%s %s\n" % (name, kind))
            for record in records:
                try:
                    ids = tokenizer.apply_chat_template(record["messages"], tools=record.get("tools"), chat_template=program, tokenize=True,
                                                        return_dict=True, **dated)["input_ids"]
                    f.write("%d %08x\n" % (len(ids), fnv(ids)))
                except Exception:  # the program refuses it
                    f.write("none\n")


def known():
    import hashlib
    folder = trl_templates()
    source = open(os.path.join(HERE, "../../engine/data/chat/chat_template.c"), encoding="utf-8").read()
    hashes = set(re.findall(r'"([0-9a-f]{64})"', source))
    names = {"llama3": "llama3", "llama3_1": "llama3.1", "qwen2_5": "qwen2.5", "qwen3_instruct_2507": "chatml"}
    tokenizer = make_tokenizer("llama3")
    for file, name in names.items():
        program = open(os.path.join(folder, file + ".jinja"), encoding="utf-8").read()
        assert hashlib.sha256(program.removesuffix("\n").encode()).hexdigest() in hashes, file
        for messages in conversations():
            ours, theirs = (tokenizer.apply_chat_template(messages, chat_template=p, tokenize=False) for p in (TEMPLATES[name][1], program))
            assert ours == theirs, (file, ours, theirs)
        print(file, "is", name)


if __name__ == "__main__":
    for task in {"write": (write, write_tools), "tools": (write_tools,), "known": (known,)}[sys.argv[1]]:
        task()
