/* SPDX-License-Identifier: Apache-2.0
 *
 * Gets published data sets into a folder. Tried for each file: the file already there, a local copy,
 * mirrors. */
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

#define LARGEST (UINT64_C(1) << 30) /* limit for a file, packed or unpacked */
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

/* --- is it the published file? --- */

typedef enum verdict { RIGHT, PACKED_BY_OTHERS, NOT_PACKED, WRONG } verdict;

/* Compares the whole file `data` with the published one. found: receives the hash of `data`. */
static verdict judge(const clt_fetch_file *file, const char *data, size_t size, const char *path, char *found)
{
    char inner[CLT_SHA256_TEXT];
    char *content = NULL;
    size_t length = 0;
    if (strcmp(clt_sha256_text(data, size, found), file->sha256) == 0)
        return RIGHT;
    if (!file->content)
        return WRONG;
    if (strcmp(found, file->content) == 0)
        return NOT_PACKED;
    bool packed = size > 2 && (uint8_t)data[0] == 0x1f && (uint8_t)data[1] == 0x8b;
    bool right = packed && clt_file_read(path, true, LARGEST, CLT_EDATA, &content, &length) == CLT_OK &&
                 strcmp(clt_sha256_text(content, length, inner), file->content) == 0;
    free(content);
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

/* The n-th name that a local copy may have: the file's own name, its other name, and both without ".gz". */
static bool name_of(const clt_fetch_file *file, int n, char *name, size_t size)
{
    const char *base = n % 2 == 0 ? file->name : file->other;
    if (n > 3 || !base)
        return false;
    size_t length = n >= 2 ? clt_stem(base, ".gz") : strlen(base);
    snprintf(name, size, "%.*s", (int)length, base);
    return length > 0;
}

/* Finds the local copy of a file: FROM itself, or in FROM, in FROM/SET, in FROM/raw (as PyTorch keeps
 * MNIST). *out NULL: there is none. */
static clt_status find_local(const fetching *f, const clt_fetch_file *file, char **out)
{
    const char *folders[] = {"", f->set->name, "raw"};
    *out = NULL;
    if (!clt_is_directory(f->local)) {
        if (f->set->files[1].name)
            CLT_FAIL(CLT_EUSAGE, "'%s' is one file, and '%s' has several: name the folder that holds them",
                     f->local, f->set->name);
        *out = strdup(f->local);
        return *out ? CLT_OK : CLT_ENOMEM;
    }
    for (int i = 0; i < 3; i++) {
        for (int n = 0; n < 4; n++) {
            char name[256], *folder = NULL, *path = NULL;
            if (!name_of(file, n, name, sizeof name))
                continue;
            CLT_TRY(clt_path_join(f->local, folders[i], &folder));
            clt_status status = clt_path_join(folder, name, &path);
            free(folder);
            CLT_TRY(status);
            if (clt_file_exists(path) && !clt_is_directory(path)) {
                *out = path;
                return CLT_OK;
            }
            free(path);
        }
    }
    return CLT_OK;
}

/* Writes an unpacked local copy as a gzip file, since configs name the packed file. */
static clt_status write_packed(const char *target, const char *data, size_t size)
{
    char *packed = NULL;
    size_t length = 0;
    CLT_TRY(clt_gzip(data, size, &packed, &length));
    clt_status status = clt_file_write(target, packed, length);
    free(packed);
    return status;
}

static clt_status take_local(const fetching *f, const clt_fetch_file *file, const char *target)
{
    char *path = NULL, *data = NULL, found[CLT_SHA256_TEXT];
    size_t size = 0;
    verdict v = WRONG;
    clt_status status = find_local(f, file, &path);
    if (status == CLT_OK && !path)
        status = clt_fail(CLT_EDATA, __FILE__, __LINE__, "there is no '%s'%s%s%s in '%s'; it belongs to '%s'",
                          file->name, file->other ? " (or '" : "", file->other ? file->other : "",
                          file->other ? "')" : "", f->local, f->set->name);
    if (status == CLT_OK)
        status = read_and_judge(file, path, &data, &size, &v, found);
    if (status == CLT_OK && v == WRONG)
        status = clt_fail(
            CLT_EDATA, __FILE__, __LINE__,
            "'%s' is not the published %s: its SHA-256 is %s, expected is %s; it is damaged or another "
            "version, get it again",
            path, file->name, found, file->sha256);
    if (status == CLT_OK)
        status = v == NOT_PACKED ? write_packed(target, data, size) : clt_file_write(target, data, size);
    free(path);
    free(data);
    return status;
}

/* --- the network --- */

/* Checks the downloaded file `part`: if it is the published one (*right), moves it to `target`, else removes
 * it. */
static clt_status settle(const clt_fetch_file *file, const char *part, const char *target, bool *right,
                         char *found)
{
    char *data = NULL;
    size_t size = 0;
    verdict v = WRONG;
    *right = false;
    CLT_TRY(read_and_judge(file, part, &data, &size, &v, found));
    free(data);
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

/* Appends the reason for which a mirror failed, unless another mirror failed for the same. */
static void add_reason(clt_str *why, const char *reason)
{
    if (!why->text || !strstr(why->text, reason))
        clt_str_printf(why, "\n  %s", reason);
}

/* Tries one mirror. A partial file of an earlier call is continued; if the result is not the published file,
 * the download starts again. *got false: the reason is appended to `why`. */
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
        if (status == CLT_EDATA) { /* reported when all mirrors have failed */
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
    clt_str text = {0};
    const clt_fetch_mirror *m = &f->set->mirrors[0];
    for (int i = 0; i < CLT_FETCH_FILES && f->set->files[i].name; i++) {
        const clt_fetch_file *file = &f->set->files[i];
        clt_str_printf(&text, "\n     %s%s", m->base, m->other && file->other ? file->other : file->name);
    }
    clt_status status = clt_str_check(&text);
    if (status == CLT_OK)
        status = clt_fail(
            CLT_EDATA, __FILE__, __LINE__,
            "'%s' could not be loaded:%s\nBy hand:\n  1. with a browser, or on a machine that has a network, "
            "load into one folder:%s\n  2. cltrain data fetch %s --from FOLDER",
            f->set->name, why ? why : "", text.text, f->o->set->name);
    clt_str_free(&text);
    return status;
}

static clt_status download(const fetching *f, const clt_fetch_file *file, const char *target)
{
    clt_str part = {0}, url = {0}, why = {0};
    bool got = false, own = f->o->from && is_url(f->o->from);
    clt_status status = CLT_OK;
    clt_str_printf(&part, "%s.part", target);
    CLT_TRY_GOTO(clt_str_check(&part), done);
    for (int i = 0; i < (own ? 1 : CLT_FETCH_MIRRORS) && !got; i++) {
        const clt_fetch_mirror *m = &f->set->mirrors[i];
        const char *base = own ? f->o->from : m->base;
        if (!base)
            break;
        size_t length = strlen(base);
        clt_str_free(&url);
        clt_str_printf(&url, "%s%s%s", base, length && base[length - 1] == '/' ? "" : "/",
                       !own && m->other && file->other ? file->other : file->name);
        CLT_TRY_GOTO(clt_str_check(&url), done);
        CLT_TRY_GOTO(try_mirror(f, file, url.text, part.text, target, &got, &why), done);
    }
    if (!got)
        status = by_hand(f, why.text);
done:
    clt_str_free(&part);
    clt_str_free(&url);
    clt_str_free(&why);
    return status;
}

/* --- one file, one set --- */

static clt_status get_file(const fetching *f, const clt_fetch_file *file)
{
    char *target = NULL, *data = NULL, found[CLT_SHA256_TEXT];
    size_t size = 0;
    verdict v = WRONG;
    CLT_TRY(clt_path_join(f->out, file->name, &target));
    clt_status status = CLT_OK;
    bool there = clt_file_exists(target);
    if (there)
        CLT_TRY_GOTO(read_and_judge(file, target, &data, &size, &v, found), done);
    if (there && v != RIGHT && v != PACKED_BY_OTHERS)
        CLT_FAIL_GOTO(CLT_EDATA, done,
                      "'%s' is there and is not the published file (SHA-256 %s, expected %s); remove it or "
                      "choose another folder with --out",
                      target, found, file->sha256);
    if (!there)
        CLT_TRY_GOTO(f->local ? take_local(f, file, target) : download(f, file, target), done);
    free(data);
    data = NULL;
    CLT_TRY_GOTO(clt_file_read(target, false, LARGEST, CLT_EDATA, &data, &size), done);
    f->result->files++;
    f->result->there += there;
    f->result->bytes += size;
done:
    free(target);
    free(data);
    return status;
}

/* Writes SHA256SUMS, lines "HASH NAME" that `sha256sum -c` reads too, when all files are there. */
static clt_status write_sums(const char *out, const char *const *names, int count)
{
    clt_str text = {0};
    char *path = NULL, hash[CLT_SHA256_TEXT];
    clt_status status = CLT_OK;
    for (int i = 0; i < count && status == CLT_OK; i++) {
        char *data = NULL, *file = NULL;
        size_t size = 0;
        status = clt_path_join(out, names[i], &file);
        if (status == CLT_OK)
            status = clt_file_read(file, false, LARGEST, CLT_EDATA, &data, &size);
        if (status == CLT_OK)
            clt_str_printf(&text, "%s  %s\n", clt_sha256_text(data, size, hash), names[i]);
        free(data);
        free(file);
    }
    if (status == CLT_OK)
        status = clt_str_check(&text);
    if (status == CLT_OK)
        status = clt_path_join(out, SUMS, &path);
    if (status == CLT_OK)
        status = clt_file_write(path, text.text, text.length);
    free(path);
    clt_str_free(&text);
    return status;
}

/* Whether SHA256SUMS lists these files and their hashes match it. */
static bool sums_agree(const char *out, const char *const *names, int count, clt_fetch_result *result)
{
    char *path = NULL, *sums = NULL, hash[CLT_SHA256_TEXT], line[256];
    size_t length = 0;
    bool agree = clt_path_join(out, SUMS, &path) == CLT_OK && clt_file_exists(path) &&
                 clt_file_read(path, false, 1 << 16, CLT_EDATA, &sums, &length) == CLT_OK;
    clt_fetch_result counted = {0};
    for (int i = 0; i < count && agree; i++) {
        char *data = NULL, *file = NULL;
        size_t size = 0;
        agree = clt_path_join(out, names[i], &file) == CLT_OK && clt_file_exists(file) &&
                clt_file_read(file, false, LARGEST, CLT_EDATA, &data, &size) == CLT_OK;
        if (agree) {
            snprintf(line, sizeof line, "%s  %s\n", clt_sha256_text(data, size, hash), names[i]);
            agree = strstr(sums, line) != NULL;
            counted.files++;
            counted.there++;
            counted.bytes += size;
        }
        free(data);
        free(file);
    }
    free(path);
    free(sums);
    clt_error_clear();
    if (agree)
        *result = counted;
    return agree;
}

static const char *const cifar_names[] = {"train-images-idx4-ubyte", "train-labels-idx1-ubyte",
                                          "test-images-idx4-ubyte", "test-labels-idx1-ubyte"};

static clt_status get_cifar10(const fetching *f)
{
    char *archive = NULL, *tar = NULL;
    size_t size = 0;
    if (sums_agree(f->out, cifar_names, 4, f->result))
        return CLT_OK;
    CLT_TRY(get_file(f, &f->set->files[0]));
    *f->result = (clt_fetch_result){0};
    CLT_TRY(clt_path_join(f->out, f->set->files[0].name, &archive));
    tell(f, "unpacking %s to idx files%s", f->set->files[0].name, "");
    clt_status status = clt_file_read(archive, true, LARGEST, CLT_EDATA, &tar, &size);
    if (status == CLT_OK)
        status = clt_fetch_cifar10(tar, size, f->out, f->result);
    if (status == CLT_OK)
        status = write_sums(f->out, cifar_names, 4);
    if (status == CLT_OK)
        (void)unlink(archive);
    free(tar);
    free(archive);
    return status;
}

/* Makes the volumes, unless they are there with the right hashes. */
static clt_status get_volumes(const fetching *f)
{
    clt_arena *arena;
    const char **names;
    int count = 0;
    if (f->o->from)
        CLT_FAIL(CLT_EUSAGE, "'%s' is made here, not downloaded: leave --from out", f->set->name);
    CLT_TRY(clt_arena_create(&arena));
    clt_status status = clt_fetch_volume_names(arena, &names, &count);
    if (status == CLT_OK && !sums_agree(f->out, names, count, f->result)) {
        tell(f, "making the volumes in %s%s", f->out, "");
        status = clt_fetch_make_volumes(f->out);
        if (status == CLT_OK)
            status = write_sums(f->out, names, count);
        if (status == CLT_OK && sums_agree(f->out, names, count, f->result))
            f->result->there = 0;
    }
    clt_arena_destroy(arena);
    return status;
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

/* Makes token shards from a text and a tokenizer: two sets, each in a folder of its name beside this one. */
static clt_status get_shards(const fetching *f)
{
    char *text = NULL, *beside[2] = {NULL, NULL}, *above = NULL, *manifest = NULL;
    int failures = 0;
    clt_status status = CLT_OK;
    CLT_TRY(clt_path_join(f->out, "manifest.json", &manifest));
    if (clt_file_exists(manifest)) {
        status = clt_prepare_check(f->out, count_failure, &failures);
        if (status == CLT_OK && failures == 0)
            *f->result = (clt_fetch_result){.files = 1, .there = 1};
        else if (status == CLT_OK || status == CLT_EDATA)
            status = clt_fail(
                CLT_EDATA, __FILE__, __LINE__,
                "'%s' holds shards that are damaged ('cltrain data verify %s' says which); remove the folder",
                f->out, f->out);
        goto done;
    }
    CLT_TRY_GOTO(clt_path_join(f->out, "..", &above), done);
    for (int i = 0; i < 2; i++) {
        const clt_fetch_set *need = clt_fetch_find(f->o->sets, f->set->needs[i]);
        fetching inner = *f;
        clt_fetch_result ignored = {0};
        CLT_TRY_GOTO(clt_path_join(above, need->name, &beside[i]), done);
        inner.set = need;
        inner.out = beside[i];
        inner.result = &ignored;
        CLT_TRY_GOTO(get_set(&inner), done);
        if (i == 0)
            CLT_TRY_GOTO(clt_path_join(beside[0], need->files[0].name, &text), done);
    }
    const char *inputs[] = {text};
    clt_prepare_options p = {.inputs = inputs,
                             .n_inputs = 1,
                             .out = f->out,
                             .tokenizer = beside[1],
                             .split = 0.1,
                             .shard_tokens = 100000000,
                             .threads = f->o->threads > 0 ? f->o->threads : 1,
                             .progress = on_prepare,
                             .context = (void *)(uintptr_t)f->o};
    clt_prepare_result r;
    CLT_TRY_GOTO(clt_prepare(&p, &r), done);
    f->result->files += r.train_shards + r.val_shards;
    f->result->bytes += (uint64_t)r.width * (r.train_tokens + r.val_tokens);
done:
    free(text);
    free(beside[0]);
    free(beside[1]);
    free(above);
    free(manifest);
    return status;
}

static clt_status get_set(const fetching *f)
{
    clt_lock *lock = NULL;
    char *path = NULL;
    clt_status status = CLT_OK;
    CLT_TRY(clt_mkdir_p(f->out));
    if (f->set->kind == CLT_FETCH_SHARDS)
        return get_shards(f);
    CLT_TRY(clt_path_join(f->out, ".fetch.lock", &path));
    CLT_TRY_GOTO(clt_lock_acquire(path, &lock), done);
    if (f->set->kind == CLT_FETCH_CIFAR10)
        status = get_cifar10(f);
    else if (f->set->kind == CLT_FETCH_VOLUMES)
        status = get_volumes(f);
    else
        for (int i = 0; i < CLT_FETCH_FILES && f->set->files[i].name && status == CLT_OK; i++)
            status = get_file(f, &f->set->files[i]);
done:
    clt_lock_release(lock);
    if (status != CLT_OK)
        (void)rmdir(f->out); /* fails unless the folder is empty */
    free(path);
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
