/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and writes the headers of token shards, and refuses files of other formats. */
#include "engine/data/tokens/token_shard.h"
#include "engine/files/file_kind.h"
#include "engine/files/fileio.h"

#include <string.h>

#define MAGIC_U16 20240520u
#define MAGIC_U32 20240801u
#define MAGIC_EVAL 20240522u /* file of multiple-choice questions */
#define MAGIC_MODEL 20240326u
#define MAGIC_STATE 20240527u
#define VERSION_U16 1
#define VERSION_U32 7

static uint32_t word(const uint8_t *bytes, int i)
{
    const uint8_t *p = bytes + 4 * i;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Refuses files of other formats. A file without a header would otherwise be read as u16 tokens. */
static clt_status refuse_others(const char *path, const uint8_t *bytes, uint64_t size)
{
    CLT_TRY(
        clt_fail_prefix(clt_refuse_pointer(bytes, size, "the data itself", CLT_EDATA), "reading '%s'", path));
    if (clt_is_gzip(bytes, (size_t)size))
        CLT_FAIL(CLT_EDATA, "reading '%s': it is a gzip file; shards are mapped, so unpack it first", path);
    uint32_t magic = size >= 4 ? word(bytes, 0) : 0, swapped = __builtin_bswap32(magic);
    if (magic == MAGIC_EVAL)
        CLT_FAIL(CLT_EDATA, "reading '%s': it is an llm.c file of evaluation questions, not of tokens", path);
    if (magic == MAGIC_MODEL || magic == MAGIC_STATE)
        CLT_FAIL(CLT_EDATA, "reading '%s': it is an llm.c %s file, not a file of tokens", path,
                 magic == MAGIC_MODEL ? "model" : "state");
    if (swapped == MAGIC_U16 || swapped == MAGIC_U32)
        CLT_FAIL(
            CLT_EDATA,
            "reading '%s': its header is in big-endian byte order; shards are little-endian, write it again",
            path);
    return CLT_OK;
}

static clt_status parse_header(const char *path, const uint8_t *bytes, uint64_t size, clt_shard_header *out)
{
    bool wide = word(bytes, 0) == MAGIC_U32;
    if (size < CLT_SHARD_HEADER)
        CLT_FAIL(
            CLT_EDATA,
            "reading '%s': the file is cut off inside its header: it has %llu of %d bytes; copy it again",
            path, (unsigned long long)size, CLT_SHARD_HEADER);
    uint32_t version = word(bytes, 1), count = word(bytes, 2);
    if (version != (wide ? VERSION_U32 : VERSION_U16))
        CLT_FAIL(CLT_EDATA, "reading '%s': version %u of its format is not known (%s tokens have version %d)",
                 path, version, wide ? "u32" : "u16", wide ? VERSION_U32 : VERSION_U16);
    if (count > CLT_SHARD_MAX_TOKENS)
        CLT_FAIL(CLT_EDATA, "reading '%s': its header declares %u tokens, more than 2^31-1; it is damaged",
                 path, count);
    *out = (clt_shard_header){CLT_SHARD_HEADER, wide ? 4 : 2, count};
    uint64_t need = clt_shard_offset(out, count);
    if (size != need)
        CLT_FAIL(
            CLT_EDATA,
            "reading '%s': its header declares %u tokens and so %llu bytes, but the file has %llu: it is %s; "
            "copy or make it again",
            path, count, (unsigned long long)need, (unsigned long long)size,
            size < need ? "cut off" : "longer than its header says");
    return CLT_OK;
}

clt_status clt_shard_parse(const char *path, const uint8_t *bytes, uint64_t size, clt_shard_header *out)
{
    *out = (clt_shard_header){0};
    if (size == 0)
        CLT_FAIL(CLT_EDATA, "reading '%s': the file is empty; copy or make it again", path);
    CLT_TRY(refuse_others(path, bytes, size));
    if (size >= 4 && (word(bytes, 0) == MAGIC_U16 || word(bytes, 0) == MAGIC_U32))
        return parse_header(path, bytes, size, out);
    if (size % 2 != 0)
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': it has no header, so it would be u16 tokens, but %llu bytes are an odd "
                 "number; the file is cut off or is not a file of tokens",
                 path, (unsigned long long)size);
    *out = (clt_shard_header){0, 2, (int64_t)(size / 2)};
    return CLT_OK;
}

void clt_shard_write_header(uint8_t *bytes, int width, int64_t tokens)
{
    uint32_t words[3] = {width == 4 ? MAGIC_U32 : MAGIC_U16, width == 4 ? VERSION_U32 : VERSION_U16,
                         (uint32_t)tokens};
    memset(bytes, 0, CLT_SHARD_HEADER);
    for (int i = 0; i < 12; i++)
        bytes[i] = (uint8_t)(words[i / 4] >> (8 * (i % 4)));
}
