# SPDX-License-Identifier: Apache-2.0
#
# A small pre-trained BERT and records whose rule is easy to learn, for tests of fine-tuning. Sourced after
# lib.sh.

pieces=$CLTRAIN_SOURCE_DIR/tests/golden/tokenizers/bert_cased/vocab.txt

# Pre-trains a small model and writes it as a folder of transformers, `folder`.
make_folder() {
    awk 'BEGIN { for (d = 0; d < 40; d++) { for (l = 0; l < 6; l++) print "the well hello theory there hell wellness 12345."; print "" } }' >text.txt
    "$CLTRAIN" data prepare text.txt --mlm --tokenizer "$pieces" --context 32 --out pairs >/dev/null
    cat >pre.json <<'END'
{"model": {"type": "bert", "layers": 2, "heads": 2, "channels": 32, "context": 32, "positions": 64},
 "data": {"type": "mlm", "path": "pairs", "micro_batch": 8}, "optimizer": {"type": "adamw", "learning_rate": 0.001}, "train": {"steps": 2}}
END
    expect_code 0 "$CLTRAIN" train pre.json --out pre
    expect_code 0 "$CLTRAIN" export pre --out folder
}

# records TASK COUNT SEED: lines of JSON with the classes, labels or answers of `data.task` TASK; for
# `number` a table in the form of GLUE's STS-B, for `sst2` a table with classes.
records() {
    awk -v task="$1" -v n="$2" -v s="$3" '
    function draw(k) { s = (s * 1103515245 + 12345) % 2147483648; return int(s / 65536) % k }
    BEGIN {
        split("the there wellness 12345 .", fill, " "); split("well hello hell theory", key, " ")
        for (r = 0; r < n; r++) {
            count = 3 + draw(6); if (task == "span") count = 3 + draw(40)
            at = draw(count); which = 1 + draw(4); text = ""; start = 0; words = ""; tags = ""
            for (i = 0; i < count; i++) {
                w = i == at ? key[which] : fill[1 + draw(5)]
                if (i == at) start = length(text) + (i > 0)
                text = text (i ? " " : "") w; words = words (i ? "," : "") "\"" w "\""
                tags = tags (i ? "," : "") "\"" (i != at ? "O" : which < 3 ? "B-UP" : "B-DOWN") "\""
            }
            if (task == "class") printf "{\"sentence\":\"%s\",\"label\":\"%s\"}\n", text, which < 3 ? "up" : "down"
            if (task == "sst2") printf "%s%s\t%d\n", r ? "" : "sentence\tlabel\n", text, which < 3
            if (task == "number") printf "%s%d\t\"%s\t.\t%.3f\n", r ? "" : "index\tsentence1\tsentence2\tscore\n", r, text, 1.25 * which
            if (task == "tokens") printf "{\"tokens\":[%s],\"ner_tags\":[%s]}\n", words, tags
            if (task == "span")
                printf "{\"id\":\"q%d\",\"question\":\"there?\",\"context\":\"%s\",\"answers\":{\"text\":[\"%s\"],\"answer_start\":[%d]}}\n", r, text, key[which], start
        }
    }'
}

# config TASK: a config that learns them from TASK.jsonl.
config() {
    cat <<END
{"model": {"type": "bert", "layers": 2, "heads": 2, "channels": 32, "context": 32, "positions": 64, "dropout": 0, "head": "$1"},
 "data": {"type": "annotated", "task": "$1", "path": "$1.jsonl", "eval_path": "$1_eval.jsonl", "tokenizer": "folder", "micro_batch": 16},
 "optimizer": {"type": "adamw", "learning_rate": 0.003, "weight_decay": 0.01, "clip": 1}, "train": {"steps": 150, "eval_every": 150}}
END
}
