/* SPDX-License-Identifier: Apache-2.0
 *
 * Gets published data sets into a folder: from the network with the program curl or wget, or from a local
 * copy. Every file is compared with its published SHA-256 before it gets its name, so a file that exists
 * is complete and the published one. It knows nothing of terminals. */
#ifndef ENGINE_DATA_OPEN_FETCH_H
#define ENGINE_DATA_OPEN_FETCH_H

#include "engine/base/mem.h"
#include "engine/base/status.h"

enum { CLT_FETCH_FILES = 8, CLT_FETCH_MIRRORS = 4 };

typedef struct clt_fetch_file {
    const char *name;   /* name in the folder of the set */
    const char *other;  /* another name that mirrors or local copies use, or NULL */
    const char *sha256; /* hash of the published file */
    /* for .gz: SHA-256 of the unpacked content, so that a copy with a different compression is accepted; or
     * NULL */
    const char *content;
    uint64_t bytes; /* size of the published file */
} clt_fetch_file;

typedef struct clt_fetch_mirror {
    const char *base; /* "https://host/folder/" */
    bool other;       /* the mirror's files have the names `other` */
} clt_fetch_mirror;

typedef enum clt_fetch_kind {
    CLT_FETCH_PLAIN,   /* the files stay as they are published */
    CLT_FETCH_ZIP,     /* a zip archive, whose only file is unpacked */
    CLT_FETCH_CIFAR10, /* the archive of CIFAR-10's binary version, unpacked to idx files */
    CLT_FETCH_SHARDS,  /* two other sets, a text and a tokenizer, made into token shards */
    CLT_FETCH_VOLUMES  /* volumes that are made here, without a network */
} clt_fetch_kind;

typedef struct clt_fetch_set {
    const char *name;  /* "mnist"; the folder is data/NAME unless the user names another */
    const char *help;  /* one line */
    const char *train; /* an example command that trains on data/NAME; NULL: none */
    clt_fetch_kind kind;
    clt_fetch_file files[CLT_FETCH_FILES];       /* ends with a NULL name */
    clt_fetch_mirror mirrors[CLT_FETCH_MIRRORS]; /* ends with a NULL base */
    const char *needs[2];                        /* CLT_FETCH_SHARDS: names of the sets, text first */
    const char *unpacked; /* CLT_FETCH_ZIP: the name that the archive's file gets in the folder of the set */
    const char *unpacked_sha256;
} clt_fetch_set;

/* The sets; ends with a NULL name. */
extern const clt_fetch_set clt_fetch_sets[];
/* The set of this name; NULL: there is none. */
const clt_fetch_set *clt_fetch_find(const clt_fetch_set *sets, const char *name);
/* Bytes to download for a set, including the sets that it needs. */
uint64_t clt_fetch_bytes(const clt_fetch_set *sets, const clt_fetch_set *set);
/* The set whose folder, data/NAME, is the path or contains it ("data/mnist/x.gz", "/home/me/data/mnist");
 * NULL: none. For messages about files that are missing. */
const clt_fetch_set *clt_fetch_of_path(const char *path);

typedef struct clt_fetch_options {
    const clt_fetch_set *sets; /* the table of sets, in which `needs` are looked up */
    const clt_fetch_set *set;
    const char *out; /* the folder; made if it is missing */
    /* NULL: use the mirrors. "http://..." or "https://...": use this folder instead of them. Otherwise a
     * local folder or file, also as "file://...". */
    const char *from;
    int threads; /* number of threads for tokenising */
    /* Reports the progress of `what` in bytes; may be NULL. If it returns another status than CLT_OK, the
     * work ends with that status; a partial file stays, and the next call continues it. */
    clt_status (*progress)(void *context, const char *what, uint64_t done, uint64_t total);
    /* Gives the user a line about something unusual; may be NULL. */
    void (*message)(void *context, const char *line);
    void *context;
} clt_fetch_options;

typedef struct clt_fetch_result {
    int files;      /* number of files in the folder */
    int there;      /* number of files that were there already */
    uint64_t bytes; /* size of all these files */
} clt_fetch_result;

/* Gets a set. CLT_EDATA: a file could not be downloaded or is not the published one (the message says how to
 * get it by hand); CLT_ESTORAGE: it cannot be written; CLT_EUSAGE: `from` cannot be used for this set. */
clt_status clt_fetch(const clt_fetch_options *options, clt_fetch_result *result);

/* Parts of clt_fetch, which have their own files. */

/* Downloads url to the file `part`, and continues a partial file. If it fails: CLT_EDATA with the message of
 * curl or wget. `expected`: the size in bytes, for progress; the limit is four times that size. */
clt_status clt_fetch_download(const clt_fetch_options *options, const char *url, const char *what,
                              const char *part, uint64_t expected);
/* Lists the files of the set of volumes, such as "classes/sphere/ct000.nii.gz". */
clt_status clt_fetch_volume_names(clt_arena *arena, const char ***names, int *count);
clt_status clt_fetch_make_volumes(const char *out);
/* Unpacks CIFAR-10's binary version, a tar archive in memory, to idx files in a folder. CLT_EDATA: the
 * archive holds something else. */
clt_status clt_fetch_cifar10(const char *tar, size_t size, const char *out, clt_fetch_result *result);

#endif
