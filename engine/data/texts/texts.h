/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts as people have them, read into memory: files (plain or .gz), folders, patterns, "@LIST", "-" for the
 * standard input (plain or packed), and JSON Lines. Each file, or each record of JSON Lines, is a document.
 * Files that are no text are refused by what they are. It knows nothing of tokens. */
#ifndef ENGINE_DATA_TEXTS_TEXTS_H
#define ENGINE_DATA_TEXTS_TEXTS_H

#include "engine/base/mem.h"
#include "engine/files/fileio.h"

typedef struct clt_text_file {
    char *path;
    clt_mapping mapping; /* of a plain file */
    char *content;       /* what was unpacked, read from the standard input, or taken from records */
    uint64_t bytes;      /* of its text */
} clt_text_file;

typedef struct clt_document {
    const char *bytes;
    uint64_t begin, size; /* its bytes in the joined text */
    size_t file;          /* index of its file */
    bool record;          /* it is a record of JSON Lines */
} clt_document;

typedef struct clt_texts {
    clt_text_file *files;
    size_t n_files, files_capacity;
    clt_document *documents; /* without empty ones */
    size_t n_documents, documents_capacity;
    uint64_t total; /* bytes of all documents */
    /* set by the caller before the first text: where the entries come from and how the member of records is
     * named, for messages; the member itself, "" for plain text */
    const char *key, *json_option, *json_key;
    bool read_again; /* the texts are opened more than once: the standard input is refused (CLT_ECONFIG) */
    bool any_lines;  /* text that looks like JSON Lines is plain text as well */
    const char *plain_option; /* the setting for that, for messages; NULL: there is none */
} clt_texts;

/* clt_texts_add: adds the texts of an entry (clt_text_paths). CLT_EDATA names the file, and for JSON Lines
 * the line: no text, no object, no such member, no string; or a file that looks like JSON Lines while
 * json_key is "" and any_lines is false. The standard input is read once by a process, however often it is
 * named. */
clt_status clt_texts_add(clt_texts *texts, const char *entry);
/* After the texts were read: whether every byte was in its file, or CLT_EDATA with the name of one that was
 * cut. */
clt_status clt_texts_check(const clt_texts *texts);
void clt_texts_free(clt_texts *texts);

/* The bytes of a document that lie in [from, to) of the joined text; *size 0 when none do. */
const char *clt_document_part(const clt_document *document, uint64_t from, uint64_t to, size_t *size);
/* The place at or before `at` where the joined text may be cut in two parts: between two records, or two
 * characters. */
uint64_t clt_texts_cut(const clt_texts *texts, uint64_t at);
/* Warns of a file whose text is not UTF-8 from some byte on. */
void clt_texts_warn_bytes(const clt_texts *texts);

#endif
