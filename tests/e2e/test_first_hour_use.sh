#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
#
# What somebody who comes from another tool writes and asks in the first hour: wrong keys, layer lists with mistakes, what ops there
# are, what a run would need, and predictions from a trained net.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export HOME=$work/home COLUMNS=80
mkdir -p "$HOME"

cat >base.json <<'JSON'
{
  "model": {"type": "mlp", "hidden": [16]},
  "data": {"type": "synthetic", "samples": 256, "shape": [8], "classes": 4, "micro_batch": 16},
  "train": {"steps": 20}
}
JSON

# --- keys of other tools: the message has the line to write ---
train() { expect_code 2 "$CLTRAIN" train base.json "$@" --out never; }
train learning_rate=0.1
expect_text "learning_rate: a key needs its section; did you mean 'optimizer.learning_rate'\? write: optimizer.learning_rate=0.1"
train optimizer.lr=0.1 data.batch_size=8 trainer.max_epochs=2
expect_text 'write: optimizer.learning_rate=0.1' 'write: data.micro_batch=8' 'write: train.epochs=2'
train --lr 0.1
expect_text "unknown option '--lr'.*write: optimizer.learning_rate=0.1"
train --batch-size=8
expect_text "write: data.micro_batch=8"
train output_dir=x
expect_text 'name the run folder with --out DIR'
printf '{"learning_rate": 0.1, "n_layer": 4, "model": {"type": "gpt", "d_model": 64}}' >flat.json
expect_code 2 "$CLTRAIN" train flat.json --out never
expect_text 'write: "optimizer": \{"learning_rate": 0.1\}' 'write: "model": \{"layers": 4\}' 'write: "model": \{"channels": 64\}'
expect_absent never

# --- layer lists: everything at once, hints that fit; the example of docs/configs.md works on images ---
{ printf '\x00\x00\x08\x03' && be32 64 && be32 4 && be32 4 && bytes 1024 7 256; } >images
{ printf '\x00\x00\x08\x01' && be32 64 && bytes 64 3 4; } >labels
layers() { # file, layers
    printf '{"model": {"type": "graph", "layers": [%s]},\n "data": {"type": "idx", "path": "images", "targets": "labels", "micro_batch": 16, "scale": 0.00392156862745098},\n "train": {"epochs": 1}}\n' "$2" >"$1"
}
layers graph.json '{"op": "linear", "ot": 4}, {"op": "rellu"}, {"op": "dropout", "p": 7}, {"op": "cross_entropy"}'
expect_code 2 "$CLTRAIN" train graph.json --out never
expect_text "'ot': is unknown; did you mean 'out', which is required" "no op 'rellu'; did you mean 'relu'" "'p': 7 is out of range"
layers graph.json '{"op": "linear", "out": 4}, {"op": "cross_entropy"}'
expect_code 2 "$CLTRAIN" train graph.json --out never
expect_text 'put \{"op": "flatten"\} before the first linear layer'
example_graph() { awk '/"layers": \[\{"op"/ { on = 1 } on { print } on && /cross_entropy/ { exit }' "$CLTRAIN_SOURCE_DIR/docs/configs.md"; }
printf '{"model": {"type": "graph", %s},\n "data": {"type": "idx", "path": "images", "targets": "labels", "micro_batch": 16}, "train": {"steps": 1}}\n' \
    "$(example_graph)" >example.json
expect_code 0 "$CLTRAIN" train example.json --dry-run
{ npy_header '<f4' '(4, 2)' && f32 1 2 3 4 5 6 7 8; } >values.npy
printf '{"model": {"type": "mlp"}, "data": {"type": "npy", "path": "values.npy", "targets": "values.npy", "micro_batch": 2}}' >reg.json
expect_code 2 "$CLTRAIN" train reg.json --out never
expect_text 'targets are f32: model.loss=mse \(or l1\)\?'
expect_absent never

# --- ops: the list, one op in full, the page; every example is checked by test_op_pages ---
expect_code 0 "$CLTRAIN" ops
expect_text '  linear +y = x W\^T \+ b' '^losses:' '  cross_entropy '
expect_code 0 "$CLTRAIN" ops linear
expect_text '^out +integer, at least 1 +required' '^bias +true or false +true' '^example +\{"op": "linear", "out": 64\}' '^in a list +\[.*"cross_entropy"\}\]'
expect_code 2 "$CLTRAIN" ops Dense
expect_text "there is no op 'Dense'; did you mean 'linear'"
expect_code 0 "$CLTRAIN" ops --markdown
expect_same "$out" "$CLTRAIN_SOURCE_DIR/docs/ops.md"
expect_code 0 "$CLTRAIN" ops gelu --json
expect_text '"choices": \[' '"default": "none"'

# --- plan, estimate, --dry-run: the device that would train, a summary and the layers first; nothing is trained or built ---
expect_code 0 "$CLTRAIN" plan base.json --device generic
expect_text '^device +a generic GPU with 8.0 GiB, as asked for' '^model +mlp, 212 parameters' '^batch +micro 16 x accumulation 1 = 16' '^steps +20$' \
    'fits into the' '^fc1 +linear +\(16,16\) +144' '^loss +cross_entropy' 'memory map: --full'
expect_awk 'plan without --full is longer than a screen' 'END { exit NR > 24 }' "$out"
expect_code 0 "$CLTRAIN" plan base.json --device generic --full
expect_text 'phase forward: [0-9]+ commands' 'memory map:'
expect_code 0 "$CLTRAIN" plan "$CLTRAIN_SOURCE_DIR/configs/gpt2-124m.json" --device generic
expect_text '^blocks 2 to 12, like 1 '
expect_code 0 env OCL_ICD_VENDORS=/nonexistent "$CLTRAIN" estimate base.json
expect_text '^device +none was found \(.*planned for a generic GPU'
expect_code 4 env OCL_ICD_VENDORS=/nonexistent "$CLTRAIN" estimate base.json --device cpu
if "$CLTRAIN" devices >/dev/null 2>&1; then
    name=$("$CLTRAIN" devices --json | sed -n -E 's/^ *"name": "(.*)",?$/\1/p' | head -n 1)
    for command in plan estimate; do
        expect_code 0 "$CLTRAIN" $command base.json --device "${name:0:20}"
        expect_text "^device +.* \\([0-9]+:[0-9]+\\), .* usable"
        reject_text generic
    done
    expect_code 0 "$CLTRAIN" train base.json --dry-run
    expect_text '^device ' '^model +mlp, 212 parameters' '^batch ' '^training data +.*256 samples' '^steps +20, ' '^optimizer +adamw' '^memory ' 'nothing was trained'
    expect_absent runs
fi

finish
