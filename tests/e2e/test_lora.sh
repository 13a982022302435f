#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 60 ctest-optimise: no
#
# Low-rank adapters from the command line: memory for adapters alone, training over a base model in 32 and 16 bits, resuming with the same
# bits, folders for PEFT in both directions, merging, evaluation and generation with an adapter, and what is refused. tests/golden/test_golden_lora.c
# compares numbers with PEFT's.
. "$(dirname "$0")/lib.sh"

golden=$CLTRAIN_SOURCE_DIR/tests/golden/data
for i in $(seq 300); do echo "line $i: the cat sat on the mat, and the dog sat on the cat"; done >text
small=(model.layers=2 model.channels=32 model.dropout=0 data.split=0.1 data.micro_batch=4 optimizer.type=adamw train.seed=3)
net gpt "${small[@]}" optimizer.learning_rate=0.003 train.steps=40 >base.json
net gpt "${small[@]}" optimizer.learning_rate=0.01 train.steps=8 model.lora_rank=4 model.lora_alpha=6 'model.lora_targets=["c_attn", "mlp.c_proj"]' \
    model.lora_dropout=0.1 >lora.json
bytes() { sed -n -E "s/^ *\"$1\": ([0-9]+),?$/\1/p" "$out" | tail -n 1; }
loss() { sed -n -E 's/.*loss ([0-9.]+).*/\1/p' "$out"; }
tensors() { "$CLTRAIN_BUILD_DIR/tests/logits" --tensors "$1" | sort; }

# --- memory, without a device: A (r,in) and B (out,r) of two layers in two blocks: 4*(32+96) + 4*(128+32) a block ---
expect_code 0 "$CLTRAIN" plan lora.json --device generic
expect_text '36480 parameters in 36 tensors, 34176 of them frozen'
expect_code 0 "$CLTRAIN" estimate lora.json --device generic --json
adapted=$(bytes optimizer)
gradients=$(bytes gradients)
expect_code 0 "$CLTRAIN" estimate base.json --device generic --json
# eight tensors, none longer than a chunk of 1024 elements: f32 gradients, and two states
if [ "$adapted" = $((8 * 4096 * 2)) ] && [ "$gradients" -lt "$(bytes gradients)" ] && [ "$adapted" -lt "$(bytes optimizer)" ]; then pass; else
    fail "adapters: $adapted bytes of optimizer state, $gradients of gradients"
fi

# a base in 16 bits: its matrices and tables, which are nearly all of the model, need half, and products no copies of them
wide=(model.layers=2 model.channels=256 model.lora_rank=4)
net gpt "${small[@]}" "${wide[@]}" train.steps=1 >wide.json
expect_code 0 "$CLTRAIN" estimate wide.json --device generic --json
whole=$(bytes parameters)
for mode in f32 bf16; do
    expect_code 0 "$CLTRAIN" estimate wide.json --device generic --json model.lora_base=bf16 precision.mode=$mode
    part=$(bytes parameters)
    if [ "$part" -lt $((whole * 6 / 10)) ]; then pass; else fail "$mode: parameters need $part bytes with a base of 16 bits, $whole without"; fi
done
expect_code 2 "$CLTRAIN" plan lora.json --device generic model.lora_base=int8
expect_text 'model.lora_base.*f32.f16.bf16'

# --- mistakes in the config ---
expect_code 2 "$CLTRAIN" plan lora.json --device generic model.lora_rank=0
expect_text 'model.lora_rank: must be at least 1 where model.lora_targets names layers'
expect_code 2 "$CLTRAIN" plan lora.json --device generic model.lora_alpha=0
expect_text 'model.lora_alpha: 0 is out of range'
expect_code 2 "$CLTRAIN" plan lora.json --device generic 'model.lora_targets=["c_attn","q_proj"]'
expect_text "model.lora_targets: no layer that could have an adapter is called 'q_proj'.*there are c_attn, c_proj and c_fc"
expect_code 2 "$CLTRAIN" plan lora.json --device generic model.lora_scale=2
expect_text 'model.lora_scale'
expect_code 2 "$CLTRAIN" plan lora.json --device generic model.type=mlp
expect_code 0 "$CLTRAIN" plan lora.json --device generic model.lora_targets=all-linear model.lora_rs=true
expect_text 'h.0.mlp.c_fc.lora_A'
reject_text 'lm_head.lora_A'
for layer in wte lm_head; do
    expect_code 2 "$CLTRAIN" plan lora.json --device generic "model.lora_targets=[\"$layer\"]"
    expect_text "model.lora_targets: '$layer': .* share one weight.* model.tied=false"
done
expect_code 0 "$CLTRAIN" plan lora.json --device generic 'model.lora_targets=["wte", "lm_head", "c_fc"]' model.tied=false \
    'model.lora_rank_pattern=["wte=2", "h.0.mlp.c_fc=3"]' model.lora_alpha_pattern=c_fc=9
expect_text 'wte.lora_embedding_A +embedding +.4,[0-9]+,2.' 'h.0.mlp.c_fc.lora_A +linear +.4,[0-9]+,3.' 'h.1.mlp.c_fc.lora_A +linear +.4,[0-9]+,4.' 'lm_head.lora_B'
for key in rank alpha; do
    for entry in c_attn 'c_attn=' '=4' 'c_attn=0' 'c_attn=x' 'c_attn=1e9'; do
        expect_code 2 "$CLTRAIN" plan lora.json --device generic "model.lora_${key}_pattern=[\"$entry\"]"
        expect_text "model.lora_${key}_pattern: must be entries such as"
    done
    expect_code 2 "$CLTRAIN" plan lora.json --device generic "model.lora_${key}_pattern=[\"c_attn=4\", \"c_fc=4\"]"
    expect_text "model.lora_${key}_pattern: 'c_fc=4' has no effect: it names no layer with an adapter"
    expect_code 2 "$CLTRAIN" plan base.json --device generic "model.lora_${key}_pattern=[\"c_attn=4\"]"
    expect_text "model.lora_${key}_pattern: is for adapters, and model.lora_rank is 0"
done
expect_code 2 "$CLTRAIN" plan lora.json --device generic 'model.lora_rank_pattern=["c_attn=2.5"]'
expect_code 0 "$CLTRAIN" plan lora.json --device generic 'model.lora_targets=[]'
expect_text 'h.0.attn.c_attn.lora_B'
reject_text 'c_proj.lora_A'

"$CLTRAIN" devices >/dev/null 2>&1 || { note_skip 'there is no OpenCL device: nothing is trained'; finish; }

# --- training: the base stays, and a run that was interrupted ends with the same bits ---
expect_code 0 "$CLTRAIN" train base.json --out base
expect_code 0 "$CLTRAIN" train lora.json --init base --out whole
expect_text 'adapters +8 new tensors' '[0-9,]+ of them frozen'
reject_text 'learn nothing' # A's gradients are zero in the first step alone
expect_code 0 "$CLTRAIN" train lora.json --init base --out part --max-steps 3
expect_code 0 "$CLTRAIN" train --resume part
for file in model optimizer; do
    expect_same "whole/checkpoints/step_8/$file.safetensors" "part/checkpoints/step_8/$file.safetensors"
done
for name in wte.weight h.0.attn.c_attn.weight h.1.mlp.c_proj.bias ln_f.weight; do
    expect_same <(tensor base/checkpoints/step_40/model.safetensors $name) <(tensor whole/checkpoints/step_8/model.safetensors $name)
done
expect_code 1 grep -q -a wte whole/checkpoints/step_8/optimizer.safetensors
expect_code 0 "$CLTRAIN" eval base
before=$(loss)
expect_code 0 "$CLTRAIN" eval whole
reject_text 'change nothing'
after=$(loss)
if awk "BEGIN { exit !($after < $before) }"; then pass; else fail "evaluation loss $before without adapters, $after with them"; fi

# --- the adapters alone, as PEFT has them, and back ---
expect_code 0 "$CLTRAIN" export whole --format peft --out adapter --base some/base
expect_text 'adapters of 4 layers, rank 4' 'peft.PeftModel.from_pretrained'
cp adapter/adapter_config.json "$out"
expect_text '"peft_type": "LORA"' '"r": 4' '"lora_alpha": 6' '"lora_dropout": 0.1' '"fan_in_fan_out": true' '"base_model_name_or_path": "some/base"' \
    '"transformer.h.1.mlp.c_proj"'
tensors adapter/adapter_model.safetensors >"$out"
expect_text 'base_model.model.transformer.h.0.attn.c_attn.lora_A.weight'
reject_text wte
if [ "$(wc -l <"$out")" = 8 ]; then pass; else fail "the adapter has $(wc -l <"$out") tensors"; fi
if [ "$(stat -c %s adapter/adapter_model.safetensors)" -lt 12000 ]; then pass; else fail 'the adapter is large'; fi
expect_code 0 "$CLTRAIN" eval base --adapter adapter
if [ -n "$after" ] && [ "$(loss)" = "$after" ]; then pass; else fail "the base with the adapter: loss $(loss), not $after"; fi
expect_code 0 "$CLTRAIN" eval base.json --init base --adapter adapter
if [ "$(loss)" = "$after" ]; then pass; else fail "--init with --adapter: loss $(loss), not $after"; fi
expect_code 0 "$CLTRAIN" train base.json --init base --adapter adapter train.steps=1 optimizer.learning_rate=1e-30 --out again
expect_text 'adapter from adapter'
expect_code 0 "$CLTRAIN" export again --format peft --out adapter2
expect_same adapter/adapter_model.safetensors adapter2/adapter_model.safetensors
expect_code 0 "$CLTRAIN" generate whole --prompt 'line 7' --temperature 0 --max-new 24
grep -v tokens "$out" >said
expect_code 0 "$CLTRAIN" generate base --adapter adapter --prompt 'line 7' --temperature 0 --max-new 24
expect_same said <(grep -v tokens "$out")

expect_code 0 "$CLTRAIN" export base --out base_hf # and the folder of transformers as it is
expect_code 0 "$CLTRAIN" generate base_hf --adapter adapter --prompt 'line 7' --temperature 0 --max-new 24
expect_same said <(grep -v tokens "$out")
expect_code 2 "$CLTRAIN" train --resume base --adapter adapter
expect_text "resumes with the run's own weights; --adapter does not go together with it"

# --- merged ---
expect_code 0 "$CLTRAIN" export whole --merge --out merged
expect_text 'adapters were added to 4 weights'
expect_code 0 "$CLTRAIN" eval base.json --init merged
if awk "BEGIN { d = $(loss) - $after; exit !(d < 2e-4 && d > -2e-4) }"; then pass; else fail "merged: loss $(loss), not $after"; fi
expect_code 0 "$CLTRAIN" export whole --merge --out merged.safetensors
tensors merged.safetensors >"$out"
reject_text lora
expect_code 0 "$CLTRAIN" export whole --merge --dtype bf16 --out narrow
expect_text 'rounding to bf16 changed the merged weights by [0-9.]+ % of what the adapters add' \
    'compared with base and adapters on [0-9]+ tokens: logits differ by at most [0-9.e-]+, of up to [0-9.]+; the most likely next token is the same'
reject_text 'explains'
changed() { sed -n -E 's/.*logits differ by at most ([0-9.e+-]+), of up to ([0-9.]+);.*/\1 \2/p' "$out"; }
# the run, and a run that starts from the exported folder and learns nothing, have the same figures
told=$(changed)
probe='The tall ship left the harbour on 14 March 1897.
Question: what is 3 * (4 + 5)? Answer:'
expect_code 0 "$CLTRAIN" train base.json --init narrow train.steps=1 optimizer.learning_rate=1e-30 --out narrow_run
for run in whole narrow_run; do
    expect_code 0 "$CLTRAIN" generate $run --prompt "$probe" --max-new 0 --logits $run.npy
    od -An -v -tf4 -w4 -j 192 $run.npy >$run.txt
done
expect_awk "the probe told $told" 'function size(x) { return x < 0 ? -x : x }
    NR == 1 { told_change = $1; told_largest = $2; next }
    { d = size($1 - $2); if (d > change) change = d; if (size($1) > largest) largest = size($1) }
    END { exit !(change > 0 && size(told_change - change) < 0.06 * change && size(told_largest - largest) < 0.006 * largest) }' \
    <(echo "$told"; paste whole.txt narrow_run.txt)
expect_code 0 "$CLTRAIN" export whole --merge --out exact
expect_awk 'merged in f32, the logits stay' '$1 < 1e-5 * $2 { good = 1 } END { exit !good }' <(changed)
expect_code 0 "$CLTRAIN" export whole --merge --no-probe --out exact.safetensors
reject_text 'compared'
expect_code 0 "$CLTRAIN" export whole --merge --device no_such_device --out uncompared
expect_text 'the merged model was not compared with base and adapters: .*no_such_device'
expect_code 2 "$CLTRAIN" export whole --no-probe --out exact.safetensors
expect_text '.no-probe is for --merge'
expect_code 0 "$CLTRAIN" export whole --merge --dtype q8_0 --out eight.gguf
expect_text 'not compared with base and adapters: that is done for f32, f16 and bf16'
expect_code 0 "$CLTRAIN" export whole --merge --dtype bf16 --out narrow.gguf
expect_text 'adapters were added to 4 weights' 'rounding to bf16 changed the merged weights by [0-9.]+ % of what the adapters add' 'logits differ by at most'
reject_text 'change nothing'
# a rate that rounds every change of B to zero
expect_code 0 "$CLTRAIN" train lora.json --init base --out idle train.steps=4 optimizer.learning_rate=1e-60
reject_text 'learn nothing' # A's gradients are zero since B is
for command in 'eval idle' 'generate idle --max-new 3'; do
    expect_code 0 "$CLTRAIN" $command
    expect_text "'idle/checkpoints/step_4': every B of the adapters is zero, so they change nothing"
done
expect_code 0 "$CLTRAIN" export idle --merge --out idle_merged
expect_text 'every B or A is zero: these adapters change nothing'
expect_code 0 "$CLTRAIN" export whole --out all.safetensors # base and adapters, as a run's weights
expect_code 0 "$CLTRAIN" train lora.json --init all.safetensors train.steps=1 --out third
reject_text 'new tensors'

# --- a base in 16 bits: the saved values are those used in computations, and a run resumes with the same
# bits ---
for kind in 'bf16 f32' 'f16 f32' 'bf16 bf16'; do
    set -- $kind
    keys=(model.lora_base=$1 precision.mode=$2)
    rm -rf b16 p16 m16
    expect_code 0 "$CLTRAIN" train lora.json --init base --out b16 "${keys[@]}"
    expect_code 0 "$CLTRAIN" train lora.json --init base --out p16 --max-steps 3 "${keys[@]}"
    expect_code 0 "$CLTRAIN" train --resume p16
    expect_same b16/checkpoints/step_8/model.safetensors p16/checkpoints/step_8/model.safetensors
    [ "$1" = f16 ] || for name in wte.weight h.1.attn.c_proj.weight; do # the lower halves of rounded f32 are zero
        if tensor b16/checkpoints/step_8/model.safetensors $name | head -n 40 | grep -v '^[0-9]*\*' | grep -qvE '^( 00 00 .. ..)+$'; then
            fail "$kind: $name is not rounded"
        else
            pass
        fi
    done
    if diff -q <(tensor b16/checkpoints/step_8/model.safetensors wte.weight) <(tensor base/checkpoints/step_40/model.safetensors wte.weight) >/dev/null
    then fail "$kind: nothing was rounded"; else pass; fi
    expect_code 0 "$CLTRAIN" eval b16
    rounded=$(loss)
    expect_code 0 "$CLTRAIN" export b16 --merge --out m16
    expect_code 0 "$CLTRAIN" eval base.json --init m16 precision.mode=$2
    if awk "BEGIN { d = $(loss) - $rounded; exit !(d < 2e-3 && d > -2e-3) }"; then pass; else fail "$kind: merged: loss $(loss), not $rounded"; fi
    expect_code 0 "$CLTRAIN" generate b16 --prompt 'line 7' --temperature 0 --max-new 4
done

# --- the token embedding and the output layer, with ranks and alphas of their own ---
own=(model.tied=false)
expect_code 0 "$CLTRAIN" train base.json "${own[@]}" train.steps=10 --out untied
own+=('model.lora_targets=["wte", "lm_head", "c_attn"]' 'model.lora_rank_pattern=["wte=2", "h.1.attn.c_attn=3"]' 'model.lora_alpha_pattern=["lm_head=3"]')
expect_code 0 "$CLTRAIN" train lora.json "${own[@]}" --init untied --out own
for name in wte.weight lm_head.weight; do
    expect_same <(tensor untied/checkpoints/step_10/model.safetensors $name) <(tensor own/checkpoints/step_8/model.safetensors $name)
done
expect_code 0 "$CLTRAIN" train lora.json "${own[@]}" --init untied --out own_part --max-steps 3
expect_code 0 "$CLTRAIN" train --resume own_part
expect_same own/checkpoints/step_8/model.safetensors own_part/checkpoints/step_8/model.safetensors
expect_code 0 "$CLTRAIN" eval own
after=$(loss)
expect_code 0 "$CLTRAIN" export own --merge --out own_merged
expect_text 'adapters were added to 4 weights'
expect_code 0 "$CLTRAIN" eval base.json model.tied=false --init own_merged
if awk "BEGIN { d = $(loss) - $after; exit !(d < 2e-4 && d > -2e-4) }"; then pass; else fail "merged: loss $(loss), not $after"; fi
expect_code 0 "$CLTRAIN" export own --format peft --out own_adapter
tr -d ' \n' <own_adapter/adapter_config.json >"$out"
expect_text '"r":4,' '"rank_pattern":.*"transformer.h.1.attn.c_attn":3' '"transformer.wte":2' '"alpha_pattern":."lm_head":3.'
tensors own_adapter/adapter_model.safetensors >"$out"
expect_text 'base_model.model.transformer.wte.lora_embedding_A' 'base_model.model.transformer.wte.lora_embedding_B' 'base_model.model.lm_head.lora_B.weight'
if [ "$(wc -l <"$out")" = 8 ]; then pass; else fail "the adapter has $(wc -l <"$out") tensors"; fi
expect_code 0 "$CLTRAIN" eval untied --adapter own_adapter
if [ "$(loss)" = "$after" ]; then pass; else fail "the base with the adapter: loss $(loss), not $after"; fi
expect_code 0 "$CLTRAIN" generate own --prompt 'line 7' --temperature 0 --max-new 24
grep -v tokens "$out" >said
expect_code 0 "$CLTRAIN" generate untied --adapter own_adapter --prompt 'line 7' --temperature 0 --max-new 24
expect_same said <(grep -v tokens "$out")

# --- what does not go together ---
expect_code 2 "$CLTRAIN" export whole --out lost
expect_text '--merge adds them to the weights, --format peft writes only the adapters'
expect_code 2 "$CLTRAIN" export base --merge --out lost
expect_text 'the run has none'
expect_code 2 "$CLTRAIN" export base --format peft --out lost
expect_text 'the run has no adapters'
expect_code 2 "$CLTRAIN" export whole --merge --format peft --out lost
expect_code 2 "$CLTRAIN" export whole --format peft --dtype f16 --out lost
expect_code 2 "$CLTRAIN" export whole --out lost --base name
expect_code 2 "$CLTRAIN" export whole --format peft --out adapter
expect_text 'not overwritten'
expect_code 2 "$CLTRAIN" train base.json --adapter adapter --out lost
expect_text 'there is no --init PATH'
expect_code 2 "$CLTRAIN" train base.json --init whole --adapter adapter --out lost
expect_text 'have adapters already'
expect_code 2 "$CLTRAIN" generate whole --adapter adapter
expect_text 'already has adapters; remove --adapter'
expect_code 2 "$CLTRAIN" train base.json --init base --adapter adapter model.lora_rank=8 --out lost
expect_text "model.lora_rank.*the adapter's r is 4"
expect_code 7 "$CLTRAIN" eval lora.json --init base # a base alone is not taken for a model with adapters
expect_text 'lora_A'
if [ ! -e lost ]; then pass; else fail 'something was written'; fi

# --- adapters of strangers: all of an adapter is used, or nothing ---
change() { # SED-EXPRESSION: adapter_config.json of a copy
    rm -rf bad
    cp -r "$golden/lora_llama" bad
    sed -i -E "$1" bad/adapter_config.json
    cmp -s bad/adapter_config.json "$golden/lora_llama/adapter_config.json" && fail "nothing changed: $1"
}
cat >rows.json <<EOF
{"model": {"context": 24}, "data": {"type": "npy", "path": "$golden/hf_llama_x.npy", "targets": "$golden/hf_llama_y.npy", "micro_batch": 4},
 "train": {"steps": 1}}
EOF
take() { expect_code "$1" "$CLTRAIN" eval rows.json --on train --init "$golden/hf_llama" --adapter bad; }
cp -r "$golden/lora_llama" bad
take 0
expect_text 'loss'
change 's/"use_dora": false/"use_dora": true/; s/"modules_to_save": null/"modules_to_save": "lm_head"/; s/"rank_pattern": \{\}/"rank_pattern": {"q_pro[jk]": 8}/;
    s/"lora_bias": false/"lora_bias": true/; s/"init_lora_weights": true/"init_lora_weights": "pissa"/; s/"bias": "none"/"bias": "all"/'
take 2
expect_text 'use_dora: is set' 'modules_to_save: is not a list of names' 'rank_pattern: holds a regular expression' 'lora_bias: is set' 'init_lora_weights: such adapters change' 'bias: is not none'
change 's/"alpha_pattern": \{\}/"alpha_pattern": {"all-linear": 4}/'
take 2
expect_text 'alpha_pattern: holds all-linear, which PEFT takes for the name of a layer'
change 's/"modules_to_save": null/"modules_to_save": ["lm_head"]/'
take 7
expect_text 'adapter_config.json names modules_to_save, and the file holds none of them'
change 's/"LORA"/"IA3"/'
take 2
expect_text "peft_type is 'IA3'; cltrain takes LORA"
change 's/"lora_alpha": [0-9]+/"lora_alpha": 0/'
take 2
expect_text 'lora_alpha: is not a number above 0'
change 's/"r": 4/"r": 5/'
take 7
expect_text 'has shape .4,[0-9]+., and adapter_config.json says rank 5'
change 's/"r": 4/"r": 1e99/'
take 2
change 's/"q_proj"/"k_proj"/'
take 7
expect_text 'self_attn.k_proj.lora_A.weight is missing' 'self_attn.q_proj.lora_A.weight .*the model has no such parameter'
change 's/"(q_proj|v_proj|down_proj)",?//'
take 2
change 's/\}$/,/'
take 7
for edit in base_model.model.model/base_modex.model.model lora_A/lora_X layers.1.mlp/layers.7.mlp 'lora_B.weight/lora_B.bias..'; do
    rm -rf bad
    cp -r "$golden/lora_llama" bad
    sed -i "s/$edit/" bad/adapter_model.safetensors
    expect_code 1 cmp -s bad/adapter_model.safetensors "$golden/lora_llama/adapter_model.safetensors"
    case $edit in lora_*) take 2 ;; *) take 7 ;; esac
done
rm -rf bad
cp -r "$golden/lora_llama" bad
size=$(wc -c <bad/adapter_model.safetensors)
printf '\377\377\377\177' | dd of=bad/adapter_model.safetensors bs=1 seek=$((size - 4)) conv=notrunc status=none # the last number
take 6
expect_text 'norm of B nan: not all of its values are finite'
rm bad/adapter_model.safetensors
take 7
expect_text 'adapter_model.safetensors; save the adapter with'
rm -r bad
take 7
expect_text 'is not a folder'

# PEFT saves copies of adapted embeddings: they must be the base's
rm -rf bad
cp -r "$golden/lora_own" bad
take 0
expect_text 'loss'
length=$(od -An -tu8 -N8 bad/adapter_model.safetensors | tr -d ' ')
at=$(tail -c +9 bad/adapter_model.safetensors | head -c "$length" | sed -E 's/.*"[a-z_.]*embed_tokens.base_layer.weight":[^}]*"data_offsets":\[([0-9]+),.*/\1/')
printf '\100' | dd of=bad/adapter_model.safetensors bs=1 seek=$((8 + length + at + 3)) conv=notrunc status=none
take 7
expect_text "brings a copy of model.embed_tokens.weight that is not the model's"

# --- against PEFT itself ---
if [ -z "${CLTRAIN_TEST_PYTHON:-}" ]; then
    note_skip 'CLTRAIN_TEST_PYTHON names no Python with torch, transformers and peft to compare with'
elif ! "$CLTRAIN_TEST_PYTHON" -c 'import torch, transformers, peft' 2>/dev/null; then
    note_skip "$CLTRAIN_TEST_PYTHON lacks torch, transformers or peft"
else
    mkdir python
    expect_code 0 "$CLTRAIN_TEST_PYTHON" "$CLTRAIN_SOURCE_DIR/tests/golden/check_peft.py" "$CLTRAIN" "$CLTRAIN_BUILD_DIR/tests/logits" "$work/python"
    expect_text '^0 failed'
fi
finish
