#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 60 ctest-optimise: no
#
# Parts of a model that are trained whole beside low-rank adapters (PEFT's modules_to_save): the new head of
# a BERT, which is always trained, and parts that the config names. They are exported for PEFT and read
# back, and the rest of the base keeps its bits. Where PEFT is installed, it predicts the same with the same
# adapter.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/bert_lib.sh"

lora=(model.lora_rank=4 model.lora_alpha=8 model.lora_targets=all-linear optimizer.learning_rate=0.01)
head_of() { if [ "$1" = span ]; then echo qa_outputs; else echo classifier; fi; }
loss() { sed -n -E 's/.*loss ([0-9.]+).*/\1/p' "$out"; }

for task in class tokens span; do
    records $task 400 1 >$task.jsonl
    records $task 60 2 >${task}_eval.jsonl
    config $task >$task.json
done

# --- what is trained, without a device ---
plan=("$CLTRAIN" plan class.json --device generic data.tokenizer="$pieces" model.lora_rank=4)
expect_code 2 "${plan[@]}" 'model.lora_modules_to_save=["poller"]'
expect_text "model.lora_modules_to_save: 'poller' is not part of the model"
expect_code 2 "${plan[@]}" 'model.lora_modules_to_save=["all-linear"]'
expect_text 'model.lora_modules_to_save: must be names of parts of the model'
expect_code 2 "$CLTRAIN" plan class.json --device generic 'model.lora_modules_to_save=["pooler"]'
expect_text 'model.lora_modules_to_save: is for adapters, and model.lora_rank is 0'
for i in $(seq 200); do echo "line $i: the cat sat on the mat"; done >text
net gpt model.type=llama model.lora_rank=2 train.steps=1 >llama.json
for part in embed_tokens lm_head; do
    expect_code 2 "$CLTRAIN" plan llama.json --device generic "model.lora_modules_to_save=[\"$part\"]"
    expect_text "model.lora_modules_to_save: '$part': .* share one weight.* model.tied=false"
done

"$CLTRAIN" devices >/dev/null 2>&1 || { note_skip 'there is no OpenCL device: nothing is trained'; finish; }
make_folder

# --- a head learns beside adapters; base and adapter give what the run gives ---
for task in class tokens span; do
    head=$(head_of $task)
    steps=150
    [ $task = class ] && steps=300
    expect_code 0 "$CLTRAIN" train $task.json --init folder --init-skip "$head.*" --out run_$task "${lora[@]}" train.steps=$steps
    expect_code 0 "$CLTRAIN" eval run_$task --json $task.eval.json
    cp $task.eval.json "$out"
    expect_text '"(accuracy|exact)": (1|0\.[7-9][0-9]*)'
    expect_same <(tensor folder/model.safetensors bert.encoder.layer.1.output.dense.weight) \
        <(tensor run_$task/checkpoints/step_$steps/model.safetensors encoder.layer.1.output.dense.weight)
    expect_code 0 "$CLTRAIN" export run_$task --format peft --out adapter_$task
    expect_text 'and 1 layer trained whole'
    tr -d ' \n' <adapter_$task/adapter_config.json >"$out"
    expect_text "\"modules_to_save\":.\"$head\"." '"task_type":"(SEQ_CLS|TOKEN_CLS|QUESTION_ANS)"'
    "$CLTRAIN_BUILD_DIR/tests/logits" --tensors adapter_$task/adapter_model.safetensors >"$out"
    expect_text "base_model.model.$head.weight" "base_model.model.$head.bias" base_model.model.bert.encoder.layer.0.attention.self.query.lora_A.weight
    # the base has no head, or another one: the adapter's is used
    for base in folder run_$task; do
        [ $base = folder ] || expect_code 0 "$CLTRAIN" export run_$task --merge --out merged_$task
        [ $base = folder ] || base=merged_$task
        expect_code 0 "$CLTRAIN" eval $task.json --init $base --adapter adapter_$task --json $task.again.json
        expect_text "2 tensors of parts trained whole"
        [ $base = folder ] && expect_same <(grep '"loss"' $task.eval.json) <(grep '"loss"' $task.again.json)
    done
    expect_code 0 "$CLTRAIN" eval $task.json --init merged_$task --json $task.merged.json
    a=$(sed -n 's/^ *"loss": \([0-9.e-]*\).*/\1/p' $task.eval.json | head -n 1) b=$(sed -n 's/^ *"loss": \([0-9.e-]*\).*/\1/p' $task.merged.json | head -n 1)
    if awk "BEGIN { d = $a - $b; exit !(d < 2e-4 && d > -2e-4) }"; then pass; else fail "$task: merged: loss $b, not $a"; fi
    sed -E 's/,"(label|ner_tags|answers)":.*/}/' ${task}_eval.jsonl >${task}_in.jsonl
    expect_code 0 "$CLTRAIN" predict run_$task ${task}_in.jsonl --out $task.predicted.jsonl
done

# --- parts that the config names, and a run that goes on with the same bits ---
named=("${lora[@]}" 'model.lora_modules_to_save=["pooler", "embeddings.LayerNorm"]' train.steps=6)
expect_code 0 "$CLTRAIN" train class.json --init folder --init-skip 'classifier.*' --out named "${named[@]}"
expect_code 0 "$CLTRAIN" train class.json --init folder --init-skip 'classifier.*' --out named_part "${named[@]}" --max-steps 2
expect_code 0 "$CLTRAIN" train --resume named_part
expect_same named/checkpoints/step_6/model.safetensors named_part/checkpoints/step_6/model.safetensors
expect_code 1 cmp -s <(tensor folder/model.safetensors bert.pooler.dense.weight) <(tensor named/checkpoints/step_6/model.safetensors pooler.dense.weight)
expect_code 0 "$CLTRAIN" export named --format peft --out named_adapter
expect_text 'and 3 layers trained whole'
tr -d ' \n' <named_adapter/adapter_config.json >"$out"
expect_text '"bert.pooler.dense"' '"bert.embeddings.LayerNorm"' '"classifier"'
"$CLTRAIN_BUILD_DIR/tests/logits" --tensors named_adapter/adapter_model.safetensors >"$out"
reject_text 'pooler.dense.lora'
expect_code 0 "$CLTRAIN" eval named --json named.eval.json
expect_code 0 "$CLTRAIN" eval class.json --init folder --adapter named_adapter --json named.again.json
expect_same <(grep '"loss"' named.eval.json) <(grep '"loss"' named.again.json)

# --- a decoder with a token embedding and an output layer of its own ---
expect_code 0 "$CLTRAIN" train llama.json model.lora_rank=0 model.tied=false train.steps=3 --out base
whole=(model.tied=false optimizer.learning_rate=0.01 train.steps=4 'model.lora_modules_to_save=["embed_tokens", "lm_head"]')
expect_code 0 "$CLTRAIN" train llama.json --init base "${whole[@]}" --out decoder
expect_code 0 "$CLTRAIN" export decoder --format peft --out decoder_adapter
expect_code 0 "$CLTRAIN" generate decoder --prompt 'the ' --temperature 0 --max-new 12
grep -v tokens "$out" >said
expect_code 0 "$CLTRAIN" generate base --adapter decoder_adapter --prompt 'the ' --temperature 0 --max-new 12
expect_same said <(grep -v tokens "$out")

# --- a damaged adapter ---
cp -r adapter_class broken
sed -i 's/"classifier"/"pooler"/' broken/adapter_config.json
expect_code 2 "$CLTRAIN" eval class.json --init folder --adapter broken
expect_text 'base_model.model.classifier.*nor a part that adapter_config.json names as modules_to_save'

# --- beside PEFT ---
if [ -n "${CLTRAIN_TEST_PYTHON:-}" ]; then
    expect_code 0 "$CLTRAIN_TEST_PYTHON" "$CLTRAIN_SOURCE_DIR/tests/golden/check_bert_tasks.py" . --adapters
    expect_text 'class: 60 predictions, 0 unlike' 'tokens: 60 predictions, 0 unlike' 'span: 60 predictions, 0 unlike'
    for task in class tokens span; do # adapters that PEFT made
        expect_code 0 "$CLTRAIN" eval $task.json --init folder --adapter theirs_$task
        expect_text '2 tensors of parts trained whole'
        a=$(cat theirs_$task.loss) b=$(loss)
        [ $task = span ] || if awk "BEGIN { d = $a - $b; exit !(d < 1e-4 && d > -1e-4) }"; then pass; else fail "$task: loss $b with an adapter of PEFT, which has $a"; fi
    done
else
    note_skip 'CLTRAIN_TEST_PYTHON names no Python with torch, transformers and peft to compare with'
fi

finish
