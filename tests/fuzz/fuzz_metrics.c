/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target for the reader of metrics.jsonl, not part of the normal build: fuzz_json.c shows how to
 * build one by hand. The first byte chooses: one line, which the fast scanner and the strict reader must
 * read in the same way, or a whole file, whose line counts must add up and whose steps must increase. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/files/fileio.h"
#include "engine/report/read/curve.h"
#include "engine/report/read/history.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)                                                                                   \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            __builtin_trap();                                                                                \
    } while (0)

static void one_line(const char *text, size_t size)
{
    clt_metrics_line fast, strict;
    bool a = clt_metrics_line_read(text, size, &fast) == CLT_OK;
    bool b = clt_metrics_line_read_strict(text, size, &strict) == CLT_OK;
    /* only the strict reader notices keys that occur twice, including unknown keys */
    REQUIRE(a || !b);
    if (!a || !b)
        return;
    REQUIRE(fast.step == strict.step && fast.kind == strict.kind && fast.present == strict.present);
    REQUIRE(memcmp(fast.value, strict.value, sizeof fast.value) == 0);
    REQUIRE(fast.n_losses == strict.n_losses);
    for (int i = 0; i < fast.n_losses; i++)
        REQUIRE(strcmp(fast.losses[i].name, strict.losses[i].name) == 0 &&
                memcmp(&fast.losses[i].value, &strict.losses[i].value, sizeof(double)) == 0);
}

static void whole_file(const uint8_t *data, size_t size)
{
    char path[64];
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    REQUIRE(fd >= 0 && clt_fd_write(fd, data, size, "fuzz") == CLT_OK);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    clt_history *history;
    clt_metrics_line line;
    clt_curve curve = {0};
    clt_point points[64];
    int64_t previous = -1, given = 0;
    bool more = true;
    REQUIRE(clt_history_open(path, &history) == CLT_OK);
    for (;;) {
        REQUIRE(clt_history_next(history, &line, NULL, NULL, &more) == CLT_OK);
        if (!more)
            break;
        given++;
        if (line.kind != CLT_LINE_STEP)
            continue;
        REQUIRE(line.step > previous);
        previous = line.step;
        REQUIRE(clt_curve_add(&curve, line.step, line.value[CLT_METRIC_LOSS]) == CLT_OK);
    }
    const clt_history_counts *counts = clt_history_counted(history);
    REQUIRE(counts->bytes == size && given + counts->garbage + counts->replaced <= counts->lines);
    REQUIRE(!clt_history_is_stale(history));
    REQUIRE(clt_curve_points(&curve, 64, points) <= 64);
    REQUIRE(clt_curve_smooth(&curve, 0.02, 64, points) <= 64);
    clt_curve_free(&curve);
    clt_history_close(history);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (data[0] & 1)
        whole_file(data + 1, size - 1);
    else
        one_line((const char *)data + 1, size - 1);
    return 0;
}
