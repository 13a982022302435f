/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target for .npy files. Not built by default; build as fuzz_idx.c says. */
#include "tests/fuzz/fuzz_data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_source("npy", data, size);
}
