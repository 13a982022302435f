#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-optimise: no
#
# cltrain generate from end to end: a tiny GPT trained on text made here, continued from the run folder and from one of its
# checkpoints, with a tokenizer of its own and with bytes; the same seed gives the same text; runs that cannot generate are refused
# with the reason.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# --- needs no device ---
expect_code 2 "$CLTRAIN" generate
expect_text 'name the run folder' 'cltrain generate RUN'
expect_code 2 "$CLTRAIN" generate run --checkpoint run
expect_text 'give one of them'
expect_code 2 "$CLTRAIN" generate --checkpoint x --temperature hot
expect_code 2 "$CLTRAIN" generate --checkpoint x --top-p 1.5
expect_code 2 "$CLTRAIN" generate --checkpoint x --max-new=-1
expect_code 2 "$CLTRAIN" generate --checkpoint x --logits logits.txt
expect_text 'ends in .npy'
expect_code 8 "$CLTRAIN" generate --checkpoint x --logits no/such/folder/l.npy
expect_code 7 "$CLTRAIN" generate --checkpoint nothing-here --prompt 'once upon'
reject_text 'once upon'
expect_text 'nothing-here'
mkdir empty
expect_code 7 "$CLTRAIN" generate --checkpoint empty

"$CLTRAIN" devices >/dev/null 2>&1
if [ $? -eq 4 ]; then
    note_skip 'no OpenCL device: training and generating'
    finish
fi

# --- a text with a pattern, and a model that can learn it ---
awk 'BEGIN { for (i = 0; i < 1200; i++) printf "%s the %d cat sat on %d mats.\n", (i % 3 ? "and" : "Then"), i % 7, i % 5 }' >cats.txt
net gpt model.channels=32 data.path=cats.txt data.micro_batch=8 optimizer.type=adamw optimizer.learning_rate=0.01 train.steps=300 \
    checkpoint.every=150 checkpoint.keep=3 >gpt.json
expect_code 0 "$CLTRAIN" train gpt.json --out run
expect_file run/checkpoints/step_300/model.safetensors run/checkpoints/step_150/model.safetensors

# --- logits: a row for each token of the prompt and of the text but the last; the greedy token is the
# largest of its row; and they equal the logits of a forward pass over the whole sequence ---
"$CLTRAIN" generate run --prompt 'the 3 cat sat' --max-new 6 --temperature 0 --logits l.npy >text 2>said </dev/null || fail 'no logits are written'
cp said "$out"
expect_text 'logits of 18 tokens, \(18, 256\): l.npy'
head -c 192 l.npy >head
grep -q -a "'descr': '<f4', 'fortran_order': False, 'shape': (18, 256)" head && [ "$(wc -c <l.npy)" -eq $((192 + 18 * 256 * 4)) ] && pass || fail 'the header of the array'
largest() { od -A n -v -t f4 -w1024 -j 192 "$1" | awk '{ best = 1; for (i = 2; i <= NF; i++) if ($i > $best) best = i; print best - 1 }'; }
largest l.npy | tail -n 6 | tr '\n' ' ' >drawn # beyond 16 tokens the context begins anew
tail -c +14 text | head -c 6 | od -A n -v -t u1 | tr -s ' \n' '  ' | sed 's/^ //' >bytes
expect_same drawn bytes
printf 'the 3 cat sat on 2 mats. and the 4 cat sat on 1 mats.' >eval.txt
expect_code 0 "$CLTRAIN" generate run --prompt "$(head -c 16 eval.txt)" --max-new 0 --logits m.npy
if [ -x "$CLTRAIN_BUILD_DIR/tests/logits" ]; then
    expect_code 0 "$CLTRAIN_BUILD_DIR/tests/logits" whole.raw gpt.json run data.path=eval.txt data.split=0 data.micro_batch=1 model.vocab=256
    od -A n -v -t f4 -w4 -j 192 m.npy >one
    od -A n -v -t f4 -w4 whole.raw | head -n $((16 * 256)) >whole
    expect_awk 'logits token by token and of the whole sequence' 'NR == FNR { a[FNR] = $1; next } { d = $1 - a[FNR]; if (d < 0) d = -d; if (d > most) most = d; n++ }
        END { exit !(n == 4096 && most < 1e-3) }' one whole
else
    note_skip 'the tool logits was not built'
fi

# make TEXT OPTIONS...: the text alone, in the file.
make() {
    local file=$1
    shift
    if guarded "$CLTRAIN" generate "$@" >"$file" 2>"$out" </dev/null; then pass; else fail "generate $* failed"; fi
    expect_text '^[0-9]+ tokens in [0-9.]+ s'
}
make run.txt --checkpoint run --prompt 'and the ' --max-new 60 --seed 3
make step.txt --checkpoint run/checkpoints/step_300 --prompt 'and the ' --max-new 60 --seed 3
make folder.txt --checkpoint run/checkpoints --prompt 'and the ' --max-new 60 --seed 3
expect_same run.txt step.txt
expect_same run.txt folder.txt
make seed.txt --checkpoint run --prompt 'and the ' --max-new 60 --seed 4
make early.txt --checkpoint run/checkpoints/step_150 --prompt 'and the ' --max-new 60 --seed 3
for other in seed.txt early.txt; do
    if cmp -s run.txt $other; then fail "$other is the same text"; else pass; fi
done
# The prompt, 60 bytes (more than the context of 16), a line break.
if [ "$(wc -c <run.txt)" -eq 69 ] && [ "$(head -c 8 run.txt)" = 'and the ' ]; then pass; else fail 'run.txt is not prompt, 60 bytes and a line break'; fi
# The most likely text does not depend on the seed, and consists of words that were learned.
make greedy.txt --checkpoint run --prompt 'and the ' --max-new 40 --temperature 0 --seed 1
make greedy2.txt --checkpoint run --prompt 'and the ' --max-new 40 --temperature 0 --seed 2
expect_same greedy.txt greedy2.txt
make first.txt --checkpoint run --prompt 'and the ' --max-new 40 --top-k 1 --seed 9
expect_same greedy.txt first.txt
if grep -q -E 'cat|sat|mats' greedy.txt; then pass; else fail "nothing was learned: $(cat greedy.txt)"; fi

# --- several texts: the first is the one without --samples, and a text does not depend on how many there are; JSON has all ---
make three.txt run --prompt 'and the ' --max-new 6 --seed 3 --samples 3 --json three.json
expect_code 0 diff <(sed -n 2p three.txt | head -c 14) <(head -c 14 run.txt)
expect_code 0 grep -q -x -- '--- sample 3 of 3 ---' three.txt
[ "$(grep -c '^and the ' three.txt)" -eq 3 ] && [ "$(grep '^and the ' three.txt | sort -u | wc -l)" -gt 1 ] && pass || fail 'three texts'
make two.txt run --prompt 'and the ' --max-new 6 --seed 3 --samples 2
expect_same <(sed -n '2p;4p' three.txt) <(sed -n '2p;4p' two.txt)
cp three.json "$out"
expect_text '"prompt": "and the "' '"seed": 3,' '"tokens": 6,' '"ended": false' '"prompt_tokens": 8'
[ "$(grep -c '"text": ' three.json)" -eq 3 ] && pass || fail 'JSON has three texts'
make long.txt run --prompt 'and the ' --max-new 20 --seed 3 --samples 2 # the cache begins anew in each
expect_same <(sed -n 2p long.txt) <(head -c 28 run.txt; echo)
expect_code 0 "$CLTRAIN" generate run --prompt 'and the ' --max-new 1 --seed 3 --json -
expect_text '^1 token in' '^  "samples": \['
reject_text '^and the '
expect_code 2 "$CLTRAIN" generate run --samples 2 --logits l.npy
expect_text '\-\-logits is for one text'

# --- a tokenizer trained on the text; its data may have been deleted ---
expect_code 0 "$CLTRAIN" data prepare cats.txt --train-bpe 300 --out tokens
cp "$out" prepared.txt
expect_code 0 "$CLTRAIN" train gpt.json data.type=tokens data.path=tokens --max-steps 10 --out bpe
make bpe.txt --checkpoint bpe --prompt 'and the ' --max-new 20
if [ "$(wc -c <bpe.txt)" -gt 30 ] && [ "$(head -c 8 bpe.txt)" = 'and the ' ]; then pass; else fail "bpe.txt: $(cat bpe.txt)"; fi

# --- the text ends at the end-of-text token ---
for i in $(seq 400); do printf 'the end.<|endoftext|>'; done >ends.txt
expect_code 0 "$CLTRAIN" data prepare ends.txt --tokenizer tokens --split 0 --out plain
expect_text 'contains <\|endoftext\|>' '--special-tokens'
expect_code 0 "$CLTRAIN" data prepare ends.txt --tokenizer tokens --special-tokens --split 0 --out ends
reject_text 'special-tokens'
expect_code 0 "$CLTRAIN" train gpt.json data.type=tokens data.path=ends --max-steps 60 --out ends_run
make ends.out --checkpoint ends_run --prompt 'the end' --max-new 30 --temperature 0
expect_text 'ended by the end-of-text token'
expect_code 0 grep -q -x 'the end\.' ends.out
make on.out --checkpoint ends_run --prompt 'the end' --max-new 30 --temperature 0 --ignore-eos
expect_text '^30 tokens'
expect_code 0 grep -q 'the end\.<|endoftext|>the end\.<|endoftext|>' on.out
# The same result from a text whose special tokens are read, according to the config's key.
expect_code 0 "$CLTRAIN" train gpt.json data.path=ends.txt data.tokenizer=tokens data.special_tokens=true data.split=0 --max-steps 60 --out ends_text
make text.out --checkpoint ends_text --prompt 'the end' --max-new 30 --temperature 0
expect_same ends.out text.out

# --- a model without a row for the end-of-text token ---
expect_code 0 "$CLTRAIN" train gpt.json data.tokenizer=tokens model.vocab=$(($(grep -o 'BPE, [0-9]*' prepared.txt | cut -c 6-) - 1)) \
    --max-steps 10 --out rowless
make empty.txt --checkpoint rowless --prompt '' --max-new 10
make plain_name.txt --checkpoint rowless --prompt 'the <|endoftext|>' --max-new 10
expect_code 3 "$CLTRAIN" generate --checkpoint rowless --prompt 'the <|endoftext|>' --special-tokens
expect_text 'the prompt holds the token "<\|endoftext\|>" \([0-9]+\), which the model lacks'

# --- runs that cannot generate ---
cp -r run/checkpoints/step_300 step_300
make alone.txt step_300 --prompt 'and the ' --max-new 60 --seed 3 # a checkpoint by itself
expect_same run.txt alone.txt
cp -r run damaged
rm -r damaged/checkpoints/step_150
printf 'x' | dd of=damaged/checkpoints/step_300/model.safetensors bs=1 seek=3000 conv=notrunc 2>/dev/null
expect_code 7 "$CLTRAIN" generate --checkpoint damaged
expect_text 'model.safetensors'
net mlp 'model.hidden=[4]' model.outputs=1 model.loss=mse train.steps=1 data.samples=8 'data.shape=[3]' 'data.target_shape=[1]' data.classes=0 \
    data.micro_batch=4 >net.json
expect_code 0 "$CLTRAIN" train net.json --out net
expect_code 2 "$CLTRAIN" generate --checkpoint net
expect_text 'this run trained an mlp on synthetic data' "'cltrain predict'" "'cltrain eval'"
finish
