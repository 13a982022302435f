/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads texts into memory from all usual sources: files (plain or .gz), folders, patterns, "@LIST", "-"
 * for the standard input (plain or packed), JSON Lines, and lists of JSON ([{...}, {...}]). Each file, or
 * each record of JSON Lines or of a list, is a document. A file of another kind is refused with a message
 * that says what it is. It knows nothing of tokens. */
#ifndef ENGINE_DATA_TEXTS_TEXTS_H
#define ENGINE_DATA_TEXTS_TEXTS_H

#include "engine/base/mem.h"
#include "engine/files/fileio.h"

typedef struct clt_text_file {
    char *path;
    clt_mapping mapping; /* mapping of a plain file */
    char *content;       /* text that was unpacked, read from the standard input, or taken from records */
    uint64_t bytes;      /* bytes of its documents */
    int form, detail;    /* form of its documents, set by `cut`; 0: lines or a list */
    bool listed;         /* the file is a list of JSON; `part` numbers its entries from 0 */
    void *about;         /* facts that `cut` keeps for the documents; freed with the file by free() */
} clt_text_file;

typedef struct clt_document {
    const char *bytes;
    uint64_t begin, size; /* offset in the joined text (all documents in a row); bytes */
    size_t file;          /* index of its file */
    bool record;          /* it is a record of JSON Lines or of another form */
    int64_t part; /* set by `cut`, for example to the document's number in `bytes`; see `listed`; else 0 */
} clt_document;

typedef struct clt_texts {
    clt_text_file *files;
    size_t n_files, files_capacity;
    clt_document *documents; /* empty documents are omitted */
    size_t n_documents, documents_capacity;
    uint64_t total; /* bytes of all documents */
    /* Set by the caller before the first text. json_key: the member of a record that holds the text; "":
     * plain text. For messages: key, the source of the entries, and json_option, the option that sets
     * json_key. */
    const char *key, *json_option, *json_key;
    /* each line that is not blank, or each entry of a list of JSON, is a document, unchanged */
    bool lines;
    /* Used with `lines`; may be NULL. Called for each file before its lines are read. If the file has
     * another form, it adds the documents with clt_texts_document and sets the form of the newest file.
     * CLT_EDATA: the file is wrong. */
    clt_status (*cut)(struct clt_texts *texts, const char *bytes, size_t size);
    const void *cut_with; /* data for `cut` */
    bool read_again; /* the texts are opened more than once: the standard input is refused (CLT_ECONFIG) */
    bool any_lines;  /* text that looks like JSON Lines is accepted as plain text */
    const char *plain_option; /* for messages: the setting of any_lines; NULL: there is none */
} clt_texts;

/* clt_texts_add: adds the texts of an entry (clt_text_paths). CLT_EDATA: a file is not text; a record is not
 * an object or has no string in the member json_key; or a file looks like records although json_key is ""
 * and any_lines is false. The message names the file and, for a record, its line or its number in the list.
 * In a folder or pattern, files of other kinds (images, archives) are skipped with a warning, unless they
 * are more than half of the files. A process reads the standard input once, however often it is named. */
clt_status clt_texts_add(clt_texts *texts, const char *entry);
/* For `cut`: adds a document of the newest file, whose `bytes` are part of the file's text. Several documents
 * may share the same bytes. */
clt_status clt_texts_document(clt_texts *texts, const char *bytes, size_t size, int64_t part);
/* To be called after the texts were read. CLT_EDATA: a file became shorter meanwhile; the message names
 * it. */
clt_status clt_texts_check(const clt_texts *texts);
void clt_texts_free(clt_texts *texts);
CLT_SCOPED_VALUE(clt_texts, clt_texts_free)

/* The line of its file on which a document begins, counted from 1. */
int64_t clt_document_line(const clt_texts *texts, const clt_document *document);
/* The part of a document in [from, to) of the joined text; *size is 0 if no part is in this range. */
const char *clt_document_part(const clt_document *document, uint64_t from, uint64_t to, size_t *size);
/* The last offset up to `at` where the joined text may be cut: between two records, or in plain text between
 * two characters. */
uint64_t clt_texts_cut(const clt_texts *texts, uint64_t at);
/* Warns of each file that contains bytes which are not UTF-8, and names the first such byte. */
void clt_texts_warn_bytes(const clt_texts *texts);

#endif
