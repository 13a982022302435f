/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 *
 * Checkpoints: what is saved is what is opened, equal content gives equal files, every damage is found, and a
 * save that fails or is killed at any system call leaves only complete checkpoints. The system calls of a
 * save are interposed here. */
#include "tests/unit/test.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include "engine/base/log.h"
#include "engine/base/rng.h"
#include "engine/checkpoint/checkpoint.h"
#include "tests/unit/train/checkpoint_save.h"

/* --- interposed system calls --- */

/* While armed, the n-th call (from 1) of a save fails with EIO, or ends the process as a kill would. */
static struct {
    int at, count;
    bool kill, no_exchange;
    unsigned long long free_bytes; /* what statvfs reports; 0: the real value */
} fault;

static bool fails_now(void)
{
    if (fault.at == 0 || ++fault.count != fault.at)
        return false;
    if (fault.kill)
        _exit(99);
    errno = EIO;
    return true;
}

#define NEXT(name) ((__typeof__(&name))(uintptr_t)dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *data, size_t size)
{
    return fails_now() ? -1 : NEXT(write)(fd, data, size);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    return fails_now() ? -1 : NEXT(pwrite)(fd, data, size, offset);
}

int fsync(int fd)
{
    return fails_now() ? -1 : NEXT(fsync)(fd);
}

int rename(const char *from, const char *to)
{
    return fails_now() ? -1 : NEXT(rename)(from, to);
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
    if (fault.no_exchange) {
        errno = EINVAL;
        return -1;
    }
    return fails_now() ? -1 : NEXT(renameat2)(from_folder, from, to_folder, to, flags);
}

int mkdir(const char *path, mode_t mode)
{
    return fails_now() ? -1 : NEXT(mkdir)(path, mode);
}

int unlinkat(int folder, const char *path, int flags)
{
    return fails_now() ? -1 : NEXT(unlinkat)(folder, path, flags);
}

int statvfs(const char *path, struct statvfs *info)
{
    int result = NEXT(statvfs)(path, info);
    if (result == 0 && fault.free_bytes) {
        info->f_frsize = 1;
        info->f_bavail = fault.free_bytes;
    }
    return result;
}

/* --- helpers --- */

static char root[64], folder[96];
static char log_text[16384];

static void keep_line(void *context, clt_log_level level, const char *line)
{
    (void)context;
    (void)level;
    size_t used = strlen(log_text);
    (void)snprintf(log_text + used, sizeof log_text - used, "%s\n", line);
}

FIXTURE(set_up)
{
    memset(&fault, 0, sizeof fault);
    log_text[0] = '\0';
    clt_log_set_sink(keep_line, NULL, CLT_LOG_WARN);
    /* Thousands of fsync calls: in memory where possible, since on a busy disk this test would take
     * minutes. */
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(root, sizeof root, "%s/cltrain-test-checkpoint-XXXXXX", base);
    if (!mkdtemp(root))
        return -1;
    (void)snprintf(folder, sizeof folder, "%s/run/checkpoints", root);
    return 0;
}

FIXTURE(tear_down)
{
    memset(&fault, 0, sizeof fault);
    clt_log_set_sink(NULL, NULL, CLT_LOG_ERROR);
    return clt_remove_tree(root) == CLT_OK ? 0 : -1;
}

static void assert_text_has(const char *part)
{
    if (!strstr(clt_error_text(), part))
        fail_msg("\"%s\" is not in the message \"%s\"", part, clt_error_text());
}

/* A small model whose values follow from `fill`. */
static float weight[600], bias[20], moment[600];
static const clt_named_tensor *model(float fill)
{
    static clt_named_tensor tensors[2];
    for (int i = 0; i < 600; i++)
        weight[i] = fill + (float)i;
    for (int i = 0; i < 20; i++)
        bias[i] = -fill;
    tensors[0] = (clt_named_tensor){"fc.weight", CLT_F32, clt_shape2(20, 30), weight};
    tensors[1] = (clt_named_tensor){"fc.bias", CLT_F32, clt_shape1(20), bias};
    return tensors;
}

static clt_checkpoint_content content_of(int64_t step, float fill)
{
    static clt_named_tensor optimizer[1];
    for (int i = 0; i < 600; i++)
        moment[i] = fill * 0.5F;
    optimizer[0] = (clt_named_tensor){"fc.weight.m", CLT_F32, clt_shape2(20, 30), moment};
    return (clt_checkpoint_content){.step = step,
                                    .model = model(fill),
                                    .n_model = 2,
                                    .optimizer = optimizer,
                                    .n_optimizer = 1,
                                    .state_json = "{\"step\": 7, \"update\": 6}\n",
                                    .config_json = "{\"model\": \"mlp\"}"};
}

static clt_status save(int64_t step, float fill, int keep)
{
    clt_checkpoint_content content = content_of(step, fill);
    return save_checkpoint(folder, &content, keep);
}

static void must_save(int64_t step, float fill, int keep)
{
    if (save(step, fill, keep) != CLT_OK)
        fail_msg("%s", clt_error_text());
}

static float saved_fill(const char *path, int64_t *step)
{
    CLT_SCOPED(clt_checkpoint) *c = NULL;
    if (clt_checkpoint_open(path, &c) != CLT_OK)
        fail_msg("%s", clt_error_text());
    float values[600];
    assert_ok(clt_named_tensor_to_f32(clt_safetensors_find(c->model, "fc.weight"), values));
    if (step)
        *step = c->step;
    return values[0];
}

/* Names in the checkpoints folder, sorted, separated by spaces. */
static const char *listing(void)
{
    static char text[1024];
    struct dirent **items = NULL;
    int n = scandir(folder, &items, NULL, alphasort);
    text[0] = '\0';
    for (int i = 0; i < n; i++) {
        size_t used = strlen(text);
        if (items[i]->d_name[0] != '.')
            (void)snprintf(text + used, sizeof text - used, "%s%s", used ? " " : "", items[i]->d_name);
        free(items[i]);
    }
    free(items);
    return text;
}

static char *slurp(const char *name, size_t *size)
{
    char path[256], *data = NULL;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_ok(clt_file_read(path, false, 0, CLT_EDATA, &data, size));
    return data;
}

static void spill(const char *name, const void *data, size_t size)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, size), (ssize_t)size);
    assert_int_equal(close(fd), 0);
}

static void make_stale(const char *name)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_ok(clt_mkdir_p(path));
    (void)snprintf(path, sizeof path, "%s/model.safetensors", name);
    spill(path, "half", 4);
}

static const char *const files[] = {"model.safetensors", "optimizer.safetensors", "state.json",
                                    "manifest.json"};

/* --- saving and opening --- */

TEST(round_trip)
{
    assert_false(clt_checkpoint_exists(folder));
    must_save(7, 3.0F, 0);
    assert_string_equal(listing(), "step_7");
    char run[96], step[160], with_slash[160];
    (void)snprintf(run, sizeof run, "%s/run", root);
    (void)snprintf(step, sizeof step, "%s/step_7", folder);
    (void)snprintf(with_slash, sizeof with_slash, "%s/", folder);
    assert_true(clt_checkpoint_exists(run) && clt_checkpoint_exists(folder));
    const char *const ways[] = {run, folder, with_slash, step};
    for (size_t i = 0; i < 4; i++) {
        CLT_SCOPED(clt_checkpoint) *c = NULL;
        assert_ok(clt_checkpoint_open(ways[i], &c));
        assert_string_equal(c->path, step);
        assert_int_equal(c->step, 7);
        assert_int_equal(clt_safetensors_count(c->model), 2);
        assert_memory_equal(clt_safetensors_find(c->model, "fc.weight")->data, weight, sizeof weight);
        assert_memory_equal(clt_safetensors_find(c->model, "fc.bias")->data, bias, sizeof bias);
        assert_memory_equal(clt_safetensors_find(c->optimizer, "fc.weight.m")->data, moment, sizeof moment);
        int64_t update = 0;
        assert_true(clt_json_int(clt_json_get(clt_json_root(c->state), "update"), &update) && update == 6);
        const clt_json *manifest = clt_json_root(c->manifest);
        assert_string_equal(clt_json_string(clt_json_get(manifest, "cltrain_version")), CLT_VERSION);
        char digest[CLT_HASH64_TEXT];
        clt_hash64_text(clt_hash64("{\"model\": \"mlp\"}", 16), digest);
        assert_string_equal(clt_json_string(clt_json_get(manifest, "config_xxh64")), digest);
        assert_int_equal(clt_json_count(clt_json_get(manifest, "files")), 3);
    }
    clt_checkpoint_close(NULL);
}

TEST(without_optimizer)
{
    clt_checkpoint_content content = content_of(1, 1.0F);
    content.n_optimizer = 0;
    assert_ok(save_checkpoint(folder, &content, 0));
    CLT_SCOPED(clt_checkpoint) *c = NULL;
    assert_ok(clt_checkpoint_open(folder, &c));
    assert_null(c->optimizer);
}

TEST(equal_content_gives_equal_files)
{
    char *first[4], name[64];
    size_t size[4], again = 0;
    must_save(5, 2.0F, 0);
    for (int i = 0; i < 4; i++) {
        (void)snprintf(name, sizeof name, "step_5/%s", files[i]);
        first[i] = slurp(name, &size[i]);
        assert_null(strstr(i < 2 ? first[i] + 8 : first[i], root)); /* no file contains a path */
    }
    must_save(5, 2.0F, 0); /* replaces the first */
    assert_string_equal(listing(), "step_5");
    must_save(6, 2.0F, 0);
    for (int i = 0; i < 4; i++) {
        (void)snprintf(name, sizeof name, "step_5/%s", files[i]);
        CLT_FREED char *data = slurp(name, &again);
        assert_int_equal(again, size[i]);
        assert_memory_equal(data, first[i], again);
    }
    char *other = slurp("step_6/model.safetensors", &again); /* nor does it contain the step */
    assert_int_equal(again, size[0]);
    assert_memory_equal(other, first[0], again);
    free(other);
    for (int i = 0; i < 4; i++)
        free(first[i]);
}

TEST(replaces_a_step_with_other_content)
{
    for (int way = 0; way < 2; way++) {
        fault.no_exchange = way == 1; /* some file systems cannot exchange two names */
        must_save(4, 1.0F, 0);
        must_save(4, 2.0F, 0);
        assert_string_equal(listing(), "step_4");
        assert_true(saved_fill(folder, NULL) == 2.0F);
    }
}

TEST(a_nan_is_refused_by_name)
{
    must_save(1, 1.0F, 0);
    clt_checkpoint_content content = content_of(2, 1.0F);
    bias[3] = NAN;
    assert_int_equal(save_checkpoint(folder, &content, 1), CLT_ENUMERIC);
    assert_text_has("\"fc.bias\" holds a NaN at element 3");
    assert_text_has("step 2");
    content = content_of(2, 1.0F);
    moment[599] = INFINITY;
    assert_int_equal(save_checkpoint(folder, &content, 1), CLT_ENUMERIC);
    assert_text_has("\"fc.weight.m\" holds an infinity");
    assert_string_equal(listing(), "step_1");
}

TEST(keep_deletes_the_oldest)
{
    must_save(9, 1.0F, 0);
    must_save(10, 1.0F, 0);
    must_save(100, 1.0F, 0);
    must_save(101, 1.0F, 3);
    assert_string_equal(listing(), "step_10 step_100 step_101");
    must_save(102, 1.0F, 1);
    assert_string_equal(listing(), "step_102");
    /* A run that went back to an earlier step must not delete the checkpoint it has just written. */
    must_save(50, 5.0F, 1);
    assert_string_equal(listing(), "step_50");
    must_save(60, 6.0F, 2);
    assert_string_equal(listing(), "step_50 step_60");
}

static void saved_and_kept(int64_t step, const clt_retention *r, bool exceeds, const char *left)
{
    must_save(step, 1.0F, 0);
    if (clt_checkpoint_exceeds(folder, step, r) != exceeds)
        fail_msg("step %d: exceeds is not %d", (int)step, exceeds);
    clt_checkpoint_retain(folder, step, r, true);
    assert_string_equal(listing(), left);
}

/* If checkpoints are kept for another reason than their age, nothing is deleted, so nothing is read back. */
TEST(major_and_best_take_no_room)
{
    const clt_retention r = {.keep = 2, .major = 100, .best = 7};
    saved_and_kept(7, &r, false, "step_7");
    saved_and_kept(100, &r, false, "step_100 step_7");
    saved_and_kept(101, &r, false, "step_100 step_101 step_7");
    saved_and_kept(102, &r, false, "step_100 step_101 step_102 step_7");
    saved_and_kept(103, &r, true, "step_100 step_102 step_103 step_7");
    const clt_retention all = {.keep = 0, .best = -1}, one = {.keep = 1, .best = -1};
    saved_and_kept(104, &all, false, "step_100 step_102 step_103 step_104 step_7");
    saved_and_kept(105, &one, true, "step_105");
}

TEST(stale_folders_are_removed)
{
    must_save(3, 3.0F, 0);
    make_stale("step_8.tmp-12345");
    make_stale("step_3.old-12345");
    make_stale("step_9.tmp"); /* not made by cltrain: stays */
    make_stale("my.tmp-1");
    int64_t step = 0;
    assert_true(saved_fill(folder, &step) == 3.0F &&
                step == 3); /* and they are never taken for checkpoints */
    must_save(4, 4.0F, 0);
    assert_string_equal(listing(), "my.tmp-1 step_3 step_4 step_9.tmp");

    /* Killed between the two renames of a replacement: the old one comes back. */
    char from[160], to[160];
    (void)snprintf(from, sizeof from, "%s/step_4", folder);
    (void)snprintf(to, sizeof to, "%s/step_4.old-77", folder);
    assert_int_equal(rename(from, to), 0);
    must_save(5, 5.0F, 0);
    assert_string_equal(listing(), "my.tmp-1 step_3 step_4 step_5 step_9.tmp");
    assert_true(saved_fill(from, NULL) == 4.0F);
}

/* --- damage --- */

static void expect_damage(const char *what, size_t where)
{
    clt_checkpoint *c = NULL;
    if (clt_checkpoint_open(folder, &c) != CLT_ECHECKPOINT)
        fail_msg("not found: %s at %zu", what, where);
    assert_null(c);
}

static uint32_t draw(uint32_t round, uint32_t index)
{
    return clt_rng_u32(3, CLT_RNG_VERIFY, 0, round, index);
}

/* Damages step_2's file in one of eight ways; *size is its size afterwards. Returns a description. */
static const char *damage(char *data, size_t *size, uint32_t round, size_t *where)
{
    *where = draw(round, 0) % *size;
    switch (draw(round, 1) % 8) {
    case 0: /* cut off anywhere */
        *size = *where;
        return "truncation";
    case 1: { /* a sector that was never written */
        size_t end = *where + 512 < *size ? *where + 512 : *size;
        bool changes = false;
        for (size_t i = *where; i < end; i++) {
            changes |= data[i] != 0;
            data[i] = 0;
        }
        if (changes)
            return "zeros";
        data[*where] = 1;
        return "a one";
    }
    default:
        data[*where] = (char)(data[*where] ^ (1 << (draw(round, 2) % 8)));
        return "bit flip";
    }
}

/* The damaged newest checkpoint is refused by name, and the one before it is opened. */
static void expect_fallback(const char *file, const char *what, size_t where, uint32_t round)
{
    clt_checkpoint *c = NULL;
    char path[160];
    (void)snprintf(path, sizeof path, "%s/step_2", folder);
    if (clt_checkpoint_open(path, &c) != CLT_ECHECKPOINT || c)
        fail_msg("round %u: not found: %s of %s at %zu", round, what, file, where);
    assert_text_has("step_2");
    log_text[0] = '\0';
    int64_t step = 0;
    assert_true(saved_fill(folder, &step) == 1.0F);
    assert_int_equal(step, 1);
    assert_non_null(strstr(log_text, "step_2 is skipped"));
}

static uint32_t damage_rounds = 200; /* or argv[1] */

TEST(random_damage_is_found_and_passed_over)
{
    must_save(1, 1.0F, 0);
    must_save(2, 2.0F, 0);
    for (uint32_t round = 0; round < damage_rounds; round++) {
        const char *file = files[round % 4];
        char name[64];
        size_t size = 0, where;
        (void)snprintf(name, sizeof name, "step_2/%s", file);
        CLT_FREED char *data = slurp(name, &size);
        CLT_FREED char *damaged = malloc(size);
        assert_non_null(damaged);
        memcpy(damaged, data, size);
        size_t left = size;
        const char *what = damage(damaged, &left, round, &where);
        spill(name, damaged, left);
        expect_fallback(file, what, where, round);
        spill(name, data, size);
    }
    assert_true(saved_fill(folder, NULL) == 2.0F); /* repaired: only the damage was refused */
}

/* Files of the same name and size from another checkpoint, and two files of one checkpoint exchanged. */
TEST(swapped_files_are_found)
{
    must_save(1, 1.0F, 0);
    must_save(2, 2.0F, 0);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 5; k++) {
            char to[64], from[64];
            size_t size, other_size;
            if (k == i || (k == 4 && i == 2)) /* state.json is the same in both */
                continue;
            (void)snprintf(to, sizeof to, "step_2/%s", files[i]);
            (void)snprintf(from, sizeof from, "step_%d/%s", k < 4 ? 2 : 1, files[k < 4 ? k : i]);
            char *data = slurp(to, &size), *other = slurp(from, &other_size);
            spill(to, other, other_size);
            expect_fallback(to, from, 0, 0);
            spill(to, data, size);
            free(data);
            free(other);
        }
    assert_true(saved_fill(folder, NULL) == 2.0F);
}

TEST(every_truncation_is_found)
{
    must_save(1, 1.0F, 0);
    for (int i = 0; i < 4; i++) {
        char name[64];
        size_t size = 0;
        (void)snprintf(name, sizeof name, "step_1/%s", files[i]);
        CLT_FREED char *data = slurp(name, &size);
        const size_t lengths[] = {0, 1, 7, 8, size / 2, size - 2, size - 1};
        for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
            spill(name, data, lengths[k]);
            expect_damage(files[i], lengths[k]);
        }
        char path[160];
        (void)snprintf(path, sizeof path, "%s/%s", folder, name);
        assert_int_equal(unlink(path), 0);
        expect_damage(files[i], 0);
        spill(name, data, size);
    }
    assert_true(saved_fill(folder, NULL) == 1.0F);
}

TEST(a_damaged_one_is_passed_over_with_its_reason)
{
    must_save(1, 1.0F, 0);
    must_save(2, 2.0F, 0);
    must_save(3, 3.0F, 0);
    spill("step_3/model.safetensors", "x", 1);
    char path[160];
    (void)snprintf(path, sizeof path, "%s/step_2/manifest.json", folder);
    assert_int_equal(unlink(path), 0);
    int64_t step = 0;
    assert_true(saved_fill(folder, &step) == 1.0F && step == 1);
    assert_non_null(strstr(log_text, "step_3 is skipped"));
    assert_non_null(strstr(log_text, "has 1 bytes, its manifest says"));
    assert_non_null(strstr(log_text, "step_2 is skipped"));
    assert_non_null(strstr(log_text, "not a complete checkpoint"));

    /* A bad checkpoint that was named is an error, and no other one is taken instead. */
    clt_checkpoint *c = NULL;
    (void)snprintf(path, sizeof path, "%s/step_3", folder);
    assert_int_equal(clt_checkpoint_open(path, &c), CLT_ECHECKPOINT);
    (void)snprintf(path, sizeof path, "%s/step_2", folder);
    assert_int_equal(clt_checkpoint_open(path, &c), CLT_ECHECKPOINT);
    assert_text_has("manifest.json");

    spill("step_1/state.json", "{}", 2);
    assert_int_equal(clt_checkpoint_open(folder, &c), CLT_ECHECKPOINT);
    assert_text_has("none of the 3 checkpoints");
    assert_text_has("state.json");
}

TEST(nothing_to_open_is_said)
{
    clt_checkpoint *c = NULL;
    assert_int_equal(clt_checkpoint_open(folder, &c), CLT_ECHECKPOINT);
    assert_text_has("no such folder");
    assert_int_equal(clt_checkpoint_open(root, &c), CLT_ECHECKPOINT);
    assert_text_has("holds none");
    assert_false(clt_checkpoint_exists(root));
    assert_false(clt_checkpoint_exists("/nonexistent"));
}

/* If the folder counted as empty, a resumed run would start again from the beginning. */
TEST(a_folder_that_cannot_be_listed_is_not_empty)
{
    must_save(1, 1.0F, 0);
    clt_checkpoint *c = NULL;
    struct rlimit limit, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    bool exists = clt_checkpoint_exists(folder);
    clt_status status = clt_checkpoint_open(folder, &c);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_true(exists);
    assert_int_equal(status, CLT_ESTORAGE);
    assert_text_has("listing the folder");
}

/* A complete manifest with false statements about its files: its hash only proves that it was not changed. */
TEST(a_manifest_cannot_point_outside)
{
    must_save(1, 1.0F, 0);
    static const char *const bodies[] = {
        "{\"format\": \"cltrain-checkpoint\", \"format_version\": 1, \"step\": 1, \"config_xxh64\": "
        "\"0123456789abcdef\", "
        "\"files\": [{\"name\": \"../step_1/state.json\", \"bytes\": 1, \"xxh64\": \"0123456789abcdef\"}]",
        "{\"format\": \"cltrain-checkpoint\", \"format_version\": 3, \"step\": 1",
        "{\"format\": \"something else\", \"format_version\": 1",
        "{\"format\": \"cltrain-checkpoint\", \"format_version\": 1, \"step\": 1, \"config_xxh64\": "
        "\"0123456789abcdef\", "
        "\"files\": []"};
    static const char *const messages[] = {"plain \"name\"", "use a newer cltrain", "not a cltrain manifest",
                                           "does not list"};
    for (int i = 0; i < 4; i++) {
        char text[1024], hash[CLT_HASH64_TEXT];
        (void)snprintf(text, sizeof text, "%s,\n  \"manifest_xxh64\": \"%s\"\n}\n", bodies[i],
                       clt_hash64_text(clt_hash64(bodies[i], strlen(bodies[i])), hash));
        spill("step_1/manifest.json", text, strlen(text));
        expect_damage("manifest", (size_t)i);
        assert_text_has(messages[i]);
    }
}

/* --- failing storage --- */

TEST(too_little_space_is_found_before_writing)
{
    must_save(1, 1.0F, 0);
    fault.free_bytes = 20 * 30 * 4; /* less than the tensors */
    assert_int_equal(save(2, 2.0F, 1), CLT_ESTORAGE);
    assert_text_has("not enough disk space");
    assert_text_has(" 2 KiB are free");
    assert_text_has(folder);
    assert_string_equal(listing(), "step_1");
    clt_checkpoint_content large = content_of(2, 2.0F);
    const clt_checkpoint_file file = {"large", "", 3U << 20};
    large.files = &file;
    large.n_files = 1;
    assert_int_equal(save_checkpoint(folder, &large, 1), CLT_ESTORAGE);
    assert_text_has("needs 4 MiB");
    assert_text_has(" 2 KiB are free"); /* each figure in its own unit */
    fault.free_bytes = 200000000;
    must_save(2, 2.0F, 1);
}

TEST(an_unwritable_folder_is_said)
{
    char path[96];
    (void)snprintf(path, sizeof path, "%s/file", root);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    (void)snprintf(folder, sizeof folder, "%s/file/checkpoints", root);
    assert_int_equal(save(1, 1.0F, 0), CLT_ESTORAGE);
    assert_text_has(path);
    if (geteuid() != 0) { /* root may write anywhere */
        (void)snprintf(folder, sizeof folder, "%s/closed", root);
        assert_int_equal(mkdir(folder, 0500), 0);
        assert_int_equal(save(1, 1.0F, 0), CLT_ESTORAGE);
        assert_text_has("ermission");
    }
}

TEST(a_file_size_limit_leaves_the_old_one)
{
    must_save(1, 1.0F, 0);
    struct rlimit limit, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    void (*previous)(int) = signal(SIGXFSZ, SIG_IGN);
    small = limit;
    for (rlim_t bytes = 0; bytes <= 2048; bytes += 512) {
        small.rlim_cur = bytes;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        clt_status status = save(2, 2.0F, 1);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        assert_int_equal(status, CLT_ESTORAGE);
        assert_text_has("model.safetensors");
        assert_string_equal(listing(), "step_1");
    }
    signal(SIGXFSZ, previous);
    assert_true(saved_fill(folder, NULL) == 1.0F);
    must_save(2, 2.0F, 1);
    assert_string_equal(listing(), "step_2");
}

/* Fails the n-th system call of a save for n = 1, 2, ... until a save succeeds. `next` is the step that is
 * saved over an existing step 1: another step, or step 1 itself. Returns how many calls failed a save. */
static int fail_each_call(int64_t next, bool no_exchange)
{
    int failures = 0;
    for (int n = 1; n < 200; n++) {
        memset(&fault, 0, sizeof fault);
        assert_ok(clt_remove_tree(folder));
        must_save(1, 1.0F, 0);
        fault.no_exchange = no_exchange;
        fault.at = n;
        clt_status status = save(next, 2.0F, 1);
        const bool reached = fault.count >= n;
        fault.at = 0;
        assert_true(status == CLT_OK || status == CLT_ESTORAGE);
        if (status != CLT_OK)
            assert_text_has("saving the checkpoint of step");
        failures += status != CLT_OK;
        float fill = saved_fill(folder, NULL);
        assert_true(fill == 2.0F || (fill == 1.0F && status != CLT_OK));
        must_save(9, 9.0F, 1); /* the next save works and tidies up */
        assert_string_equal(listing(), "step_9");
        if (!reached)
            return failures;
    }
    fail_msg("a save makes more than 200 calls");
    return 0;
}

TEST(any_failing_call_leaves_complete_checkpoints)
{
    assert_in_range(fail_each_call(2, false), 15, 100);
    assert_in_range(fail_each_call(1, false), 15, 100);
    assert_in_range(fail_each_call(1, true), 15, 100);
}

/* As above, but the process dies at the n-th call, as in a power failure that loses no writes. Returns how
 * many processes died. */
static int kill_at_each_call(int64_t next, bool no_exchange)
{
    for (int n = 1; n < 200; n++) {
        memset(&fault, 0, sizeof fault);
        assert_ok(clt_remove_tree(folder));
        must_save(1, 1.0F, 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            fault.no_exchange = no_exchange;
            fault.kill = true;
            fault.at = n;
            _exit(save(next, 2.0F, 1) == CLT_OK ? 0 : 1);
        }
        int result = 0;
        assert_int_equal(waitpid(child, &result, 0), child);
        assert_true(WIFEXITED(result) && (WEXITSTATUS(result) == 0 || WEXITSTATUS(result) == 99));
        /* With two renames there is a moment without step_1; tidying gives it its name back. */
        if (no_exchange)
            clt_checkpoint_tidy(folder);
        (void)saved_fill(folder, NULL);
        must_save(9, 9.0F, 2);
        assert_true(strncmp(listing(), "step_1 step_9", 13) == 0 || strcmp(listing(), "step_2 step_9") == 0);
        if (WEXITSTATUS(result) == 0)
            return n - 1;
    }
    fail_msg("a save makes more than 200 calls");
    return 0;
}

TEST(a_kill_at_any_call_leaves_complete_checkpoints)
{
    assert_in_range(kill_at_each_call(2, false), 15, 100);
    assert_in_range(kill_at_each_call(1, false), 15, 100);
    assert_in_range(kill_at_each_call(1, true), 15, 100);
}

static void repeat_damage(int argc, char **argv)
{
    if (argc > 1) { /* a number of rounds: only the random damage, at length */
        damage_rounds = (uint32_t)strtoul(argv[1], NULL, 10);
        cmocka_set_test_filter("random_damage_*");
    }
}

TEST_PROGRAM(.begin = repeat_damage, .before = set_up, .after = tear_down);
