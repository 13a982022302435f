#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 10 ctest-optimise: no
#
# Models of Hugging Face's transformers as a newcomer uses them: --init accepts the folder that save_pretrained wrote, reports what
# it loaded, and reports what does not fit before a device is opened. Needs no Python; the folders are those of make_golden_hf.py.
. "$(dirname "$0")/lib.sh"

golden=$CLTRAIN_SOURCE_DIR/tests/golden/data
clean_home
cp -r "$golden/hf_tied" hf
cp -r "$golden/hf_shards" shards
for _ in 1 2 3 4 5 6 7 8; do echo 'the rain in spain stays mainly in the plain, and the train is late again'; done >text.txt
cat >few.json <<'EOF'
{"data": {"type": "text", "path": "text.txt", "micro_batch": 4}, "train": {"steps": 2}}
EOF
# put KEY VALUE: a copy of the folder with this value in its config.json.
put() {
    rm -rf changed
    cp -r hf changed
    sed -i -E "s|\"$1\": [^,]*(,?)|\"$1\": $2\1|" changed/config.json
    grep -q "\"$1\": $2" changed/config.json || fail "config.json has no $1"
}

# --- what can be checked without a device is reported without one ---
export OCL_ICD_VENDORS=/nonexistent
init() {
    local options=(--out run)
    case " $* " in *' --out '*) options=() ;; esac
    expect_code "$1" "$CLTRAIN" train few.json "${options[@]}" --init "${@:2}"
}

init 2 hf model.layers=3 model.heads=4 model.channels=16 model.context=40 model.vocab=300 model.activation=gelu
expect_text 'model.layers: 3 contradicts the weights: n_layer is 2' 'model.heads: 4 .*n_head is 3' 'model.channels: 16 .*n_embd is 12' \
    'model.context: 40 .*n_positions is 9' 'model.vocab: 300 .*vocab_size is 267' 'activation_function is gelu_new' \
    'remove the key'
init 2 hf model.type=mlp
expect_text 'model.type: mlp contradicts the weights'
reject_text 'model.layers'
init 3 hf data.tokenizer=bytes
expect_text 'has 256 tokens' "beside the weights of 'hf' 267" 'remove data.tokenizer'
init 3 hf data.tokenizer=shards
expect_text 'has 263 tokens'
cp -r hf untold
rm untold/tokenizer.json
init 3 untold
expect_text 'has 256 tokens' 'made for 267' 'no tokenizer lies beside them' 'set data.tokenizer'

# everything that our gpt cannot do is reported at once
put n_inner 40
sed -i -E 's/"layer_norm_epsilon": [^,]*/"layer_norm_epsilon": 1e-06/; s/"scale_attn_weights": true/"scale_attn_weights": false/
    s/"scale_attn_by_inverse_layer_idx": false/"scale_attn_by_inverse_layer_idx": true/
    s/"add_cross_attention": false/"add_cross_attention": true/; s/"gelu_new"/"quick_gelu"/' changed/config.json
init 2 changed
expect_text 'describes a model that cltrain.s gpt cannot represent' 'n_inner: ' 'layer_norm_epsilon: ' 'scale_attn_weights: is false' \
    'scale_attn_by_inverse_layer_idx: is true' 'add_cross_attention: is true' "activation_function: 'quick_gelu'"
put model_type '"gemma2"'
init 2 changed
expect_text "model_type is 'gemma2'; cltrain takes gpt2, llama, bert, mistral, qwen2 and qwen3"
put attn_pdrop 0.0
init 2 changed
expect_text 'model.dropout: has to be given: resid_pdrop is 0.1, embd_pdrop 0.1 and attn_pdrop 0'
init 4 changed model.dropout=0.1
put n_layer '"two"'
init 2 changed
expect_text 'n_layer: is not a whole number'
put activation_function '"relu"'
init 2 changed model.activation=gelu_tanh
expect_text 'model.activation: gelu_tanh contradicts the weights: activation_function is relu'

# a config.json that does not belong to its weights: every tensor, and the keys that would fit
put n_embd 24
init 7 changed
expect_text "the weights of 'changed' and the model do not fit together \(28 tensors\)" \
    'transformer.h.\{0..1\}.attn.c_attn.weight is \[12,36\], the model needs \[24,72\]' 'transformer.wte.weight is \[267,12\]' \
    'config.json of the folder does not describe its weights, which have channels 12; change the model to that in a config'
put n_layer 4
init 7 changed
expect_text 'h.\{2..3\}.mlp.c_fc.weight is missing; the model needs it as \[12,48\]' 'which have layers 2;'
put tie_word_embeddings false
init 7 changed
expect_text 'lm_head.weight is missing; the model needs it as \[267,12\]' '^these keys would fit the file: model.tied=true$'

# the dry run reports the same, and checks other paths equally early
expect_code 7 "$CLTRAIN" train few.json --dry-run --init changed
expect_text 'lm_head.weight is missing'
init 8 hf --out few.json/run
expect_text "creating the folder 'few.json/run': 'few.json' is there and is not a folder"
init 3 hf data.path=nowhere.txt
expect_text "opening 'nowhere.txt'"
expect_code 7 "$CLTRAIN" train few.json model.type=gpt model.layers=1 model.heads=1 model.channels=4 model.context=8 --out run --resume absent
expect_text 'absent: there is no such folder'
init 7 hf --resume empty_yet
expect_text 'empty_yet'

# paths that are not weights
init 7 absent
expect_text "opening 'absent': No such file"
mkdir empty
init 7 empty
expect_text 'holds none of model.safetensors, pytorch_model.bin' 'save_pretrained'
cp hf/model.safetensors empty
init 7 empty
expect_text "'empty' holds no config.json" 'empty/model.safetensors'
mkdir old
cp hf/config.json old
printf 'PK\003\004zip' >old/pytorch_model.bin
init 7 old
expect_text 'old/pytorch_model.bin: the archive has no directory at its end'
init 7 old/pytorch_model.bin
expect_text 'the archive has no directory at its end'
printf 'no weights at all' >old/pytorch_model.bin
init 7 old
expect_text 'does not begin like a file that torch.save wrote'
# the same model in PyTorch's own files: one of the zip form; shards, one of which has the older form
cp -r hf torch
rm torch/model.safetensors
cp "$golden/pytorch/hf_tied.bin" torch/pytorch_model.bin
cp -r shards torch_shards
rm torch_shards/model*
cp "$golden"/pytorch/pytorch_model* torch_shards
same_tensors() { diff <("$CLTRAIN_BUILD_DIR/tests/logits" --tensors "$1" | sort) <("$CLTRAIN_BUILD_DIR/tests/logits" --tensors "$2" | sort) >"$out"; }
if same_tensors hf torch && same_tensors shards torch_shards; then pass; else fail 'files of PyTorch hold other tensors than safetensors'; fi
init 4 torch
init 4 torch_shards
init 7 "$golden/pytorch/two.pth"
expect_text "has 2 entries with tensors, 'a', 'b'"
init 7 "$golden/pytorch/two.pth:a" model.type=gpt model.layers=1 model.heads=1 model.channels=4 model.context=8
expect_text "'module.weight'|module.weight"
rm old/pytorch_model.bin
# pipes and devices, from which reading would never end
mkfifo empty/config.json old/model.safetensors
init 7 empty
expect_text "'empty' holds no config.json"
init 7 old
expect_text "the folder 'old' holds none of"
init 7 /dev/zero
expect_text 'is not a regular file'
cp -r shards hole
rm hole/model-00002-of-00003.safetensors
init 7 hole
expect_text 'model-00002-of-00003.safetensors' 'No such file'
mkfifo hole/model-00002-of-00003.safetensors
init 7 hole
expect_text 'only a regular file can be mapped'
rm hole/model-00002-of-00003.safetensors
sed -i 's|model-00002|../shards/model-00002|' hole/model.safetensors.index.json
init 7 hole
expect_text 'is not the name of a file beside it'
cp shards/model.safetensors.index.json hole/
cp shards/model-00001-of-00003.safetensors hole/model-00002-of-00003.safetensors
init 7 hole
expect_text 'is in two of them'
expect_absent run
unset OCL_ICD_VENDORS

# --- loaded, reported and recorded ---
expect_code 0 "$CLTRAIN" train few.json --init hf --out run model.context=8
expect_text 'weights +28 tensors from hf \(hash [0-9a-f]{16}\); wpe.weight: the first 8 of 9 rows' "tokenizer:? BPE, 267 tokens, from 'hf/tokenizer.json'"
cp run/metrics.jsonl "$out"
expect_text '"event":"start".*"init":\{"file":"hf","tensors":28,"new_parameters":0,"hash":"[0-9a-f]{16}"\}'
cp run/config.resolved.json "$out"
expect_text '"model.layers": "init"' '"model.context": "override"' '"model.bias": "init"' '"data.tokenizer": "init"' '"channels": 12' '"dropout": 0.1,'
cp run/checkpoints/step_2/state.json "$out"
expect_text '"init": \{' '"file": "hf"' '"tensors": 28'

# --- exported again ---
loss() { sed -n -E 's/.*loss ([0-9.]+).*/\1/p' "$out"; }
expect_code 2 "$CLTRAIN" export run --out hf
expect_text "something exists there, and it is not overwritten"
expect_code 2 "$CLTRAIN" export run --out run/checkpoints/step_2/hf
expect_text 'the folder of a checkpoint'
expect_absent run/checkpoints/step_2/hf
mkdir out_there
expect_code 0 "$CLTRAIN" export run --out out_there
expect_text 'out_there: 28 tensors, .* in f32' 'tokenizer: BPE, 267 tokens' "AutoModelForCausalLM.from_pretrained\('out_there'\)"
expect_file out_there/config.json out_there/model.safetensors out_there/tokenizer.json out_there/tokenizer_config.json out_there/generation_config.json
cp out_there/config.json "$out"
expect_text '"GPT2LMHeadModel"' '"model_type": "gpt2"' '"vocab_size": 267' '"n_positions": 8' '"n_embd": 12' '"n_layer": 2' '"n_head": 3' \
    '"activation_function": "gelu_new"' '"tie_word_embeddings": true' '"eos_token_id": 0' '"dtype": "float32"' '"resid_pdrop": 0.1,'
cp out_there/tokenizer_config.json "$out"
expect_text '"PreTrainedTokenizerFast"' '"eos_token": "<\|endoftext\|>"' '"model_max_length": 8'
if grep -a -q '"format":"pt"' out_there/model.safetensors && grep -a -q '"transformer.h.1.mlp.c_proj.bias"' out_there/model.safetensors; then
    pass
else
    fail 'the weights lack what transformers looks for'
fi
# what was written can be loaded: the same loss in all printed digits
expect_code 0 "$CLTRAIN" eval run
before=$(loss)
first=$before
expect_code 0 "$CLTRAIN" eval few.json --init out_there
if [ -n "$before" ] && [ "$(loss)" = "$before" ]; then pass; else fail "the exported weights give loss $(loss), not $before"; fi

# bytes, no biases, a head of its own, exact gelu, 16 bits; the folder is named with a slash and does not exist
cat >bytes.json <<'EOF'
{"model": {"type": "gpt", "layers": 1, "heads": 3, "channels": 12, "context": 8, "bias": false, "tied": false, "activation": "gelu"},
 "data": {"type": "text", "path": "text.txt", "micro_batch": 4}, "train": {"steps": 2}}
EOF
expect_code 0 "$CLTRAIN" train bytes.json --out bytes
before=$(sed -n -E 's/.*eval loss ([0-9.]+).*/\1/p' "$out")
expect_code 0 "$CLTRAIN" export bytes/checkpoints/step_2 --format hf --out new/folder.x/
expect_text 'the model has no biases.* zeros were written, which change nothing' 'tokenizer: bytes'
expect_code 0 "$CLTRAIN" eval few.json --init new/folder.x
if [ -n "$before" ] && [ "$(loss)" = "$before" ]; then pass; else fail "zero biases give loss $(loss), not $before"; fi
cp new/folder.x/config.json "$out"
expect_text '"activation_function": "gelu"' '"tie_word_embeddings": false' '"eos_token_id": null' '"vocab_size": 256'
expect_code 0 "$CLTRAIN" export bytes --out half --dtype bf16
cp half/config.json "$out"
expect_text '"dtype": "bfloat16"'
expect_code 0 "$CLTRAIN" export bytes --out one.safetensors
expect_text 'one.safetensors: 10 tensors'
expect_code 2 "$CLTRAIN" export bytes --out one.safetensors --format hf
expect_text 'something exists there'
if find . -name '*.tmp-*' | grep -q .; then fail 'temporary files were left'; else pass; fi

# a model that transformers has no class for
cat >mlp.json <<'EOF'
{"model": {"type": "mlp", "hidden": [4]}, "data": {"type": "synthetic", "shape": [3], "samples": 32, "micro_batch": 4}, "train": {"steps": 2}}
EOF
expect_code 0 "$CLTRAIN" train mlp.json --out mlp
expect_code 2 "$CLTRAIN" export mlp --out mlp_hf
expect_text 'it is an mlp, and only a gpt, a llama and a bert are models that transformers knows' '--format safetensors'
expect_absent mlp_hf

# --- a run of cltrain's is accepted in the same way; for other folders the message says what they are
# for ---
expect_code 2 "$CLTRAIN" train few.json --init run model.layers=3 --out again
expect_text 'model.layers: 3 contradicts the weights: model.layers is 2'
expect_code 0 "$CLTRAIN" eval few.json --init run/checkpoints/step_2
if [ "$(loss)" = "$first" ]; then pass; else fail "the run's weights give loss $(loss), not $first"; fi
expect_code 7 "$CLTRAIN" predict hf text.txt
expect_text 'hf holds none' "'cltrain import FOLDER --out CONFIG' and then 'cltrain train CONFIG'"
printf 'my notes\n' >notes.txt
expect_code 2 "$CLTRAIN" export run --out notes.txt
expect_text 'a file exists there that holds no weights'

# --- a config for a folder ---
# the config names the folder, so its weights are trained without --init
expect_code 0 "$CLTRAIN" import hf --out made.json
expect_text 'train made.json$'
sed -i 's/"steps": 1000/"steps": 2/; s/"type": "linear"/"type": "constant"/; s/"micro_batch": 8/"micro_batch": 4/' made.json
# starts NAME FILE: the run's record of where it started from; empty: from random values
starts() {
    cp "$1/metrics.jsonl" "$out"
    if [ -n "$2" ]; then expect_text "\"event\":\"start\".*\"init\":\{\"file\":\"$2\",\"tensors\":28"; else reject_text '"init":\{"file"'; fi
}
expect_code 0 "$CLTRAIN" train made.json --out made
expect_text 'weights +28 tensors from hf '
starts made hf
expect_code 0 "$CLTRAIN" train made.json --init run --out second model.context=8
starts second run
expect_code 0 "$CLTRAIN" train made.json --init '' --out random
starts random ''
expect_code 0 "$CLTRAIN" eval few.json --init hf
before=$(loss)
expect_code 0 "$CLTRAIN" eval made.json
if [ -n "$before" ] && [ "$(loss)" = "$before" ]; then pass; else fail "model.init gives loss $(loss), and --init $before"; fi
expect_code 2 "$CLTRAIN" eval made.json --init ''
expect_text 'a CONFIG needs --checkpoint RUN or --init PATH as well, or model.init'
# a run that is resumed does not read them again, and they need not be there
mv hf moved
expect_code 7 "$CLTRAIN" train made.json --out fresh data.tokenizer=moved
expect_text "model.init: weights: opening 'hf': No such file"
expect_code 7 "$CLTRAIN" train made.json --out fresh data.tokenizer=moved --resume auto
expect_text "opening 'hf': No such file"
expect_absent fresh/checkpoints
for options in --dry-run ''; do expect_code 0 "$CLTRAIN" train made.json --out made data.tokenizer=moved train.steps=3 --resume auto $options; done
expect_text 'resum.* step 2'
expect_code 0 "$CLTRAIN" eval made.json --checkpoint made data.tokenizer=moved
expect_code 0 "$CLTRAIN" train --resume made train.steps=4
expect_code 2 "$CLTRAIN" train --resume made train.steps=5 model.init=moved
expect_text "resumes with the run's own weights; model.init does not go together with it"
mv moved hf

# --- texts from a folder as it is: with the logits of a run that has the same weights ---
expect_code 0 "$CLTRAIN" train made.json --out still optimizer.learning_rate=1e-30 optimizer.weight_decay=0
for from in hf still; do expect_code 0 "$CLTRAIN" generate $from --prompt 'the rain' --max-new 4 --temperature 0 --logits $from.npy; done
expect_same hf.npy still.npy
expect_code 0 "$CLTRAIN" generate hf --prompt 'the rain' --max-new 4 model.context=6 --tokenizer hf/tokenizer.json
expect_code 3 "$CLTRAIN" generate untold
expect_text 'made for 267' 'no tokenizer lies beside them'
expect_code 2 "$CLTRAIN" generate hf --chat --prompt 'the rain'
expect_text "generating from 'hf': --chat needs a chat template, and .*has no chat template"
expect_code 2 "$CLTRAIN" generate "$golden/hf_bert_pretrain"
expect_text 'it holds a BERT; generate continues texts with a language model'

cp made.json "$out"
expect_text '"layers": 2' '"activation": "gelu_tanh"' '"tokenizer": "hf"'
expect_code 0 "$CLTRAIN" config --print made.json
expect_code 2 "$CLTRAIN" import hf/model.safetensors --out file.json
expect_text 'from a folder that save_pretrained wrote'

# --- against transformers itself ---
if [ -n "${CLTRAIN_TEST_PYTHON:-}" ]; then
    mkdir python
    expect_code 0 "$CLTRAIN_TEST_PYTHON" "$CLTRAIN_SOURCE_DIR/tests/golden/check_hf.py" "$CLTRAIN" \
        "$CLTRAIN_BUILD_DIR/tests/logits" "$work/python" quick
    expect_text '^0 failed'
    mkdir chats
    expect_code 0 "$CLTRAIN_TEST_PYTHON" "$CLTRAIN_SOURCE_DIR/tests/golden/check_chat.py" "$CLTRAIN" "$work/chats" quick
else
    note_skip 'CLTRAIN_TEST_PYTHON names no Python with torch and transformers to compare with'
fi
finish
