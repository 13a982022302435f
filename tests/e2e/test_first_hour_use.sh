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

finish
