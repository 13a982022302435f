#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 10 ctest-optimise: no
#
# cltrain import: writes a config for a folder of transformers that the program itself accepts, reports what
# the folder contains, and refuses folders whose parts do not belong together. Needs no device and no
# Python; make_golden_*.py wrote the folders.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

golden=$CLTRAIN_SOURCE_DIR/tests/golden/data
export OCL_ICD_VENDORS=/nonexistent # no device

# --- right folders: one row for each fact ---
# right KIND FAMILY TENSORS FILES [PARAMETERS]
right() {
    expect_code 0 "$CLTRAIN" import "$golden/hf_$1" --out "$1.json"
    expect_text "^model +type \"$2\", layers [12], " "^weights +$3 tensors of F32 in $4 file" "^config +$1.json" 'every tensor fits the model' \
        "train $1.json\$"
    [ -z "${5:-}" ] || expect_text "^parameters +$5\$"
    cp "$1.json" "$out"
    expect_text "\"type\": \"$2\"" "\"init\": \".*/hf_$1\"" '"learning_rate": '
}
right llama llama 21 1 4720
right llama3 llama 20 1
right biases llama 35 1
right dynamic llama 21 1
right mistral llama 21 1
right qwen2 llama 26 1
right qwen3 llama 25 3
right shards gpt 17 3
right tied gpt 28 1
for head in class:41 tokens:39 span:39 masked:42 pretrain:46; do right bert_${head%:*} bert ${head#*:} 1; done
for made in llama qwen3 shards tied bert_pretrain; do expect_code 0 "$CLTRAIN" config --print $made.json; done

# --- the config names the folder, for all that reads it ---
cp -r "$golden/hf_tied" named
for _ in 1 2 3 4 5 6 7 8; do echo 'a text to train on, which the model has never seen before'; done >text.txt
expect_code 0 "$CLTRAIN" import named --out named.json
cat >few.json <<'EOF'
{"model": {"init": "named"}, "data": {"type": "text", "path": "text.txt"}, "train": {"steps": 2}}
EOF
expect_code 0 "$CLTRAIN" config --print few.json
expect_text '"init": "named"' '"model.init": "file"' '"model.layers": "init"' '"data.tokenizer": "init"'
expect_code 2 "$CLTRAIN" config --print few.json model.heads=4
expect_text 'model.heads: 4 contradicts the weights: n_head is 3'
for command in 'plan --device generic' 'estimate --device generic' 'data verify' 'bench loader --seconds 0.01'; do
    expect_code 0 "$CLTRAIN" $command few.json
done
mv named elsewhere
for command in train launch eval plan estimate 'config --print' 'data verify' 'data show --out page.html' tune 'bench step' 'bench loader'; do
    for config in named few; do
        expect_code 7 "$CLTRAIN" $command $config.json
        expect_text "model.init: weights: opening 'named': No such file"
    done
done
expect_code 7 "$CLTRAIN" plan few.json --device generic --init nowhere # which takes the key's place
expect_text "weights: opening 'nowhere'"
expect_code 0 "$CLTRAIN" plan few.json --device generic --init elsewhere
expect_code 2 "$CLTRAIN" plan few.json --device generic --init ''
expect_text 'model.type: required but missing'
expect_code 2 "$CLTRAIN" plan few.json --init elsewhere model.init=elsewhere
expect_text 'model.init: given twice on the command line, also by --init'

# --- tokenizer, special ids and chat template ---
cp -r "$golden/hf_tied" hf
expect_code 0 "$CLTRAIN" import hf --out first.json
expect_text "^tokenizer +BPE, 267 tokens, from 'hf/tokenizer.json'" '^special ids +agree with config.json' '^chat template .*has no chat template' \
    'set data.path in first.json'
expect_code 0 "$CLTRAIN" import "$golden/hf_llama" --out none.json
expect_text '^tokenizer +none lies beside' 'set data.path and data.tokenizer in'
sed -i 's/"eos_token_id": 0/"eos_token_id": 5/; s/"bos_token_id": 0/"bos_token_id": [0, 500]/' hf/config.json
expect_code 0 "$CLTRAIN" import hf --out ids.json
expect_text 'bos_token_id 500 of config.json is not a row of the model, which has 267' 'eos_token_id of config.json is 5, the tokenizer says 0'
reject_text 'bos_token_id of config.json'
sed -i 's/"bos_token_id": \[0, 500\]/"bos_token_id": [3, 4]/' hf/config.json
expect_code 0 "$CLTRAIN" import hf --out lists.json
expect_text 'bos_token_id of config.json does not list 0'
# generation_config.json takes precedence over config.json, and its list is kept
reject_text 'stop tokens'
sed -i 's/"eos_token_id": 5/"eos_token_id": [0, 9]/' hf/config.json
rm hf/generation_config.json
expect_code 0 "$CLTRAIN" import hf --out stops.json
expect_text '^stop tokens +\[0, 9\]$'
reject_text 'eos_token_id of'
echo '{"eos_token_id": [3, 266, 267, "x", 3, 1e3]}' >hf/generation_config.json
expect_code 0 "$CLTRAIN" import hf --out stops2.json
expect_text '^stop tokens +\[3, 266\]$' 'eos_token_id 267 of generation_config.json is not a row of the model' \
    'eos_token_id of generation_config.json does not list 0'
cp stops2.json "$out"
expect_text '"stop_tokens": \[3, 266\]'
sed -i 's/"eos_token_id": .0, 9./"eos_token_id": 0/' hf/config.json
echo '{"eos_token_id": 4}' >hf/generation_config.json
expect_code 0 "$CLTRAIN" import hf --out stops3.json
expect_text 'eos_token_id of generation_config.json is 4, the tokenizer says 0'
reject_text 'stop tokens'
echo "{\"eos_token_id\": [$(seq -s , 1001)]}" >hf/generation_config.json
expect_code 7 "$CLTRAIN" import hf --out stops4.json
expect_text "hf/generation_config.json': eos_token_id lists 1001 ids, and 1000 are the limit"
echo '[]' >hf/generation_config.json
expect_code 7 "$CLTRAIN" import hf --out stops4.json
expect_text "hf/generation_config.json': it is not a JSON object"
echo '{"eos_token_id": ' >hf/generation_config.json
expect_code 7 "$CLTRAIN" import hf --out stops4.json
expect_text 'generation_config.json'
expect_absent stops4.json
rm hf/generation_config.json
echo '{{ messages }}' >hf/chat_template.jinja
expect_code 0 "$CLTRAIN" import hf --out unknown.json
expect_text "^chat template the chat template of 'hf/chat_template.jinja' is not one of the known ones"
# the template of published ChatML models
cat >hf/chat_template.jinja <<'EOF'
{% for message in messages %}{{'<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}
EOF
expect_code 0 "$CLTRAIN" import hf --out chat.json
expect_text '^chat template chatml$'
# a tokenizer with tokens that the weights have no row for, and one that is damaged
cp -r "$golden/hf_shards" other
cp hf/tokenizer.json other/tokenizer.json
expect_code 3 "$CLTRAIN" import other --out other.json
expect_text 'has 267 tokens' 'the model of .other. 263'
echo '{' >other/tokenizer.json
expect_code 3 "$CLTRAIN" import other --out other.json
expect_text 'tokenizer beside the weights'
expect_absent other.json

# rows that pad a vocabulary are right (Qwen2.5 has 151,936 for 151,665 tokens), and so is a special token without a row, such as [PAD]
cp -r "$golden/hf_tied" padded
rm padded/tokenizer*.json
cp "$golden"/hf_shards/{vocab.json,merges.txt} padded
expect_code 0 "$CLTRAIN" import padded --out padded.json
expect_text '^tokenizer +BPE, 263 tokens' "^unused rows +4 of the model's vocabulary have no token\$"
cp -r "$golden/hf_tied" surplus
sed -i 's/"pad_token": null/"pad_token": "[PAD]"/' surplus/tokenizer_config.json
expect_code 0 "$CLTRAIN" import surplus --out surplus.json
expect_text 'has no rows for special tokens of the tokenizer .*: \[PAD\] \(267\)' '^tokenizer +BPE, 268 tokens'
reject_text 'unused rows'

# --- two forms of the same weights ---
cp -r "$golden/hf_tied" two
cp two/model.safetensors two/pytorch_model.bin
expect_code 0 "$CLTRAIN" import two --out two.json
expect_text "'two' holds model.safetensors and pytorch_model.bin; model.safetensors is read" '^weights +28 tensors of F32 in 1 file$'

# --- weights that do not fit: all names in one message; the config is written, to be changed ---
cp -r "$golden/hf_llama" part
# rename FROM TO: gives a tensor another name of the same length in the header of the file
rename() { LC_ALL=C sed -i "s/\"$1\"/\"$2\"/" part/model.safetensors; }
rename model.layers.1.mlp.up_proj.weight model.layers.1.mlp.xp_proj.weight
rename model.norm.weight model.mean.weight
expect_code 7 "$CLTRAIN" import part --out part.json
expect_text ' layers.1.mlp.up_proj.weight is missing; the model needs it as \[20,16\]' ' norm.weight is missing' \
    'model.layers.1.mlp.xp_proj.weight \[20,16\]: the model has no such parameter' '\(4 tensors\)'
reject_text 'every tensor fits'
[ -s part.json ] && pass || fail 'no config was written'
rm -r part
cp -r "$golden/hf_llama" part
sed -i -E 's/"intermediate_size": 20/"intermediate_size": 24/' part/config.json
expect_code 7 "$CLTRAIN" import part --out shape.json
expect_text 'model.layers.\{0..1\}.mlp.up_proj.weight is \[20,16\], the model needs \[24,16\]' 'model.layers.\{0..1\}.mlp.down_proj.weight is \[16,20\]'

# --- what is no folder to import ---
# refuse CODE FOLDER PATTERN...: expects the refusal, and that nothing is written
refuse() {
    expect_code "$1" "$CLTRAIN" import "$2" --out no.json
    expect_text "${@:3}"
    expect_absent no.json
}
cp "$golden/hf_llama/config.json" part/config.json
sed -i 's/"model_type": "llama"/"model_type": "gemma2"/' part/config.json
refuse 2 part "model_type is 'gemma2'; cltrain takes gpt2, llama"
cp "$golden/hf_llama/config.json" part/config.json
sed -i 's/"rope_type": "default"/"rope_type": "longrope"/' part/config.json
refuse 2 part "rope_type: 'longrope' is not one of default, linear, dynamic, llama3 and yarn"
echo '{"model_type": ' >part/config.json
refuse 7 part 'part/config.json'
rm part/config.json
refuse 7 part 'holds no config.json'
cp "$golden/hf_llama/config.json" part
rm part/model.safetensors
refuse 7 part 'part'
refuse 7 nowhere 'nowhere'
refuse 2 "$golden/hf_llama/model.safetensors" 'from a folder that save_pretrained wrote'
echo mine >kept.json
expect_code 2 "$CLTRAIN" import "$golden/hf_llama" --out kept.json
expect_text "'kept.json' exists already and is not overwritten"
[ "$(cat kept.json)" = mine ] && pass || fail 'the file was overwritten'
expect_code 2 "$CLTRAIN" import "$golden/hf_llama"
expect_text 'give --out CONFIG'
expect_code 2 "$CLTRAIN" config --from "$golden/hf_llama"
expect_text 'cltrain import FOLDER --out CONFIG'
finish
