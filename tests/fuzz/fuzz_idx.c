/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target for idx files, uncompressed and gzipped. Not built by default; build with
 *   clang -std=c11 -D_GNU_SOURCE -I. -g -O1 -fsanitize=fuzzer,address,undefined tests/fuzz/fuzz_idx.c \
 *       engine/data/[a-z]*.c engine/base/[a-z]*.c engine/config/[a-z]*.c -lcjson -lz -lm -lpthread \
 *       -o fuzz_idx */
#include "tests/fuzz/fuzz_data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_source("idx", data, size);
}
