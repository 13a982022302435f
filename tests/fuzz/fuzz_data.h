/* SPDX-License-Identifier: Apache-2.0
 *
 * What fuzz targets share. For the targets of data formats, the input becomes a file in memory, the file
 * becomes a source, and every sample that the source claims to have is read. Only a crash, a sanitizer report
 * or a wrong status is a finding. */
#ifndef TESTS_FUZZ_FUZZ_DATA_H
#define TESTS_FUZZ_FUZZ_DATA_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/data/data.h"
#include "engine/files/fileio.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Writes `size` bytes of `data` to the file `name` of `folder`, in place of what the file held. */
static inline void fuzz_put(const char *folder, const char *name, const uint8_t *data, size_t size)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file || (size && fwrite(data, 1, size, file) != size) || fclose(file) != 0)
        abort();
}

/* Small inputs only describe small arrays, since sizes are compared with the file; the cap is for gzip bombs.
 */
static inline void fuzz_read_all(const clt_source *source)
{
    for (int field = 0; field < source->n_fields; field++) {
        void *sample = malloc(clt_source_field_bytes(&source->fields[field]));
        if (!sample)
            abort();
        for (int64_t i = 0; i < source->samples && i < 4096; i++)
            (void)clt_source_read_field(source, i, field, sample);
        free(sample);
    }
}

/* One file in memory and one config serve all inputs. The file serves as inputs and as targets, so both
 * readings of a header are tried. */
static inline clt_config *fuzz_config(const char *type, int fd)
{
    char text[512];
    clt_config *config = NULL;
    (void)snprintf(
        text, sizeof text,
        "{\"model\":{\"type\":\"mlp\"},\"train\":{\"steps\":1},"
        "\"data\":{\"type\":\"%s\",\"path\":\"/proc/self/fd/%d\",\"targets\":\"/proc/self/fd/%d\"}}",
        type, fd, fd);
    if (clt_config_parse(text, "fuzz", NULL, 0, &config) != CLT_OK)
        abort();
    return config;
}

static inline int fuzz_source(const char *type, const uint8_t *data, size_t size)
{
    static int fd = -1;
    static clt_config *config;
    clt_source *source = NULL;
    if (fd < 0) {
        fd = memfd_create("fuzz", MFD_CLOEXEC);
        if (fd < 0)
            abort();
        config = fuzz_config(type, fd);
    }
    if (ftruncate(fd, 0) != 0 || lseek(fd, 0, SEEK_SET) != 0 ||
        clt_fd_write(fd, data, size, "fuzz") != CLT_OK)
        abort();
    clt_status status = clt_source_open(config, CLT_SPLIT_TRAIN, &source);
    if (status == CLT_OK)
        fuzz_read_all(source);
    else if (status != CLT_EDATA && status != CLT_ENOMEM)
        abort();
    clt_source_close(source);
    return 0;
}

#endif
