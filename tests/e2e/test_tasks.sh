#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 10 ctest-optimise: no
#
# Multiple choice: for a hundred items in HellaSwag's form a small GPT-2 chooses what
# lm-evaluation-harness's rules choose from transformers' logits (make_golden_tasks.py), by itself and per
# character, for weights, for a run, and item by item; mistakes in items and options are named.
. "$(dirname "$0")/lib.sh"

golden=$CLTRAIN_SOURCE_DIR/tests/golden
items=$golden/tasks/items.jsonl
cat >task.json <<EOF
{"model": {"context": 96}, "data": {"type": "chat", "path": "$golden/chat/chats.jsonl", "tokenizer": "$golden/chat/gpt2", "template": "chatml",
 "on_bad_sample": "skip", "split": 0, "micro_batch": 5}, "optimizer": {"type": "sgd", "learning_rate": 1e-30}, "train": {"steps": 1}}
EOF
figures() { tr -d ' \n' <"$1" | grep -o -E '"(accuracy|accuracy_normalised|chosen|chosen_normalised)":[^]a-z"]*'; }

expect_code 0 "$CLTRAIN" eval task.json "$items" --task hellaswag --init "$golden/tasks/model" --json got.json
expect_text '^hellaswag: 100 items \| accuracy 15\.00% \| normalised by length 27\.00%' '16 of 400 rows of hellaswag are longer than model.context 96'
figures "$golden/tasks/chosen.json" >want
figures got.json >got
[ "$(wc -l <want)" -eq 4 ] || fail 'the golden file has other members'
expect_same want got

# a run, which brings its tokenizer along
expect_code 0 "$CLTRAIN" train task.json --init "$golden/tasks/model" --out run
expect_code 0 "$CLTRAIN" eval run "$items" --task hellaswag --items 40
expect_text '^hellaswag: 40 items'
# the same items as plain choices, from whose texts nothing is removed
printf '%s\n' '{"query": "A man is", "choices": ["standing on", "x"], "gold": 0}' '{"query": "A ", "choices": ["b", "c", "d"], "gold": "2"}' >plain.jsonl
expect_code 0 "$CLTRAIN" eval --checkpoint run plain.jsonl --task choices
expect_text '^choices: 2 items'

# --- mistakes ---
expect_code 2 "$CLTRAIN" eval run "$items" --task arc
expect_text "'arc' is unknown; there are hellaswag, choices"
expect_code 2 "$CLTRAIN" eval --checkpoint run --task hellaswag
expect_text 'needs the file of its items'
expect_code 2 "$CLTRAIN" eval run "$items"
expect_text 'is a file of items, which needs --task'
expect_code 2 "$CLTRAIN" eval run --items 3
expect_text '--items is for --task'
expect_code 2 "$CLTRAIN" eval run "$items" --task hellaswag --on train
expect_text 'not for --task'
bad() { # LINE PATTERN
    echo "$1" >bad.jsonl
    expect_code 3 "$CLTRAIN" eval run bad.jsonl --task "${3:-hellaswag}"
    expect_text "in 'bad.jsonl', line 1: .*$2"
}
bad '{' 'item:1:'
bad '7' 'has no "endings"'
bad '{"endings": ["a"], "activity_label": "x", "ctx_a": "y"}' 'has no "ctx_b"'
bad '{"endings": ["a", "b"], "activity_label": "x", "ctx_a": "y", "ctx_b": "", "label": ""}' 'not the number of one of its 2 choices'
bad '{"endings": ["a", "b"], "activity_label": "x", "ctx_a": "y", "ctx_b": "", "label": 2}' 'not the number of one of its 2 choices'
bad '{"endings": ["a", ""], "activity_label": "x", "ctx_a": "y", "ctx_b": "", "label": 1}' 'one of its choices is empty'
bad '{"query": "", "choices": ["a"], "gold": 0}' 'its text or one of its choices is empty' choices
bad '{"query": "a", "choices": [1], "gold": 0}' 'one of its choices is not text' choices
: >empty.jsonl
expect_code 3 "$CLTRAIN" eval run empty.jsonl --task choices
expect_text 'holds no item of choices'
finish
