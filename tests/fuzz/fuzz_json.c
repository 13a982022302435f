/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target for the JSON reader and writer. A text is refused with a position, or accepted; then
 * writing and reading it again must give the same tree. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)                                                                                   \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            __builtin_trap();                                                                                \
    } while (0)

static void require_same(const clt_json *a, const clt_json *b)
{
    int64_t x = 0, y = 0;
    double p = clt_json_number(a), q = clt_json_number(b);
    REQUIRE(clt_json_typeof(a) == clt_json_typeof(b));
    REQUIRE(clt_json_count(a) == clt_json_count(b));
    REQUIRE(clt_json_bool(a) == clt_json_bool(b));
    REQUIRE(memcmp(&p, &q, sizeof p) == 0);
    if (clt_json_int(a, &x))
        REQUIRE(clt_json_int(b, &y) && x == y);
    REQUIRE(strcmp(clt_json_string(a), clt_json_string(b)) == 0);
    REQUIRE((clt_json_key(a) == NULL) == (clt_json_key(b) == NULL));
    if (clt_json_key(a))
        REQUIRE(strcmp(clt_json_key(a), clt_json_key(b)) == 0);
    const clt_json *child = clt_json_first(b);
    for (const clt_json *item = clt_json_first(a); item; item = clt_json_next(item)) {
        REQUIRE(child);
        if (clt_json_typeof(a) == CLT_JSON_OBJECT)
            REQUIRE(clt_json_get(a, clt_json_key(item)) == item);
        require_same(item, child);
        child = clt_json_next(child);
    }
    REQUIRE(!child);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    clt_json_doc *doc = NULL, *again = NULL;
    clt_status status = clt_json_parse((const char *)data, size, "fuzz", CLT_EDATA, &doc);
    if (status != CLT_OK) {
        REQUIRE(status == CLT_EDATA && !doc);
        REQUIRE(strncmp(clt_error_text(), "fuzz:", 5) == 0);
        return 0;
    }
    clt_str text = {0};
    clt_json_writer writer = clt_json_writer_make(&text, size % 3);
    clt_jw_value(&writer, clt_json_root(doc));
    REQUIRE(clt_str_check(&text) == CLT_OK);
    REQUIRE(clt_json_parse(text.text, text.length, "written", CLT_EDATA, &again) == CLT_OK);
    require_same(clt_json_root(doc), clt_json_root(again));
    clt_json_destroy(again);
    clt_json_destroy(doc);
    clt_str_free(&text);
    return 0;
}
