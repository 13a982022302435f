#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 60 ctest-optimise: no
#
# Fine-tuning a small BERT from a folder of transformers: classes of texts, labels of words and answers to
# questions are learned, evaluated, predicted and exported; bad records are named with file and line, or left
# out; and transformers, where it is installed, predicts the same.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/bert_lib.sh"

make_folder
# A folder without a tokenizer: what is missing is not what is wrong with this.
mkdir bare && cp folder/config.json folder/model.safetensors bare
for folder in folder bare; do
    expect_code 2 "$CLTRAIN" generate $folder --prompt hello
    expect_text "generating from '$folder': it holds a BERT; generate continues texts with a language model"
done

for task in class tokens span; do
    head=classifier
    [ $task = span ] && head=qa_outputs
    records $task 400 1 >$task.jsonl
    records $task 60 2 >${task}_eval.jsonl
    config $task >$task.json
    expect_code 0 "$CLTRAIN" data verify $task.json
    expect_code 7 "$CLTRAIN" train $task.json --init folder --dry-run
    expect_text "--init-skip '$head.\*'"
    expect_code 0 "$CLTRAIN" train $task.json --init folder --init-skip "$head.*" --out run_$task
    expect_code 0 "$CLTRAIN" eval run_$task --json $task.eval.json
    cp $task.eval.json "$out"
    expect_text '"accuracy": (1|0\.9[0-9]*)'
    sed -E 's/,"(label|ner_tags|answers)":.*/}/' ${task}_eval.jsonl >${task}_in.jsonl
    expect_code 0 "$CLTRAIN" predict run_$task ${task}_in.jsonl --out $task.predicted.jsonl
    expect_text '60 samples predicted'
    expect_code 0 "$CLTRAIN" export run_$task --out export_$task
    expect_code 0 "$CLTRAIN" import export_$task --out import_$task.json
    cp import_$task.json "$out"
    expect_text '"type": "annotated"' "\"task\": \"$task\""
    expect_code 0 "$CLTRAIN" eval $task.json --init export_$task --json $task.again.json
    expect_same <(grep '"loss"' $task.eval.json) <(grep '"loss"' $task.again.json)
done

# --- what is predicted is what the data say ---
right() { # FILE: how many lines of FILE hold the expected word in the same line of FILE.want
    paste -d '|' "$1.want" "$1" | awk -F '|' 'index($2, $1) { n++ } END { print n + 0 }'
}
sed -E 's/.*"label":("[a-z]+").*/"name":\1/' class_eval.jsonl >class.predicted.jsonl.want
sed -E 's/.*"ner_tags":(\[.*\]).*/"labels":\1/' tokens_eval.jsonl >tokens.predicted.jsonl.want
sed -E 's/.*"text":\[("[a-z]+")\].*/"answer":\1/' span_eval.jsonl >span.predicted.jsonl.want
for task in class tokens span; do
    n=$(right $task.predicted.jsonl)
    if [ "$n" -ge 54 ]; then pass; else fail "$task: $n of 60 predictions are right: $(head -n 2 $task.predicted.jsonl)"; fi
done
cp export_class/config.json "$out"
expect_text '"0": "down"' '"1": "up"'

# --- the names of the classes go out and in again; their order is that of the classifier, not that of the names ---
cp import_class.json "$out"
expect_text '"class_names": \["down","up"\]'
cp import_tokens.json "$out"
expect_text '"class_names": \["B-DOWN","B-UP","O"\]'
cp -r export_class swapped
sed -i 's/"0": "down"/"0": "up"/; s/"1": "up"/"1": "down"/; s/"down": 0/"up": 0/; s/"up": 1/"down": 1/' swapped/config.json
expect_code 0 "$CLTRAIN" import swapped --out swapped.json
cp swapped.json "$out"
expect_text '"class_names": \["up","down"\]'
expect_code 0 "$CLTRAIN" eval class.json --init swapped
expect_text 'accuracy [0-9]\.[0-9]*%'
expect_code 0 "$CLTRAIN" eval class.json --init export_class
expect_text 'accuracy (100|9[0-9])\.[0-9]*%'
expect_code 0 "$CLTRAIN" train class.json --init swapped train.steps=1 --out run_swapped
expect_code 0 "$CLTRAIN" export run_swapped --out export_swapped
cp export_swapped/config.json "$out"
expect_text '"0": "up"' '"1": "down"'
expect_code 0 "$CLTRAIN" train class.json --init swapped --init-skip 'classifier.*' train.steps=1 --out run_new_head
expect_code 0 "$CLTRAIN" export run_new_head --out export_new_head
cp export_new_head/config.json "$out"
expect_text '"0": "down"' '"1": "up"'
sed -i 's/"1": "down"/"2": "down"/' swapped/config.json
expect_code 2 "$CLTRAIN" import swapped --out gap.json
expect_text "id2label: '2' is not the number of a class"
cp span.eval.json "$out"
expect_text '"answers": 60' '"exact": (1|0\.9[0-9]*)' '"answer_f1": (1|0\.9[0-9]*)'
exact=$(grep '"exact"' span.eval.json)
n=$(right span.predicted.jsonl)
if [ "$(printf '%s' "$exact" | sed 's/[^0-9.]//g' | awk '{ printf "%.0f", $1 * 60 }')" = "$n" ]; then pass; else fail "eval counts $exact, predict $n of 60"; fi
expect_code 0 "$CLTRAIN" eval run_tokens --classes
expect_text 'B-DOWN' 'macro F1'
reject_text 'Dice'
expect_code 2 "$CLTRAIN" eval run_span --classes
expect_code 2 "$CLTRAIN" predict run_span span_in.jsonl --format csv
expect_text 'written as jsonl'

# --- SQuAD's own form: the same questions, and answers as its evaluation script reads them ---
awk 'BEGIN { printf "{\"version\": \"1.1\", \"data\": [{\"title\": \"all\", \"paragraphs\": [" }
    { match($0, /"context":"[^"]*"/); context = substr($0, RSTART, RLENGTH); sub(/"context":"[^"]*",/, "")
      printf "%s{%s, \"qas\": [%s]}", (NR > 1 ? ", " : ""), context, $0 }
    END { print "]}]}" }' span_eval.jsonl >squad.json
expect_code 0 "$CLTRAIN" eval run_span 'data.eval_path=squad.json' --json squad.eval.json
expect_same <(grep -E '"(answers|exact|answer_f1)"' span.eval.json) <(grep -E '"(answers|exact|answer_f1)"' squad.eval.json)
expect_code 0 "$CLTRAIN" predict run_span squad.json --out answers.json
expect_same <(sed -E 's/.*"id":("[^"]*"),"answer":("[^"]*").*/\1: \2/' span.predicted.jsonl) <(tr -d '{}' <answers.json | sed 's/,$//')
expect_code 2 "$CLTRAIN" predict run_class class_in.jsonl --format json
expect_text 'answers to questions'

# --- CoNLL's columns: the same words with the same labels, and words alone ---
sed -E 's/.*"tokens":\[(.*)\],"ner_tags":\[(.*)\].*/\1 \2/' tokens_eval.jsonl | tr -d '"' |
    awk 'BEGIN { print "-DOCSTART- O\n" } { n = split($1, word, ","); split($2, tag, ","); for (i = 1; i <= n; i++) print word[i], tag[i]; print "" }' >words.conll
expect_code 0 "$CLTRAIN" eval run_tokens 'data.eval_path=words.conll' --json words.eval.json
expect_same <(grep '"loss"' tokens.eval.json) <(grep '"loss"' words.eval.json)
sed -E 's/ .*//; s/-DOCSTART-//' words.conll >words.txt
expect_code 0 "$CLTRAIN" predict run_tokens words.txt --out words.predicted.jsonl
expect_same tokens.predicted.jsonl words.predicted.jsonl
sed '5s/ .*//; 9s/ .*/ B-LEFT/' words.conll >broken.conll
expect_code 3 "$CLTRAIN" data verify tokens.json data.path=broken.conll 'data.class_names=["B-DOWN","B-UP","O"]'
expect_text "broken.conll', line 3: line 5: it has 1 column, and the file's first word has 2" "the label 'B-LEFT' is not one of"

# --- entities: labels that change at random; an independent count of the predictions gives the same
# figures ---
noise() { # FILE SEED: its records with labels of which a third are drawn anew
    awk -v s="$2" 'function draw(k) { s = (s * 1103515245 + 12345) % 2147483648; return int(s / 65536) % k }
        BEGIN { split("O B-UP I-UP B-DOWN I-DOWN", tag, " ") }
        { n = split($0, part, "\"ner_tags\":"); count = split(part[2], t, ","); line = part[1] "\"ner_tags\":["
          for (i = 1; i <= count; i++) { gsub(/[^A-Z-]/, "", t[i]); line = line (i > 1 ? "," : "") "\"" (draw(3) ? t[i] : tag[1 + draw(5)]) "\"" }
          print line "]}" }' "$1"
}
noise tokens.jsonl 3 >noisy.jsonl
noise tokens_eval.jsonl 4 >noisy_eval.jsonl
expect_code 0 "$CLTRAIN" train tokens.json --init folder --init-skip 'classifier.*' data.path=noisy.jsonl data.eval_path=noisy_eval.jsonl \
    train.steps=60 train.eval_every=20 checkpoint.best=entity_f1 --out run_noisy
expect_text 'entities: precision [0-9.]*%, recall [0-9.]*%, F1 [0-9.]*%'
expect_code 0 "$CLTRAIN" eval run_noisy --classes --json noisy.eval.json
expect_text 'entities +in data +predicted' '(UP|DOWN) +[0-9]+ +[0-9]+ +0\.' 'all +[0-9]+'
f1() { sed -n -E 's/.*"(eval_)?entity_f1": ?([0-9.e-]+).*/\2/p' "$1" | tail -n 1; }
expect_same <(f1 run_noisy/metrics.jsonl) <(f1 noisy.eval.json)
expect_same <(f1 run_noisy/classes.json) <(f1 noisy.eval.json)
n=$(grep -c eval_f1 run_noisy/metrics.jsonl)
if [ "$n" = 0 ]; then pass; else fail 'a training counts classes without being asked'; fi
expect_code 0 "$CLTRAIN" predict run_noisy noisy_eval.jsonl --out noisy.predicted.jsonl
python=${CLTRAIN_TEST_PYTHON:-$(command -v python3)}
if [ -n "$python" ]; then
    expect_code 0 "$python" "$CLTRAIN_SOURCE_DIR/tests/golden/check_entities.py" noisy_eval.jsonl noisy.predicted.jsonl noisy.eval.json
else
    note_skip 'there is no Python to count entities with'
fi
expect_code 0 "$CLTRAIN" eval run_noisy data.micro_batch=7 --json again.json
expect_same <(f1 again.json) <(f1 noisy.eval.json)
expect_code 2 "$CLTRAIN" train class.json --init folder --init-skip 'classifier.*' checkpoint.best=entity_f1 --out none
expect_text 'checkpoint.best entity_f1: the data are not words'

# --- padding changes nothing: rows of 48 tokens give the losses and gradient norms of rows of 32, if the
# texts fit into both ---
records span 400 3 | awk 'NF < 12' >span_short.jsonl
figures() { # FOLDER: the losses and gradient norms of its steps, and the loss of its evaluation
    sed -n -E 's/^.*"loss":([0-9.e-]+),.*"grad_norm":([0-9.e-]+),.*/\1 \2/p; s/.*"eval_loss":([0-9.e-]+),.*/\1/p' "$1/metrics.jsonl" | tr ' ' '\n'
}
for task in class tokens span pre; do
    case $task in
    pre) more=(model.dropout=0 data.places=5) ;;
    span) more=(--init-skip 'qa_outputs.*' data.path=span_short.jsonl data.eval_path=span_short.jsonl) ;;
    *) more=(--init-skip 'classifier.*') ;;
    esac
    for context in 32 48; do
        expect_code 0 "$CLTRAIN" train $task.json --init folder "${more[@]}" model.context=$context train.steps=3 train.eval_every=3 --out $task.$context
        figures $task.$context >$task.$context.figures
    done
    if [ "$(wc -l <$task.48.figures)" -eq 7 ] &&
        paste $task.32.figures $task.48.figures | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 1e-6 * $1) bad = 1 } END { exit bad }'; then
        pass
    else
        fail "$task: padding changes losses or gradient norms: $(paste $task.32.figures $task.48.figures)"
    fi
done

# --- bad records ---
{ sed -n 1,3p class.jsonl; echo '{"sentence": "hello"}'; echo 'no record'; echo '{"sentence": "hello", "label": "sideways"}'; sed -n 4,9p class.jsonl; } >bad.jsonl
expect_code 3 "$CLTRAIN" data verify class.json data.path=bad.jsonl 'data.class_names=["down","up"]'
expect_text "bad.jsonl', line 4" "line 5" "line 6" "the label 'sideways' is not one of" '3 of 72 are bad'
expect_code 3 "$CLTRAIN" train class.json data.path=bad.jsonl --out none
expect_text 'data.on_bad_sample=skip' '2 of 12'
expect_code 0 "$CLTRAIN" train class.json data.path=bad.jsonl 'data.class_names=["down","up"]' data.on_bad_sample=skip train.steps=1 --out skipped
expect_text '3 of 12 samples of data.path are skipped'
printf '{}\n' | guarded "$CLTRAIN" predict run_class --input - >"$out" 2>&1 && fail 'texts on the standard input'
expect_text 'texts, which are not read from the standard input; name a file of JSON Lines'
expect_code 3 "$CLTRAIN" predict run_class bad.jsonl
reject_text 'data\.path'
expect_text "'bad.jsonl'"
expect_text "bad.jsonl', line 5"
expect_code 2 "$CLTRAIN" predict run_class bad.jsonl data.on_bad_sample=skip
expect_text 'it can skip images, but no other samples'
expect_code 2 "$CLTRAIN" train class.json model.head=tokens --out none
expect_text 'model.head tokens'

# --- tables as GLUE publishes them: quotes are characters; a number for each pair (STS-B), a class for each text (SST-2) ---
records number 400 1 >number.tsv
records number 60 2 >number_eval.tsv
config number | sed 's/jsonl/tsv/g' >number.json
expect_code 0 "$CLTRAIN" data verify number.json
expect_code 0 "$CLTRAIN" train number.json --init folder --init-skip 'classifier.*' --out run_number
expect_text 'Pearson 0\.9[0-9]* \| Spearman 0\.9'
expect_code 0 "$CLTRAIN" eval run_number --json number.eval.json
expect_same <(grep -E '"(rmse|pearson|spearman)"' number.eval.json | grep -c '[0-9]') <(echo 3)
cut -f 1-3 number_eval.tsv >number_in.tsv
expect_code 0 "$CLTRAIN" predict run_number number_in.tsv --out number.predicted.csv
paste -d, <(tail -n +2 number.predicted.csv | cut -d, -f2) <(tail -n +2 number_eval.tsv | cut -f4) | awk -F, -v want="$(sed -n 's/.*"rmse": *\([0-9.]*\).*/\1/p' number.eval.json)" '
    { e += ($1 - $2) ^ 2 } END { d = sqrt(e / NR) - want; exit !(NR == 60 && d < 1e-5 && d > -1e-5) }' && pass || fail "predictions and eval disagree about RMSE"
expect_code 0 "$CLTRAIN" export run_number --out export_number
expect_code 0 "$CLTRAIN" import export_number --out import_number.json
cp import_number.json "$out"
expect_text '"head": "number"' '"task": "number"'
expect_code 0 "$CLTRAIN" eval number.json --init export_number --json number.again.json
expect_same <(grep '"loss"' number.eval.json) <(grep '"loss"' number.again.json)
expect_code 0 "$CLTRAIN" train number.json --init export_number data.path=number_eval.tsv data.micro_batch=60 data.global_batch=60 train.steps=1 --out number_step
records sst2 400 1 >sst2.tsv
records sst2 60 2 >sst2_eval.tsv
expect_code 0 "$CLTRAIN" train class.json data.path=sst2.tsv data.eval_path=sst2_eval.tsv --init folder --init-skip 'classifier.*' --out run_sst2
expect_text 'accuracy (9[0-9]|100)'
# parts that do not fit together are reported, and rows that cannot be used are named
expect_code 2 "$CLTRAIN" train number.json model.head=class --init folder --out none
expect_text 'learned with model.head number'
expect_code 2 "$CLTRAIN" train class.json model.head=number --init folder --out none
expect_text 'data.task number'
expect_code 2 "$CLTRAIN" train number.json model.outputs=3 --out none
expect_text 'model.outputs.*one output'
expect_code 3 "$CLTRAIN" train class.json data.path=number.tsv data.label_member=score --out none
expect_text 'the label 5.000 is not a whole number' 'data.task number'
{ sed -n 1,4p number.tsv; printf '9\tthere\n9\tthere\t.\tmuch\n'; sed -n 5,9p number.tsv; } >bad.tsv
expect_code 3 "$CLTRAIN" data verify number.json data.path=bad.tsv
expect_text "bad.tsv', line 5: it has 2 cells, and the first line has 4" "bad.tsv', line 6: .*'much' is not a number"

# --- compared with transformers ---
if [ -n "${CLTRAIN_TEST_PYTHON:-}" ]; then
    expect_code 0 "$CLTRAIN_TEST_PYTHON" "$CLTRAIN_SOURCE_DIR/tests/golden/check_bert_tasks.py" .
else
    note_skip 'CLTRAIN_TEST_PYTHON names no Python with torch and transformers to compare with'
fi

finish
