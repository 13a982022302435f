#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-optimise: no
#
# Answers to questions whose windows are divided among several ranks, and entities of sentences that are
# divided among them: exact matches and F1 are the same as with one rank, in evaluations of a training and
# of a saved run.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"

pieces=$CLTRAIN_SOURCE_DIR/tests/golden/tokenizers/bert_cased/vocab.txt
awk 'BEGIN { s = 5; split("the there wellness 12345 .", w, " ")
    for (r = 0; r < 60; r++) { text = ""; at = -1
        for (i = 0; i < 4 + r; i++) { s = (s * 1103515245 + 12345) % 2147483648; text = text (i ? " " : "") w[int(s / 65536) % 5 + 1]
            if (i == 1) { text = text " hello well"; at = length(text) - 10 } }
        printf "{\"question\":\"there?\",\"context\":\"%s\",\"answers\":{\"text\":[\"hello well\"],\"answer_start\":[%d]}}\n", text, at } }' >q.jsonl
cat >q.json <<JSON
{"model": {"type": "bert", "layers": 1, "heads": 2, "channels": 16, "context": 24, "head": "span"},
 "data": {"type": "annotated", "task": "span", "path": "q.jsonl", "eval_path": "q.jsonl", "tokenizer": "$pieces", "micro_batch": 4, "global_batch": 32},
 "parallel": {"rank_invariant": true}, "optimizer": {"type": "adamw", "learning_rate": 0.0001}, "train": {"steps": 12, "eval_every": 4}}
JSON
expect_code 0 "$CLTRAIN" train q.json --out one
expect_code 0 "$CLTRAIN" eval one --json one.json
figures() { grep -E '"(answers|exact|answer_f1)"' "$1"; }
expect_awk "no figure is between 0 and 1: $(figures one.json)" '/"answer_f1"/ { gsub(/[^0-9.]/, ""); sub(/^1/, "") } { v = $0 + 0; if (v > 0 && v < 1) found = 1 } END { exit !found }' one.json
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train q.json --out two
expect_same <(values eval_exact one/metrics.jsonl) <(values eval_exact two/metrics.jsonl)
expect_same <(values eval_answer_f1 one/metrics.jsonl) <(values eval_answer_f1 two/metrics.jsonl)
for ranks in 2 3; do
    expect_code 0 "${mpi[@]}" $ranks "$CLTRAIN" eval one --json ranks.json
    expect_same <(figures one.json) <(figures ranks.json)
done

awk 'BEGIN { s = 5; split("the there wellness 12345 .", w, " "); split("O B-X I-X B-Y O", tag, " ")
    for (r = 0; r < 60; r++) { for (i = 0; i < 3 + r % 7; i++) { s = (s * 1103515245 + 12345) % 2147483648; at = int(s / 65536)
        print w[at % 5 + 1], tag[at % 7 < 5 ? at % 5 + 1 : at % 3 + 1] } print "" } }' >words.conll
sed 's/"head": "span"/"head": "tokens"/; s/"task": "span"/"task": "tokens"/; s/q\.jsonl/words.conll/g; s/0\.0001/0.02/' q.json >words.json
expect_code 0 "$CLTRAIN" train words.json --out one_words
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train words.json --out two_words
expect_awk 'entities are right in no evaluation, or all in each' '{ v = $0 + 0; if (v > 0 && v < 1) found = 1 } END { exit !found }' <(values eval_entity_f1 one_words/metrics.jsonl)
for figure in entity_precision entity_recall entity_f1; do
    expect_same <(values eval_$figure one_words/metrics.jsonl) <(values eval_$figure two_words/metrics.jsonl)
done

finish
