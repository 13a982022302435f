# SPDX-License-Identifier: Apache-2.0
#
# Data of the formats, shapes and numbers of classes that the shipped configs name, so that tests run them. Sourced after lib.sh.

# options_of CONFIG: sets the array `needed` to the options that the config requires; a chat's tokenizer
# comes with the published weights.
options_of() {
    local chat=$CLTRAIN_SOURCE_DIR/tests/golden/chat
    needed=()
    if grep -q '"type": "chat"' "$1"; then needed=(data.tokenizer="$chat/qwen2" data.template=qwen2.5 data.on_bad_sample=skip); fi
}

# shipped_data: makes the data in the current folder. The images of ImageNet are not replaced by anything.
shipped_data() {
    local batch class volume part
    mkdir -p data/mnist data/tinyshakespeare data/tinyshakespeare-gpt2 tokens data/cifar10 ct/images ct/masks ct-classes/a ct-classes/b
    for batch in data_batch_1 data_batch_2 data_batch_3 data_batch_4 data_batch_5 test_batch; do
        for class in 0 1 2 3 4 5 6 7 8 9; do
            printf "\\x0$class"
            head -c 3072 /dev/zero | tr '\0' "\\$((class + 100))"
        done >"data/cifar10/$batch.bin"
    done
    for volume in 1 2 3 4 5 6 7 8; do
        { npy_header '<i2' '(32, 32, 32)'; head -c 65536 /dev/zero; } >"ct/images/$volume.npy"
        { npy_header '|u1' '(32, 32, 32)'; bytes 32768 7 3; } >"ct/masks/$volume.npy"
        cp "ct/images/$volume.npy" ct-classes/a
        { npy_header '<i2' '(32, 32, 32)'; bytes 65536 11 8; } >"ct-classes/b/$volume.npy"
    done
    for part in train t10k; do
        { printf '\0\0\x08\x03'; be32 256; be32 28; be32 28; head -c 200704 /dev/zero; } | gzip >"data/mnist/$part-images-idx3-ubyte.gz"
        { printf '\0\0\x08\x01'; be32 256; bytes 256 7 10; } | gzip >"data/mnist/$part-labels-idx1-ubyte.gz"
    done
    cat "$CLTRAIN_SOURCE_DIR"/docs/*.md >data/tinyshakespeare/input.txt
    "$CLTRAIN" data fetch volumes-sample >/dev/null
    cp "$CLTRAIN_SOURCE_DIR/tests/golden/chat/chats.jsonl" .
    awk 'BEGIN { for (d = 0; d < 30; d++) { for (i = 0; i < 40; i++) print "the well hello theory there hell wellness 12345 ."; print "" } }' >sentences.txt
    for part in 64 128 512; do
        "$CLTRAIN" data prepare sentences.txt --mlm --tokenizer "$CLTRAIN_SOURCE_DIR/tests/golden/tokenizers/bert_cased/vocab.txt" \
            --context $part --out pairs-$part >/dev/null
    done
    bytes 9000 3 1 >data/tinyshakespeare-gpt2/train_000.bin
    bytes 9000 5 1 >data/tinyshakespeare-gpt2/val_000.bin
    cp data/tinyshakespeare-gpt2/* tokens
}
