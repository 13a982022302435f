/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 *
 * Checkpoints that several processes write together have the same bytes as one from a single process,
 * whatever the parts; missing parts are found. Also the checksum of files in parts, and checkpoints of the
 * older format. */
#include "tests/unit/test.h"

#include <math.h>

#include "engine/base/log.h"
#include "engine/base/rng.h"
#include "engine/checkpoint/checkpoint_internal.h"
#include "engine/files/crc64.h"
#include "engine/files/remote_files.h"
#include "tests/unit/train/checkpoint_save.h"

static char folder[64];

FIXTURE(set_up)
{
    clt_log_set_sink(NULL, NULL, CLT_LOG_ERROR);
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(folder, sizeof folder, "%s/cltrain-test-parts-XXXXXX", base);
    return mkdtemp(folder) ? 0 : -1;
}

FIXTURE(tear_down)
{
    return clt_remove_tree(folder) == CLT_OK ? 0 : -1;
}

static uint32_t draw(uint32_t round, uint32_t index, uint32_t below)
{
    return clt_rng_u32(2, CLT_RNG_VERIFY, 0, round, index) % below;
}

/* --- checksum --- */

TEST(crc_has_the_published_value)
{
    assert_true(clt_crc64("", 0) == 0);
    assert_true(clt_crc64("123456789", 9) == 0x995dc9bbdf1939faULL);
}

/* The remainder, computed bit by bit. */
static uint64_t slow_crc(const uint8_t *data, size_t size)
{
    uint64_t value = ~0ULL;
    for (size_t i = 0; i < size; i++) {
        value ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            value = value & 1 ? (value >> 1) ^ 0xC96C5795D7870F42ULL : value >> 1;
    }
    return ~value;
}

TEST(crc_of_parts_is_that_of_the_whole)
{
    static uint8_t data[2000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)draw(0, (uint32_t)i, 256);
    for (uint32_t round = 1; round < 600; round++) {
        size_t at = draw(round, 0, 17), size = round < 300 ? round : draw(round, 1, sizeof data - 16);
        size_t first = draw(round, 2, (uint32_t)size + 1),
               second = draw(round, 3, (uint32_t)(size - first) + 1);
        const uint8_t *bytes = data + at;
        uint64_t whole = clt_crc64(bytes, size), shares;
        assert_true(whole == slow_crc(bytes, size));
        shares = clt_crc64_part(bytes + first + second, size - first - second);
        shares ^= clt_crc64_move(clt_crc64_part(bytes, first), size - first);
        shares ^=
            clt_crc64_times(clt_crc64_part(bytes + first, second), clt_crc64_step(size - first - second));
        assert_true(clt_crc64_whole(shares, size) == whole);
    }
}

/* --- parts --- */

enum { MODEL = 3, OPTIMIZER = 2, TENSORS = MODEL + OPTIMIZER };

/* The tensors; those with `transposed` have their last two dimensions swapped in memory. */
typedef struct net {
    clt_named_tensor tensors[TENSORS];
    bool transposed[TENSORS];
    float *file[TENSORS], *memory[TENSORS];
    clt_checkpoint_content content;
} net;

static void make_net(net *n, int64_t step)
{
    static const char *const names[] = {"a", "stack", "b", "a.moment1", "long"};
    const clt_shape shapes[] = {clt_shape2(37, 53), clt_shape3(3, 19, 23), clt_shape1(41), clt_shape2(37, 53),
                                clt_shape2(2, 300000)};
    memset(n, 0, sizeof *n);
    for (int t = 0; t < TENSORS; t++) {
        int64_t all = clt_shape_elements(&shapes[t]), columns = clt_shape_last(&shapes[t]),
                rows = shapes[t].ndim > 1 ? shapes[t].dim[shapes[t].ndim - 2] : 1;
        n->file[t] = calloc((size_t)all, sizeof(float));
        n->memory[t] = calloc((size_t)all, sizeof(float));
        n->transposed[t] = t != 2;
        assert_true(n->file[t] && n->memory[t]);
        for (int64_t i = 0; i < all; i++) {
            int64_t in = i % (rows * columns), swapped = i - in + in % columns * rows + in / columns;
            n->file[t][i] = (float)(i * 7 + t);
            n->memory[t][n->transposed[t] ? swapped : i] = n->file[t][i];
        }
        n->tensors[t] = (clt_named_tensor){names[t], CLT_F32, shapes[t], NULL};
    }
    n->content = (clt_checkpoint_content){.step = step,
                                          .model = n->tensors,
                                          .n_model = MODEL,
                                          .optimizer = n->tensors + MODEL,
                                          .n_optimizer = OPTIMIZER,
                                          .state_json = "{\"step\": 7}\n",
                                          .config_json = "{}"};
}

static void free_net(net *n)
{
    for (int t = 0; t < TENSORS; t++) {
        free(n->file[t]);
        free(n->memory[t]);
    }
}

static char *read_of_step(int64_t step, const char *name, size_t *size)
{
    char path[160], *data = NULL;
    (void)snprintf(path, sizeof path, "%s/step_%lld/%s", folder, (long long)step, name);
    assert_ok(clt_file_read(path, false, 0, CLT_EDATA, &data, size));
    return data;
}

/* A save by one process, from the tensors in the order of files. */
static void save_whole(net *n)
{
    for (int t = 0; t < TENSORS; t++)
        n->tensors[t].data = n->file[t];
    assert_ok(save_checkpoint(folder, &n->content, 0));
    for (int t = 0; t < TENSORS; t++)
        n->tensors[t].data = NULL;
}

/* Cuts every tensor at random places and deals the pieces out to `writers`. skip: leaves out that piece.
 * *all: what begin wrote. */
static void write_parts(const net *n, uint32_t round, int writers, int skip, clt_part *all)
{
    enum { CUTS = 4 };
    clt_tensor_piece piece[TENSORS * CUTS];
    int owner[TENSORS * CUTS], count = 0;
    for (int t = 0; t < TENSORS; t++) {
        uint64_t size = (uint64_t)clt_shape_elements(&n->tensors[t].shape), at = 0;
        for (int c = 0; c < CUTS; c++) {
            uint64_t left = size - at,
                     take = c == CUTS - 1 ? left : draw(round, (uint32_t)count, (uint32_t)left + 1);
            piece[count] = (clt_tensor_piece){.tensor = t,
                                              .first = at,
                                              .count = take,
                                              .transposed = n->transposed[t],
                                              .data = n->memory[t] + at};
            owner[count] = (int)draw(round, 1000 + (uint32_t)count, (uint32_t)writers);
            count++;
            at += take;
        }
    }
    for (int w = writers; w-- > 0;) { /* in any order */
        clt_tensor_piece own[TENSORS * CUTS];
        clt_part part = {0};
        int of = 0;
        for (int i = 0; i < count; i++)
            if (owner[i] == w && i != skip)
                own[of++] = piece[i];
        assert_ok(clt_checkpoint_write_part(folder, "tag-1", &n->content, own, of, &part));
        clt_part_add(all, &part);
    }
}

TEST_BETWEEN(parts_make_the_same_files, set_up, tear_down)
{
    static const char *const names[] = {"model.safetensors", "optimizer.safetensors", "manifest.json"};
    for (uint32_t round = 1; round <= 12; round++) {
        net n;
        char *want[3];
        size_t size[3], again;
        clt_part all, back = {0};
        clt_checkpoint *c;
        make_net(&n, 7);
        save_whole(&n);
        for (int k = 0; k < 3; k++)
            want[k] = read_of_step(7, names[k], &size[k]);
        assert_ok(clt_checkpoint_begin(folder, "tag-1", &n.content, &all));
        write_parts(&n, round, 1 + (int)round % 4, -1, &all);
        assert_ok(clt_checkpoint_place(folder, "tag-1", &n.content, &all));
        for (int k = 0; k < 3; k++) {
            char *got = read_of_step(7, names[k], &again);
            assert_int_equal(again, size[k]);
            assert_memory_equal(got, want[k], again);
            free(got);
            free(want[k]);
        }
        for (int k = 0; k < 3; k++) {
            clt_part part;
            assert_ok(clt_checkpoint_read_part(folder, &n.content, k, 3, &part));
            clt_part_add(&back, &part);
        }
        assert_memory_equal(&back, &all, sizeof all);
        assert_ok(clt_checkpoint_open(folder, &c));
        clt_checkpoint_close(c);
        assert_ok(clt_remove_tree(folder));
        free_net(&n);
    }
    assert_ok(clt_mkdir_p(folder));
}

TEST_BETWEEN(a_missing_part_is_found, set_up, tear_down)
{
    net n;
    clt_part all;
    clt_checkpoint *c;
    make_net(&n, 7);
    save_whole(&n);
    n.content.step = 8;
    assert_ok(clt_checkpoint_begin(folder, "tag-1", &n.content, &all));
    write_parts(&n, 3, 3, 4, &all);
    assert_int_equal(clt_checkpoint_place(folder, "tag-1", &n.content, &all), CLT_ESTORAGE);
    assert_non_null(strstr(clt_error_text(), "model.safetensors: has "));
    assert_ok(clt_checkpoint_open(folder, &c));
    assert_int_equal(c->step, 7);
    clt_checkpoint_close(c);
    free_net(&n);
}

TEST_BETWEEN(a_value_that_is_not_finite_is_named, set_up, tear_down)
{
    net n;
    clt_part part;
    make_net(&n, 7);
    assert_ok(clt_checkpoint_begin(folder, "tag-1", &n.content, &part));
    n.memory[1][19 * 23 + 5] = -INFINITY; /* in the second matrix: column 0, row 5 of the file */
    const clt_tensor_piece piece = {
        .tensor = 1, .first = 400, .count = 100, .transposed = true, .data = n.memory[1] + 400};
    assert_int_equal(clt_checkpoint_write_part(folder, "tag-1", &n.content, &piece, 1, &part), CLT_ENUMERIC);
    char want[80];
    (void)snprintf(want, sizeof want, "tensor \"stack\" holds an infinity at element %d of %d",
                   19 * 23 + 5 * 23, 3 * 19 * 23);
    if (!strstr(clt_error_text(), want))
        fail_msg("'%s' is not in: %s", want, clt_error_text());
    clt_checkpoint_discard(folder, "tag-1", 7);
    assert_false(clt_checkpoint_exists(folder));
    free_net(&n);
}

/* --- the older format --- */

TEST_BETWEEN(the_first_version_is_still_read, set_up, tear_down)
{
    net n;
    clt_manifest manifest;
    clt_checkpoint *c;
    clt_str text = {0};
    char path[160];
    make_net(&n, 7);
    save_whole(&n);
    (void)snprintf(path, sizeof path, "%s/step_7", folder);
    assert_ok(clt_manifest_read(path, &manifest, NULL));
    assert_int_equal(manifest.version, 2);
    manifest.version = 1;
    for (int i = 0; i < manifest.n_files; i++) {
        size_t size;
        CLT_FREED char *data = read_of_step(7, manifest.files[i].name, &size);
        manifest.files[i].sum = clt_hash64(data, size);
    }
    assert_ok(clt_manifest_print(&manifest, &text));
    assert_non_null(strstr(text.text, "\"xxh64\""));
    (void)snprintf(path, sizeof path, "%s/step_7/manifest.json", folder);
    assert_ok(clt_file_write(path, text.text, text.length));
    assert_ok(clt_checkpoint_open(folder, &c));
    clt_checkpoint_close(c);
    /* its hashes are checked */
    manifest.files[1].sum ^= 1;
    text.length = 0;
    assert_ok(clt_manifest_print(&manifest, &text));
    assert_ok(clt_file_write(path, text.text, text.length));
    assert_int_equal(clt_checkpoint_open(folder, &c), CLT_ECHECKPOINT);
    clt_str_free(&text);
    free_net(&n);
}

/* --- a manifest that a server does not give --- */

static clt_status listing;

static bool stat_nothing(const char *path, struct stat *out)
{
    (void)path;
    (void)out;
    return false;
}

static clt_status list_nothing(const char *path, struct clt_file_list *out)
{
    (void)out;
    CLT_FAIL(listing, "%s: the reason", path);
}

TEST(a_refused_manifest_is_not_a_missing_one)
{
    static const clt_remote_files none = {.stat = stat_nothing, .names = list_nothing};
    clt_remote_files_use(&none);
    listing = CLT_ESTORAGE;
    assert_int_equal(clt_checkpoint_verify("s3://bucket/step_7"), CLT_ESTORAGE);
    assert_string_equal(clt_error_text(), "s3://bucket/step_7/manifest.json: the reason");
    listing = CLT_EDATA; /* no such file */
    assert_int_equal(clt_checkpoint_verify("s3://bucket/step_7"), CLT_ECHECKPOINT);
    assert_non_null(strstr(clt_error_text(), "s3://bucket/step_7: has no manifest.json"));
    clt_remote_files_use(NULL);
}
