#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
#
# cltrain data: converting text files to token shards, verifying them, and errors. With the shared data the published vocabulary
# gives known shards for a known text.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

shared=$CLTRAIN_SOURCE_DIR/../shared/data

for i in $(seq 400); do
    echo "Line $i: the quick brown fox, and it's lazy; they'll come back at $((i * 37 % 100)) o'clock."
done >one.txt
sed 's/quick/slow/; s/brown/grey/' one.txt >two.txt
gzip -c two.txt >two.txt.gz

# The tokens of a file, after its header, as numbers.
tokens_of() { tail -c +1025 "$1" | od -An -v -tu2 -w2; }

# --- bytes ---
expect_code 0 "$CLTRAIN" data prepare one.txt --out bytes
expect_text 'training' 'tokenizer: bytes' '/s$' "^  $CLTRAIN train bytes/gpt.json$"
reject_text $'\r'
expect_file bytes/train_000.bin bytes/val_000.bin bytes/tokenizer.json bytes/manifest.json
{ tokens_of bytes/train_000.bin; tokens_of bytes/val_000.bin; } | awk '{ printf "%c", $1 + 0 }' >back.txt
expect_same back.txt one.txt
expect_code 0 "$CLTRAIN" data verify bytes
expect_text '^ok +bytes/train_000.bin' '^ok +bytes/tokenizer.json' '3 good, none bad'

# --- a vocabulary trained on the text, several shards ---
began=${EPOCHREALTIME/./}
expect_code 0 "$CLTRAIN" data prepare one.txt two.txt.gz --out bpe --train-bpe 400 --split 0.2 --shard-tokens 3000
expect_text 'BPE, 400 tokens' 'from 2 files'
# Stages of less than two seconds are not reported.
if [ $((${EPOCHREALTIME/./} - began)) -lt 2000000 ]; then reject_text 'counting words'; else note_skip 'it took two seconds, so that stages may be told'; fi
expect_file bpe/train_000.bin bpe/train_001.bin bpe/val_000.bin
expect_code 0 "$CLTRAIN" data verify bpe
expect_text 'none bad'
printf '%s\n' one.txt two.txt >list
expect_code 0 "$CLTRAIN" data prepare @list --out again --train-bpe 400 --split 0.2 --shard-tokens 3000 --threads 1
expect_same bpe/tokenizer.json again/tokenizer.json
expect_same bpe/train_000.bin again/train_000.bin
expect_same bpe/val_000.bin again/val_000.bin
expect_code 0 "$CLTRAIN" data prepare one.txt --out with --tokenizer bpe --split 0
expect_absent with/val_000.bin
expect_same bpe/tokenizer.json with/tokenizer.json

# --- verify finds damage, goes on, and says where ---
cp -r bpe damaged
printf '\xff\xff' | dd of=damaged/train_000.bin bs=1 seek=2000 conv=notrunc 2>/dev/null
truncate -s -2 damaged/train_001.bin
expect_code 3 "$CLTRAIN" data verify damaged
expect_text '^BAD  damaged/train_000.bin: .*token 488 \(byte 2000\) is 65535.*0 to 399' '^BAD  damaged/train_001.bin: .*cut off' \
    '^ok +damaged/val_000.bin' '2 of [0-9]+ are bad'
expect_code 3 "$CLTRAIN" data verify damaged/train_000.bin damaged/val_000.bin
expect_text 'BAD .*train_000' 'ok .*val_000.*all in the vocabulary'
cp bpe/train_001.bin changed.bin && cp -r bpe changed
printf '\x07\x00' | dd of=changed/train_001.bin bs=1 seek=1100 conv=notrunc 2>/dev/null
expect_code 3 "$CLTRAIN" data verify changed
expect_text 'train_001.bin.*hash'

# --- verify of files and configs ---
{ npy_header '<f4' '(2, 2)'; f32 1 2 3 4; } >good.npy
{ npy_header '<f4' '(2, 2)'; f32 1 2 3; printf '\x00\x00\xc0\x7f'; } >nan.npy
{ be32 2049; be32 3; printf '\x01\x02\x03'; } >labels.idx
{ be32 2049; be32 4; printf '\x01\x02\x03'; } >cut.idx
expect_code 3 "$CLTRAIN" data verify good.npy nan.npy labels.idx cut.idx none.idx bpe/tokenizer.json
expect_text '^ok +good.npy: 2 samples' '^BAD  nan.npy: .*nan' '^ok +labels.idx: 3 samples.*1 to 3' '^BAD  cut.idx' '^BAD  none.idx' \
    '^ok +bpe/tokenizer.json: BPE, 400 tokens' '3 of 6 are bad'
echo '{"text": "a"}' >records.jsonl
expect_code 3 "$CLTRAIN" data verify records.jsonl
expect_text 'BAD  records.jsonl: .*cannot be checked without a config.*cltrain new FILE'
cat >config.json <<'JSON'
{
  "model": {"type": "mlp", "hidden": [], "outputs": 3},
  "data": {"type": "idx", "path": "x.idx", "targets": "labels.idx", "micro_batch": 1},
  "train": {"steps": 1}
}
JSON
{ be32 2051; be32 3; be32 1; be32 2; printf 'abcdef'; } >x.idx
expect_code 3 "$CLTRAIN" data verify config.json
expect_text 'BAD  config.json, training data: .*labels.idx.*is 3.*0 to 2'
expect_code 0 "$CLTRAIN" data verify config.json model.outputs=4
expect_text 'ok +config.json, training data: idx: 3 samples .*, targets: whole numbers \(u8\), largest 3, from '
expect_code 2 "$CLTRAIN" data verify config.json data.pth=1

# --- folders, patterns, the standard input ---
mkdir -p texts/inner texts/.hidden
cp one.txt texts/a.txt && cp two.txt.gz texts/inner/b.gz && echo 'not read' >texts/.hidden/c.txt
expect_code 0 "$CLTRAIN" data prepare texts --out folder --train-bpe 400 --split 0.2 --shard-tokens 3000
expect_text 'from 2 files'
expect_same bpe/train_001.bin folder/train_001.bin
cp one.txt texts/inner/a.txt
expect_code 0 "$CLTRAIN" data prepare 'texts/in*/*.txt' --out pattern --tokenizer bpe --split 0
expect_same with/train_000.bin pattern/train_000.bin
expect_code 3 "$CLTRAIN" data prepare 'texts/*.md' --out x
expect_text 'no file matches'
mkdir nothing
expect_code 3 "$CLTRAIN" data prepare nothing --out x
expect_text 'no file in it'
expect_code 0 bash -c '"$0" data prepare - --out input --tokenizer bpe --split 0 <one.txt' "$CLTRAIN"
expect_same with/train_000.bin input/train_000.bin
# A folder of texts with a picture counts as texts, and the picture is left out by name. A folder with as
# many images as texts counts as images, unless an option says texts; a folder with more images than texts
# does not count as texts.
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:0\n' >pointer.txt
mkdir pictured
cp one.txt pictured/a.txt && cp two.txt pictured/b.txt && printf '\x89PNG\r\n\x1a\n' >pictured/c.png
expect_code 0 "$CLTRAIN" data prepare pictured --out left --tokenizer bytes --split 0
expect_text "^warning: data: 1 of 3 files of 'pictured' is skipped, because it is not text; the first: .*'pictured/c.png' \(TEXT\): it is a PNG image"
expect_code 0 "$CLTRAIN" data prepare one.txt two.txt --out alone --tokenizer bytes --split 0
expect_same alone/train_000.bin left/train_000.bin
expect_code 0 "$CLTRAIN" data prepare 'pictured/*' --out pattern2 --tokenizer bytes --split 0
expect_same alone/train_000.bin pattern2/train_000.bin
expect_code 3 "$CLTRAIN" data prepare pictured/a.txt pictured/c.png --out x --tokenizer bytes # named themselves
expect_text "'pictured/c.png' \(TEXT\): it is a PNG image"
printf '%%PDF-1.4\n\0' >pictured/d.txt
expect_code 0 "$CLTRAIN" data prepare pictured --out x --tokenizer bytes --split 0
expect_text "^warning: data: 2 of 4 files of 'pictured' are skipped, because they are not text"
rm -r x pictured/d.txt
cp pointer.txt pictured/p.txt # a text that was not fetched, or has another encoding, is not left out
expect_code 3 "$CLTRAIN" data prepare pictured --out x --tokenizer bytes
expect_text "'pictured/p.txt' \(TEXT\): it is a git-lfs pointer"
printf '\xff\xfea\0' >pictured/p.txt
expect_code 3 "$CLTRAIN" data prepare pictured --out x --tokenizer bytes
expect_text "'pictured/p.txt' \(TEXT\): it is text in UTF-16"
rm pictured/[bp].txt
expect_code 3 "$CLTRAIN" data prepare pictured --out x
expect_text "listing 'pictured'"
expect_code 0 "$CLTRAIN" data prepare pictured --out x --tokenizer bytes --split 0
rm -r x
cp pictured/c.png pictured/d.png
expect_code 3 "$CLTRAIN" data prepare pictured --out x --tokenizer bytes
expect_text "more than half of the 3 files of 'pictured' are not text: .*'pictured/c.png' \(TEXT\): it is a PNG image"
gzip -c one.txt >one.gz
expect_code 0 bash -c '"$0" data prepare - --out packed --tokenizer bpe --split 0 <one.gz' "$CLTRAIN"
expect_same with/train_000.bin packed/train_000.bin
gzip -c one.gz >twice.gz
expect_code 3 bash -c '"$0" data prepare - --out x <twice.gz' "$CLTRAIN"
expect_text "'-' \(TEXT\): it is a gzip archive after it was unpacked once"
expect_code 3 "$CLTRAIN" data prepare twice.gz --out x
expect_text "'twice.gz' \(TEXT\): it is a gzip archive after it was unpacked once"
expect_code 3 bash -c 'head -c 200 one.gz | "$0" data prepare - --out x' "$CLTRAIN"
expect_text "unpacking 'standard input': the gzip stream ends early"
expect_code 3 bash -c '"$0" data prepare - --out x <&-' "$CLTRAIN"
expect_text 'not a single byte'
# Above 1 MiB a file is mapped, below it is read: the tokens are the same.
for i in $(seq 40); do cat one.txt; done >large.txt
expect_code 0 "$CLTRAIN" data prepare large.txt --out large --split 0
tokens_of large/train_000.bin | awk '{ printf "%c", $1 + 0 }' >back.txt
expect_same back.txt large.txt

# --- JSON Lines: a text in each record, the end-of-text token between them ---
printf '%s\n' '{"id": 1, "text": "it is lazy"}' '' '{"text": "", "id": 2}' '{"text": "the \u00e9 \ud83d\ude00\n"}' >some.jsonl
expect_code 3 "$CLTRAIN" data prepare some.jsonl --out x
expect_text 'looks like JSON Lines' '--json-key'
expect_code 0 "$CLTRAIN" data prepare some.jsonl --json-key text --out records --tokenizer bpe --split 0
printf 'it is lazy' >1.txt
printf 'the \303\251 \360\237\230\200\n' >2.txt
expect_code 0 "$CLTRAIN" data prepare 1.txt 2.txt --out two --tokenizer bpe --split 0
expect_same records/train_000.bin two/train_000.bin
if [ "$(tokens_of records/train_000.bin | grep -c -w 399)" -eq 1 ]; then pass; else fail 'one end-of-text token stands between two records'; fi
expect_code 3 "$CLTRAIN" data prepare some.jsonl --json-key txt --out x
expect_text "'some.jsonl' \(TEXT\): line 1: it has no member \"txt\" \(--json-key\), but: id, text"
expect_code 3 "$CLTRAIN" data prepare some.jsonl --json-key id --out x
expect_text 'line 1: its member "id" is a number'
{ cat some.jsonl; echo '{"text": "cut'; } >cut.jsonl
expect_code 3 "$CLTRAIN" data prepare cut.jsonl --json-key text --out x
expect_text 'line 5: '
for i in $(seq 40); do echo "{\"text\": \"record $i is whole\"}"; done >whole.jsonl
expect_code 0 "$CLTRAIN" data prepare whole.jsonl --json-key text --out whole --split 0.3
expect_text 'run into each other'
{ tokens_of whole/train_000.bin; echo 124; tokens_of whole/val_000.bin; } | awk '{ printf "%c", $1 + 0 }' >whole.txt
expect_code 0 grep -E '^record 1 is whole.* is whole\|record [0-9]+ is whole' whole.txt

# --- files that are not text are named ---
{ printf '\xff\xfe'; iconv -f UTF-8 -t UTF-16LE one.txt; } >wide.txt
iconv -f UTF-8 -t UTF-16BE one.txt >unmarked.txt
printf 'PK\003\004 archive' >t.zip
printf 'PAR1\25\4\25\0 columns' >t.parquet
printf 'GGUF\3\0\0\0weights' >t.gguf
printf 'ARROW1\0\0columns' >t.arrow
printf 'GIF89a\1\0\1\0' >t.gif
printf 'SQLite format 3\0\20' >t.db
tar -cf t.tar one.txt
printf '\102\132\150\071\061\101\131\046\123\131\0\1\2' >t.bz2
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:0\n' >pointer.txt
while read -r file words; do
    expect_code 3 "$CLTRAIN" data prepare $file --out x
    expect_text "'$file' \(TEXT\): it is .*$words"
done <<'LIST'
wide.txt UTF-16
unmarked.txt UTF-16
t.zip zip archive
t.parquet Parquet.*--json-key
t.gguf GGUF
t.arrow Arrow
t.gif GIF
t.db SQLite
t.tar tar archive
t.bz2 bzip2
pointer.txt git-lfs pointer.*git lfs pull
LIST
# The same letters at the beginning of a text.
for word in GGUF PAR1 ARROW1 GIF89a 'SQLite format 3' BZh; do
    printf '%s is a name.\n\tIt \033[1mstands\033[0m in a text.\n' "$word" >named.txt
    expect_code 0 "$CLTRAIN" data prepare named.txt --out "named ${word// /}" --split 0
done
printf 'caf\351\n' >latin.txt
expect_code 0 "$CLTRAIN" data prepare latin.txt --out latin --split 0
expect_text "'latin.txt' is not UTF-8 from byte 4 on"

# --- refused ---
expect_code 2 "$CLTRAIN" data prepare one.txt
expect_text '--out'
expect_code 2 "$CLTRAIN" data prepare --out x
expect_text 'missing argument'
expect_code 2 "$CLTRAIN" data prepare one.txt --out bytes
expect_text "'bytes' is there already"
expect_code 2 "$CLTRAIN" data prepare one.txt --out x --train-bpe 300 --tokenizer bpe
expect_text 'not both'
expect_code 2 "$CLTRAIN" data prepare one.txt --out x --train-bpe 256
expect_text 'from 257'
expect_code 3 "$CLTRAIN" data prepare none.txt --out x
expect_text 'none.txt' 'No such file'
: >empty.txt
expect_code 3 "$CLTRAIN" data prepare empty.txt --out x
expect_text 'not a single byte'
expect_code 3 "$CLTRAIN" data prepare one.txt --out x --tokenizer one.txt
expect_absent x x.partial-*
expect_code 2 "$CLTRAIN" data
expect_text 'fetch, prepare, show, verify'
expect_code 2 "$CLTRAIN" data prepar
expect_code 0 "$CLTRAIN" data --help
expect_text 'prepare' 'verify'
expect_code 0 "$CLTRAIN" data prepare --help
expect_text '--train-bpe N'
if [ -e /dev/full ] && [ "$(id -u)" -eq 0 ] && mkdir small && mount -t tmpfs -o size=64k none small 2>/dev/null; then
    expect_code 8 "$CLTRAIN" data prepare one.txt two.txt one.txt two.txt --out small/x
    expect_text 'No space left'
    expect_absent small/x
    umount small
else
    note_skip "a full disk: no small file system can be mounted here"
fi

# --- after an interrupt nothing is left ---
for i in $(seq 60); do cat one.txt two.txt; done >long.txt
for i in $(seq 12); do cat long.txt; done >longer.txt
"$CLTRAIN" data prepare longer.txt --out stopped --train-bpe 2000 --threads 1 >"$out" 2>&1 &
pid=$!
await_from "$pid" compgen -G "stopped.partial-????????????????-$pid"
kill -TERM "$pid"
wait "$pid"
case $? in
75) pass; expect_text 'stopped by a signal'; expect_absent stopped stopped.partial-* ;;
*) fail "an interrupted run ends with 75" ;;
esac

# --- published vocabulary, known text ---
if [ -e "$shared/gpt2/vocab.bpe" ] && [ -e "$shared/tinyshakespeare/input.txt" ]; then
    expect_code 0 "$CLTRAIN" data prepare "$shared/tinyshakespeare/input.txt" --out gpt2 --tokenizer "$shared/gpt2" --split 0
    expect_text '338025 tokens for training'
    sum=$(tail -c +1025 gpt2/train_000.bin | sha256sum)
    [ "${sum%% *}" = 25c01b32b32f41897a6359dd222ec114992dc30c357bcafbfe6c56672f76cd31 ] && pass || fail "the ids are $sum"
    expect_code 0 "$CLTRAIN" data prepare "$shared/tinyshakespeare/input.txt" --out parts --tokenizer "$shared/gpt2"
    expect_text '301966 tokens for training.*36059 for evaluation'
    expect_code 0 "$CLTRAIN" data verify parts
else
    note_skip "GPT-2's vocabulary and tinyshakespeare: ../shared/data is not there"
fi
finish
