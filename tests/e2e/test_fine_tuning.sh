#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 40 ctest-optimise: no
#
# Fine-tuning on conversations from the command line: bad records are named and stop a run or are left out;
# a llama and a gpt are trained on packed rows, resumed exactly, evaluated, asked a question and exported
# with their chat template; the page of samples marks the trained parts. make_golden_chat.py wrote the
# conversations and tokenizers.
. "$(dirname "$0")/lib.sh"

golden=$CLTRAIN_SOURCE_DIR/tests/golden/chat
cat >chat.json <<EOF
{"model": {"type": "llama", "layers": 1, "heads": 2, "kv_heads": 1, "channels": 32, "context": 256},
 "data": {"type": "chat", "path": "$golden/chats.jsonl", "tokenizer": "$golden/qwen2", "template": "qwen2.5", "micro_batch": 4},
 "optimizer": {"type": "adamw", "learning_rate": 0.003}, "train": {"steps": 12, "eval_every": 6}}
EOF

# --- data verify and data show ---
expect_code 0 "$CLTRAIN" data verify chat.json
expect_text '180 samples of .* rows of 256 tokens, 9[0-9]% full' '20 samples' 'template: qwen2.5' '2 good, none bad'
expect_code 0 "$CLTRAIN" data show chat.json --out page.html --samples 2
cp page.html "$out"
expect_text '<mark>.*&lt;\|im_end\|&gt;</mark>' 'You are Qwen, created by Alibaba Cloud' 'Marked text is trained' '<hr>'
reject_text '<mark>&lt;\|im_start\|&gt;'
{
    head -n 3 "$golden/chats.jsonl"
    echo '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": ""}]}'
    echo '{"messages": [{"role": "narrator", "content": "a"}]}'
    echo
    echo '{"prompt": "a", "comp'
} >bad.jsonl
bad=("data.path=bad.jsonl" "data.split=0")
expect_code 3 "$CLTRAIN" data verify chat.json "${bad[@]}"
expect_text "BAD  'bad.jsonl', line 4: .*the answer is empty" "BAD  'bad.jsonl', line 5: .*role \"narrator\"" "BAD  'bad.jsonl', line 7:" \
    '3 of 6 are bad'
expect_code 3 "$CLTRAIN" train chat.json "${bad[@]}"
expect_text "'bad.jsonl', line 4: .*the answer is empty; 3 of 6 samples cannot be used" 'data.on_bad_sample=skip'
expect_code 0 "$CLTRAIN" train chat.json "${bad[@]}" data.on_bad_sample=skip train.steps=1 data.micro_batch=1 --out skipped
expect_text 'warning: data: 3 of 6 samples of data.path are skipped' 'chat: 3 samples'
expect_code 3 "$CLTRAIN" train chat.json model.context=16
expect_text "chats.jsonl', line 1: it has [0-9]+ tokens, and a sample of 17 at most fits into model.context 16" 'data.truncate=true'
expect_code 0 "$CLTRAIN" train chat.json model.context=64 data.truncate=true data.on_bad_sample=skip train.steps=1 --out cut
expect_text 'samples of data.path are cut to 65 tokens'

# --- the same questions and answers as JSON Lines, as a list of JSON and as a table, with separators, quotes and line breaks in cells ---
{
    echo '{"prompt": "what, then?", "completion": "it is \"so\""}'
    echo '{"prompt": "first line\nsecond line", "completion": "yes"}'
    echo '{"prompt": "plain", "completion": "no"}'
} >asked.jsonl
printf '%s\n' 'prompt,completion' '"what, then?","it is ""so"""' '"first line' 'second line",yes' plain,no >asked.csv
{ echo '[' && sed '$!s/$/,/' asked.jsonl && echo ']'; } >asked.json
for kind in jsonl json csv; do
    expect_code 0 "$CLTRAIN" train chat.json data.path=asked.$kind data.split=0 train.steps=3 data.micro_batch=1 train.eval_every=0 --out run.$kind
    expect_text 'chat: 3 samples'
done
expect_same <(numbers run.jsonl) <(numbers run.csv)
expect_same <(numbers run.jsonl) <(numbers run.json)
expect_code 0 "$CLTRAIN" data show chat.json data.path=asked.json data.split=0 --out listed.html
echo '[{"prompt": "a", "completion": "b"}, {"prompt": "c"}]' >bad_list.json
expect_code 3 "$CLTRAIN" data verify chat.json data.path=bad_list.json data.split=0
expect_text "BAD  'bad_list.json', record 2, line 1: " '1 of 2'
printf '%s\n' 'prompt,completion' 'a,b,c' 'd,e' >asked.csv
expect_code 3 "$CLTRAIN" data verify chat.json data.path=asked.csv data.split=0
expect_text "BAD  'asked.csv', line 2: "

# --- mistakes in the config ---
expect_code 2 "$CLTRAIN" train chat.json data.template=chatlm
expect_text 'chatml'
expect_code 2 "$CLTRAIN" train chat.json data.tokenizer=
expect_text 'data.tokenizer'
expect_code 3 "$CLTRAIN" train chat.json data.template=auto
expect_text "has no chat template; set data.template"
expect_code 3 "$CLTRAIN" train chat.json data.template=llama3.2
expect_text 'writes the current day into the system turn' 'data.date'
expect_code 3 "$CLTRAIN" train chat.json data.tokenizer=bytes
expect_text 'needs special tokens that the tokenizer .* lacks: <\|im_end\|>, <\|im_start\|>'

# --- training, resuming, asking ---
expect_code 0 "$CLTRAIN" train chat.json --out whole 'log.sample_prompt=what can' log.sample_tokens=8
expect_text 'sample of step 12: what can -> ' "generate whole --chat --prompt 'Hello'"
expect_code 0 "$CLTRAIN" train chat.json --out half train.steps=6
expect_code 0 "$CLTRAIN" train --resume half train.steps=12
expect_same whole/checkpoints/step_12/model.safetensors half/checkpoints/step_12/model.safetensors
expect_code 0 "$CLTRAIN" eval whole
expect_text 'bits/byte'
expect_code 0 "$CLTRAIN" generate whole --chat --prompt 'what can' --max-new 5 --temperature 0
reject_text 'im_start' 'what can'
expect_code 0 "$CLTRAIN" generate whole --prompt 'what can' --max-new 5
expect_text '^what can'
sed 's/"llama"/"gpt"/; s/"kv_heads": 1, //' chat.json >gpt_chat.json
expect_code 0 "$CLTRAIN" train gpt_chat.json --out gpt train.steps=2
expect_text 'done: 2 steps'

# --- exported with its template, which a training on the export finds by itself ---
expect_code 0 "$CLTRAIN" export whole --out hf
# a config that leaves the model to the weights: commands that need the model take --init, as training does
sed 's/"model": {[^}]*}/"model": {"context": 256}/' chat.json >open.json
expect_code 2 "$CLTRAIN" data verify open.json
expect_text 'model.type: required but missing' '\-\-init FOLDER'
for command in 'data verify' 'data show --out open.html' 'estimate --device generic' 'plan --device generic'; do
    # shellcheck disable=SC2086 # words
    expect_code 0 "$CLTRAIN" $command open.json --init hf
done
expect_code 2 "$CLTRAIN" data verify "$golden/chats.jsonl" --init hf
expect_text 'fills in missing keys of a CONFIG'
expect_file hf/chat_template.jinja
if grep -q 'You are Qwen, created by Alibaba Cloud' hf/chat_template.jinja; then pass; else fail 'the template lacks its system turn'; fi
tr -d ' \n' <hf/generation_config.json >"$out"
expect_text '"eos_token_id":\[338,332\]'
expect_code 0 "$CLTRAIN" train chat.json --init hf --out again data.tokenizer=hf data.template=auto train.steps=1
expect_text 'template: qwen2.5'

# --- a list of tokens at which texts end, as Llama 3's generation_config.json has: kept, used, and written again in its order ---
sed -i -z 's/"eos_token_id": [[][^]]*]/"eos_token_id": [7, 338, 5, 7, 332, 900000, -1]/' hf/generation_config.json
expect_code 0 "$CLTRAIN" train chat.json --init hf --out listed data.tokenizer=hf train.steps=1
tr -d ' \n' <listed/config.resolved.json >"$out"
expect_text '"stop_tokens":\[7,338,5,332\]'
expect_code 0 "$CLTRAIN" export listed --out hf-3.2-again # no ending, so a folder
tr -d ' \n' <hf-3.2-again/generation_config.json >"$out"
expect_text '"eos_token_id":\[7,338,5,332\]'
tr -d ' \n' <hf-3.2-again/config.json >"$out"
expect_text '"eos_token_id":338,'
asked=("$CLTRAIN" generate listed --chat --prompt 'what can' --max-new 5 --temperature 0)
every="model.stop_tokens=[$(seq -s , 0 400)]"
expect_code 0 "${asked[@]}" "$every"
expect_text '^1 token in '
expect_code 0 "${asked[@]}" "$every" --ignore-eos
expect_text '^5 tokens in'

# --- a run without chats ---
printf 'the and to of a in that is it you for on was with as be %.0s' 1 2 3 4 5 6 7 8 >text
net gpt train.steps=1 >gpt.json
expect_code 0 "$CLTRAIN" train gpt.json --out plain
expect_code 2 "$CLTRAIN" generate plain --chat --prompt x
expect_text 'was not trained on conversations'
finish
