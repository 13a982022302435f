/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target for token shards: the input is one shard, read as training and as evaluation data, with a
 * bound on ids. */
#include "tests/fuzz/fuzz_data.h"

static clt_config *tokens_config(int fd)
{
    char text[512];
    clt_config *config = NULL;
    (void)snprintf(
        text, sizeof text,
        "{\"model\":{\"type\":\"graph\",\"context\":5,\"layers\":[{\"op\":\"flatten\"}]},\"train\":{"
        "\"steps\":1},\"data\":{\"type\":\"tokens\",\"path\":\"/proc/self/fd/%d\",\"eval_path\":"
        "\"/proc/self/fd/%d\"}}",
        fd, fd);
    if (clt_config_parse(text, "fuzz", NULL, 0, &config) != CLT_OK)
        abort();
    return config;
}

/* An accepted shard must be consistent: ids below the bound wherever they are read, targets counted once. */
static void read_part(const clt_config *config, clt_split split)
{
    clt_source *source = NULL;
    int32_t x[5], y[5];
    int64_t targets = 0;
    clt_status status = clt_source_open(config, split, &source);
    if (status != CLT_OK && status != CLT_EDATA && status != CLT_ENOMEM)
        abort();
    if (status == CLT_OK && clt_source_check_bound(source, 0, 50257, false, 0) != CLT_OK)
        abort();
    for (int64_t i = 0; status == CLT_OK && i < source->samples && i < 4096; i++) {
        if (clt_source_read_field(source, i, 0, x) != CLT_OK ||
            clt_source_read_field(source, i, 1, y) != CLT_OK)
            continue;
        int64_t valid = source->type->count_valid(source, i, 1, -1);
        for (int k = 0; k < 5; k++) {
            targets += y[k] >= 0;
            if (y[k] >= 50257 || y[k] < -1 || (y[k] < 0) != (k < 5 - valid))
                abort();
        }
    }
    if (status == CLT_OK && split == CLT_SPLIT_EVAL && clt_source_scan(source) == CLT_OK &&
        source->samples < 4096 &&
        targets != source->samples * 5 - (5 - source->type->count_valid(source, source->samples - 1, 1, -1)))
        abort();
    clt_source_close(source);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    static clt_config *config;
    if (fd < 0) {
        fd = memfd_create("fuzz", MFD_CLOEXEC);
        if (fd < 0)
            abort();
        config = tokens_config(fd);
    }
    if (ftruncate(fd, 0) != 0 || lseek(fd, 0, SEEK_SET) != 0 ||
        clt_fd_write(fd, data, size, "fuzz") != CLT_OK)
        abort();
    read_part(config, CLT_SPLIT_TRAIN);
    read_part(config, CLT_SPLIT_EVAL);
    return 0;
}
