/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and writes files of pairs of texts. A file may be damaged or come from anywhere, so every number
 * in it is checked. */
#include "engine/data/tokens/pair_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/text.h"
#include "engine/files/fileio.h"

#define VERSION 1u
#define LENGTHS                                                                                              \
    6 /* bytes of a record before its tokens: three u16, the two lengths and whether B is random */
#define BUFFER ((size_t)1 << 18)

static const uint8_t magic[8] = {'c', 'l', 't', 'p', 'a', 'i', 'r', 's'};

struct clt_pair_writer {
    clt_str path;
    clt_pair_header header;
    int fd;
    uint8_t *buffer;
    size_t used, record;
};

static uint64_t number(const uint8_t *p, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes; i-- > 0;)
        value = value << 8 | p[i];
    return value;
}

static void put_number(uint8_t *p, int bytes, uint64_t value)
{
    for (int i = 0; i < bytes; i++, value >>= 8)
        p[i] = (uint8_t)value;
}

static size_t record_bytes(const clt_pair_header *h)
{
    return LENGTHS + (size_t)h->context * (size_t)h->width;
}

uint64_t clt_pair_offset(const clt_pair_header *h, int64_t index)
{
    return CLT_PAIR_HEADER + (uint64_t)index * record_bytes(h);
}

clt_status clt_pair_parse(const char *path, const uint8_t *bytes, uint64_t size, clt_pair_header *out)
{
    *out = (clt_pair_header){0};
    if (size < CLT_PAIR_HEADER || memcmp(bytes, magic, sizeof magic) != 0)
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': it is not a complete file of pairs; 'cltrain data prepare --mlm' makes one",
                 path);
    uint64_t version = number(bytes + 8, 4), width = number(bytes + 12, 4), context = number(bytes + 16, 4);
    uint64_t records = number(bytes + 24, 8);
    if (version != VERSION)
        CLT_FAIL(CLT_EDATA, "reading '%s': version %llu of its format is not known; this program reads %u",
                 path, (unsigned long long)version, VERSION);
    if ((width != 2 && width != 4) || context < CLT_PAIR_LEAST || context > CLT_PAIR_CONTEXT ||
        records > INT64_MAX / (LENGTHS + context * width) - 1)
        CLT_FAIL(CLT_EDATA, "reading '%s': its header is damaged; make the file again", path);
    *out = (clt_pair_header){(int)width, (int64_t)context, (int64_t)records, (uint32_t)number(bytes + 20, 4),
                             number(bytes + 32, 8)};
    uint64_t need = clt_pair_offset(out, out->records);
    if (size != need)
        CLT_FAIL(
            CLT_EDATA,
            "reading '%s': its header declares %llu pairs and so %llu bytes, but the file has %llu; copy or "
            "make it again",
            path, (unsigned long long)records, (unsigned long long)need, (unsigned long long)size);
    return CLT_OK;
}

clt_status clt_pair_at(const char *path, const clt_pair_header *h, const uint8_t *bytes, int64_t index,
                       clt_pair *out)
{
    const uint8_t *p = bytes + clt_pair_offset(h, index);
    *out = (clt_pair){(int64_t)number(p, 2), (int64_t)number(p + 2, 2), number(p + 4, 2) == 1, p + LENGTHS};
    if (out->first >= 3 && out->first + 2 <= out->length && out->length <= h->context &&
        number(p + 4, 2) <= 1)
        return CLT_OK;
    CLT_FAIL(CLT_EDATA,
             "reading '%s': pair %lld (byte %llu) has impossible lengths; the file is damaged, make it again",
             path, (long long)index, (unsigned long long)clt_pair_offset(h, index));
}

/* --- writing --- */

static clt_status failed(const clt_pair_writer *w, const char *doing)
{
    char why[CLT_ERRNO_TEXT];
    int code = errno;
    CLT_FAIL(CLT_ESTORAGE, "%s '%s': %s", doing, w->path.text, clt_errno_text(code, why));
}

clt_status clt_pair_writer_create(const char *path, const clt_pair_header *header, clt_pair_writer **out)
{
    CLT_SCOPED(clt_pair_writer) *w = NULL;
    const uint8_t empty[CLT_PAIR_HEADER] = {0};
    *out = NULL;
    CLT_TRY(clt_alloc(&w, 1, sizeof *w, "a writer of pairs"));
    w->fd = -1;
    w->header = *header;
    w->header.records = 0;
    w->record = record_bytes(header);
    CLT_TRY(clt_alloc(&w->buffer, BUFFER + w->record, 1, "the buffer of a writer of pairs"));
    clt_str_append(&w->path, path);
    CLT_TRY(clt_str_check(&w->path));
    w->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (w->fd < 0)
        return failed(w, "creating");
    CLT_TRY(clt_fd_write(w->fd, empty, sizeof empty, path));
    *out = CLT_TAKE(w);
    return CLT_OK;
}

void clt_pair_writer_destroy(clt_pair_writer *w)
{
    if (!w)
        return;
    if (w->fd >= 0)
        (void)close(w->fd);
    clt_str_free(&w->path);
    free(w->buffer);
    free(w);
}

clt_status clt_pair_writer_put(clt_pair_writer *w, const uint32_t *ids, int64_t first, int64_t length,
                               bool random)
{
    uint8_t *p = w->buffer + w->used;
    memset(p, 0, w->record);
    put_number(p, 2, (uint64_t)first);
    put_number(p + 2, 2, (uint64_t)length);
    put_number(p + 4, 2, random);
    for (int64_t i = 0; i < length; i++)
        put_number(p + LENGTHS + i * w->header.width, w->header.width, ids[i]);
    w->used += w->record;
    w->header.records++;
    if (w->used < BUFFER)
        return CLT_OK;
    clt_status status = clt_fd_write(w->fd, w->buffer, w->used, w->path.text);
    w->used = 0;
    return status;
}

clt_status clt_pair_writer_finish(clt_pair_writer *w)
{
    uint8_t bytes[CLT_PAIR_HEADER] = {0};
    CLT_TRY(clt_fd_write(w->fd, w->buffer, w->used, w->path.text));
    w->used = 0;
    memcpy(bytes, magic, sizeof magic);
    put_number(bytes + 8, 4, VERSION);
    put_number(bytes + 12, 4, (uint64_t)w->header.width);
    put_number(bytes + 16, 4, (uint64_t)w->header.context);
    put_number(bytes + 20, 4, w->header.vocab);
    put_number(bytes + 24, 8, (uint64_t)w->header.records);
    put_number(bytes + 32, 8, w->header.tokenizer);
    if (lseek(w->fd, 0, SEEK_SET) != 0)
        return failed(w, "going back to the start of");
    CLT_TRY(clt_fd_write(w->fd, bytes, sizeof bytes, w->path.text));
    if (fsync(w->fd) != 0)
        return failed(w, "bringing to the disk");
    int result = close(w->fd);
    w->fd = -1;
    return result == 0 ? CLT_OK : failed(w, "closing");
}

int64_t clt_pair_writer_count(const clt_pair_writer *w)
{
    return w->header.records;
}
