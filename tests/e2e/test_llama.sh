#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 60 ctest-optimise: no
#
# Llama, Mistral, Qwen2 and Qwen3 from the command line: folders of transformers are taken by --init, trained, exported again with
# the same bytes in every tensor, and evaluated to the same loss; what no class of transformers computes is refused; a llama of
# bytes learns and continues a text. The folders are those of make_golden_llama.py.
. "$(dirname "$0")/lib.sh"

golden=$CLTRAIN_SOURCE_DIR/tests/golden/data
tensors() { "$CLTRAIN_BUILD_DIR/tests/logits" --tensors "$1" | sed 's/^model\.//' | sort; }
loss() { sed -n -E 's/.*loss ([0-9.]+).*/\1/p' "$out"; }
rows() { # KIND: a config whose data are the kind's four sequences
    cat >"$1.json" <<EOF
{"model": {"context": 24}, "data": {"type": "npy", "path": "$golden/hf_$1_x.npy", "targets": "$golden/hf_$1_y.npy", "micro_batch": 4},
 "optimizer": {"type": "adamw", "learning_rate": 1e-30}, "train": {"steps": 1}}
EOF
}

# --- a step of 1e-30 changes no bit, so the export equals what was read ---
class_of() { case $1 in mistral) echo Mistral ;; qwen2) echo Qwen2 ;; qwen3) echo Qwen3 ;; *) echo Llama ;; esac }
for kind in llama llama3 biases dynamic mistral qwen2 qwen3; do
    rows $kind
    expect_code 0 "$CLTRAIN" train $kind.json --init "$golden/hf_$kind" --out "run_$kind"
    expect_code 0 "$CLTRAIN" export "run_$kind" --out "out_$kind"
    expect_text "AutoModelForCausalLM.from_pretrained\('out_$kind'\)"
    tensors "$golden/hf_$kind" >before
    tensors "out_$kind" >after
    if [ -s before ] && cmp -s before after; then pass; else fail "$kind: $(diff before after | head -n 5)"; fi
    cp "out_$kind/config.json" "$out"
    expect_text "\"$(class_of $kind)ForCausalLM\"" '"rope_theta": '
    expect_code 0 "$CLTRAIN" eval $kind.json --on train --init "$golden/hf_$kind"
    before=$(loss)
    expect_code 0 "$CLTRAIN" eval $kind.json --on train --init "out_$kind"
    if [ -n "$before" ] && [ "$(loss)" = "$before" ]; then pass; else fail "$kind: the export's loss is $(loss), not $before"; fi
    expect_code 0 "$CLTRAIN" import "$golden/hf_$kind" --out made_$kind.json
    cp made_$kind.json "$out"
    expect_text '"type": "llama"'
    expect_code 0 "$CLTRAIN" config --print made_$kind.json
done
cp out_llama3/config.json "$out"
expect_text '"rope_type": "llama3"' '"original_max_position_embeddings": 32' '"max_position_embeddings": 64' '"tie_word_embeddings": true'
cp out_qwen2/config.json "$out"
expect_text '"use_sliding_window": true' '"max_window_layers": 1' '"sliding_window": 5'
cp out_dynamic/config.json "$out"
expect_text '"max_position_embeddings": 10' '"factor": 3'
cp out_qwen3/config.json "$out"
expect_text '"rope_type": "yarn"'
reject_text attention_factor
sed -i 's/"rope_type": "yarn"/"attention_factor": 1.25, "rope_type": "yarn"/' out_qwen3/config.json
expect_code 0 "$CLTRAIN" train qwen3.json --init out_qwen3 --out run_factor
expect_code 0 "$CLTRAIN" export run_factor --out out_factor
cp out_factor/config.json "$out"
expect_text '"attention_factor": 1.25'

# --- settings that cltrain's llama cannot represent are named, all at once ---
put() { # KEY VALUE
    sed -i -E "s|\"$1\": [^,{]*(,?)\$|\"$1\": $2\1|" changed/config.json
    grep -q "\"$1\": $2" changed/config.json || fail "config.json has no $1"
}
cp -r "$golden/hf_llama" changed
put hidden_act '"gelu"'
put num_key_value_heads 3
put rope_type '"longrope"'
sed -i 's|"use_cache": true|"quantization_config": {"bits": 4}, "partial_rotary_factor": 0.5|' changed/config.json
expect_code 2 "$CLTRAIN" train llama.json --init changed --out no
expect_text "cltrain's llama cannot represent" 'hidden_act: is not silu' 'num_key_value_heads: does not divide' \
    "rope_type: 'longrope' is not one of default, linear, dynamic, llama3 and yarn" 'quantization_config: ' 'partial_rotary_factor: '
cp "$golden/hf_llama/config.json" changed/config.json
sed -i 's|"use_cache": true|"rope_theta": 7, "rope_scaling": {"type": "linear", "factor": 2}|' changed/config.json
expect_code 2 "$CLTRAIN" train llama.json --init changed --out no
expect_text 'rope_scaling: contradicts rope_parameters' 'rope_theta: has two values'
cp "$golden/hf_llama/config.json" changed/config.json
sed -i '/"hidden_size"/d; /"vocab_size"/d' changed/config.json
sed -i 's|"use_cache": true,|"use_cache": true|' changed/config.json
expect_code 2 "$CLTRAIN" train llama.json --init changed --out no
expect_text 'hidden_size: is missing' 'vocab_size: is missing'
cp -r "$golden/hf_qwen2" odd
sed -i '0,/"full_attention"/s//"sliding_attention"/; s/^    "sliding_attention"$/    "full_attention"/' odd/config.json
expect_code 2 "$CLTRAIN" train qwen2.json --init odd --out no
expect_text 'layer_types: .*full attention first'

# weights of another model: every tensor, and the keys that would fit
expect_code 7 "$CLTRAIN" eval llama.json --on train model.type=llama model.layers=1 model.heads=4 model.kv_heads=2 model.channels=16 model.inner=20 \
    model.tied=false model.vocab=37 model.attention_bias=qkv --init "$golden/hf_llama/model.safetensors"
expect_text 'self_attn.q_proj.bias is missing' 'model.layers.1..* the model has no such parameter' 'model.layers=2' 'model.attention_bias=none'
expect_code 2 "$CLTRAIN" train llama.json --init "$golden/hf_llama" model.kv_heads=4 model.rope_base=10000 --out no
expect_text 'model.kv_heads: 4 contradicts the weights: num_key_value_heads is 2' 'model.rope_base: 10000 contradicts the weights: rope_theta is 500'
expect_code 2 "$CLTRAIN" train llama.json --init "$golden/hf_llama" model.positions=16 --out no
expect_text 'model.context: longer than model.positions .16.'

# --- a llama of bytes learns, continues a text, and is exported; contradicting keys are reported ---
for _ in 1 2 3 4 5 6 7 8 9 10; do echo 'the rain in spain stays mainly in the plain, and the train is late again'; done >text.txt
cat >bytes.json <<'EOF'
{"model": {"type": "llama", "layers": 1, "heads": 4, "kv_heads": 2, "channels": 32, "context": 32, "head_norm": true},
 "data": {"type": "text", "path": "text.txt", "micro_batch": 8}, "optimizer": {"type": "adamw", "learning_rate": 0.01},
 "train": {"steps": 200}}
EOF
expect_code 0 "$CLTRAIN" train bytes.json --out bytes
expect_code 0 "$CLTRAIN" generate bytes --prompt 'the rain in ' --max-new 8 --temperature 0
expect_text 'the rain in spain st'
expect_code 0 "$CLTRAIN" export bytes --out bytes_hf
cp bytes_hf/config.json "$out"
expect_text '"Qwen3ForCausalLM"' '"intermediate_size": 256' '"head_dim": 8' '"num_key_value_heads": 2'
expect_code 0 "$CLTRAIN" train bytes.json --out odd_run model.attention_bias=qkv train.steps=1
expect_code 2 "$CLTRAIN" export odd_run --out odd_hf
expect_text 'no class has normalised heads and biases of queries, keys and values only' '--format safetensors'
expect_code 2 "$CLTRAIN" train bytes.json --dry-run model.kv_heads=3 model.rope_scaling=yarn
expect_text 'model.kv_heads: must divide model.heads' 'model.rope_original: required for model.rope_scaling yarn'
expect_code 2 "$CLTRAIN" train bytes.json --dry-run model.head_dim=7
expect_text 'model.head_dim: the elements of a head must be an even number'
finish
