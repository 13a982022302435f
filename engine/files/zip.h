/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the directory of a zip archive in memory, and its entries: in place if they are stored without
 * compression, as PyTorch and numpy.savez write them, or unpacked. Sizes and places come from the
 * directory at the archive's end, also in its 64-bit form, and are checked against the archive's size.
 * Layout of the records: PKWARE's APPNOTE.TXT 6.3. */
#ifndef ENGINE_FILES_ZIP_H
#define ENGINE_FILES_ZIP_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/mem.h"

typedef struct clt_zip_entry {
    const char *name; /* the name in the archive, with '/' between folders */
    const uint8_t *data;
    uint64_t size;   /* size of the stored data, in bytes */
    uint64_t length; /* size of the data before compression, in bytes */
    uint64_t begin;  /* offset of its local header in the archive */
    uint32_t method; /* 0: not compressed */
    uint32_t crc;    /* CRC-32 of the data before compression */
} clt_zip_entry;

typedef struct clt_zip {
    clt_zip_entry *entries; /* sorted by name */
    size_t count;
    clt_arena *arena; /* owns names and entries */
} clt_zip;

/* `path`: the archive's name, for messages. The bytes must outlive the result. Fails with `code`: the
 * archive's directory is missing or damaged; an entry is encrypted, reaches beyond the archive, or has the
 * same name as another entry or overlaps it. */
clt_status clt_zip_open(const uint8_t *bytes, size_t size, const char *path, clt_status code, clt_zip *out);
void clt_zip_close(clt_zip *zip);
CLT_SCOPED_VALUE(clt_zip, clt_zip_close)
const clt_zip_entry *clt_zip_find(const clt_zip *zip, const char *name); /* NULL if absent */
/* To be called before the data is used. Fails with `code` if the entry is compressed, or if the CRC-32 of its
 * data is wrong. Reads all of the data. */
clt_status clt_zip_check(const clt_zip_entry *entry, const char *path, clt_status code);
/* Unpacks the data of an entry, which is stored or compressed with deflate (method 8), into *out, of
 * entry->length bytes. Free *out with free(). Fails with `code`: another method, more than `limit` bytes,
 * damaged data. */
clt_status clt_zip_unpack(const clt_zip_entry *entry, const char *path, uint64_t limit, clt_status code,
                          char **out);

#endif
