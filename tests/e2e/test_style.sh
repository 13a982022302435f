#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
#
# Timing decides whether the style lanes or groups is used. A resumed run keeps the style of its checkpoint,
# so that it computes the same bits whatever the timing says this time. Here CLTRAIN_STYLE simulates a
# timing with another result.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
unset CLTRAIN_GEMM CLTRAIN_EMULATE CLTRAIN_STYLE
need_lanes
cat >gpt.json <<'JSON'
{"model": {"type": "gpt", "layers": 1, "heads": 2, "channels": 32, "context": 16},
 "data": {"type": "text", "path": "text", "micro_batch": 4},
 "optimizer": {"type": "adamw", "learning_rate": 0.002, "clip": 1},
 "train": {"steps": 8, "log_every": 1}, "checkpoint": {"every": 4}}
JSON
awk 'BEGIN { for (i = 0; i < 400; i++) printf "line %d says %d and %d\n", i, i * i % 97, i * 7 % 31 }' >text
digest() { sha256sum "$1/checkpoints/step_8/model.safetensors" "$1/checkpoints/step_8/optimizer.safetensors" | cut -d' ' -f1; }
declare -A want
for style in lanes groups; do
    expect_code 0 env CLTRAIN_STYLE=$style "$CLTRAIN" train gpt.json --out $style
    want[$style]=$(digest $style)
done
if [ "${want[lanes]}" != "${want[groups]}" ]; then pass; else fail 'both styles round alike: this test shows nothing'; fi
for tune in cached off; do
    for style in lanes groups; do
        rm -rf run
        expect_code 0 env CLTRAIN_STYLE=$style "$CLTRAIN" train gpt.json device.tune=$tune --out run --max-steps 4
        expect_code 0 "$CLTRAIN" train gpt.json device.tune=$tune --out run --resume auto
        expect_text 'resumed'
        reject_text 'rounded differently'
        if [ "$(digest run)" = "${want[$style]}" ]; then pass; else fail "$style, tune $tune: the resumed run computes something else"; fi
    done
done
# A style that the user asks for overrides the checkpoint's, with a message.
rm -rf run
expect_code 0 env CLTRAIN_STYLE=groups "$CLTRAIN" train gpt.json --out run --max-steps 4
expect_code 0 env CLTRAIN_STYLE=lanes "$CLTRAIN" train gpt.json --out run --resume auto
expect_text "computed in style 'groups', which this run cannot or may not use: sums may be rounded differently"
rm -rf run
expect_code 0 env CLTRAIN_STYLE=lanes "$CLTRAIN" train gpt.json --out run --max-steps 4
expect_code 0 "$CLTRAIN" train gpt.json --out run --resume auto --caps=-wide_vectors
expect_text "computed in style 'lanes', which this run cannot or may not use"
# A capability mask is the user's choice for one run and is not saved in checkpoints.
rm -rf run
expect_code 0 "$CLTRAIN" train gpt.json --out run --max-steps 4 --caps=-wide_vectors
expect_code 0 "$CLTRAIN" train gpt.json --out run --resume auto
reject_text 'rounded differently'
expect_code 2 env CLTRAIN_STYLE=rows "$CLTRAIN" train gpt.json --out none
expect_text "CLTRAIN_STYLE=rows: expected 'lanes' or 'groups'"
finish
