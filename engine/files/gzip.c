/* SPDX-License-Identifier: Apache-2.0
 *
 * Packs bytes in memory with gzip, and unpacks the beginning of a gzip file. fileio.c unpacks whole
 * files. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "engine/base/mem.h"
#include "engine/files/fileio.h"
#include "engine/files/fileio_error.h"

#define GZIP_WINDOW (15 + 16) /* 15 for the largest window; 16 for a gzip header */
/* limit of the bytes by which the packed beginning is longer than its content: packing may add some, and
 * zlib reads ahead */
#define MOST_GROWTH 65536

static clt_status pack(z_stream *z, const void *data, size_t size, char **out, size_t *length)
{
    CLT_FREED char *packed = NULL;
    size_t room = deflateBound(z, (uLong)size);
    CLT_TRY(clt_alloc(&packed, room, 1, "a packed file"));
    z->next_in = (Bytef *)(uintptr_t)data;
    z->avail_in = (uInt)size;
    z->next_out = (Bytef *)packed;
    z->avail_out = (uInt)room;
    if (deflate(z, Z_FINISH) != Z_STREAM_END)
        CLT_FAIL(CLT_EINTERNAL, "packing %zu bytes: zlib did not finish", size);
    *length = room - z->avail_out;
    *out = CLT_TAKE(packed);
    return CLT_OK;
}

clt_status clt_gzip(const void *data, size_t size, char **out, size_t *length)
{
    z_stream z = {0};
    *out = NULL;
    *length = 0;
    if (size > UINT_MAX / 2)
        CLT_FAIL(CLT_EUNSUPPORTED, "packing %zu bytes: at most %u are packed in one go", size, UINT_MAX / 2);
    if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        CLT_FAIL(CLT_ENOMEM, "packing %zu bytes: out of host memory", size);
    clt_status status = pack(&z, data, size, out, length);
    (void)deflateEnd(&z);
    return status;
}

clt_status clt_file_read_start(const char *path, void *buffer, size_t size, clt_status code, size_t *got)
{
    int fd;
    struct stat info;
    *got = 0;
    if (size > INT_MAX)
        CLT_FAIL(CLT_EINTERNAL, "reading the first %zu bytes of '%s'", size, path);
    CLT_TRY(clt_open_start(path, code, size + MOST_GROWTH, &fd, &info));
    gzFile file = gzdopen(fd, "rb");
    if (!file) {
        (void)close(fd);
        CLT_FAIL(CLT_ENOMEM, "opening '%s' for reading: out of host memory", path);
    }
    int n = gzread(file, buffer, (unsigned)size), problem = Z_OK;
    clt_status status = CLT_OK;
    const char *text = gzerror(file, &problem);
    if (n < 0 || (problem != Z_OK && problem != Z_BUF_ERROR)) {
        if (problem == Z_MEM_ERROR)
            status = clt_fail(CLT_ENOMEM, __FILE__, __LINE__, "unpacking '%s': out of host memory", path);
        else if (problem == Z_ERRNO)
            status = clt_fail_errno(code, errno, "reading '%s'", path);
        else
            status = clt_fail(code, __FILE__, __LINE__,
                              "unpacking '%s': the gzip stream is damaged: %s; copy or download it again",
                              path, text);
    }
    (void)gzclose(file);
    *got = n > 0 ? (size_t)n : 0;
    return status;
}
