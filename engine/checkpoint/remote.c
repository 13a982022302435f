/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists, uploads, downloads and deletes checkpoints in object storage. */
#include "engine/checkpoint/remote.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/thread.h"
#include "engine/checkpoint/checkpoint_internal.h"
#include "engine/files/crc64.h"
#include "engine/files/fileio_error.h"
#include "engine/files/process.h"

#define LANES 4
#define PIECE ((size_t)8 << 20)       /* bytes that are read at a time when content is verified */
#define STATE_MOST ((size_t)16 << 20) /* bytes of a state.json */

const char *const clt_remote_texts[CLT_REMOTE_TEXTS] = {"metrics.jsonl", "log.txt", "config.resolved.json"};

static void forget(clt_remote *r)
{
    for (size_t i = 0; i < r->count; i++)
        free(r->steps[i].folder);
    free(r->steps);
    clt_s3_list_free(&r->objects);
    r->steps = NULL;
    r->count = r->capacity = 0;
}

void clt_remote_close(clt_remote *r)
{
    if (!r)
        return;
    forget(r);
    clt_s3_close(r->s3);
    free(r);
}

/* --- what there is --- */

/* Reads the key of a step's file: the step, and the length of the key up to the file's name. `base`: length
 * of the prefix with its '/'. False: it is another object. */
static bool read_key(const char *key, size_t base, int64_t *step, size_t *length)
{
    static const char folder[] = "checkpoints/";
    const char *at = key + base;
    char name[64];
    if (strncmp(at, folder, strlen(folder)) == 0)
        at += strlen(folder);
    const char *slash = strchr(at, '/');
    if (!slash || strchr(slash + 1, '/') || !slash[1] || (size_t)(slash - at) >= sizeof name)
        return false;
    snprintf(name, sizeof name, "%.*s", (int)(slash - at), at);
    *length = (size_t)(slash + 1 - key);
    return clt_step_parse(name, CLT_STEP_COMPLETE, step);
}

static clt_status add_object(clt_remote *r, const clt_s3_object *object, int64_t step, size_t length)
{
    clt_remote_step *found = NULL;
    for (size_t i = 0; i < r->count && !found; i++)
        if (r->steps[i].step == step && strncmp(r->steps[i].folder, object->key, length) == 0)
            found = &r->steps[i];
    if (!found) {
        CLT_TRY(clt_grow(&r->steps, &r->capacity, r->count + 1, sizeof *r->steps, "a list of checkpoints"));
        found = &r->steps[r->count];
        found->folder = strndup(object->key, length);
        if (!found->folder)
            CLT_FAIL(CLT_ENOMEM, "out of host memory for a list of checkpoints");
        found->step = step;
        r->count++;
    }
    found->bytes += object->size;
    found->files++;
    found->complete = found->complete || strcmp(object->key + length, CLT_MANIFEST_FILE) == 0;
    return CLT_OK;
}

static int compare_steps(const void *a, const void *b)
{
    const clt_remote_step *x = a, *y = b;
    return x->step < y->step ? -1 : x->step > y->step;
}

/* If the prefix names one step, removes that step from the prefix. */
static bool names_step(clt_s3_address *address, int64_t *step)
{
    char *slash = strrchr(address->prefix, '/'), *name = slash ? slash + 1 : address->prefix;
    if (!clt_step_parse(name, CLT_STEP_COMPLETE, step))
        return false;
    *(slash ? slash : name) = '\0';
    return true;
}

clt_status clt_remote_check_run(const char *address)
{
    clt_s3_address parsed;
    int64_t step;
    CLT_TRY(clt_s3_address_parse(address, &parsed));
    if (names_step(&parsed, &step))
        CLT_FAIL(CLT_EUSAGE,
                 "%s: step_%" PRId64
                 " at its end is the name of one checkpoint, not of a run; write another name there, such as "
                 "s3://%s/%s%srun_%" PRId64,
                 address, step, parsed.bucket, parsed.prefix, parsed.prefix[0] ? "/" : "", step);
    return CLT_OK;
}

clt_status clt_remote_prefix(const clt_remote *r, clt_str *out)
{
    clt_str_printf(out, "%s%s", r->address.prefix, r->address.prefix[0] ? "/" : "");
    if (r->only >= 0)
        clt_str_printf(out, "step_%" PRId64 "/", r->only);
    return clt_str_check(out);
}

static clt_status list(clt_remote *r)
{
    CLT_SCOPED(clt_str) prefix = {0};
    int64_t step;
    size_t length, base = strlen(r->address.prefix);
    CLT_TRY(clt_remote_prefix(r, &prefix));
    CLT_TRY(clt_s3_list_all(r->s3, prefix.text, &r->objects));
    for (size_t i = 0; i < r->objects.count; i++)
        if (read_key(r->objects.object[i].key, base ? base + 1 : 0, &step, &length))
            CLT_TRY(add_object(r, &r->objects.object[i], step, length));
    if (r->count > 1)
        qsort(r->steps, r->count, sizeof *r->steps, compare_steps);
    return CLT_OK;
}

clt_status clt_remote_connect(const char *address, const clt_s3_options *options, clt_remote **out)
{
    CLT_SCOPED(clt_remote) *r = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&r, 1, sizeof *r, "checkpoints in object storage"));
    CLT_TRY(clt_s3_address_parse(address, &r->address));
    if (!names_step(&r->address, &r->only))
        r->only = -1;
    CLT_TRY(clt_s3_open(r->address.bucket, options, &r->s3));
    *out = CLT_TAKE(r);
    return CLT_OK;
}

clt_status clt_remote_open(const char *address, const clt_s3_options *options, clt_remote **out)
{
    CLT_SCOPED(clt_remote) *r = NULL;
    *out = NULL;
    CLT_TRY(clt_remote_connect(address, options, &r));
    CLT_TRY(list(r));
    *out = CLT_TAKE(r);
    return CLT_OK;
}

const clt_remote_step *clt_remote_find(const clt_remote *remote, int64_t step)
{
    for (size_t i = remote->count; i-- > 0;)
        if (step < 0 ? remote->steps[i].complete : remote->steps[i].step == step)
            return &remote->steps[i];
    return NULL;
}

static const clt_remote_step *complete_before(const clt_remote *r, int64_t step)
{
    for (size_t i = r->count; i-- > 0;)
        if (r->steps[i].complete && r->steps[i].step < step)
            return &r->steps[i];
    return NULL;
}

/* The best evaluation that a checkpoint tells of; *best -1: none, or its state.json is damaged. */
static clt_status read_best(const clt_remote *r, const clt_remote_step *step, const char *best_by,
                            int64_t *best, double *value)
{
    CLT_SCOPED(clt_str) key = {0};
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    CLT_FREED char *text = NULL;
    size_t size;
    bool there;
    *best = -1;
    clt_str_printf(&key, "%s" CLT_STATE_FILE, step->folder);
    CLT_TRY(clt_str_check(&key));
    CLT_TRY(clt_s3_read(r->s3, key.text, STATE_MOST, &text, &size, &there));
    if (!there)
        return CLT_OK;
    if (clt_json_parse(text, size, key.text, CLT_ECHECKPOINT, &doc) != CLT_OK) {
        clt_error_clear();
        return CLT_OK;
    }
    const clt_json *root = clt_json_root(doc), *figure = clt_json_get(root, "best_value");
    if (clt_json_is(clt_json_get(root, "best_by"), best_by) && clt_json_typeof(figure) == CLT_JSON_NUMBER &&
        clt_json_int_within(clt_json_get(root, "best_step"), INT64_MIN, step->step, best))
        *value = clt_json_number(figure);
    return CLT_OK;
}

clt_status clt_remote_best_before(clt_remote *r, int64_t step, const char *best_by, int64_t *best,
                                  double *value)
{
    *best = -1;
    for (const clt_remote_step *s; (s = complete_before(r, step)) != NULL; step = *best) {
        CLT_TRY(read_best(r, s, best_by, best, value));
        const clt_remote_step *found = *best >= 0 ? clt_remote_find(r, *best) : NULL;
        if (*best < 0 || (found && found->complete))
            return CLT_OK;
    }
    *best = -1;
    return CLT_OK;
}

/* --- verifying --- */

/* A manifest as it was read: its parsed form and its bytes. */
typedef struct remote_manifest {
    clt_manifest manifest;
    char *text;
    size_t size;
} remote_manifest;

static void free_manifest(remote_manifest *m)
{
    free(m->text);
}
CLT_SCOPED_VALUE(remote_manifest, free_manifest)

static const clt_s3_object *find_object(const clt_remote *r, const clt_remote_step *step, const char *name)
{
    size_t length = strlen(step->folder);
    for (size_t i = 0; i < r->objects.count; i++) {
        const char *key = r->objects.object[i].key;
        if (strncmp(key, step->folder, length) == 0 && strcmp(key + length, name) == 0)
            return &r->objects.object[i];
    }
    return NULL;
}

/* Reads the manifest, and checks that each file that it lists is there with its size. */
static clt_status read_manifest(const clt_remote *r, const clt_remote_step *step, remote_manifest *out)
{
    CLT_SCOPED(clt_str) key = {0}, path = {0};
    if (!step->complete)
        CLT_FAIL(CLT_ECHECKPOINT,
                 "s3://%s/%s: has no " CLT_MANIFEST_FILE ", so it is not a complete checkpoint",
                 r->address.bucket, step->folder);
    clt_str_printf(&key, "%s" CLT_MANIFEST_FILE, step->folder);
    clt_str_printf(&path, "s3://%s/%s" CLT_MANIFEST_FILE, r->address.bucket, step->folder);
    CLT_TRY(clt_str_check(&key));
    CLT_TRY(clt_str_check(&path));
    CLT_TRY(clt_s3_read(r->s3, key.text, CLT_MANIFEST_MAX_BYTES, &out->text, &out->size, NULL));
    CLT_TRY(clt_manifest_parse(path.text, out->text, out->size, &out->manifest, NULL));
    if (out->manifest.step != step->step)
        CLT_FAIL(CLT_ECHECKPOINT, "%s: it belongs to step %" PRId64 ", not to step %" PRId64, path.text,
                 out->manifest.step, step->step);
    for (int i = 0; i < out->manifest.n_files; i++) {
        const clt_manifest_file *file = &out->manifest.files[i];
        const clt_s3_object *object = find_object(r, step, file->name);
        if (!object)
            CLT_FAIL(CLT_ECHECKPOINT, "s3://%s/%s: %s is missing", r->address.bucket, step->folder,
                     file->name);
        if (object->size != file->bytes)
            CLT_FAIL(CLT_ECHECKPOINT,
                     "s3://%s/%s: has %" PRIu64 " bytes, its manifest says %" PRIu64
                     "; it was truncated or changed",
                     r->address.bucket, object->key, object->size, file->bytes);
    }
    return CLT_OK;
}

/* Computes the sum that a manifest of this version holds for an object, which is read piece by piece. */
static clt_status sum_object(const clt_remote *r, const clt_s3_object *object, int version, uint8_t *piece,
                             uint64_t *sum)
{
    clt_hash64_state hash;
    uint64_t shares = 0;
    clt_hash64_begin(&hash);
    for (uint64_t at = 0; at < object->size;) {
        size_t size = object->size - at < PIECE ? (size_t)(object->size - at) : PIECE;
        CLT_TRY(clt_s3_get(r->s3, object->key, object->etag, at, piece, size));
        at += size;
        if (version == 1)
            clt_hash64_add(&hash, piece, size);
        else
            shares ^= clt_crc64_move(clt_crc64_part(piece, size), object->size - at);
    }
    *sum = version == 1 ? clt_hash64_end(&hash) : clt_crc64_whole(shares, object->size);
    return CLT_OK;
}

clt_status clt_remote_verify(clt_remote *r, const clt_remote_step *step, bool content)
{
    CLT_SCOPED(remote_manifest) m = {.size = 0};
    CLT_FREED uint8_t *piece = NULL;
    CLT_TRY(read_manifest(r, step, &m));
    if (content)
        CLT_TRY(clt_alloc(&piece, PIECE, 1, "a piece of a checkpoint"));
    for (int i = 0; content && i < m.manifest.n_files; i++) {
        const clt_s3_object *object = find_object(r, step, m.manifest.files[i].name);
        uint64_t sum;
        CLT_TRY(sum_object(r, object, m.manifest.version, piece, &sum));
        if (sum != m.manifest.files[i].sum)
            CLT_FAIL(
                CLT_ECHECKPOINT,
                "s3://%s/%s: its content does not match the hash in its manifest; it was damaged or changed",
                r->address.bucket, object->key);
    }
    return CLT_OK;
}

/* --- whose files they are --- */

#define MARK_BYTES ((size_t)16384) /* most bytes of a first line that are hashed */

static uint64_t mark_of(const char *text, size_t size)
{
    const char *end = memchr(text, '\n', size);
    if (!end && size < MARK_BYTES)
        return 0; /* the line is still being written */
    uint64_t mark = clt_hash64(text, end ? (size_t)(end - text) : size);
    return mark ? mark : 1;
}

clt_status clt_run_mark(const char *folder, uint64_t *out)
{
    CLT_FREED char *path = NULL, *text = NULL;
    CLT_TRY(clt_path_join(folder, clt_remote_texts[0], &path));
    CLT_TRY(clt_alloc(&text, MARK_BYTES, 1, "the first line of a run"));
    *out = mark_of(text, clt_file_first(path, text, MARK_BYTES));
    return CLT_OK;
}

clt_status clt_remote_run_mark(clt_remote *r, uint64_t *out)
{
    CLT_SCOPED(clt_str) key = {0};
    CLT_FREED char *text = NULL;
    clt_s3_object object;
    bool there = false;
    *out = 0;
    clt_str_printf(&key, "%s%s%s", r->address.prefix, r->address.prefix[0] ? "/" : "", clt_remote_texts[0]);
    CLT_TRY(clt_str_check(&key));
    CLT_TRY(clt_s3_head(r->s3, key.text, &object, &there));
    if (!there)
        return CLT_OK;
    const size_t size = object.size < MARK_BYTES ? (size_t)object.size : MARK_BYTES;
    CLT_TRY(clt_alloc(&text, size + 1, 1, "the first line of a run"));
    CLT_TRY(clt_s3_get(r->s3, key.text, NULL, 0, text, size));
    *out = mark_of(text, size);
    return CLT_OK;
}

clt_status clt_remote_check_mine(clt_remote *r, bool wrote_metrics, uint64_t mark, bool *taken_by_other)
{
    uint64_t there;
    if (!wrote_metrics)
        return CLT_OK;
    CLT_TRY(clt_remote_run_mark(r, &there));
    *taken_by_other = there && mark && there != mark;
    if (*taken_by_other)
        CLT_FAIL(CLT_ESTORAGE,
                 "another run also writes to s3://%s/%s: its metrics.jsonl is there; end one of the two "
                 "runs, and give it a different checkpoint.upload",
                 r->address.bucket, r->address.prefix);
    return CLT_OK;
}

clt_status clt_remote_check_new(clt_remote *r, const char *folder, bool continues, const char *address)
{
    uint64_t here, there;
    CLT_TRY(clt_run_mark(folder, &here));
    CLT_TRY(clt_remote_run_mark(r, &there));
    if (!continues && (r->count > 0 || there))
        CLT_FAIL(CLT_ECONFIG,
                 "%s holds %s of a run already: --resume auto resumes it, or choose another prefix", address,
                 r->count > 0 ? "checkpoints" : "metrics");
    if (continues && here && there && here != there && clt_checkpoint_exists(folder))
        CLT_FAIL(CLT_ECONFIG,
                 "%s holds another run than '%s', whose files would replace it: choose another prefix, or, "
                 "to resume the run that is there, another --out",
                 address, folder);
    return CLT_OK;
}

/* --- fetching and deleting --- */

static clt_status fetch_files(clt_remote *r, const clt_remote_step *step, const remote_manifest *m,
                              const char *folder)
{
    for (int i = 0; i < m->manifest.n_files; i++) {
        CLT_FREED char *path = NULL;
        CLT_TRY(clt_path_join(folder, m->manifest.files[i].name, &path));
        CLT_TRY(clt_s3_download(r->s3, find_object(r, step, m->manifest.files[i].name), path, LANES));
    }
    CLT_FREED char *path = NULL;
    CLT_TRY(clt_path_join(folder, CLT_MANIFEST_FILE, &path));
    CLT_TRY(clt_own_file_write(path, m->text, m->size));
    return clt_checkpoint_verify(folder);
}

#define FETCH_TAG "fetch-"
#define FETCH_QUIET 86400.0 /* seconds without a change after which a fetch counts as abandoned */

static double seconds_since_change(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? clt_wall_time() - (double)info.st_mtim.tv_sec : 0;
}

bool clt_fetch_is_abandoned(const char *path, const char *mark)
{
    CLT_SCOPED(clt_file_list) names = {0};
    CLT_KEEP_ERROR();
    if (clt_process_mark_is_gone(mark))
        return true;
    bool quiet = seconds_since_change(path) > FETCH_QUIET;
    if (quiet && clt_is_directory(path))
        quiet = clt_folder_names(path, &names) == CLT_OK;
    for (size_t i = 0; i < names.count && quiet; i++) {
        CLT_FREED char *file = NULL;
        quiet =
            clt_path_join(path, names.name[i], &file) == CLT_OK && seconds_since_change(file) > FETCH_QUIET;
    }
    return quiet;
}

/* Removes files of abandoned fetches from a folder of checkpoints. Files of killed saves stay: only the run
 * that owns the folder can know that no save is in progress. */
static clt_status remove_abandoned(const char *folder)
{
    static const char mark[] = ".tmp-" FETCH_TAG;
    CLT_SCOPED(clt_step_list) list = {0};
    CLT_TRY(clt_steps_list(folder, CLT_STEP_REMAINS, &list));
    for (size_t i = 0; i < list.count; i++) {
        CLT_FREED char *path = NULL;
        const char *at = strstr(list.at[i].name, mark);
        if (!at)
            continue;
        CLT_TRY(clt_path_join(folder, list.at[i].name, &path));
        if (clt_fetch_is_abandoned(path, at + strlen(mark)))
            CLT_TRY(clt_remove_tree(path));
    }
    return CLT_OK;
}

clt_status clt_remote_fetch(clt_remote *r, const clt_remote_step *step, const char *folder, bool replace)
{
    CLT_SCOPED(remote_manifest) m = {.size = 0};
    CLT_FREED char *place = NULL, *temporary = NULL;
    char tag[sizeof FETCH_TAG + CLT_PROCESS_MARK], mark[CLT_PROCESS_MARK];
    CLT_TRY(clt_checkpoint_folder(folder, step->step, &place));
    if (!replace && clt_file_exists(place))
        CLT_FAIL(CLT_EUSAGE, "%s: exists already", place);
    CLT_TRY(read_manifest(r, step, &m));
    CLT_TRY(clt_mkdir_p(folder));
    CLT_TRY(remove_abandoned(folder));
    snprintf(tag, sizeof tag, FETCH_TAG "%s", clt_process_mark(mark));
    CLT_TRY(clt_checkpoint_temporary(folder, step->step, tag, &temporary));
    CLT_TRY(clt_remove_tree(temporary));
    CLT_TRY(clt_mkdir_p(temporary));
    clt_status status = fetch_files(r, step, &m, temporary);
    if (status == CLT_OK)
        status = clt_checkpoint_put(temporary, place);
    if (status != CLT_OK) {
        CLT_KEEP_ERROR();
        (void)clt_remove_tree(temporary);
        return status;
    }
    return clt_fsync_parent(place);
}

/* True if a key is one that a run uploads below the address. */
static bool is_of_run(const char *key, void *context)
{
    const clt_remote *r = context;
    const size_t prefix = strlen(r->address.prefix), base = prefix ? prefix + 1 : 0;
    int64_t step;
    size_t length;
    bool is = read_key(key, base, &step, &length);
    for (int i = 0; i < CLT_REMOTE_TEXTS; i++)
        is = is || strcmp(key + base, clt_remote_texts[i]) == 0;
    return is;
}

clt_status clt_remote_abort_old(clt_remote *r, int64_t age, int *count)
{
    CLT_SCOPED(clt_str) prefix = {0};
    CLT_TRY(clt_remote_prefix(r, &prefix));
    return clt_s3_abort_old(r->s3, prefix.text, age, is_of_run, r, count);
}

clt_status clt_remote_delete(clt_remote *r, const clt_remote_step *step)
{
    size_t length = strlen(step->folder);
    const clt_s3_object *manifest = find_object(r, step, CLT_MANIFEST_FILE);
    if (manifest)
        CLT_TRY(clt_s3_delete(r->s3, manifest->key, NULL));
    for (size_t i = 0; i < r->objects.count; i++)
        if (strncmp(r->objects.object[i].key, step->folder, length) == 0 && &r->objects.object[i] != manifest)
            CLT_TRY(clt_s3_delete(r->s3, r->objects.object[i].key, NULL));
    return CLT_OK;
}

clt_status clt_remote_retain(clt_remote *r, int64_t step, const clt_retention *retention)
{
    int kept = 1;
    forget(r);
    CLT_TRY(list(r));
    const clt_remote_step *newest = clt_remote_find(r, step);
    if (!newest || !newest->complete)
        CLT_FAIL(CLT_ESTORAGE, "s3://%s/%s: the checkpoint of step %" PRId64 " is not complete",
                 r->address.bucket, r->address.prefix, step);
    for (size_t i = r->count; i-- > 0;) {
        const clt_remote_step *s = &r->steps[i];
        if (s->step >= step)
            continue;
        if (s->complete && (clt_retention_keeps(retention, s->step) || kept++ < retention->keep))
            continue;
        CLT_TRY(clt_remote_delete(r, s));
    }
    return CLT_OK;
}
