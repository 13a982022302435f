/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns CIFAR-10's binary version, a tar archive of six batches of 10000 records (a label byte, then 3 x 32
 * x 32 bytes, channel first), into idx files of images (n,3,32,32) and labels (n). Sizes in the archive are
 * checked against its end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/data/open/fetch.h"
#include "engine/files/fileio.h"

enum { BLOCK = 512, PIXELS = 3 * 32 * 32, RECORD = 1 + PIXELS, CLASSES = 10 };

/* Reads the size field of a tar header: octal digits; -1: the field holds something else. */
static int64_t octal(const char *text, size_t size)
{
    int64_t value = 0;
    size_t i = 0;
    while (i < size && text[i] == ' ')
        i++;
    for (; i < size && text[i] >= '0' && text[i] <= '7'; i++)
        value = value * 8 + (text[i] - '0');
    return i < size && text[i] != ' ' && text[i] != '\0' ? -1 : value;
}

/* The content of the archive's file with this base name; NULL if there is none or it is incomplete. */
static const char *member(const char *tar, size_t size, const char *name, size_t *length)
{
    for (size_t at = 0; at + BLOCK <= size && tar[at] != '\0';) {
        char path[101];
        snprintf(path, sizeof path, "%.100s", tar + at);
        const char *slash = strrchr(path, '/');
        int64_t bytes = octal(tar + at + 124, 12);
        if (bytes < 0 || (uint64_t)bytes > size - at - BLOCK)
            return NULL;
        if (strcmp(slash ? slash + 1 : path, name) == 0) {
            *length = (size_t)bytes;
            return tar + at + BLOCK;
        }
        at += BLOCK + ((size_t)bytes + BLOCK - 1) / BLOCK * BLOCK;
    }
    return NULL;
}

static void idx_header(uint8_t *out, int dims, const uint32_t *size)
{
    out[0] = out[1] = 0;
    out[2] = 0x08; /* unsigned bytes */
    out[3] = (uint8_t)dims;
    for (int d = 0; d < dims; d++)
        for (int b = 0; b < 4; b++)
            out[4 + 4 * d + b] = (uint8_t)(size[d] >> 8 * (3 - b));
}

static clt_status write_file(const char *out, const char *split, const char *what, const void *data,
                             size_t size, clt_fetch_result *result)
{
    char name[64];
    CLT_FREED char *path = NULL;
    snprintf(name, sizeof name, "%s-%s", split, what);
    CLT_TRY(clt_path_join(out, name, &path));
    CLT_TRY(clt_file_write(path, data, size));
    result->files++;
    result->bytes += size;
    return CLT_OK;
}

/* Writes batches `first` to `last` (0: the test batch) as two idx files. */
static clt_status split(const char *tar, size_t size, int first, int last, const char *name, const char *out,
                        clt_fetch_result *result)
{
    CLT_FREED uint8_t *images = NULL;
    CLT_FREED uint8_t *labels = NULL;
    uint64_t total = 0, done = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int batch = first; batch <= last; batch++) {
            char file[32];
            size_t length = 0;
            snprintf(file, sizeof file, batch ? "data_batch_%d.bin" : "test_batch.bin", batch);
            const char *data = member(tar, size, file, &length);
            if (!data || length == 0 || length % RECORD != 0)
                CLT_FAIL(
                    CLT_EDATA,
                    "unpacking CIFAR-10: in the archive '%s' is missing or cut off (it has records of %d "
                    "bytes); download the archive again",
                    file, RECORD);
            if (pass == 0)
                total += length / RECORD;
            for (size_t at = 0; pass == 1 && at < length; at += RECORD, done++) {
                labels[8 + done] = (uint8_t)data[at];
                if (labels[8 + done] >= CLASSES)
                    CLT_FAIL(CLT_EDATA,
                             "unpacking CIFAR-10: label %u in '%s', record %zu; there are %d classes",
                             labels[8 + done], file, at / RECORD, CLASSES);
                memcpy(images + 20 + done * PIXELS, data + at + 1, PIXELS);
            }
        }
        if (pass == 0) {
            CLT_TRY(clt_alloc(&images, 20 + (size_t)total * PIXELS, 1, "images"));
            CLT_TRY(clt_alloc(&labels, 8 + (size_t)total, 1, "labels"));
        }
    }
    idx_header(images, 4, (uint32_t[]){(uint32_t)total, 3, 32, 32});
    idx_header(labels, 1, (uint32_t[]){(uint32_t)total});
    CLT_TRY(write_file(out, name, "images-idx4-ubyte", images, 20 + (size_t)total * PIXELS, result));
    return write_file(out, name, "labels-idx1-ubyte", labels, 8 + (size_t)total, result);
}

clt_status clt_fetch_cifar10(const char *tar, size_t size, const char *out, clt_fetch_result *result)
{
    CLT_TRY(split(tar, size, 1, 5, "train", out, result));
    return split(tar, size, 0, 0, "test", out, result);
}
