/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target for idx files, uncompressed and gzipped. */
#include "tests/fuzz/fuzz_data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_source("idx", data, size);
}
