#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 6 ctest-optimise: no
#
# cltrain ckpt: what a checkpoint contains, whether it is intact, and how two differ: a resumed run and the uninterrupted one, other
# seeds, exports in 16 bits, other models, damaged and incomplete folders.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export CLTRAIN_GEMM=simple # starts fastest

net mlp train.steps=20 checkpoint.every=10 checkpoint.keep=0 >net.json
expect_code 0 "$CLTRAIN" train net.json --out straight
expect_code 0 "$CLTRAIN" train net.json --out half --max-steps 10
expect_code 0 "$CLTRAIN" train --resume half
expect_code 0 "$CLTRAIN" train net.json --out other train.seed=7

# --- show: names, types and shapes; numbers that are known ---
expect_code 0 "$CLTRAIN" ckpt show straight
expect_text '^straight/checkpoints/step_20$' '^state: step 20, update 20' 'fc1\.weight +F32 +\(16,8\)' '^4 tensors, 229 values, 916 B$'
reject_text 'moment' 'not finite'
expect_code 0 "$CLTRAIN" ckpt show straight/checkpoints/step_10 --optimizer -t '*.moment1'
expect_text 'step_10$' 'fc1\.bias\.moment1' '^4 tensors, 229 values'
reject_text 'moment2' 'fc1\.bias '
expect_code 2 "$CLTRAIN" ckpt show straight -t 'fc9*'
expect_text "named like 'fc9\*'"
# a file with 3, -4, 0, an infinity, and a type with which the engine does not compute
header='{"x":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"y":{"dtype":"F8_E4M3","shape":[8],"data_offsets":[16,24]}}      '
{ printf '%b' "\\x$(printf %02x ${#header})\\0\\0\\0\\0\\0\\0\\0"; printf '%s' "$header"; printf '\0\0\x40\x40\0\0\x80\xc0\0\0\0\0\0\0\x80\x7f\1\2\3\4\5\6\7\10'; } >odd.safetensors
expect_code 0 "$CLTRAIN" ckpt show odd.safetensors
expect_text 'not finite' '^x +F32 +\(4\) +-0\.3333 +2\.887 +4 +1 +1$' '^y +F8_E4M3 +\(8\) +- +- +- +- +-$'
expect_code 0 "$CLTRAIN" ckpt show odd.safetensors --json
expect_text '"name": "y"' '"not_finite": 1' '"largest": 4'
expect_code 7 "$CLTRAIN" ckpt show odd.safetensors --optimizer
expect_text 'holds no state of an optimizer'

# --- diff: the same training, another one, one that is rounded ---
expect_code 0 "$CLTRAIN" ckpt diff straight half
expect_text '^all 12 tensors have the same bits$'
expect_code 1 "$CLTRAIN" ckpt diff straight other
expect_awk 'the tensors of the model do not come first' '/moment[12] / { optimizer = 1 } /(weight|bias) / { n++; bad = bad || optimizer } END { exit bad || n != 4 }' "$out"
expect_text 'state: seed 1337 in A, 7 in B' '^0 of 12 tensors have the same bits' '12 of 12 tensors differ'
expect_code 1 "$CLTRAIN" ckpt diff straight/checkpoints/step_10 straight
expect_text 'state: step 10 in A, 20 in B'
expect_code 0 "$CLTRAIN" export straight --out w16.safetensors --dtype bf16
expect_code 1 "$CLTRAIN" ckpt diff straight w16.safetensors
expect_text 'fc1\.weight +F32, BF16 +12[0-9] of 128' '4 of 4 tensors differ'
expect_code 0 "$CLTRAIN" ckpt diff straight w16.safetensors --tolerance 0.004
expect_text '4 of 4 lie within 0\.004'
expect_code 0 "$CLTRAIN" ckpt diff straight w16.safetensors --tolerance 0.004 --json
if grep -o '"ulp": [0-9.]*' "$out" | awk '{ n++; if (!($2 > 0.3 && $2 <= 0.5)) bad = 1 } END { exit bad || n != 4 }'; then pass; else fail 'rounding to bf16 is not within half a unit in the last place'; fi
expect_code 0 "$CLTRAIN" ckpt diff straight half --all -t 'fc1.*'
expect_text 'fc1\.bias +F32 +0 of 16 ' '^all 6 tensors'
expect_code 2 "$CLTRAIN" ckpt diff straight half -t nothing
expect_code 0 "$CLTRAIN" ckpt diff odd.safetensors odd.safetensors -t x
expect_code 7 "$CLTRAIN" ckpt diff odd.safetensors odd.safetensors
expect_text '1 of 2 tensors cannot be compared; cltrain does not compute with their type'
# a folder of transformers has other names and the same bits
yes 'the quick brown fox' | head -n 200 >text
net gpt train.steps=1 >gpt.json
expect_code 0 "$CLTRAIN" train gpt.json --out gpt
expect_code 0 "$CLTRAIN" export gpt --out folder --format hf
expect_code 0 "$CLTRAIN" ckpt diff gpt folder
expect_text 'names of B without "transformer\."' '^all 16 tensors have the same bits'
expect_code 0 "$CLTRAIN" ckpt diff folder gpt
expect_text 'names of A without "transformer\."'
net mlp model.hidden='[12]' train.steps=2 >wide.json
expect_code 0 "$CLTRAIN" train wide.json --out wide
expect_code 7 "$CLTRAIN" ckpt diff straight wide
expect_text 'fc1\.weight: F32 \(16,8\) in A, F32 \(12,8\) in B' 'different models'
expect_code 7 "$CLTRAIN" ckpt diff straight odd.safetensors
expect_text 'x: only in B' 'fc1\.bias: only in A'

# --- export: an ending that names another format is refused, unless the format is given ---
for ending in pt pth ckpt bin onnx; do
    expect_code 2 "$CLTRAIN" export straight --out weights.$ending
    expect_text "weights.$ending': .$ending names a format that is not written" '\.safetensors' '\.gguf' '--format safetensors'
    expect_absent weights.$ending
done
expect_code 0 "$CLTRAIN" export straight --out weights.bin --format safetensors
expect_code 0 cmp weights.bin <("$CLTRAIN" export straight --out same.safetensors >/dev/null && cat same.safetensors)

# --- verify: everything of a run, one checkpoint, files; damage is named ---
expect_code 0 "$CLTRAIN" ckpt verify straight half/checkpoints/step_10 w16.safetensors
expect_text 'straight/checkpoints/step_10: intact, 12 tensors' 'straight/checkpoints/step_20: intact' 'half/checkpoints/step_10: intact' 'w16.safetensors: intact, 4 tensors'
expect_code 7 "$CLTRAIN" ckpt verify odd.safetensors
expect_text 'odd.safetensors: damaged: .*"x"' '1 of 1 is damaged'
cp -r straight bad
printf '\1' | dd of=bad/checkpoints/step_10/optimizer.safetensors bs=1 seek=1000 conv=notrunc 2>/dev/null
rm bad/checkpoints/step_20/manifest.json
expect_code 7 "$CLTRAIN" ckpt verify nowhere straight
expect_text '^nowhere: weights: opening' 'straight/checkpoints/step_20: intact' '1 of 3 is damaged or missing'
reject_text 'damaged:'
expect_code 7 "$CLTRAIN" ckpt verify bad straight
expect_text 'bad/checkpoints/step_10: damaged: .*optimizer.safetensors: its content does not match' 'bad/checkpoints/step_20: damaged' 'straight/checkpoints/step_20: intact' '2 of 4 are damaged'
expect_code 7 "$CLTRAIN" ckpt verify bad/checkpoints/step_20 # not taken for a folder of weights alone
expect_text 'step_20: damaged'
expect_code 7 "$CLTRAIN" ckpt show bad/checkpoints/step_10
expect_code 7 "$CLTRAIN" ckpt diff bad straight
sed 's/"format_version": 2/"format_version": 3/' straight/checkpoints/step_10/manifest.json |
    "$CLTRAIN_BUILD_DIR/tests/seal" manifest_xxh64 >bad/checkpoints/step_10/manifest.json
expect_code 7 "$CLTRAIN" ckpt verify bad/checkpoints/step_10
expect_text 'use a newer cltrain'
expect_code 7 "$CLTRAIN" ckpt verify nowhere
expect_text 'nowhere'

# --- ls: the checkpoints of a run folder; a run that has none yet ---
expect_code 0 "$CLTRAIN" ckpt ls straight
expect_text '^ +step +files +size' '^ +10 +6 +[0-9.]+ KiB +complete$' '^ +20 +6 +[0-9.]+ KiB +complete, best$'
expect_code 0 "$CLTRAIN" ckpt ls straight/checkpoints/step_10
expect_text '^ +10 +6 '
expect_code 0 "$CLTRAIN" ckpt ls bad --json
expect_text '"step": 10' '"complete": true' '"step": 20' '"complete": false'
mkdir young && cp straight/config.resolved.json young
for part in ls verify show; do
    expect_code 7 "$CLTRAIN" ckpt $part young
    expect_text "'young' is a run that has no checkpoint yet"
    reject_text 'damaged:' save_pretrained
done
expect_code 2 "$CLTRAIN" ckpt ls nowhere
expect_text "'nowhere' is not a folder; name a run folder"
finish
