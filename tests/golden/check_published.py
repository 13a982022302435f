#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Folders in the forms in which known models are published, with small random weights, taken in, trained and given back.

    check_published.py CLTRAIN FOLDER [NAME...]

CLTRAIN is the program, FOLDER an empty folder to work in, NAME an entry of FORMS. Config files have the settings that the published
folders have (transformers 4 wrote most of them), with small numbers; weights and tokenizers lie in them in the same forms. Of each
folder: `import` accepts it; the loss of its weights is transformers' loss within 1e-4; it is trained for two steps and exported; and
transformers loads the export, with the same loss again. Needs torch, transformers and safetensors; test_published_folders.sh runs it
where CLTRAIN_TEST_PYTHON names a Python that has them."""
import json
import os
import shutil
import subprocess
import sys

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification, BertConfig, BertForMaskedLM
from transformers import BertForPreTraining, BertForSequenceClassification

TOKENIZERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizers")
TEXT = "don't well the theory 1234567 hello there; caf\u00e9 wellness 3.14 hell\n\nthe Hello they'VE \u65e5\u672c " * 4
CONTEXT = 16
TOLERANCE = 1e-4
LLAMA = {"architectures": ["LlamaForCausalLM"], "attention_bias": False, "hidden_act": "silu", "model_type": "llama", "pretraining_tp": 1,
         "use_cache": True, "hidden_size": 48, "intermediate_size": 80, "num_attention_heads": 4, "num_hidden_layers": 2}


# --- forms of weights: each takes the tensors of a model by their published names ---

def one_file(folder, tensors):
    save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})


def shards(folder, tensors, save, pattern, index):
    """Three files and their index, with about as many tensors in each."""
    names, places = list(tensors), {}
    for i in range(3):
        part = {name: tensors[name] for name in names[i::3]}
        file = pattern.format(i + 1, 3)
        save(part, os.path.join(folder, file))
        places.update(dict.fromkeys(part, file))
    put(folder, index, {"metadata": {"total_size": sum(t.numel() * t.element_size() for t in tensors.values())}, "weight_map": places})


def safetensors_shards(folder, tensors):
    shards(folder, tensors, save_file, "model-{:05}-of-{:05}.safetensors", "model.safetensors.index.json")


def mistral_shards(folder, tensors):
    """Mistral's folders hold all weights a second time, under the names of its own library."""
    safetensors_shards(folder, tensors)
    save_file({"tok_embeddings.weight": tensors["model.embed_tokens.weight"]}, os.path.join(folder, "consolidated.safetensors"))
    put(folder, "params.json", {"dim": 48, "n_layers": 2})


def pickled(folder, tensors):
    torch.save(tensors, os.path.join(folder, "pytorch_model.bin"))


def pickled_shards(folder, tensors):
    shards(folder, tensors, torch.save, "pytorch_model-{:05}-of-{:05}.bin", "pytorch_model.bin.index.json")


def both(folder, tensors):
    """Two forms, the second of other values: safetensors must be read."""
    one_file(folder, tensors)
    pickled(folder, {name: tensor + 1 for name, tensor in tensors.items()})


# --- what published files hold besides, or under other names ---

def with_frequencies(tensors, _):
    """Older Llamas hold the frequencies of rotary positions in every layer."""
    for layer in range(2):
        tensors[f"model.layers.{layer}.self_attn.rotary_emb.inv_freq"] = 1 / 10000 ** (torch.arange(0, 12, 2) / 12)
    return tensors


def with_head(tensors, model):
    """A tied output layer, saved all the same. In a pickle it shares its storage with the embedding."""
    return {**tensors, "lm_head.weight": tensors["model.embed_tokens.weight" if model.config.model_type != "gpt2" else "transformer.wte.weight"]}


def apart(tensors, _):
    return {**tensors, "lm_head.weight": tensors["model.embed_tokens.weight"].clone()}


def as_gpt2(tensors, _):
    """GPT-2 is published without the prefix of the names, and with the causal masks of its layers."""
    tensors = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items() if name != "lm_head.weight"}
    for layer in range(2):
        tensors[f"h.{layer}.attn.bias"] = torch.tril(torch.ones(40, 40)).view(1, 1, 40, 40)
    return tensors


def as_old_bert(tensors, _):
    """BERT is published with the names of norms that TensorFlow uses, with a counter, and with the output layer a second time."""
    new = {name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
           for name, tensor in tensors.items()}
    new["bert.embeddings.position_ids"] = torch.arange(40).view(1, 40)
    if "cls.predictions.bias" in new:
        new["cls.predictions.decoder.weight"] = new["bert.embeddings.word_embeddings.weight"]
        new.pop("cls.predictions.decoder.bias", None)
    return new


# --- tokenizers ---

def kept_tokenizer(name, **config):
    """A tokenizer of tests/golden/tokenizers with the tokenizer_config.json of a published folder."""
    def write(folder):
        for file in os.listdir(os.path.join(TOKENIZERS, name)):
            if file != "ids.txt":
                shutil.copy(os.path.join(TOKENIZERS, name, file), folder)
        put(folder, "tokenizer_config.json", config)
    return write


def byte_level(*steps, **config):
    """GPT-2's vocabulary as tokenizer.json, vocab.json and merges.txt, as SmolLM2 and GPT-2 are published."""
    def write(folder):
        files = [os.path.join(TOKENIZERS, "gpt2", file) for file in ("vocab.json", "merges.txt")]
        t = Tokenizer(models.BPE.from_file(*files))
        t.pre_tokenizer = pre_tokenizers.Sequence([*steps, pre_tokenizers.ByteLevel(add_prefix_space=False)])
        t.decoder = decoders.ByteLevel()
        t.add_special_tokens(["<|endoftext|>"])
        t.save(os.path.join(folder, "tokenizer.json"))
        for file in files:
            shutil.copy(file, folder)
        put(folder, "special_tokens_map.json", dict.fromkeys(("bos_token", "eos_token", "unk_token"), "<|endoftext|>"))
        put(folder, "tokenizer_config.json", config)
    return write


LLAMA3_TOKENS = kept_tokenizer("llama3", tokenizer_class="PreTrainedTokenizerFast", bos_token="<s>", eos_token="<|endoftext|>",
                               clean_up_tokenization_spaces=True, model_input_names=["input_ids", "attention_mask"], model_max_length=131072)
LLAMA2_TOKENS = dict(tokenizer_class="LlamaTokenizer", add_bos_token=True, add_eos_token=False, bos_token="<s>", eos_token="</s>", unk_token="<unk>",
                     pad_token="</s>", legacy=False, model_max_length=2048, sp_model_kwargs={}, use_default_system_prompt=False)
QWEN2_TOKENS = kept_tokenizer("qwen2", tokenizer_class="Qwen2Tokenizer", add_prefix_space=False, bos_token=None, eos_token="<|endoftext|>",
                              pad_token="<|endoftext|>", unk_token=None, split_special_tokens=False, errors="replace", model_max_length=131072)
GPT2_TOKENS = byte_level(model_max_length=1024)
SMOL_TOKENS = byte_level(pre_tokenizers.Digits(True), tokenizer_class="GPT2Tokenizer", add_prefix_space=False, bos_token="<|endoftext|>",
                         eos_token="<|endoftext|>", unk_token="<|endoftext|>", clean_up_tokenization_spaces=False, vocab_size=356)

# --- the models ---

LLAMA32 = {**LLAMA, "attention_dropout": 0.0, "bos_token_id": 356, "eos_token_id": [0, 300, 301], "head_dim": 12, "initializer_range": 0.02,
           "max_position_embeddings": 131072, "mlp_bias": False, "num_key_value_heads": 2, "rms_norm_eps": 1e-05, "rope_theta": 500000.0,
           "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
                            "rope_type": "llama3"},
           "tie_word_embeddings": True, "torch_dtype": "bfloat16", "transformers_version": "4.45.0.dev0", "vocab_size": 357}
LLAMA32_ENDS = {"bos_token_id": 356, "do_sample": True, "eos_token_id": [0, 300, 301], "temperature": 0.6, "top_p": 0.9,
                "transformers_version": "4.45.0.dev0"}
QWEN25 = {**{k: v for k, v in LLAMA.items() if k not in ("attention_bias", "pretraining_tp")}, "architectures": ["Qwen2ForCausalLM"],
          "attention_dropout": 0.0, "bos_token_id": 300, "eos_token_id": 301, "initializer_range": 0.02, "max_position_embeddings": 32768,
          "max_window_layers": 21, "model_type": "qwen2", "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
          "sliding_window": 32768, "tie_word_embeddings": True, "torch_dtype": "bfloat16", "transformers_version": "4.43.1",
          "use_sliding_window": False, "vocab_size": 384}
QWEN25_ENDS = {"bos_token_id": 300, "pad_token_id": 0, "do_sample": True, "eos_token_id": [301, 0], "repetition_penalty": 1.1, "top_k": 20}
MISTRAL = {**{k: v for k, v in LLAMA.items() if k not in ("attention_bias", "pretraining_tp")}, "architectures": ["MistralForCausalLM"],
           "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "initializer_range": 0.02, "max_position_embeddings": 32768,
           "model_type": "mistral", "num_key_value_heads": 1, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "sliding_window": None,
           "tie_word_embeddings": False, "torch_dtype": "bfloat16", "transformers_version": "4.42.0.dev0", "vocab_size": 397}
SMOLLM2 = {**LLAMA, "attention_dropout": 0.0, "bos_token_id": 0, "eos_token_id": 0, "initializer_range": 0.041666666666666664,
           "is_llama_config": True, "max_position_embeddings": 8192, "mlp_bias": False, "num_key_value_heads": 2, "rms_norm_eps": 1e-05,
           "rope_interleaved": False, "rope_scaling": None, "rope_theta": 100000, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
           "transformers_version": "4.40.1", "vocab_size": 356}
TINYLLAMA = {**LLAMA, "bos_token_id": 1, "eos_token_id": 2, "initializer_range": 0.02, "max_position_embeddings": 2048, "num_key_value_heads": 2,
             "rms_norm_eps": 1e-05, "rope_scaling": None, "tie_word_embeddings": False, "torch_dtype": "float32",
             "transformers_version": "4.31.0.dev0", "vocab_size": 397}
GPT2 = {"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1, "bos_token_id": 0, "embd_pdrop": 0.1,
        "eos_token_id": 0, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 40, "n_embd": 48,
        "n_head": 4, "n_layer": 2, "n_positions": 40, "resid_pdrop": 0.1, "summary_activation": None, "summary_first_dropout": 0.1,
        "summary_proj_to_labels": True, "summary_type": "cls_index", "summary_use_proj": True,
        "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}}, "vocab_size": 356}
BERT = {"attention_probs_dropout_prob": 0.1, "gradient_checkpointing": False, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
        "hidden_size": 48, "initializer_range": 0.02, "intermediate_size": 80, "layer_norm_eps": 1e-12, "max_position_embeddings": 40,
        "model_type": "bert", "num_attention_heads": 4, "num_hidden_layers": 2, "pad_token_id": 0, "position_embedding_type": "absolute",
        "transformers_version": "4.6.0.dev0", "type_vocab_size": 2, "use_cache": True, "vocab_size": 3709}
BERT_TOKENS = kept_tokenizer("bert_cased", do_lower_case=False, tokenizer_class="BertTokenizer", model_max_length=512)

# name: config.json, generation_config.json, tokenizer, form of the weights, how the tensors differ, type of the weights
FORMS = {
    "llama-3.2": (LLAMA32, LLAMA32_ENDS, LLAMA3_TOKENS, one_file, None, torch.bfloat16),
    "llama-3.2-sharded": (LLAMA32, LLAMA32_ENDS, LLAMA3_TOKENS, safetensors_shards, apart, torch.bfloat16),
    "qwen2.5": (QWEN25, QWEN25_ENDS, QWEN2_TOKENS, one_file, None, torch.bfloat16),
    "qwen2.5-pickled": (QWEN25, QWEN25_ENDS, QWEN2_TOKENS, pickled_shards, with_head, torch.bfloat16),
    "mistral-v0.3": (MISTRAL, None, kept_tokenizer("mistral", **LLAMA2_TOKENS), mistral_shards, None, torch.bfloat16),
    "mistral-window": ({**MISTRAL, "sliding_window": 7, "torch_dtype": "float32"}, None, kept_tokenizer("mistral", **LLAMA2_TOKENS), one_file,
                       None, torch.float32),
    "smollm2": (SMOLLM2, None, SMOL_TOKENS, one_file, None, torch.bfloat16),
    "tinyllama": (TINYLLAMA, None, kept_tokenizer("llama2", **LLAMA2_TOKENS), pickled, with_frequencies, torch.float32),
    "tinyllama-both": (TINYLLAMA, None, kept_tokenizer("llama2", **LLAMA2_TOKENS), both, with_frequencies, torch.float32),
    "gpt2": (GPT2, None, GPT2_TOKENS, one_file, as_gpt2, torch.float32),
    "gpt2-pickled": (GPT2, None, GPT2_TOKENS, pickled, with_head, torch.float32),
}
SAVED = {"llama-3.2": LLAMA32, "qwen2.5": QWEN25, "mistral-v0.3": MISTRAL, "gpt2": GPT2}  # also as save_pretrained writes them


def put(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
        json.dump(value, out, indent=2)


failures = 0


def report(what, good, detail=""):
    global failures
    failures += not good
    print(f"{'ok  ' if good else 'FAIL'} {what} {detail}", flush=True)


def run(*command):
    done = subprocess.run([CLTRAIN, *command], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout + done.stderr


def evaluated(*arguments):
    run("eval", *arguments, "--json", "result.json")
    with open("result.json", encoding="utf-8") as file:
        return json.load(file)["loss"]


def random_model(model, dtype=torch.float32):
    """Other values than the initial ones, so that norms and biases have some; in f32, but values of dtype."""
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_((parameter + torch.randn_like(parameter) * 0.1).to(dtype))
    return model.eval()


def loss_of_text(model, ids):
    """The mean over all tokens but the first. The last window ends at the end and counts what the window before it does not."""
    total, last = 0.0, len(ids) - 1
    for start in range(0, last, CONTEXT):
        first = min(start, last - CONTEXT)
        row = torch.tensor([ids[first:first + CONTEXT + 1]])
        with torch.no_grad():
            losses = torch.nn.functional.cross_entropy(model(row[:, :-1]).logits[0].float(), row[0, 1:], reduction="none")
        total += float(losses[start - first:].sum())
    return total / last


def ends_of(folder):
    with open(os.path.join(folder, "generation_config.json"), encoding="utf-8") as file:
        return json.load(file)["eos_token_id"]


def trained(name, init, reference, limit=TOLERANCE):
    """Imports, evaluates, trains and exports a folder; returns how the losses compare with transformers'."""
    with open("text.txt", "w", encoding="utf-8", newline="") as out:
        out.write(TEXT)
    ids = Tokenizer.from_file(os.path.join(name, "tokenizer.json")).encode(TEXT).ids
    run("import", name, "--out", name + ".json")
    settings = ["data.path=text.txt", "data.eval_path=text.txt", f"model.context={CONTEXT}", "data.micro_batch=2"]
    before = abs(evaluated(name + ".json", "--init", init, *settings) - loss_of_text(reference, ids))
    run("train", name + ".json", "--init", init, *settings, "train.steps=2", "optimizer.learning_rate=0.001", "--out", name + "-run")
    run("export", name + "-run", "--out", name + "-out")
    loaded = AutoModelForCausalLM.from_pretrained(name + "-out")
    after = abs(evaluated(name + "-run") - loss_of_text(loaded.eval(), ids))
    moved = 0
    for key, tensor in reference.state_dict().items():
        new = loaded.state_dict()[key]
        moved = max(moved, float((new - tensor[:len(new)]).abs().max()))  # a GPT-2 keeps the positions of its context
    report(name, before < limit and after < limit and 0 < moved < 0.01 and loaded.dtype == torch.float32,
           f"losses differ by {before:.1e} and, trained, {after:.1e}")


def check_form(name):
    config, ends, tokenizer, form, change, dtype = FORMS[name]
    os.makedirs(name)
    put(name, "config.json", config)
    if ends:
        put(name, "generation_config.json", ends)
    tokenizer(name)
    model = random_model(AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(name), dtype=torch.float32), dtype)
    tensors = {key: tensor.to(dtype) for key, tensor in model.state_dict().items()
               if not (key == "lm_head.weight" and config.get("tie_word_embeddings", True))}
    form(name, change(dict(tensors), model) if change else tensors)
    trained(name, name, model)
    if ends:
        report(name, ends_of(name + "-out")[:len(ends["eos_token_id"])] == ends["eos_token_id"], "keeps the tokens that end a text")


def check_saved(name):
    """The same model as transformers 5 saves it."""
    folder = name + "-saved"
    put(".", "config.json", SAVED[name])
    model = random_model(AutoModelForCausalLM.from_config(AutoConfig.from_pretrained("config.json"), dtype=torch.float32))
    model.save_pretrained(folder, max_shard_size="60KB")
    FORMS[name][2](folder)
    trained(folder, folder, model)


# --- BERT ---

RECORDS = [{"text": text, "label": label} for text, label in
           [("hello the theory", "good"), ("well hell", "bad"), ("WORLD there; the 12", "bad"), ("wellness caf\u00e9", "good")] * 2]


def loss_of_records(model, folder):
    t = Tokenizer(models.WordPiece.from_file(os.path.join(folder, "vocab.txt"), unk_token="[UNK]"))
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    total = 0.0
    for record in RECORDS:
        ids = torch.tensor([[3, *t.encode(record["text"]).ids, 4]])
        with torch.no_grad():
            total += float(torch.nn.functional.cross_entropy(model(ids).logits, torch.tensor([CLASSES.index(record["label"])])))
    return total / len(RECORDS)


CLASSES = ["bad", "good"]


def bert_folder(name, kind, form, **settings):
    os.makedirs(name)
    put(name, "config.json", {**BERT, **settings})
    BERT_TOKENS(name)
    model = random_model(kind(BertConfig.from_pretrained(name)))
    form(name, as_old_bert(dict(model.state_dict()), model))
    with open("records.jsonl", "w", encoding="utf-8") as out:
        out.writelines(json.dumps(record) + "\n" for record in RECORDS)
    return model


def bert_run(name, out, *settings):
    run("import", name, "--out", out + ".json")
    settings = ["data.path=records.jsonl", "data.eval_path=records.jsonl", "data.micro_batch=4", *settings]
    run("train", out + ".json", "--init", name, *settings, "train.steps=2", "--out", out + "-run")
    run("export", out + "-run", "--out", out + "-out")
    return settings


def check_bert_class(name, form):
    """A classifier with the names of an old file: the loss before and after training."""
    model = bert_folder(name, BertForSequenceClassification, form, architectures=["BertForSequenceClassification"],
                        id2label={"0": "bad", "1": "good"}, label2id={"bad": 0, "good": 1})
    settings = bert_run(name, name)
    before = abs(evaluated(name + ".json", "--init", name, *settings) - loss_of_records(model, name))
    loaded = AutoModelForSequenceClassification.from_pretrained(name + "-out").eval()
    after = abs(evaluated(name + "-run") - loss_of_records(loaded, name))
    report(name, before < TOLERANCE and after < TOLERANCE, f"losses differ by {before:.1e} and, trained, {after:.1e}")


def check_bert_base(name, form):
    """bert-base-uncased's form: BertForMaskedLM by its config, but all tensors of a pre-training lie in it."""
    model = bert_folder(name, BertForPreTraining, form, architectures=["BertForMaskedLM"])
    with open("pairs.txt", "w", encoding="utf-8") as out:
        out.write("hello the theory\nwell there\nhell 12 wellness\n\nthe WORLD\nit's well\nhello\n" * 6)
    run("data", "prepare", "--mlm", "pairs.txt", "--tokenizer", os.path.join(name, "vocab.txt"), "--out", name + "-pairs", "--context", "16")
    run("import", name, "--out", name + ".json")
    run("train", name + ".json", "--init", name, f"data.path={name}-pairs", "data.micro_batch=4", "model.context=16", "train.steps=2",
        "optimizer.learning_rate=0.001", "--out", name + "-run")
    run("export", name + "-run", "--out", name + "-out")
    loaded, own = BertForMaskedLM.from_pretrained(name + "-out").state_dict(), model.state_dict()
    moved = max(float((loaded[key] - own[key]).abs().max()) for key in loaded)
    report(name, 0 < moved < 0.01, f"masked tokens: two steps moved the weights by {moved:.1e}")
    # a frozen base comes back bit by bit, from which a classifier is trained
    with open(name + ".json", encoding="utf-8") as file:
        config = json.load(file)
    config["model"]["head"] = "class"
    config["model"]["freeze"] = ["embeddings.*", "encoder.*", "pooler.*"]
    config["data"] = {"type": "annotated", "task": "class", "tokenizer": name}
    put(".", name + "-class.json", config)
    run("train", name + "-class.json", "--init", name, "--init-skip", "classifier.*", "data.path=records.jsonl", "data.micro_batch=4",
        "train.steps=2", "--out", name + "-class-run")
    run("export", name + "-class-run", "--out", name + "-class-out")
    back = load_file(os.path.join(name + "-class-out", "model.safetensors"))
    same = [key for key, tensor in own.items() if key.startswith("bert.") and torch.equal(back[key], tensor)]
    loaded = AutoModelForSequenceClassification.from_pretrained(name + "-class-out").eval()
    off = abs(evaluated(name + "-class-run", "data.eval_path=records.jsonl") - loss_of_records(loaded, name))
    wanted = sum(key.startswith("bert.") for key in own)
    report(name, len(same) == wanted and off < TOLERANCE, f"a classifier on its frozen base, {len(same)} tensors as they were; loss off by {off:.1e}")


def main():
    names = sys.argv[3:] or [*FORMS, *(name + "-saved" for name in SAVED), "bert-class", "bert-base-uncased"]
    os.chdir(sys.argv[2])
    torch.set_num_threads(1)
    for name in names:
        try:
            if name.endswith("-saved"):
                check_saved(name.removesuffix("-saved"))
            elif name == "bert-class":
                check_bert_class(name, pickled)
            elif name == "bert-base-uncased":
                check_bert_base(name, pickled)
            else:
                check_form(name)
        except RuntimeError as error:
            report(name, False, str(error))
    print(f"{failures} failed")
    sys.exit(failures > 0)


if __name__ == "__main__":
    CLTRAIN = sys.argv[1]
    main()
