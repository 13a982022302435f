#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 30 ctest-optimise: no
#
# Exports as GGUF, read back by code of the tests: settings, names, layouts and every value of each type; the tokenizer; what llama.cpp
# cannot compute is refused. tests/golden/check_gguf.py compares with llama.cpp itself.
. "$(dirname "$0")/lib.sh"

golden=$CLTRAIN_SOURCE_DIR/tests/golden/data
compare=$CLTRAIN_BUILD_DIR/tests/gguf_compare
rows() { # KIND: a config whose data are the kind's sequences; a step of 1e-30 changes no bit
    cat >"$1.json" <<TEXT
{"model": {"context": ${2:-24}}, "data": {"type": "npy", "path": "$golden/hf_$1_x.npy", "targets": "$golden/hf_$1_y.npy", "micro_batch": 4},
 "optimizer": {"type": "adamw", "learning_rate": 1e-30}, "train": {"steps": 1}}
TEXT
}
heads() { sed -n -E "s/^ *\"$1\": ([0-9]+),?$/\1/p" "$golden/hf_$2/config.json"; }

# --- values: every tensor of every type equals the folder's, in llama.cpp's layout ---
for kind in llama llama3 biases; do
    rows $kind
    expect_code 0 "$CLTRAIN" train $kind.json --init "$golden/hf_$kind" --out "run_$kind"
    for type in f32 f16 bf16 q8_0; do
        expect_code 0 "$CLTRAIN" export "run_$kind" --out $kind.gguf --dtype $type
        expect_text 'tensors, .* values in '$type 'tokenizer: none'
        expect_code 0 "$compare" $kind.gguf "$golden/hf_$kind" "$(heads num_attention_heads $kind)" "$(heads num_key_value_heads $kind)"
    done
done
# the comparison finds rows in the other layout
expect_code 1 "$compare" llama.gguf "$golden/hf_llama" 0 0
expect_text 'attn_q.weight: .* values differ'

expect_code 0 "$compare" llama3.gguf
expect_text '^magic 46554747 version 3 ' '^general.architecture llama$' '^general.alignment 32$' '^general.file_type 7$' '^llama.block_count ' \
    '^llama.attention.layer_norm_rms_epsilon 1e-06$' '^llama.rope.freq_base ' '^rope_freqs.weight type 0 ' '^tokenizer.ggml.model none$' \
    '^blk.0.attn_norm.weight type 0 '

# --- a gpt with a tokenizer ---
for _ in 1 2 3 4 5 6 7 8; do echo 'the rain in spain stays mainly in the plain, and the train is late again'; done >text.txt
cat >few.json <<'TEXT'
{"data": {"type": "text", "path": "text.txt", "micro_batch": 4}, "optimizer": {"type": "adamw", "learning_rate": 1e-30}, "train": {"steps": 1}}
TEXT
expect_code 0 "$CLTRAIN" train few.json --init "$golden/hf_tied" --out run_gpt
for type in f32 f16 bf16 q8_0; do
    expect_code 0 "$CLTRAIN" export run_gpt --format gguf --out gpt --dtype $type
    expect_code 0 "$compare" gpt "$golden/hf_tied" 0 0
done
expect_code 0 "$compare" gpt
expect_text '^general.architecture gpt2$' '^gpt2.context_length ' '^tokenizer.ggml.model gpt2$' '^tokenizer.ggml.pre gpt-2$' \
    '^tokenizer.ggml.tokens \[267\] ' '^tokenizer.ggml.token_type \[267\] ' '^tokenizer.ggml.merges \[' \
    '^position_embd.weight type 0 ' '^blk.1.attn_qkv.weight type 1 columns 12 rows 36'

# --- rows that are whole blocks of q8_0, of a qwen3 on bytes ---
cat >bytes.json <<'TEXT'
{"model": {"type": "llama", "layers": 1, "heads": 4, "kv_heads": 2, "channels": 64, "inner": 96, "context": 32, "head_norm": true},
 "data": {"type": "text", "path": "text.txt", "micro_batch": 4}, "train": {"steps": 1}}
TEXT
expect_code 0 "$CLTRAIN" train bytes.json --out bytes
expect_code 0 "$CLTRAIN" export bytes --out bytes_hf
for type in f32 f16 bf16 q8_0; do
    expect_code 0 "$CLTRAIN" export bytes --out bytes.gguf --dtype $type
    expect_code 0 "$compare" bytes.gguf bytes_hf 0 0
done
expect_code 0 "$compare" bytes.gguf
expect_text '^general.architecture qwen3$' '^blk.0.attn_q_norm.weight type 0 ' '^blk.0.ffn_down.weight type 8 columns 96 rows 64' \
    '^tokenizer.ggml.tokens \[256\] ' '^tokenizer.ggml.merges \[0\]'

# --- a tokenizer of SentencePiece's kind: scores instead of merges; tokens of bytes, of names, and a space before texts ---
chat=$CLTRAIN_SOURCE_DIR/tests/golden/chat
llama_of() { # FOLDER TOKENIZER: a run of one step with this tokenizer
    cat >few.json <<TEXT
{"model": {"type": "llama", "layers": 1, "heads": 2, "channels": 32, "context": 16}, "train": {"steps": 1},
 "data": {"type": "text", "path": "text.txt", "tokenizer": "$2", "micro_batch": 1}}
TEXT
    expect_code 0 "$CLTRAIN" train few.json --out "$1"
}
llama_of sentence "$chat/llama2"
expect_code 0 "$CLTRAIN" export sentence --out sentence.gguf
reject_text 'llama.cpp will put'
expect_code 0 "$compare" sentence.gguf
expect_text '^tokenizer.ggml.model llama$' '^tokenizer.ggml.pre default$' '^tokenizer.ggml.tokens \[441\] <unk> <s> </s> \[INST\] ' \
    '^tokenizer.ggml.token_type \[441\] 2 3 3 3 3 6 6 .* 6 1 1 ' '^tokenizer.ggml.scores \[441\] .* -0 -1 .* -96$' \
    '^tokenizer.ggml.add_space_prefix 1$' '^tokenizer.ggml.unknown_token_id 0$' '^tokenizer.ggml.bos_token_id 1$'
reject_text 'tokenizer.ggml.merges'
llama_of metaspace "$chat/mistral"
expect_code 0 "$CLTRAIN" export metaspace --out metaspace.gguf
expect_text 'llama.cpp will put a space before a text that begins with one and after special tokens'
expect_code 0 "$compare" metaspace.gguf
expect_text '^tokenizer.ggml.add_space_prefix 1$'
# conversations get the ids of the training
cat >chat.json <<TEXT
{"model": {"type": "llama", "layers": 1, "heads": 2, "channels": 32, "context": 256}, "train": {"steps": 1},
 "data": {"type": "chat", "path": "$chat/chats.jsonl", "template": "mistral-v0.1", "tokenizer": "$chat/mistral", "micro_batch": 1,
  "on_bad_sample": "skip"}}
TEXT
expect_code 0 "$CLTRAIN" train chat.json --out chat
expect_code 0 "$CLTRAIN" export chat --out chat.gguf
expect_text 'llama.cpp will put no space before a text, .* conversations begin with a special token and get the same ids'
expect_code 0 "$compare" chat.gguf
expect_text '^tokenizer.ggml.add_space_prefix 0$' '^tokenizer.chat_template '
# except for the first ones, where no special token begins a conversation
expect_code 0 "$CLTRAIN" train chat.json --out plain data.template=zephyr
expect_code 0 "$CLTRAIN" export plain --out plain.gguf
expect_text 'llama.cpp will put no space before a text, .* also at the beginning of a conversation'

# --- tokens at which texts end: three keys; names that llama.cpp knows need no key ---
ends() { # KEYS OF THE CONFIG...: the export of a chat with the tokenizer of Qwen2, whose end of text is 338 and <|im_end|> 332
    rm -rf ends
    expect_code 0 "$CLTRAIN" train chat.json --out ends data.template=qwen2 "data.tokenizer=$chat/qwen2" "$@"
    expect_code 0 "$CLTRAIN" export ends --out ends.gguf
}
ends
reject_text 'will not end'
expect_code 0 "$compare" ends.gguf
expect_text '^tokenizer.ggml.eos_token_id 338$' '^tokenizer.ggml.eot_token_id 332$'
reject_text 'eom_token_id'
ends model.stop_tokens='[7, 9]'
reject_text 'will not end'
expect_code 0 "$compare" ends.gguf
expect_text '^tokenizer.ggml.eos_token_id 338$' '^tokenizer.ggml.eot_token_id 9$' '^tokenizer.ggml.eom_token_id 7$'
ends model.stop_tokens='[7, 9, 11]'
expect_text 'llama.cpp will not end texts at "[^"]+" .7.: a GGUF file can name three tokens'

# --- what is refused ---
# a token that its merges leave as two, which llama.cpp would join: the last merge is taken out
mkdir unmerged
cp "$chat/llama2/tokenizer_config.json" unmerged
file=$chat/llama2/tokenizer.json
{ head -n $(($(wc -l <"$file") - 6)) "$file" | sed '$s/,$//' && tail -n 3 "$file"; } >unmerged/tokenizer.json
llama_of two unmerged
expect_code 2 "$CLTRAIN" export two --out two.gguf
expect_text "exporting '.*' as GGUF: llama.cpp cannot split texts" 'its merges leave "▁is" as two tokens'
tokens=$CLTRAIN_SOURCE_DIR/tests/golden/tokenizers
llama_of gemma "$tokens/gemma"
expect_code 2 "$CLTRAIN" export gemma --out gemma.gguf
expect_text 'it finds the added token "the well"'
llama_of letters "$tokens/letters"
expect_code 2 "$CLTRAIN" export letters --out letters.gguf
expect_text 'it lacks tokens for single bytes'
for kind in dynamic mistral qwen3; do
    rows $kind
    expect_code 0 "$CLTRAIN" train $kind.json --init "$golden/hf_$kind" --out "run_$kind"
    expect_code 2 "$CLTRAIN" export "run_$kind" --out $kind.gguf
    expect_text "exporting '.*' as GGUF: llama.cpp " '--format hf'
    [ ! -e $kind.gguf ] || fail "a file was written though the export was refused"
done

# --- the largest values of each type: one that rounds to infinity is refused. They stand in the row of a byte that no text has. ---
sed 's/"train": {"steps": 1}/"optimizer": {"type": "sgd", "learning_rate": 1e-30}, "train": {"steps": 1}/; s/"context": 32/&, "tied": false/' \
    bytes.json >untied.json
expect_code 0 "$CLTRAIN" train untied.json --out untied
expect_code 0 "$CLTRAIN" export untied --out untied_hf
weights=untied_hf/model.safetensors
header=$(od -An -tu8 -N8 $weights | tr -d ' ')
first=$(head -c $((8 + header)) $weights | tail -c +9 |
    sed -n -E 's/.*"model.embed_tokens.weight": ?\{[^}]*"data_offsets": ?\[([0-9]+).*/\1/p')
largest() { # BYTES CODE TYPE: exports the type after the first value of the embedding became these bytes, the lowest first
    printf '%b' "$1" | dd of=$weights bs=1 seek=$((8 + header + first)) conv=notrunc 2>/dev/null
    expect_code 0 "$CLTRAIN" train untied.json --init untied_hf --out huge
    expect_code "$2" "$CLTRAIN" export huge --out huge.gguf --dtype "$3"
    rm -rf huge huge.gguf
}
largest '\x00\xef\x7f\x47' 0 f16 # 65519, which rounds to 65504
largest '\x00\xf0\x7f\x47' 6 f16 # 65520
expect_text "'model.embed_tokens.weight' holds 65520, which the type cannot hold; export as f32 or bf16"
largest '\xff\x7f\x7f\x7f' 0 bf16 # the last one that rounds to 3.39e38
largest '\x00\x80\x7f\x7f' 6 bf16
expect_text 'holds 3\.39618e\+38, which the type cannot hold; export as f32$'

expect_code 2 "$CLTRAIN" export run_gpt --out w.safetensors --dtype q8_0
expect_text 'q8_0 is for --format gguf'
expect_code 2 "$CLTRAIN" export run_gpt --out w.gguf --dtype q4_0
expect_text 'it can be f32, f16, bf16 or q8_0'
finish
