#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-optimise: no
#
# Weights as other programs save them: tensors that are not needed, of any type, do not fail a file;
# prefixes of wrappers are taken off; a part of another model is still refused, and following a message's
# advice works.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# remake FILE FROM SED [NAME TYPE SHAPE BYTES]...: FROM with its header changed by a sed program, and further tensors of zeros.
remake() {
    local file=$1 from=$2 length size header end i
    length=$(od -An -tu8 -N8 "$from" | tr -d ' ')
    size=$(stat -c %s "$from")
    end=$((size - 8 - length))
    header=$(tail -c +9 "$from" | head -c "$length" | sed -E "$3")
    header=${header%"${header##*\}}"}
    tail -c +$((9 + length)) "$from" >data
    shift 3
    while [ $# -gt 0 ]; do
        header=${header%\}},"\"$1\":{\"dtype\":\"$2\",\"shape\":$3,\"data_offsets\":[$end,$((end + $4))]}}"
        head -c "$4" /dev/zero >>data
        end=$((end + $4))
        shift 4
    done
    {
        for ((i = 0; i < 8; i++)); do printf "\\x$(printf %02x $(((${#header} >> 8 * i) & 255)))"; done
        printf '%s' "$header"
        cat data
    } >"$file"
}
prefixed() { echo "s/\"([^\"]*)\":\{\"dtype\"/\"$1\\1\":{\"dtype\"/g"; } # the sed program that puts $1 before all names

head -c 400 "$CLTRAIN_SOURCE_DIR/LICENSE" >text.txt
net gpt model.layers=2 model.channels=8 model.context=8 model.tied=false data.path=text.txt data.eval_path=text.txt data.micro_batch=2 \
    optimizer.learning_rate=0.01 train.steps=1 >gpt.json
"$CLTRAIN" devices >/dev/null 2>&1 || skip_all 'there is no OpenCL device: there are no weights'
export CLTRAIN_GEMM=simple # starts fastest
expect_code 0 "$CLTRAIN" train gpt.json --out run
expect_code 0 "$CLTRAIN" export run --out own.safetensors
loss_of() { # FILE [OPTION...]: the loss that an evaluation of the file gives
    local file=$1
    shift
    expect_code 0 "$CLTRAIN" eval gpt.json --init "$file" --json result.json "$@" >&2
    sed -n 's/.*"loss": *\([^,}]*\).*/\1/p' result.json | head -n 1
}
wanted=$(loss_of own.safetensors)
[ -n "$wanted" ] && pass || fail 'the evaluation says no loss'
same_loss() { if [ "$(loss_of "$@")" = "$wanted" ]; then pass; else fail "$1: not the loss of the same weights"; fi; }
dry() { expect_code "$1" "$CLTRAIN" train gpt.json --init "$2" --dry-run "${@:3}"; }

# --- what is not needed ---
mask=h.0.attn.bias
remake types.safetensors own.safetensors '' "$mask" BOOL '[1,1,8,8]' 64 h.1.attn.masked_bias I64 '[]' 8 score.weight F8_E4M3 '[3,8]' 24 \
    value.scale E99 '[2]' 6 seven F32 '[1,1,1,1,1,1,2]' 8 h.0.step I64 '[1]' 8
dry 0 types.safetensors
expect_text "^warning: 'types.safetensors' holds 4 tensors that the model does not use: score.weight, value.scale, seven, h.0.step"
same_loss types.safetensors
remake class.safetensors own.safetensors '' score.weight F32 '[3,8]' 96
dry 0 class.safetensors
expect_text "holds 1 tensor that the model does not use: score.weight"
same_loss class.safetensors
dry 0 class.safetensors --init-skip 'score.*'
reject_text 'does not use'

# Parts that the model would need are refused: a third layer, an adapter, a type that weights do not have.
remake layers.safetensors own.safetensors '' h.2.ln_1.weight F32 '[8]' 32
remake adapter.safetensors own.safetensors '' h.0.attn.c_attn.lora_A.weight F32 '[2,8]' 64
remake float8.safetensors own.safetensors '' h.0.attn.c_attn.weight_scale F8_E5M2 '[8]' 8
for file in layers adapter float8; do
    dry 7 $file.safetensors
    expect_text 'the model has no such parameter'
    expect_code 7 "$CLTRAIN" eval gpt.json --init $file.safetensors
    expect_text 'the model has no such parameter'
done
remake wrong.safetensors own.safetensors 's/("ln_f.weight":\{"dtype":")F32/\1I32/; s/("ln_f.bias":\{"dtype":")F32/\1XYZ/'
dry 7 wrong.safetensors
expect_text 'ln_f.weight holds I32 numbers, and weights are F32, F16, BF16 or F64' 'ln_f.bias holds XYZ numbers'

# --- prefixes ---
for prefix in module. model. _orig_mod. module._orig_mod. transformer. model.transformer.; do
    remake prefix.safetensors own.safetensors "$(prefixed "$prefix")"
    dry 0 prefix.safetensors
    same_loss prefix.safetensors
    [ $prefix = transformer. ] || expect_text "^info: .* lose the prefix '$prefix'" # which GPT-2's names may have
done
remake ddp.safetensors own.safetensors 's/"(w|h\.|ln_f)([^"]*)":\{"dtype"/"module.transformer.\1\2":{"dtype"/g; s/"lm_head/"module.lm_head/'
same_loss ddp.safetensors # as DistributedDataParallel over transformers' class has it
# a name without the prefix, and a prefix that no wrapper has
remake some.safetensors own.safetensors "$(prefixed module.); s/\"module.ln_f.bias\"/\"ln_f.bias\"/"
dry 7 some.safetensors
remake other.safetensors own.safetensors "$(prefixed other.)"
dry 7 other.safetensors
expect_text 'is missing'
# names with and without the prefix: ambiguous
remake twice.safetensors own.safetensors "$(prefixed module.)" ln_f.weight F32 '[8]' 32
dry 7 twice.safetensors
expect_text "twice.safetensors: tensor \"ln_f.weight\" is there with the prefix 'module.' and without it"

# --- hints that can be followed ---
# wrong CHANGE HINT: with the change, a sed program, the config does not fit; with the hint it does.
wrong() {
    sed -E "$1" gpt.json >wrong.json
    expect_code 7 "$CLTRAIN" train wrong.json --init own.safetensors --dry-run
    expect_text "^these keys would fit the file: $2( \\(|$)"
    # shellcheck disable=SC2086
    expect_code 0 "$CLTRAIN" train wrong.json --init own.safetensors --dry-run $2
}
wrong 's/"tied": false/"tied": true/' model.tied=false
wrong 's/"layers": 2/"layers": 1/' model.layers=2
wrong 's/"layers": 2/"layers": 3/' model.layers=2
wrong 's/"heads": 2/"heads": 2, "vocab": 300/' model.vocab=256
wrong 's/"context": 8/"context": 16/' model.context=8
wrong 's/"heads": 2/"heads": 2, "bias": false/' model.bias=true
wrong 's/"channels": 8/"channels": 16/' model.channels=8
wrong 's/"layers": 2/"layers": 1/; s/"tied": false/"tied": true/' 'model.layers=2 model.tied=false'

# A folder whose config.json contradicts its weights: the hint's key counts.
expect_code 0 "$CLTRAIN" export run --out folder
echo '{"data": {"type": "text", "path": "text.txt", "micro_batch": 2}, "train": {"steps": 1}}' >few.json
sed -i 's/"tie_word_embeddings": *false/"tie_word_embeddings": true/' folder/config.json
expect_code 7 "$CLTRAIN" train few.json --init folder --dry-run
expect_text '^these keys would fit the file: model.tied=false$'
expect_code 0 "$CLTRAIN" train few.json --init folder --dry-run model.tied=false
# A folder whose config.json describes other weights: the user writes a config, and names the file.
sed -i 's/"n_layer": *2/"n_layer": 1/; s/"num_hidden_layers": *2/"num_hidden_layers": 1/' folder/config.json
expect_code 7 "$CLTRAIN" train few.json --init folder --dry-run
expect_text "does not describe its weights, which have layers 2, tied false; change the model to that in a config that 'cltrain import folder --out CONFIG' writes"
expect_code 7 "$CLTRAIN" import folder --out mine.json
sed -i 's/"layers": 1/"layers": 2/; s/"tied": true/"tied": false/' mine.json
expect_code 0 "$CLTRAIN" train mine.json data.path=text.txt --init folder/model.safetensors --dry-run
finish
