#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 60 ctest-optimise: no
#
# A BERT from the command line: pairs are made of sentences, a small model is trained in two phases with longer pairs in the second one,
# resumed with the same result, exported, and read back with the same bytes and the same loss; bad input is refused with its reason.
. "$(dirname "$0")/lib.sh"

tensors() { "$CLTRAIN_BUILD_DIR/tests/logits" --tensors "$1" | sed 's/^bert\.//' | sort; }
pieces=$CLTRAIN_SOURCE_DIR/tests/golden/tokenizers/bert_cased/vocab.txt

# --- pairs ---
awk 'BEGIN { split("the well hello theory there hell wellness 12345", w, " "); s = 7
    for (d = 0; d < 60; d++) { for (l = 0; l < 9; l++) { line = ""
        for (i = 0; i < 7; i++) { s = (s * 1103515245 + 12345) % 2147483648; line = line w[int(s / 65536) % 8 + 1] " " }
        print line "." } print "" } }' >text.txt
expect_code 0 "$CLTRAIN" data prepare text.txt --mlm --tokenizer "$pieces" --context 32 --out short
expect_text '540 sentences in 60 documents' 'the second text does not follow'
expect_code 0 "$CLTRAIN" data prepare text.txt --mlm --tokenizer "$pieces" --context 64 --out long
expect_code 0 "$CLTRAIN" data verify short/train.pairs
expect_text 'pairs, all in the vocabulary'
cp short/manifest.json "$out"
expect_text 'cltrain-pairs-1' '"copies": 1' '"path": "text.txt"' '"name": "val.pairs"'
expect_code 0 "$CLTRAIN" data verify short
cp -r short changed
printf 'x' | dd of=changed/train.pairs bs=1 seek=200 conv=notrunc 2>/dev/null
expect_code 3 "$CLTRAIN" data verify changed
expect_text "changed/train.pairs': it has" 'according to manifest.json'
cp short/train.pairs first.pairs
expect_code 0 "$CLTRAIN" data prepare text.txt --mlm --tokenizer "$pieces" --context 32 --out again
if cmp -s first.pairs again/train.pairs; then pass; else fail "the same text and seed give other pairs"; fi
expect_code 0 "$CLTRAIN" data prepare text.txt --mlm --tokenizer "$pieces" --context 32 --seed 1 --out other
if cmp -s first.pairs other/train.pairs; then fail "another seed gives the same pairs"; else pass; fi

# --- two phases, resumed, exported ---
config() { # FOLDER CONTEXT
    cat <<END
{"model": {"type": "bert", "layers": 2, "heads": 2, "channels": 32, "context": $2, "positions": 64, "dropout": 0.1},
 "data": {"type": "mlm", "path": "$1", "micro_batch": 8}, "optimizer": {"type": "lamb", "learning_rate": 0.01, "weight_decay": 0.01, "clip": 1},
 "train": {"steps": 6, "eval_every": 6}}
END
}
config short 32 >one.json
config long 64 >two.json
expect_code 0 "$CLTRAIN" train one.json --out one
expect_text '^step 1/6 \| loss [0-9.]+ \(masked [0-9.]+, follows [0-9.]+\) \|'
expect_text 'eval at step 6 \| loss [0-9.]+ .*\| masked_loss [0-9.]+ \| follows_loss [0-9.]+'
cp one/metrics.jsonl "$out"
expect_text '^\{"step":6,.*"losses":\{"masked_loss":[0-9.]+,"follows_loss":[0-9.]+\}' '"eval_losses":\{"masked_loss":[0-9.]+,"follows_loss":[0-9.]+\}'
expect_code 0 "$CLTRAIN" watch one --once
expect_text 'loss [0-9.]+ \| eval [0-9.]+ \| masked_loss [0-9.]+, eval [0-9.]+ \|' 'follows_loss$' '^ +[0-9.]+, eval [0-9.]+ \|'
reject_text 'perplexity'
expect_code 0 "$CLTRAIN" train one.json train.steps=3 --out half
expect_code 0 "$CLTRAIN" compare one half
expect_text '^  masked_loss +[0-9.]+ +[0-9.]+ +[0-9.]+' '^  follows_loss +[0-9.]+ +[0-9.]+ +[0-9.]+'
expect_code 0 "$CLTRAIN" compare one half --json
expect_text '"losses": ?\{' '"masked_loss": ?\{' '"follows_loss": ?\{'
expect_code 0 "$CLTRAIN" compare one half --csv
expect_text '"losses.masked_loss.loss",.*"losses.follows_loss.best_eval_step"'
expect_code 0 "$CLTRAIN" report one --out "$out.html"
cp "$out.html" "$out"
expect_text '<h3>masked_loss <small>dots: evaluation</small></h3>' '<h3>follows_loss <small>' '<span>masked_loss</span>'
expect_code 0 "$CLTRAIN" report one half --out "$out.html"
cp "$out.html" "$out"
expect_text '<h3>masked_loss <small>dots: evaluation</small></h3>' '<tr><td>follows_loss</td>'
expect_code 0 "$CLTRAIN" train --resume half train.steps=6
tensors one/checkpoints/step_6/model.safetensors >whole
tensors half/checkpoints/step_6/model.safetensors >resumed
if [ -s whole ] && cmp -s whole resumed; then pass; else fail "a resumed run ends with other weights"; fi
expect_code 0 "$CLTRAIN" train two.json --init one --out two
expect_code 0 "$CLTRAIN" train two.json --init one train.steps=3 --out two_half
expect_code 0 "$CLTRAIN" train --resume two_half train.steps=6
if cmp -s <(tensors two/checkpoints/step_6/model.safetensors) <(tensors two_half/checkpoints/step_6/model.safetensors); then
    pass
else
    fail "a resumed second phase ends with other weights"
fi
expect_code 0 "$CLTRAIN" export two --out folder
expect_text "BertForPreTraining.from_pretrained\('folder'\)"
tensors two/checkpoints/step_6/model.safetensors >before
tensors folder/model.safetensors >after
if [ -s before ] && cmp -s before after; then pass; else fail "$(diff before after | head -n 5)"; fi
cp folder/config.json "$out"
expect_text '"BertForPreTraining"' '"hidden_act": "gelu"' '"layer_norm_eps": 1e-12' '"max_position_embeddings": 64' '"pad_token_id": 0'
loss() { sed -n -E 's/.*loss ([0-9.]+).*/\1/p' "$out" | head -n 1; }
expect_code 0 "$CLTRAIN" eval two
before=$(loss)
expect_code 0 "$CLTRAIN" eval two.json --init folder
if [ -n "$before" ] && [ "$(loss)" = "$before" ]; then pass; else fail "the export's loss is $(loss), not $before"; fi
expect_code 0 "$CLTRAIN" import folder --out imported.json
cp imported.json "$out"
expect_text '"type": "bert"' '"head": "pretrain"' '"type": "mlm"'
expect_code 0 "$CLTRAIN" train two.json --init folder model.head=masked train.steps=1 --out masked
expect_code 0 "$CLTRAIN" train two.json data.whole_words=true train.steps=1 --out words

expect_code 2 "$CLTRAIN" export two --out two.gguf
expect_text 'the model is a bert|model is a bert'

# --- micro-batches, and tokens: all that are computed, not only the masked ones ---
sed 's/"micro_batch": 8/"micro_batch": 8, "global_batch": 8, "workers": 1/; s/"dropout": 0.1/"dropout": 0/' one.json >batch.json
expect_code 0 "$CLTRAIN" train batch.json --out at_once
expect_code 0 "$CLTRAIN" train batch.json data.micro_batch=2 --out parts
losses() { sed -n -E 's/^\{"step":([0-9]+),"update".*"loss":([0-9.e-]+),"acc.*/\1 \2/p' "$1/metrics.jsonl"; }
if [ "$(losses at_once | wc -l)" -eq 6 ] &&
    paste -d ' ' <(losses at_once) <(losses parts) | awk '{ d = $2 - $4; if (d < 0) d = -d; if ($1 != $3 || d > 1e-6 * $2) bad = 1 } END { exit bad }'; then
    pass
else
    fail "1 x 8 and 4 x 2 micro-batches differ: $(paste <(losses at_once) <(losses parts))"
fi
expect_awk 'a pair of 32 tokens counts as another number' \
    '/"update"/ { split($0, s, "\"samples_per_s\":"); split($0, t, "\"tokens_per_s\":"); q = (t[2] + 0) / (s[2] + 0); n++; if (q < 31.9 || q > 32.1) bad = 1 } END { exit bad || !n }' \
    at_once/metrics.jsonl

# --- the sizes of the published models, and the shipped configs ---
size() { # LAYERS HEADS CHANNELS
    expect_code 0 "$CLTRAIN" estimate two.json --device generic model.vocab=30522 model.vocab_pad=1 model.positions=512 model.layers="$1" \
        model.heads="$2" model.channels="$3" data.path=none data.tokenizer= --json
}
size 12 12 768
expect_text '"parameters": 110106428[,}]?'
size 24 16 1024
expect_text '"parameters": 336226108[,}]?'

# --- refusals ---
expect_code 3 "$CLTRAIN" data prepare "$pieces" --mlm --tokenizer "$pieces" --out none
expect_text 'an empty line between documents'
expect_code 3 "$CLTRAIN" data prepare text.txt --mlm --tokenizer bytes --out none
expect_text 'has no \[CLS\] token'
head -c 100 short/train.pairs >cut.pairs
cp short/tokenizer*.json .
expect_code 3 "$CLTRAIN" train one.json data.path=cut.pairs --out none
expect_text "cut.pairs" 'declares'
expect_code 3 "$CLTRAIN" train two.json data.path=short data.tokenizer="$CLTRAIN_SOURCE_DIR/tests/golden/tokenizers/bert" --out none
expect_text 'made with another tokenizer'
expect_code 3 "$CLTRAIN" train one.json data.path=long --out none
expect_text 'model.context is 32'
expect_code 2 "$CLTRAIN" train two.json --init folder model.layers=3 --out none
sed 's/"gelu"/"gelu_10"/; s/"absolute"/"relative_key"/' folder/config.json >changed.json
cp changed.json folder/config.json
expect_code 2 "$CLTRAIN" import folder --out changed_import.json
expect_text 'hidden_act' 'position_embedding_type'

finish
