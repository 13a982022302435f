/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target for a run folder that becomes a report: config.resolved.json, metrics.jsonl and
 * classes.json, which NUL bytes separate in the input. The page must hold no control character. Not built
 * by default; build as fuzz_idx.c says. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/files/fileio.h"
#include "engine/report/page/report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)                                                                                   \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            __builtin_trap();                                                                                \
    } while (0)

static char folder[64];

static void remove_folder(void)
{
    (void)clt_remove_tree(folder);
}

static void make_folder(void)
{
    (void)snprintf(folder, sizeof folder, "%s/fuzz-report-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    REQUIRE(mkdtemp(folder) && atexit(remove_folder) == 0);
}

static void put(const char *name, const uint8_t *data, size_t size)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    REQUIRE(file && fwrite(data, 1, size, file) == size && fclose(file) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"config.resolved.json", "metrics.jsonl", "classes.json"};
    clt_run_record *record = NULL;
    clt_str page = {0};
    if (!folder[0])
        make_folder();
    for (int i = 0; i < 3; i++) {
        const uint8_t *end = i < 2 && size ? memchr(data, 0, size) : NULL;
        size_t n = end ? (size_t)(end - data) : size;
        put(names[i], data, n);
        data += n + (end != NULL);
        size -= n + (end != NULL);
    }
    clt_status status = clt_run_record_load(folder, &record);
    if (status == CLT_OK) {
        const clt_report_options options = {.now = 1.7e9};
        REQUIRE(clt_report_html(&record, 1, &options, &page) == CLT_OK);
        for (size_t i = 0; i < page.length; i++)
            REQUIRE((unsigned char)page.text[i] >= 0x20 || page.text[i] == '\n' || page.text[i] == '\t');
    } else {
        REQUIRE(status == CLT_EDATA || status == CLT_EUSAGE || status == CLT_ENOMEM);
    }
    clt_str_free(&page);
    clt_run_record_free(record);
    return 0;
}
