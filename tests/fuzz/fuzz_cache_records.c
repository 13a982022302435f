/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target for files of the cache folder: tuning records and answers of devices. The first byte
 * chooses. An accepted file must be printable, and reading the printed text must give the same. Not built
 * by default; build as fuzz_idx.c says. */
#include <stdint.h>
#include <string.h>

#include "cl/device/capabilities.h"
#include "cl/tune/tuning.h"
#include "engine/json/json_seal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)                                                                                   \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            __builtin_trap();                                                                                \
    } while (0)

static void tuning(const char *text, size_t size)
{
    ocl_tuning *read = NULL, *again = NULL;
    clt_str first = {0}, second = {0};
    int outdated;
    if (ocl_tuning_parse(text, size, "fuzz", &read, &outdated) == CLT_OK) {
        REQUIRE(ocl_tuning_print(read, &first) == CLT_OK);
        REQUIRE(ocl_tuning_parse(first.text, first.length, "written", &again, &outdated) == CLT_OK);
        REQUIRE(ocl_tuning_print(again, &second) == CLT_OK);
        REQUIRE(strcmp(first.text, second.text) == 0);
    }
    clt_str_free(&first);
    clt_str_free(&second);
    ocl_tuning_destroy(read);
    ocl_tuning_destroy(again);
}

static void capabilities(const char *text, size_t size)
{
    static ocl_capabilities read, again;
    static const ocl_device_desc device = {.name = "fuzz"};
    clt_str first = {0}, second = {0};
    if (ocl_capabilities_parse(text, size, "fuzz", &read) == CLT_OK) {
        REQUIRE(ocl_capabilities_print(&read, &device, &first) == CLT_OK);
        REQUIRE(ocl_capabilities_parse(first.text, first.length, "written", &again) == CLT_OK);
        REQUIRE(ocl_capabilities_print(&again, &device, &second) == CLT_OK);
        REQUIRE(strcmp(first.text, second.text) == 0);
    }
    clt_str_free(&first);
    clt_str_free(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    void (*const read)(const char *, size_t) = data[0] % 2 == 0 ? tuning : capabilities;
    read((const char *)data + 1, size - 1);
    /* the same text with the correct hash, without which the reader stops early */
    clt_str sealed = {0};
    clt_str_append_n(&sealed, (const char *)data + 1, size - 1);
    if (clt_json_seal(&sealed, 0, data[0] % 2 == 0 ? "tuning_xxh64" : "hash") == CLT_OK)
        read(sealed.text, sealed.length);
    clt_str_free(&sealed);
    return 0;
}
