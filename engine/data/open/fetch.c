/* SPDX-License-Identifier: Apache-2.0
 *
 * Gets published data sets into a folder. Takes each file from the folder itself, a local copy or a
 * mirror, in this order. */
#include "engine/data/open/fetch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/text.h"
#include "engine/data/tokens/prepare.h"
#include "engine/files/fileio.h"
#include "engine/files/fileio_error.h"
#include "engine/files/sha256.h"
#include "engine/files/zip.h"

#define LARGEST (UINT64_C(1) << 30) /* limit for a file, packed or unpacked, in bytes */
#define SUMS "SHA256SUMS"

typedef struct fetching {
    const clt_fetch_options *o;
    const clt_fetch_set *set;
    const char *out;
    const char *local; /* a folder or file instead of mirrors; NULL: none */
    clt_fetch_result *result;
} fetching;

static bool is_url(const char *text)
{
    return strncmp(text, "http://", 7) == 0 || strncmp(text, "https://", 8) == 0;
}

static void tell(const fetching *f, const char *format, const char *a, const char *b)
{
    char line[1024];
    snprintf(line, sizeof line, format, a, b);
    if (f->o->message)
        f->o->message(f->o->context, line);
}

/* --- comparing with the published file --- */

typedef enum verdict { RIGHT, PACKED_BY_OTHERS, NOT_PACKED, WRONG } verdict;

/* Compares the whole file `data` with the published one. `found` receives the hash of `data`. */
static verdict judge(const clt_fetch_file *file, const char *data, size_t size, const char *path, char *found)
{
    char inner[CLT_SHA256_TEXT];
    CLT_FREED char *content = NULL;
    size_t length = 0;
    if (strcmp(clt_sha256_text(data, size, found), file->sha256) == 0)
        return RIGHT;
    if (!file->content)
        return WRONG;
    if (strcmp(found, file->content) == 0)
        return NOT_PACKED;
    bool right = clt_is_gzip(data, size) &&
                 clt_file_read(path, true, LARGEST, CLT_EDATA, &content, &length) == CLT_OK &&
                 strcmp(clt_sha256_text(content, length, inner), file->content) == 0;
    clt_error_clear();
    return right ? PACKED_BY_OTHERS : WRONG;
}

static clt_status read_and_judge(const clt_fetch_file *file, const char *path, char **data, size_t *size,
                                 verdict *verdict_out, char *found)
{
    CLT_TRY(clt_file_read(path, false, LARGEST, CLT_EDATA, data, size));
    *verdict_out = judge(file, *data, *size, path, found);
    return CLT_OK;
}

/* --- local copies --- */

/* The n-th name that a local copy may have: the file's own name, its other name, then both without ".gz". */
static bool name_of(const clt_fetch_file *file, int n, char *name, size_t size)
{
    const char *base = n % 2 == 0 ? file->name : file->other;
    if (n > 3 || !base)
        return false;
    size_t length = n >= 2 ? clt_stem(base, ".gz") : strlen(base);
    snprintf(name, size, "%.*s", (int)length, base);
    return length > 0;
}

/* Finds the local copy of a file: FROM itself if it is a file, else a file in FROM, FROM/SET or FROM/raw
 * (where PyTorch keeps MNIST). *out NULL: there is none. */
static clt_status find_local(const fetching *f, const clt_fetch_file *file, char **out)
{
    const char *folders[] = {"", f->set->name, "raw"};
    *out = NULL;
    if (!clt_is_directory(f->local)) {
        if (f->set->files[1].name)
            CLT_FAIL(CLT_EUSAGE,
                     "the set '%s' has several files; give the folder that contains them, not the file '%s'",
                     f->set->name, f->local);
        *out = strdup(f->local);
        return *out ? CLT_OK : CLT_ENOMEM;
    }
    for (int i = 0; i < 3; i++) {
        CLT_FREED char *folder = NULL;
        CLT_TRY(clt_path_join(f->local, folders[i], &folder));
        for (int n = 0; n < 4; n++) {
            char name[256];
            CLT_FREED char *path = NULL;
            if (!name_of(file, n, name, sizeof name))
                continue;
            CLT_TRY(clt_path_join(folder, name, &path));
            if (clt_file_exists(path) && !clt_is_directory(path)) {
                *out = CLT_TAKE(path);
                return CLT_OK;
            }
        }
    }
    return CLT_OK;
}

/* Writes an unpacked local copy as a gzip file, since configs name the packed file. */
static clt_status write_packed(const char *target, const char *data, size_t size)
{
    CLT_FREED char *packed = NULL;
    size_t length = 0;
    CLT_TRY(clt_gzip(data, size, &packed, &length));
    return clt_file_write(target, packed, length);
}

static clt_status take_local(const fetching *f, const clt_fetch_file *file, const char *target)
{
    CLT_FREED char *path = NULL;
    CLT_FREED char *data = NULL;
    char found[CLT_SHA256_TEXT];
    size_t size = 0;
    verdict v = WRONG;
    CLT_TRY(find_local(f, file, &path));
    if (!path)
        CLT_FAIL(CLT_EDATA, "there is no '%s'%s%s%s in '%s'; it belongs to '%s'", file->name,
                 file->other ? " (or '" : "", file->other ? file->other : "", file->other ? "')" : "",
                 f->local, f->set->name);
    CLT_TRY(read_and_judge(file, path, &data, &size, &v, found));
    if (v == WRONG)
        CLT_FAIL(CLT_EDATA,
                 "'%s' is not the published %s: its SHA-256 is %s, expected is %s; it is damaged or another "
                 "version, get it again",
                 path, file->name, found, file->sha256);
    return v == NOT_PACKED ? write_packed(target, data, size) : clt_file_write(target, data, size);
}

/* --- the network --- */

/* Checks the downloaded file `part`: moves it to `target` if it is the published one (*right), else removes
 * it. */
static clt_status settle(const clt_fetch_file *file, const char *part, const char *target, bool *right,
                         char *found)
{
    CLT_FREED char *data = NULL;
    size_t size = 0;
    verdict v = WRONG;
    *right = false;
    CLT_TRY(read_and_judge(file, part, &data, &size, &v, found));
    if (v != RIGHT && v != PACKED_BY_OTHERS) {
        (void)unlink(part);
        return CLT_OK;
    }
    CLT_TRY(clt_fsync_path(part));
    if (rename(part, target) != 0)
        return clt_fail_errno(CLT_ESTORAGE, errno, "renaming '%s' to '%s'", part, target);
    *right = true;
    return clt_fsync_parent(target);
}

/* Appends the reason why a mirror failed, unless another mirror failed for the same reason. */
static void add_reason(clt_str *why, const char *reason)
{
    if (!why->text || !strstr(why->text, reason))
        clt_str_printf(why, "\n  %s", reason);
}

/* Tries one mirror. A partial file of an earlier call is continued; if the result is not the published file,
 * the download starts again. If this fails, *got is false, and the reason is appended to `why`. */
static clt_status try_mirror(const fetching *f, const clt_fetch_file *file, const char *url, const char *part,
                             const char *target, bool *got, clt_str *why)
{
    char found[CLT_SHA256_TEXT];
    bool begun = clt_file_exists(part);
    *got = false;
    for (int attempt = 0; attempt < (begun ? 2 : 1) && !*got; attempt++) {
        if (attempt > 0)
            (void)unlink(part);
        clt_status status = clt_fetch_download(f->o, url, file->name, part, file->bytes);
        if (status == CLT_EDATA) { /* reported only if all mirrors fail */
            if (attempt + 1 == (begun ? 2 : 1))
                add_reason(why, clt_error_text());
            clt_error_clear();
            continue;
        }
        CLT_TRY(status);
        CLT_TRY(settle(file, part, target, got, found));
        if (!*got && attempt + 1 == (begun ? 2 : 1))
            clt_str_printf(
                why, "\n  %s: what it sends is not the published file (SHA-256 %.16s..., expected %.16s...)",
                url, found, file->sha256);
    }
    return CLT_OK;
}

/* Fails with instructions for getting the files by hand, on a machine without network. */
static clt_status by_hand(const fetching *f, const char *why)
{
    CLT_SCOPED(clt_str) text = {0};
    const clt_fetch_mirror *m = &f->set->mirrors[0];
    for (int i = 0; i < CLT_FETCH_FILES && f->set->files[i].name; i++) {
        const clt_fetch_file *file = &f->set->files[i];
        clt_str_printf(&text, "\n     %s%s", m->base, m->other && file->other ? file->other : file->name);
    }
    CLT_TRY(clt_str_check(&text));
    CLT_FAIL(
        CLT_EDATA,
        "'%s' could not be loaded:%s\nBy hand:\n  1. with a browser, or on a machine that has a network, "
        "load into one folder:%s\n  2. cltrain data fetch %s --from FOLDER",
        f->set->name, why ? why : "", text.text, f->o->set->name);
}

static clt_status download(const fetching *f, const clt_fetch_file *file, const char *target)
{
    CLT_SCOPED(clt_str) part = {0};
    CLT_SCOPED(clt_str) why = {0};
    bool got = false, own = f->o->from && is_url(f->o->from);
    clt_str_printf(&part, "%s.part", target);
    CLT_TRY(clt_str_check(&part));
    for (int i = 0; i < (own ? 1 : CLT_FETCH_MIRRORS) && !got; i++) {
        const clt_fetch_mirror *m = &f->set->mirrors[i];
        const char *base = own ? f->o->from : m->base;
        if (!base)
            break;
        CLT_SCOPED(clt_str) url = {0};
        clt_str_printf(&url, "%s%s%s", base, clt_ends_with(base, "/") ? "" : "/",
                       !own && m->other && file->other ? file->other : file->name);
        CLT_TRY(clt_str_check(&url));
        CLT_TRY(try_mirror(f, file, url.text, part.text, target, &got, &why));
    }
    return got ? CLT_OK : by_hand(f, why.text);
}

/* --- one file, one set --- */

static clt_status get_file(const fetching *f, const clt_fetch_file *file)
{
    CLT_FREED char *target = NULL;
    CLT_FREED char *data = NULL;
    char found[CLT_SHA256_TEXT];
    size_t size = 0;
    verdict v = WRONG;
    CLT_TRY(clt_path_join(f->out, file->name, &target));
    bool there = clt_file_exists(target);
    if (there) {
        CLT_TRY(read_and_judge(file, target, &data, &size, &v, found));
        if (v != RIGHT && v != PACKED_BY_OTHERS)
            CLT_FAIL(CLT_EDATA,
                     "'%s' is there and is not the published file (SHA-256 %s, expected %s); remove it or "
                     "choose another folder with --out",
                     target, found, file->sha256);
    } else {
        CLT_TRY(f->local ? take_local(f, file, target) : download(f, file, target));
        CLT_TRY(clt_file_read(target, false, LARGEST, CLT_EDATA, &data, &size));
    }
    f->result->files++;
    f->result->there += there;
    f->result->bytes += size;
    return CLT_OK;
}

/* Appends the line of a file in SHA256SUMS, "HASH NAME", as `sha256sum -c` reads it. */
static clt_status add_sum(const char *out, const char *name, clt_str *text, size_t *size)
{
    CLT_FREED char *data = NULL;
    CLT_FREED char *path = NULL;
    char hash[CLT_SHA256_TEXT];
    CLT_TRY(clt_path_join(out, name, &path));
    CLT_TRY(clt_file_read(path, false, LARGEST, CLT_EDATA, &data, size));
    clt_str_printf(text, "%s  %s\n", clt_sha256_text(data, *size, hash), name);
    return clt_str_check(text);
}

/* Writes SHA256SUMS when all files are there. */
static clt_status write_sums(const char *out, const char *const *names, int count)
{
    CLT_SCOPED(clt_str) text = {0};
    CLT_FREED char *path = NULL;
    size_t size;
    for (int i = 0; i < count; i++)
        CLT_TRY(add_sum(out, names[i], &text, &size));
    CLT_TRY(clt_path_join(out, SUMS, &path));
    return clt_file_write(path, text.text, text.length);
}

/* Counts how many files, from the first one on, exist and match SHA256SUMS. */
static clt_status count_listed(const char *out, const char *const *names, int count, clt_fetch_result *result)
{
    CLT_FREED char *path = NULL;
    CLT_FREED char *sums = NULL;
    size_t size = 0;
    CLT_TRY(clt_path_join(out, SUMS, &path));
    CLT_TRY(clt_file_read(path, false, 1 << 16, CLT_EDATA, &sums, &size));
    for (; result->files < count; result->files++) {
        CLT_SCOPED(clt_str) line = {0};
        CLT_TRY(add_sum(out, names[result->files], &line, &size));
        if (!strstr(sums, line.text))
            return CLT_OK;
        result->there++;
        result->bytes += size;
    }
    return CLT_OK;
}

/* True if SHA256SUMS lists exactly these files and their hashes match. */
static bool sums_agree(const char *out, const char *const *names, int count, clt_fetch_result *result)
{
    clt_fetch_result counted = {0};
    bool agree = count_listed(out, names, count, &counted) == CLT_OK && counted.files == count;
    clt_error_clear();
    if (agree)
        *result = counted;
    return agree;
}

static const char *const cifar_names[] = {"train-images-idx4-ubyte", "train-labels-idx1-ubyte",
                                          "test-images-idx4-ubyte", "test-labels-idx1-ubyte"};

static clt_status get_cifar10(const fetching *f)
{
    CLT_FREED char *archive = NULL;
    CLT_FREED char *tar = NULL;
    size_t size = 0;
    if (sums_agree(f->out, cifar_names, 4, f->result))
        return CLT_OK;
    CLT_TRY(get_file(f, &f->set->files[0]));
    *f->result = (clt_fetch_result){0};
    CLT_TRY(clt_path_join(f->out, f->set->files[0].name, &archive));
    tell(f, "unpacking %s to idx files%s", f->set->files[0].name, "");
    CLT_TRY(clt_file_read(archive, true, LARGEST, CLT_EDATA, &tar, &size));
    CLT_TRY(clt_fetch_cifar10(tar, size, f->out, f->result));
    CLT_TRY(write_sums(f->out, cifar_names, 4));
    (void)unlink(archive);
    return CLT_OK;
}

/* Unpacks the only file of the zip archive to `target`. */
static clt_status unpack_zip(const clt_fetch_set *set, const char *archive, const char *target)
{
    CLT_FREED char *bytes = NULL;
    CLT_FREED char *data = NULL;
    CLT_SCOPED(clt_zip) zip = {0};
    char found[CLT_SHA256_TEXT];
    size_t size = 0;
    CLT_TRY(clt_file_read(archive, false, LARGEST, CLT_EDATA, &bytes, &size));
    CLT_TRY(clt_zip_open((const uint8_t *)bytes, size, archive, CLT_EDATA, &zip));
    if (zip.count != 1)
        CLT_FAIL(CLT_EDATA, "%s: the archive holds %zu files, not one", archive, zip.count);
    CLT_TRY(clt_zip_unpack(&zip.entries[0], archive, LARGEST, CLT_EDATA, &data));
    size = (size_t)zip.entries[0].length;
    if (strcmp(clt_sha256_text(data, size, found), set->unpacked_sha256) != 0)
        CLT_FAIL(CLT_EDATA, "%s: what it holds has the SHA-256 %s, expected is %s", archive, found,
                 set->unpacked_sha256);
    return clt_file_write(target, data, size);
}

static clt_status get_zip(const fetching *f)
{
    CLT_FREED char *archive = NULL;
    CLT_FREED char *target = NULL;
    const char *const names[] = {f->set->unpacked};
    if (sums_agree(f->out, names, 1, f->result))
        return CLT_OK;
    CLT_TRY(get_file(f, &f->set->files[0]));
    *f->result = (clt_fetch_result){0};
    CLT_TRY(clt_path_join(f->out, f->set->files[0].name, &archive));
    CLT_TRY(clt_path_join(f->out, f->set->unpacked, &target));
    tell(f, "unpacking %s to %s", f->set->files[0].name, f->set->unpacked);
    CLT_TRY(unpack_zip(f->set, archive, target));
    CLT_TRY(write_sums(f->out, names, 1));
    (void)unlink(archive);
    if (sums_agree(f->out, names, 1, f->result))
        f->result->there = 0;
    return CLT_OK;
}

/* Makes the volumes, unless they exist with the right hashes. */
static clt_status get_volumes(const fetching *f)
{
    CLT_SCOPED(clt_arena) *arena = NULL;
    const char **names;
    int count = 0;
    if (f->o->from)
        CLT_FAIL(CLT_EUSAGE, "'%s' is made here, not downloaded; remove --from", f->set->name);
    CLT_TRY(clt_arena_create(&arena));
    CLT_TRY(clt_fetch_volume_names(arena, &names, &count));
    if (sums_agree(f->out, names, count, f->result))
        return CLT_OK;
    tell(f, "making the volumes in %s%s", f->out, "");
    CLT_TRY(clt_fetch_make_volumes(f->out));
    CLT_TRY(write_sums(f->out, names, count));
    if (sums_agree(f->out, names, count, f->result))
        f->result->there = 0;
    return CLT_OK;
}

static clt_status on_prepare(void *context, const clt_prepare_progress *p)
{
    const clt_fetch_options *o = context;
    return o->progress ? o->progress(o->context, p->stage, p->done, p->total) : CLT_OK;
}

static void count_failure(void *context, const char *path, clt_status status, int64_t tokens)
{
    (void)path;
    (void)tokens;
    *(int *)context += status != CLT_OK;
}

static clt_status get_set(const fetching *f);

/* Gets the set needs[i] into a folder of its name beside this set's folder. */
static clt_status get_needed(const fetching *f, int i, char **folder)
{
    CLT_FREED char *above = NULL;
    clt_fetch_result ignored = {0};
    fetching inner = *f;
    inner.set = clt_fetch_find(f->o->sets, f->set->needs[i]);
    inner.result = &ignored;
    CLT_TRY(clt_path_join(f->out, "..", &above));
    CLT_TRY(clt_path_join(above, inner.set->name, folder));
    inner.out = *folder;
    return get_set(&inner);
}

/* Makes token shards from two other sets, a text and a tokenizer. */
static clt_status get_shards(const fetching *f)
{
    CLT_FREED char *manifest = NULL;
    CLT_FREED char *beside = NULL;
    CLT_FREED char *tokenizer = NULL;
    CLT_FREED char *text = NULL;
    int failures = 0;
    CLT_TRY(clt_path_join(f->out, "manifest.json", &manifest));
    if (clt_file_exists(manifest)) {
        clt_status status = clt_prepare_check(f->out, count_failure, &failures);
        if (status != CLT_OK && status != CLT_EDATA)
            return status;
        if (status != CLT_OK || failures > 0)
            CLT_FAIL(
                CLT_EDATA,
                "'%s' holds shards that are damaged ('cltrain data verify %s' says which); remove the folder",
                f->out, f->out);
        *f->result = (clt_fetch_result){.files = 1, .there = 1};
        return CLT_OK;
    }
    CLT_TRY(get_needed(f, 0, &beside));
    CLT_TRY(get_needed(f, 1, &tokenizer));
    const clt_fetch_set *needed = clt_fetch_find(f->o->sets, f->set->needs[0]);
    CLT_TRY(clt_path_join(beside, needed->unpacked ? needed->unpacked : needed->files[0].name, &text));
    const char *inputs[] = {text};
    clt_prepare_options p = {.inputs = inputs,
                             .n_inputs = 1,
                             .out = f->out,
                             .tokenizer = tokenizer,
                             .split = 0.1,
                             .shard_tokens = 100000000,
                             .threads = f->o->threads > 0 ? f->o->threads : 1,
                             .progress = on_prepare,
                             .context = (void *)(uintptr_t)f->o};
    clt_prepare_result r;
    CLT_TRY(clt_prepare(&p, &r));
    f->result->files += r.train_shards + r.val_shards;
    f->result->bytes += (uint64_t)r.width * (r.train_tokens + r.val_tokens);
    return CLT_OK;
}

static clt_status get_locked(const fetching *f)
{
    CLT_FREED char *path = NULL;
    CLT_SCOPED(clt_lock) *lock = NULL;
    CLT_TRY(clt_path_join(f->out, ".fetch.lock", &path));
    CLT_TRY(clt_lock_acquire(path, &lock));
    if (f->set->kind == CLT_FETCH_CIFAR10)
        return get_cifar10(f);
    if (f->set->kind == CLT_FETCH_VOLUMES)
        return get_volumes(f);
    if (f->set->kind == CLT_FETCH_ZIP)
        return get_zip(f);
    for (int i = 0; i < CLT_FETCH_FILES && f->set->files[i].name; i++)
        CLT_TRY(get_file(f, &f->set->files[i]));
    return CLT_OK;
}

static clt_status get_set(const fetching *f)
{
    CLT_TRY(clt_mkdir_p(f->out));
    if (f->set->kind == CLT_FETCH_SHARDS)
        return get_shards(f);
    clt_status status = get_locked(f);
    if (status != CLT_OK)
        (void)rmdir(f->out); /* fails unless the folder is empty */
    return status;
}

clt_status clt_fetch(const clt_fetch_options *options, clt_fetch_result *result)
{
    fetching f = {.o = options, .set = options->set, .out = options->out, .result = result};
    const char *from = options->from;
    *result = (clt_fetch_result){0};
    if (from && !is_url(from)) {
        f.local = strncmp(from, "file://", 7) == 0 ? from + 7 : from;
        if (!clt_file_exists(f.local))
            CLT_FAIL(CLT_EUSAGE,
                     "there is no '%s' to take '%s' from; give a folder that holds its files, or a URL of "
                     "one that begins with http:// or https://",
                     f.local, options->set->name);
    }
    return get_set(&f);
}
