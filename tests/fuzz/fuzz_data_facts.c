/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target for data.json of a checkpoint, not part of the normal build (see test_fuzz.sh). A text
 * is refused as a damaged checkpoint, or accepted; then writing and reading it again must give the same. */
#include <stdint.h>
#include <string.h>

#include "engine/data/facts/data_facts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)                                                                                   \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            __builtin_trap();                                                                                \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static clt_data_facts facts, again;
    clt_str first = {0}, second = {0};
    clt_source *source;
    clt_status status = clt_data_facts_parse((const char *)data, size, "fuzz", &facts);
    if (status != CLT_OK) {
        REQUIRE(status == CLT_ECHECKPOINT && facts.n_fields == 0);
        return 0;
    }
    REQUIRE(clt_data_facts_print(&facts, &first) == CLT_OK);
    REQUIRE(clt_data_facts_parse(first.text, first.length, "written", &again) == CLT_OK);
    REQUIRE(clt_data_facts_print(&again, &second) == CLT_OK);
    REQUIRE(strcmp(first.text, second.text) == 0);
    REQUIRE(clt_source_open_facts(&facts, &source) == CLT_OK);
    clt_source_close(source);
    clt_data_facts_free(&facts);
    clt_data_facts_free(&again);
    clt_str_free(&first);
    clt_str_free(&second);
    return 0;
}
