/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes shards of tokens. The header contains the number of tokens and is therefore written last: an
 * incomplete shard is recognised by its header of zeros. */
#include "engine/data/tokens/token_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/hash.h"
#include "engine/base/text.h"
#include "engine/data/tokens/token_shard.h"
#include "engine/files/fileio.h"

#define BUFFER ((size_t)1 << 18) /* bytes */

typedef struct written_shard {
    int64_t tokens;
    uint64_t hash;
} written_shard;

struct clt_token_writer {
    char *folder, *name;
    int width, fd; /* fd -1: no shard is open */
    int64_t shard_tokens;
    uint64_t total;
    written_shard *shards;
    size_t n_shards, shards_capacity;
    clt_hash64_state hash;
    uint8_t *buffer;
    size_t used;
    clt_str path; /* path of the open shard */
};

clt_status clt_token_writer_create(const char *folder, const char *name, int width, int64_t shard_tokens,
                                   clt_token_writer **out)
{
    CLT_SCOPED(clt_token_writer) *w = NULL;
    *out = NULL;
    if ((width != 2 && width != 4) || shard_tokens < 1 || shard_tokens > CLT_SHARD_MAX_TOKENS)
        CLT_FAIL(CLT_EUSAGE, "writing shards: %lld tokens of %d bytes in a shard; 1 to 2^31-1 are possible",
                 (long long)shard_tokens, width);
    CLT_TRY(clt_alloc(&w, 1, sizeof *w, "a shard writer"));
    w->fd = -1;
    w->width = width;
    w->shard_tokens = shard_tokens;
    CLT_TRY(clt_alloc(&w->buffer, BUFFER, 1, "the buffer of a shard writer"));
    if (!(w->folder = strdup(folder)) || !(w->name = strdup(name)))
        CLT_FAIL(CLT_ENOMEM, "making a shard writer: out of host memory");
    *out = CLT_TAKE(w);
    return CLT_OK;
}

void clt_token_writer_destroy(clt_token_writer *w)
{
    if (!w)
        return;
    if (w->fd >= 0)
        (void)close(w->fd);
    clt_str_free(&w->path);
    free(w->folder);
    free(w->name);
    free(w->shards);
    free(w->buffer);
    free(w);
}

static clt_status failed(const clt_token_writer *w, const char *doing)
{
    char why[CLT_ERRNO_TEXT];
    int code = errno;
    CLT_FAIL(CLT_ESTORAGE, "%s the shard '%s': %s", doing, w->path.text, clt_errno_text(code, why));
}

static clt_status open_shard(clt_token_writer *w)
{
    uint8_t header[CLT_SHARD_HEADER] = {0};
    w->path.length = 0;
    clt_str_printf(&w->path, "%s/%s_%03zu.bin", w->folder, w->name, w->n_shards);
    CLT_TRY(clt_str_check(&w->path));
    CLT_TRY(
        clt_grow(&w->shards, &w->shards_capacity, w->n_shards + 1, sizeof *w->shards, "the list of shards"));
    w->fd = open(w->path.text, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (w->fd < 0)
        return failed(w, "creating");
    w->shards[w->n_shards++] = (written_shard){0};
    clt_hash64_begin(&w->hash);
    return clt_fd_write(w->fd, header, sizeof header, w->path.text);
}

static clt_status flush(clt_token_writer *w)
{
    clt_hash64_add(&w->hash, w->buffer, w->used);
    clt_status status = clt_fd_write(w->fd, w->buffer, w->used, w->path.text);
    w->used = 0;
    return status;
}

static clt_status close_shard(clt_token_writer *w)
{
    uint8_t header[CLT_SHARD_HEADER];
    written_shard *shard = &w->shards[w->n_shards - 1];
    CLT_TRY(flush(w));
    shard->hash = clt_hash64_end(&w->hash);
    clt_shard_write_header(header, w->width, shard->tokens);
    if (lseek(w->fd, 0, SEEK_SET) != 0)
        return failed(w, "going back to the start of");
    CLT_TRY(clt_fd_write(w->fd, header, sizeof header, w->path.text));
    if (fsync(w->fd) != 0)
        return failed(w, "bringing to the disk");
    int result = close(w->fd);
    w->fd = -1;
    return result == 0 ? CLT_OK : failed(w, "closing");
}

clt_status clt_token_writer_put(clt_token_writer *w, const uint32_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (w->fd < 0)
            CLT_TRY(open_shard(w));
        uint8_t *p = w->buffer + w->used;
        p[0] = (uint8_t)ids[i];
        p[1] = (uint8_t)(ids[i] >> 8);
        if (w->width == 4) {
            p[2] = (uint8_t)(ids[i] >> 16);
            p[3] = (uint8_t)(ids[i] >> 24);
        }
        w->used += (size_t)w->width;
        w->total++;
        if (w->used == BUFFER)
            CLT_TRY(flush(w));
        if (++w->shards[w->n_shards - 1].tokens == w->shard_tokens)
            CLT_TRY(close_shard(w));
    }
    return CLT_OK;
}

clt_status clt_token_writer_finish(clt_token_writer *w)
{
    return w->fd < 0 ? CLT_OK : close_shard(w);
}

uint64_t clt_token_writer_tokens(const clt_token_writer *w)
{
    return w->total;
}

int clt_token_writer_shards(const clt_token_writer *w)
{
    return (int)w->n_shards;
}

void clt_token_writer_list(const clt_token_writer *w, clt_json_writer *json)
{
    clt_jw_array(json);
    for (size_t i = 0; i < w->n_shards; i++) {
        char hash[CLT_HASH64_TEXT];
        CLT_SCOPED(clt_str) name = {0};
        clt_str_printf(&name, "%s_%03zu.bin", w->name, i);
        json->out->failed = json->out->failed || name.failed;
        clt_jw_object(json);
        clt_jw_kstring(json, "name", name.text);
        clt_jw_kint(json, "tokens", w->shards[i].tokens);
        clt_jw_kstring(json, "xxh64", clt_hash64_text(w->shards[i].hash, hash));
        clt_jw_end_object(json);
    }
    clt_jw_end_array(json);
}
