/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target for tables as text. The first byte chooses how the target column is read. What the
 * source reports about its classes must survive being saved and read. Not built by default; build as
 * fuzz_idx.c says. */
#include "tests/fuzz/fuzz_data.h"

#include "engine/base/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const headers[] = {"auto", "yes", "no"};
    static int fd = -1;
    static clt_config *config[3];
    clt_source *source = NULL;
    if (fd < 0)
        fd = memfd_create("fuzz", MFD_CLOEXEC);
    int which = size ? data[0] % 3 : 0;
    if (!config[which]) {
        char text[512];
        (void)snprintf(text, sizeof text,
                       "{\"model\":{\"type\":\"mlp\"},\"train\":{\"steps\":1},\"data\":{\"type\":\"csv\","
                       "\"path\":\"/proc/self/fd/%d\",\"header\":\"%s\",\"split\":%d}}",
                       fd, headers[which], 0);
        if (clt_config_parse(text, "fuzz", NULL, 0, &config[which]) != CLT_OK)
            abort();
    }
    if (fd < 0 || ftruncate(fd, 0) != 0 || lseek(fd, 0, SEEK_SET) != 0 ||
        clt_fd_write(fd, data + (size > 0), size - (size > 0), "fuzz") != CLT_OK)
        abort();
    clt_status status = clt_source_open(config[which], CLT_SPLIT_TRAIN, &source);
    if (status == CLT_OK)
        fuzz_read_all(source);
    else if (status != CLT_EDATA && status != CLT_ENOMEM)
        abort();
    for (int64_t i = 0; status == CLT_OK && i < source->n_class_names; i++)
        if (source->class_names[i][clt_text_plain(source->class_names[i])])
            abort();
    clt_source_close(source);
    return 0;
}
