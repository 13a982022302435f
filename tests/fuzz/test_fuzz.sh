#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: long
#
# Builds every fuzz_*.c of this folder with clang's libFuzzer, AddressSanitizer and UBSan, and runs each,
# starting with a few good files, for a thousand inputs, however long they take, and then for FUZZ_SECONDS
# (60) s; FUZZ_TARGETS names some of them ("json npy"). A crash, a leak, a hang or a wrong status fails; the
# input that caused it is kept in FUZZ_KEEP (the folder the test runs in).
keep=${FUZZ_KEEP:-$PWD}
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
root=$CLTRAIN_SOURCE_DIR
seconds=${FUZZ_SECONDS:-60}
clang=${FUZZ_CLANG:-clang}

# --- is there a compiler with its runtime? ---
command -v "$clang" >/dev/null || skip_all 'fuzzing needs clang'
cat >probe.c <<'C'
#include <stddef.h>
#include <stdint.h>
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return size > 1000000 && data[0]; }
C
if ! "$clang" -fsanitize=fuzzer,address,undefined probe.c -o probe >"$out" 2>&1 || ! ./probe -runs=1 >"$out" 2>&1; then
    skip_all "fuzzing needs clang's runtime (libclang-rt): $(head -n 1 "$out")"
fi

# --- the rooms that read files from outside, built once for all targets ---
flags=(-std=c11 -D_GNU_SOURCE -DCL_TARGET_OPENCL_VERSION=120 '-DCLT_VERSION="fuzz"' '-DCLT_PROGRAM_PATH="/none"' '-DCLT_PROGRAM_FROM_LIBRARY="none"' "-I$root" -g -O1 -fno-omit-frame-pointer
    -fno-sanitize-recover=undefined)
mkdir objects
find "$root"/engine/{base,files,json,host,config,data,checkpoint,pretrained,report} -name '*.c' >sources
printf '%s\n' "$root"/cl/tune/tuning{,_text}.c "$root"/cl/device/capabilities.c >>sources
if (cd objects && xargs -P 2 -n 4 "$clang" "${flags[@]}" -fsanitize=fuzzer-no-link,address,undefined -c <../sources) >"$out" 2>&1; then
    pass
else
    fail 'the sources do not build for fuzzing'
    finish
fi
ar rcs rooms.a objects/*.o

# --- good files to start from; a target without any starts with nothing ---
targets=${FUZZ_TARGETS:-$(cd "$root/tests/fuzz" && printf '%s\n' fuzz_*.c | sed 's/^fuzz_//; s/\.c$//')}
for target in $targets; do mkdir -p "seeds/$target"; done
seed() { # TARGET NAME: from the standard input, when the target is to run
    if [ -d "seeds/$1" ]; then cat >"seeds/$1/$2"; else cat >/dev/null; fi
}
for config in "$root"/configs/*.json; do seed json "$(basename "$config")" <"$config"; done
find "$root/tests/golden/data" -name '*.safetensors' -size -40k | sort | head -n 6 | while read -r file; do
    seed safetensors "$(basename "$file")" <"$file"
done
for file in "$root"/tests/golden/data/pytorch/{views,views_old,views_4,checkpoint,two,module,module_old,module_gpt}.pth; do
    seed pytorch "$(basename "$file")" <"$file"
done
# a pickle that would run a command, in the older form
printf '\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}.\x80\x02}X\1\0\0\0acposix\nsystem\nX\2\0\0\0ls\x85Rs.\x80\x02].' |
    seed pytorch system
{ npy_header '<f4' '(4, 2)' && f32 1 2 3 4 5 6 7 8; } | seed npy floats
{ npy_header '|u1' '(3, 5)' && bytes 15 1 256; } | seed npy bytes
{ npy_header '<i4' '(6,)' && bytes 24 2 4; } | seed npy ints
{ be32 0x00000803 && be32 3 && be32 2 && be32 2 && bytes 12 3 256; } | seed idx images
{ be32 0x00000801 && be32 5 && bytes 5 4 10; } | seed idx labels
{ be32 0x00000801 && be32 5 && bytes 5 4 10; } | gzip -n | seed idx packed
# A JPEG of 2 x 1 pixels; the pack holds it, too.
mkdir -p images/a
base64 -d >images/a/1.jpg <<'TEXT'
/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABQODxIPDRQSEBIXFRQYHjIhHhwcHj0sLiQySUBMS0dA
RkVQWnNiUFVtVkVGZIhlbXd7gYKBTmCNl4x9lnN+gXz/2wBDARUXFx4aHjshITt8U0ZTfHx8fHx8
fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHz/wAARCAABAAIDASIA
AhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAAAAX/xAAUEAEAAAAAAAAAAAAAAAAAAAAA/8QAFQEB
AQAAAAAAAAAAAAAAAAAAAAX/xAAUEQEAAAAAAAAAAAAAAAAAAAAA/9oADAMBAAIRAxEAPwCeALz/
2Q==
TEXT
{ printf '\0' && cat images/a/1.jpg; } | seed image jpeg
"$CLTRAIN" data prepare images --out images.pack >"$out" 2>&1 || fail 'the seed for packs of images could not be made'
{ printf '\4' && cat images.pack; } | seed image pack
"$CLTRAIN_BUILD_DIR/tests/make_volumes" masks volumes --count 1 --size 8,8,8 >"$out" 2>&1 || fail 'the seeds for nifti could not be made'
for file in volumes/*/*.nii; do
    seed nifti "$(basename "$(dirname "$file")")" <"$file"
    gzip -nc "$file" | seed nifti "$(basename "$(dirname "$file")")_packed"
done
for i in $(seq 60); do echo "the cat number $i sat on the mat, and the $((i * 7 % 11)) hats didn't."; done >cats.txt
"$CLTRAIN" data prepare cats.txt --train-bpe 290 --out prepared >"$out" 2>&1 || fail 'the seeds for tokens could not be made'
for file in prepared/*.bin; do seed tokens "$(basename "$file")" <"$file"; done
{ printf 0 && cat prepared/tokenizer.json; } | seed tokenizer json
{ printf 2 && cat cats.txt; } | seed tokenizer text
# sides ID: the files beside a vocabulary, which add the tokens ID and ID + 1.
sides() {
    printf '\0{"added_tokens_decoder":{"%s":{"content":"<speaker>","special":false,"lstrip":true}},"eos_token":"<|endoftext|>","add_prefix_space":true}' "$1"
    printf '\0{"[PAD]":%s}\0{"pad_token":"[PAD]","eos_token":{"content":"<|endoftext|>"}}' $(($1 + 1))
}
{ printf 0 && cat prepared/tokenizer.json && sides 290; } | seed tokenizer folder
{ printf '1{"a":0,"b":1,"ab":2}\0#version: 0.2\na b\n'; } | seed tokenizer merges
{ printf '1{"a":0,"b":1,"ab":2}\0#version: 0.2\na b\n' && sides 3; } | seed tokenizer sides
printf '\0{"text": "one \\u00e9 two"}\n{"text": ""}\n{"id": 3, "text": "three\\n"}\n' | seed texts lines
printf '\1plain text\n\nof two lines' | seed texts plain
{ printf '\1' && gzip -nc cats.txt; } | seed texts packed
printf '{"model_type":"gpt2","architectures":["GPT2LMHeadModel"],"n_layer":2,"n_head":2,"n_embd":8,"n_positions":16,"vocab_size":260,"activation_function":"gelu_new","resid_pdrop":0.1,"layer_norm_epsilon":1e-5,"tie_word_embeddings":true,"torch_dtype":"float32"}' | seed pretrained gpt2
body='{\n  "format": "cltrain-checkpoint",\n  "format_version": 1,\n  "step": 7,\n  "config_xxh64": "0123456789abcdef",\n  "files": [
    {"name": "model.safetensors", "bytes": 88, "xxh64": "0123456789abcdef"}, {"name": "state.json", "bytes": 2, "xxh64": "0123456789abcdef"}\n  ]'
# shellcheck disable=SC2059
printf "0$body,\n  \"manifest_xxh64\": \"0123456789abcdef\"\n}\n" | seed manifest whole
# shellcheck disable=SC2059
printf "1$body" | seed manifest body
body=${body//xxh64\": \"/crc64_xz\": \"} && body=${body/config_crc64_xz/config_xxh64}
# shellcheck disable=SC2059
printf "1${body/version\": 1/version\": 2}" | seed manifest second
printf '2{"step": 7, "update": 7, "skipped": 0, "loss_scale": 1}' | seed manifest state

step='{"step":7,"update":7,"loss":2.302585,"grad_norm":1e-3,"lr":0.001,"skipped":0,"step_ms":1.25,"device_bytes":4096,"time":1.7e9}'
printf '0%s' "$step" | seed metrics line
printf '0{"step":7,"event":"saved","time":3,"path":"x","reason":"final"}' | seed metrics event
printf '1%s\n{"step":8,"eval_loss":1.5,"eval_losses":{"a":1}}\n%s\n{"step":9,"lo' "$step" "$step" | seed metrics file

printf '\1a,b,kind\n1,2,dog\n-3,4e1,"cat\n, ""x"""\n.5,6,dog\n' | seed csv words
printf '\2 1;2,5;3\n4;5;6\n' | seed csv numbers
{ printf '{"model": {"type": "mlp"}}\0' && printf '%s\n{"event":"start","step":0,"time":1,"device":"x","steps_total":9}\n' "$step" &&
    printf '\0{"step": 7, "samples": 3, "classes": [{"name": "a", "targets": 2}]}'; } | seed run_report folder
printf '\1' | cat - <(find "$CLTRAIN_BUILD_DIR/tests/cache/answers" -name '*.json' 2>/dev/null | sort | head -n 1 | xargs -r head -n -2 | sed '$s/,$//') | seed cache_records answers
printf '\0{\n  "records": []' | seed cache_records tuning

# --- run ---
# Configs refer to models and optimizers, which come from the program's library with everything they need;
# none of that runs.
rest=("$CLTRAIN_BUILD_DIR/libcltrain.a" -lOpenCL -ldl)
if nm "$CLTRAIN_BUILD_DIR/libcltrain.a" 2>/dev/null | grep -q CLBlastSgemm; then rest+=(-lclblast); fi
for target in $targets; do
    if ! "$clang" "${flags[@]}" -fsanitize=fuzzer,address,undefined "$root/tests/fuzz/fuzz_$target.c" rooms.a "${rest[@]}" -lcjson -lz -ljpeg -lpng -lm \
        -lpthread -o "fuzz_$target" >"$out" 2>&1; then
        fail "fuzz_$target does not build"
        continue
    fi
    mkdir "corpus_$target"
    # An input takes milliseconds; one that takes $slow seconds hangs.
    slow=$((100 * ${CLTRAIN_TEST_PATIENCE:-1}))
    fuzz=("./fuzz_$target" -timeout=$slow -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$keep/fuzz_$target-"
        "corpus_$target" "seeds/$target")
    if guarded "${fuzz[@]}" -runs=1000 >"$target.log" 2>&1 </dev/null && guarded "${fuzz[@]}" -max_total_time="$seconds" >>"$target.log" 2>&1 </dev/null; then
        pass
        runs=$(awk '/^stat::number_of_executed_units:/ { n += $2 } END { print n + 0 }' "$target.log")
        echo "fuzz_$target: $runs inputs, $(find "corpus_$target" -type f | wc -l) of them new ways through the code"
        # A target that stops at its first input tests nothing.
        if [ "$runs" -ge 1000 ]; then pass; else fail "fuzz_$target ran only $runs inputs"; fi
    else
        grep -v '^#\|^INFO' "$target.log" >"$out"
        fail "fuzz_$target found something; the input is in $keep/fuzz_$target-*"
    fi
done
finish
