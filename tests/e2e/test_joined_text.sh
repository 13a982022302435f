#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-optimise: no
#
# data.joined: several files as documents or as one text. A run keeps what it was trained with; an older config has no such key and
# keeps one text, also when that looks like JSON Lines. The standard input is refused.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

"$CLTRAIN" devices >/dev/null 2>&1
if [ $? -eq 4 ]; then skip_all 'no OpenCL device'; fi

for i in $(seq 60); do echo "line $i of a text that is read by the model"; done >a.txt
sed 's/text/book/' a.txt >b.txt
for i in $(seq 40); do echo "{\"text\": \"record $i\"}"; done >lines.txt
expect_code 0 "$CLTRAIN" data prepare a.txt b.txt --train-bpe 300 --out tokens
net gpt model.channels=8 model.context=8 'data.path=["a.txt", "b.txt"]' data.tokenizer=tokens data.micro_batch=2 train.steps=4 checkpoint.every=2 \
    >gpt.json

# --- documents, and one text: the difference is one token between the two files ---
expect_code 0 "$CLTRAIN" train gpt.json data.split=0 --max-steps 1 --out apart
apart=$(grep -o 'text: [0-9]* tokens' apart/log.txt | head -1 | tr -dc 0-9)
expect_code 0 "$CLTRAIN" train gpt.json data.split=0 data.joined=true --max-steps 1 --out joined
joined=$(grep -o 'text: [0-9]* tokens' joined/log.txt | head -1 | tr -dc 0-9)
if [ "$apart" -eq $((joined + 1)) ]; then pass; else fail "$apart and $joined tokens"; fi

# --- resuming with the other setting ---
expect_code 3 "$CLTRAIN" train gpt.json data.split=0 --resume joined --max-steps 2 --out new
expect_text "resuming from 'joined.*trained with data.joined=true.*older versions.*give data.joined=true"
expect_code 0 "$CLTRAIN" train gpt.json data.split=0 data.joined=true --resume joined --max-steps 2 --out new
expect_code 3 "$CLTRAIN" train gpt.json data.split=0 data.joined=true --resume apart --max-steps 2 --out other
expect_text 'trained with data.joined=false.*give data.joined=false'
# With a single file there is no difference, and nothing is refused.
expect_code 0 "$CLTRAIN" train gpt.json data.path=a.txt data.joined=true --max-steps 1 --out single
expect_code 0 "$CLTRAIN" train gpt.json data.path=a.txt --resume single --max-steps 2 --out single2

# --- a config that an older version printed ---
old() { grep -v 'joined"' "$1" | sed -z 's/,\n\( *}\)/\n\1/g'; }
old apart/config.resolved.json >old.json
expect_code 0 "$CLTRAIN" config --print old.json
expect_text '"joined": true' '"data.joined": "file"'
expect_code 0 "$CLTRAIN" config --print old.json data.joined=false
expect_text '"joined": false' '"data.joined": "override"'
expect_code 0 "$CLTRAIN" config --print gpt.json
expect_text '"joined": false' '"data.joined": "default"'
expect_code 0 "$CLTRAIN" config --print old.json data.type=tokens data.path=tokens
expect_text '"joined": false'

# --- text in braces ---
expect_code 3 "$CLTRAIN" train gpt.json data.path=lines.txt --max-steps 1 --out lines
expect_text "'lines.txt' \(data.path\): it looks like JSON Lines.*data.json_key.*data.joined=true"
expect_code 0 "$CLTRAIN" train gpt.json data.path=lines.txt data.joined=true --max-steps 1 --out lines
expect_code 0 "$CLTRAIN" eval lines
echo '{"a text": "of one object"}' >one.txt
cat a.txt >>one.txt
expect_code 0 "$CLTRAIN" train gpt.json data.path=one.txt --max-steps 1 --out one
tr '\n' ' ' <lines.txt | sed 's/} {/}, {/g; s/^/[/; s/$/]/' >array.json
expect_code 3 "$CLTRAIN" train gpt.json data.path=array.json --max-steps 1 --out array
expect_text "'array.json' \(data.path\): it looks like a list of JSON.*data.json_key.*data.joined=true"
expect_code 0 "$CLTRAIN" train gpt.json data.path=array.json data.joined=true --max-steps 1 --out array

# --- the standard input no longer exists when a run is resumed ---
expect_code 2 bash -c '"$0" train gpt.json data.path=- --max-steps 1 --out input <a.txt' "$CLTRAIN"
expect_text "- is the standard input, which can be read only once.*data prepare -"
expect_code 2 bash -c '"$0" train gpt.json data.eval_path=- --max-steps 1 --out input <a.txt' "$CLTRAIN"
finish
