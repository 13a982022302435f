/* SPDX-License-Identifier: Apache-2.0 ctest-labels: quick
 *
 * Volumes as data: folders with masks and with classes, patches and windows, augmentation as a pure
 * function, the cache under several threads, bad files. */
#include "tests/unit/data/data_test.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "engine/base/rng.h"
#include "engine/data/facts/data_facts.h"
#include "engine/data/volumes/volume_set.h"
#include "engine/data/volumes/volumes.h"

#define MOST 40000

/* A volume whose voxel number i is `first` + i % 1000, or, as a mask, `value` in the box [low, high) along
 * each axis. */
static void put_volume(const char *name, int64_t d, int64_t h, int64_t w, int first)
{
    static int16_t data[MOST];
    const clt_nifti_image image = {.element = CLT_EL_I16, .ndim = 3, .dim = {w, h, d}, .data = data};
    assert_true(d * h * w <= MOST);
    for (int64_t i = 0; i < d * h * w; i++)
        data[i] = (int16_t)(first + i % 1000);
    assert_ok(clt_nifti_write(in_dir(name), &image));
}

static void put_mask(const char *name, int64_t d, int64_t h, int64_t w, int64_t low, int64_t high, int value)
{
    static uint8_t data[MOST];
    const clt_nifti_image image = {.element = CLT_EL_U8, .ndim = 3, .dim = {w, h, d}, .data = data};
    for (int64_t i = 0; i < d * h * w; i++) {
        int64_t x = i % w, y = i / w % h, z = i / w / h;
        bool inside = x >= low && x < high && y >= low && y < high && z >= low && z < high;
        data[i] = inside ? (uint8_t)value : 0;
    }
    assert_ok(clt_nifti_write(in_dir(name), &image));
}

static void folder(const char *name)
{
    assert_ok(clt_mkdir_p(in_dir(name)));
}

static void clear(void)
{
    assert_ok(clt_remove_tree(test_folder()));
    assert_ok(clt_mkdir_p(test_folder()));
}

/* Three volumes of different sizes with masks of class 1 and 2. */
static void put_masked(void)
{
    clear();
    folder("images");
    folder("masks");
    put_volume("images/a.nii.gz", 10, 12, 14, 0);
    put_mask("masks/a.nii", 10, 12, 14, 2, 5, 1);
    put_volume("images/b.nii", 10, 10, 10, 100);
    put_mask("masks/b.nii.gz", 10, 10, 10, 6, 9, 2);
    put_volume("images/c.nii.gz", 6, 20, 9, -50);
    put_mask("masks/c.nii.gz", 6, 20, 9, 0, 0, 0); /* no foreground */
    put_file("images/._a.nii.gz", "left over by an archive", 23);
    put_file("images/readme.txt", "no volume", 9);
}

/* --- folders --- */

TEST(test_whole_volumes)
{
    float x[6 * 6 * 6], raw[1];
    uint8_t y[6 * 6 * 6];
    put_masked();
    clt_source *s = must_open(
        "\"type\":\"nifti\",\"path\":\"%D\",\"volume\":[6],\"split\":0,\"flip_axes\":[]", CLT_SPLIT_TRAIN);
    assert_int_equal(s->samples, 3);
    assert_int_equal(s->fields[0].shape.ndim, 4);
    assert_int_equal(s->fields[1].max_value, 2);
    must_read(s, 0, 0, x);
    must_read(s, 0, 1, y);
    /* cropped around the centre: 10 x 12 x 14, from 2, 3, 4 on */
    for (int64_t i = 0; i < 216; i++) {
        int64_t z = i / 36 + 2, yy = i / 6 % 6 + 3, xx = i % 6 + 4;
        raw[0] = (float)(((z * 12 + yy) * 14 + xx) % 1000);
        assert_true(x[i] == raw[0]);
        assert_int_equal(y[i], z >= 2 && z < 5 && yy >= 2 && yy < 5 && xx >= 2 && xx < 5);
    }
    clt_source_close(s);
    expect_refused("\"type\":\"nifti\",\"path\":\"%D\",\"split\":0", CLT_SPLIT_TRAIN, CLT_EDATA,
                   "b.nii' has 10 x 10 x 10 voxels|10 x 12 x 14; give data.volume");
    expect_refused("\"type\":\"nifti\",\"path\":\"%D\",\"volume\":[6,6]", CLT_SPLIT_TRAIN, CLT_ECONFIG,
                   "data.volume: |not 2 sizes");
    expect_refused("\"type\":\"nifti\",\"path\":\"%D\",\"volume\":[6],\"patch\":[4]", CLT_SPLIT_TRAIN,
                   CLT_ECONFIG, "either data.patch");
}

TEST(test_padded_and_resized)
{
    float x[16 * 16 * 16];
    put_masked();
    clt_source *s =
        must_open("\"type\":\"nifti\",\"path\":\"%D\",\"volume\":[16],\"split\":0,\"window_low\":-100,"
                  "\"window_high\":400",
                  CLT_SPLIT_TRAIN_ONCE);
    must_read(s, 1, 0, x); /* 10 x 10 x 10 begins at 3; around it is the lower end of the window */
    for (int64_t i = 0; i < 4096; i++) {
        int64_t z = i / 256 - 3, y = i / 16 % 16 - 3, xx = i % 16 - 3;
        bool inside = z >= 0 && z < 10 && y >= 0 && y < 10 && xx >= 0 && xx < 10;
        float v = inside ? (float)(100 + (z * 10 + y) * 10 + xx) : -100;
        v = v > 400 ? 400 : v;
        assert_true(fabsf(x[i] - (v + 100) / 500) < 1e-6f);
    }
    clt_source_close(s);
    s = must_open("\"type\":\"nifti\",\"path\":\"%D\",\"volume\":[8],\"volume_fit\":\"resize\",\"split\":0",
                  CLT_SPLIT_TRAIN_ONCE);
    must_read(s, 1, 0, x);
    assert_int_equal(s->fields[0].shape.dim[3], 8);
    /* voxel 0 of 8 lies at 0.5 * 10 / 8 - 0.5 = 0.125 of 10, and the volume is linear in every axis */
    assert_true(fabsf(x[0] - (100 + 0.125f * (100 + 10 + 1))) < 1e-3f);
    clt_source_close(s);
}

TEST(test_classes)
{
    int32_t y;
    clear();
    folder("train/lung");
    folder("train/bone");
    folder("eval/lung");
    put_volume("train/lung/1.nii.gz", 4, 4, 4, 0);
    put_volume("train/bone/2.nii", 4, 4, 4, 1);
    put_volume("train/bone/1.nii", 4, 4, 4, 2);
    put_volume("eval/lung/9.nii.gz", 4, 4, 4, 3);
    clt_source *s = must_open("\"type\":\"nifti\",\"path\":\"%D/train\",\"split\":0", CLT_SPLIT_TRAIN);
    assert_int_equal(s->samples, 3);
    assert_int_equal(s->n_class_names, 2);
    assert_string_equal(s->class_names[0], "bone");
    must_read(s, 2, 1, &y);
    assert_int_equal(y, 1);
    clt_source_close(s);
    s = must_open("\"type\":\"nifti\",\"path\":\"%D/train\",\"eval_path\":\"%D/eval\"", CLT_SPLIT_EVAL);
    must_read(s, 0, 1, &y); /* the training folder says that lung is class 1 */
    assert_int_equal(y, 1);
    clt_source_close(s);
    expect_refused("\"type\":\"nifti\",\"path\":\"%D/train\",\"split\":0,\"class_names\":[\"lung\"]",
                   CLT_SPLIT_TRAIN, CLT_EDATA, "bone' is not a class of the training data");
    expect_refused("\"type\":\"nifti\",\"path\":\"%D/train\",\"patch\":[2]", CLT_SPLIT_TRAIN, CLT_ECONFIG,
                   "a class belongs to a whole volume");
}

TEST(test_decathlon_and_npy)
{
    static const char header[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4, 4, 4), }";
    uint8_t npy[128 + 128 * 4] = {0};
    float x[128];
    clear();
    folder("imagesTr");
    folder("labelsTr");
    memcpy(npy, "\x93NUMPY\x01\x00\x76\x00", 10);
    memset(npy + 10, ' ', 117);
    memcpy(npy + 10, header, sizeof header - 1);
    npy[127] = '\n';
    for (int i = 0; i < 128; i++) {
        float v = (float)i;
        memcpy(npy + 128 + 4 * i, &v, 4);
    }
    put_file("imagesTr/liver_1.npy", npy, sizeof npy);
    put_mask("labelsTr/liver_1.nii.gz", 4, 4, 4, 1, 3, 1);
    CLT_SCOPED(clt_source) *s =
        must_open("\"type\":\"nifti\",\"path\":\"%D\",\"split\":0", CLT_SPLIT_TRAIN_ONCE);
    assert_int_equal(s->fields[0].shape.dim[0], 2); /* channels */
    must_read(s, 0, 0, x);
    for (int i = 0; i < 128; i++)
        assert_true(x[i] == (float)i);
}

/* A run that has begun continues with labels that a new run would be refused for. */
static void goes_on_without_names(const char *text)
{
    static const clt_data_facts begun;
    const clt_source_with with = {.facts = &begun};
    clt_config *config = data_config(text);
    clt_source *s = NULL;
    assert_int_equal(clt_source_open_with(config, CLT_SPLIT_TRAIN, &with, &s), CLT_OK);
    assert_int_equal(s->n_class_names, 0);
    clt_source_close(s);
    clt_config_destroy(config);
}

/* dataset.json names the classes of masks, in the form of nnU-Net or of the Decathlon. */
TEST(test_labels)
{
    static const char source[] = "\"type\":\"nifti\",\"path\":\"%D\",\"volume\":[6],\"split\":0";
    static const char *const good[] = {
        "{\"labels\": {\"background\": 0, \"tumour\": 2, \"liver\": 1}}",
        "{\"name\": \"Task03\", \"labels\": {\"0\": \"background\", \"1\": \"liver\", \"2\": \"tumour\"}}",
        "{\"labels\": {\"background\": 0, \"liver\": 1, \"tumour\": 2, \"vessel\": 3}}"};
    static const char *const none[] = {"{\"name\": \"x\"}", "[1]", "{\"labels\": [\"a\", \"b\"]}",
                                       "{\"labels\": {\"background\": 0, \"whole\": [1, 2], \"core\": 2}}",
                                       "{\"labels\": {\"a\": 0.5}}"};
    put_masked();
    for (int i = 0; i < 3; i++) {
        put_file("dataset.json", good[i], strlen(good[i]));
        CLT_SCOPED(clt_source) *s = must_open(source, CLT_SPLIT_TRAIN);
        assert_int_equal(s->n_class_names, 3);
        assert_string_equal(s->class_names[0], "background");
        assert_string_equal(s->class_names[1], "liver");
        assert_string_equal(s->class_names[2], "tumour");
    }
    for (int i = 0; i < 5; i++) {
        put_file("dataset.json", none[i], strlen(none[i]));
        CLT_SCOPED(clt_source) *s = must_open(source, CLT_SPLIT_TRAIN);
        assert_int_equal(s->n_class_names, 0);
    }
    static const char few[] = "{\"labels\": {\"background\": 0, \"liver\": 1}}";
    put_file("dataset.json", few, sizeof few - 1);
    expect_refused(source, CLT_SPLIT_TRAIN, CLT_EDATA,
                   "dataset.json': its labels name no value 2, which is class 2 of 3|data.class_names");
    goes_on_without_names(source);
    clt_source *s =
        must_open("\"type\":\"nifti\",\"path\":\"%D\",\"volume\":[6],\"split\":0,\"class_names\":["
                  "\"a\",\"b\",\"c\"]",
                  CLT_SPLIT_TRAIN);
    assert_string_equal(s->class_names[2], "c");
    clt_source_close(s);
    put_file("dataset.json", "{\"labels\"", 9);
    expect_refused(source, CLT_SPLIT_TRAIN, CLT_EDATA, "dataset.json:1:");
    /* values of masks that are not the numbers of classes */
    put_mask("masks/a.nii", 10, 12, 14, 2, 5, 7);
    put_mask("masks/b.nii.gz", 10, 10, 10, 6, 9, 7);
    static const char seven[] = "{\"labels\": {\"background\": 0, \"organ\": 7}}";
    put_file("dataset.json", seven, sizeof seven - 1);
    s = must_open("\"type\":\"nifti\",\"path\":\"%D\",\"volume\":[6],\"split\":0,\"mask_values\":[0,7]",
                  CLT_SPLIT_TRAIN);
    assert_int_equal(s->n_class_names, 2);
    assert_string_equal(s->class_names[1], "organ");
    clt_source_close(s);
}

/* --- patches --- */

static clt_source *open_patches(const char *more, clt_split split)
{
    char text[512];
    (void)snprintf(
        text, sizeof text,
        "\"type\":\"nifti\",\"path\":\"%%D\",\"split\":0,\"patch\":[4,5,6],\"patches_per_volume\":8%s", more);
    return must_open(text, split);
}

static void read_sample(const clt_source *s, int64_t index, uint32_t epoch, float *x, uint8_t *y)
{
    void *to[CLT_MAX_FIELDS] = {x, y};
    const clt_draw draw = {.seed = 5, .epoch = epoch};
    assert_ok(s->type->read(s, index, draw, to));
}

/* The same sample twice is the same; with only one of the fields, too; another epoch gives others. */
TEST(test_patches_are_pure)
{
    float x[2][120], alone[120];
    uint8_t y[2][120], y_alone[120];
    int differ = 0;
    put_masked();
    clt_source *s =
        open_patches(",\"flip_axes\":[0,1,2],\"scale_intensity\":0.1,\"shift_intensity\":5", CLT_SPLIT_TRAIN);
    assert_int_equal(s->samples, 24);
    assert_int_equal(s->together, 8);
    for (int64_t i = 0; i < s->samples; i++) {
        read_sample(s, i, 0, x[0], y[0]);
        read_sample(s, i, 1, x[1], y[1]);
        differ += memcmp(x[0], x[1], sizeof x[0]) != 0;
        read_sample(s, i, 0, x[1], y[1]);
        assert_memory_equal(x[0], x[1], sizeof x[0]);
        assert_memory_equal(y[0], y[1], sizeof y[0]);
        read_sample(s, i, 0, alone, NULL);
        read_sample(s, i, 0, NULL, y_alone);
        assert_memory_equal(x[0], alone, sizeof alone);
        assert_memory_equal(y[0], y_alone, sizeof y_alone);
    }
    assert_true(differ >= 20);
    clt_source_close(s);
}

/* A patch takes image and mask from the same place, also if mirrored: the voxel's value says where it
 * was. */
TEST(test_image_and_mask_agree)
{
    float x[120];
    uint8_t y[120];
    int mirrored = 0, foreground = 0;
    put_masked();
    clt_source *s = open_patches(",\"flip_axes\":[0,1,2],\"patch_foreground\":1", CLT_SPLIT_TRAIN);
    for (uint32_t epoch = 0; epoch < 8; epoch++)
        for (int64_t i = 8; i < 16; i++) { /* volume b: 10 x 10 x 10, class 2 in [6, 9) */
            int inside = 0;
            read_sample(s, i, epoch, x, y);
            for (int k = 0; k < 120; k++) {
                int number = (int)x[k] - 100, z = number / 100, h = number / 10 % 10, w = number % 10;
                bool in = z >= 6 && z < 9 && h >= 6 && h < 9 && w >= 6 && w < 9;
                assert_int_equal(y[k], in ? 2 : 0);
                inside += in;
            }
            mirrored += x[1] < x[0];
            foreground += inside > 0;
        }
    assert_int_equal(foreground, 64); /* every patch is centred on a voxel of the lesion */
    assert_true(mirrored > 16 && mirrored < 48);
    clt_source_close(s);
}

/* Random places reach every voxel, and with patch_foreground 0 most patches miss a small lesion. */
TEST(test_places)
{
    const clt_patch_options o = {.patch = {4, 4, 4}, .foreground = 0};
    const int64_t size[3] = {6, 5, 9}, small[3] = {3, 9, 4};
    int first[3][6] = {{0}};
    clt_patch p;
    for (int64_t i = 0; i < 600; i++) {
        clt_patch_draw(&o, size, NULL, (clt_draw){.seed = 1}, i, &p);
        for (int a = 0; a < 3; a++) {
            assert_true(p.at[a] >= 0 && p.at[a] + 4 <= size[a]);
            first[a][p.at[a]]++;
        }
    }
    for (int a = 0; a < 3; a++)
        for (int64_t k = 0; k <= size[a] - 4; k++)
            assert_true(first[a][k] > 600 / (size[a] - 3) / 2);
    clt_patch_draw(&o, small, NULL, (clt_draw){.seed = 1}, 0, &p);
    assert_int_equal(p.at[0], 0); /* 3 of 4 planes, the last one is padding */
    assert_int_equal(p.at[2], 0);
}

/* Every foreground voxel is drawn, with about the same frequency. */
TEST(test_foreground_draw)
{
    enum { D = 3, H = 4, W = 5 };
    const int64_t size[3] = {D, H, W};
    const clt_patch_options o = {.patch = {1, 1, 1}, .foreground = 1};
    uint8_t mask[D * H * W] = {0};
    uint64_t before[D * H + 1];
    int hits[D * H * W] = {0}, voxels = 0;
    clt_foreground f;
    for (int i = 0; i < D * H * W; i++)
        voxels += mask[i] = (uint8_t)(i % 7 == 3 || i == 59);
    clt_foreground_count(mask, size, before, &f);
    assert_int_equal(before[D * H], voxels);
    for (int64_t i = 0; i < 1000; i++) {
        clt_patch p;
        clt_patch_draw(&o, size, &f, (clt_draw){.seed = 9, .epoch = 2}, i, &p);
        int64_t at = (p.at[0] * H + p.at[1]) * W + p.at[2];
        assert_int_equal(mask[at], 1);
        hits[at]++;
    }
    for (int i = 0; i < D * H * W; i++)
        assert_true(!mask[i] || hits[i] > 1000 / voxels / 2);
}

TEST(test_flip)
{
    const int64_t size[3] = {3, 4, 5};
    for (int axes = 0; axes < 8; axes++) {
        const bool flip[3] = {axes & 1, axes & 2, axes & 4};
        int32_t v[2 * 60];
        for (int i = 0; i < 120; i++)
            v[i] = i;
        clt_flip(v, sizeof v[0], 2, size, flip);
        for (int i = 0; i < 120; i++) {
            int x = i % 5, y = i / 5 % 4, z = i / 20 % 3;
            x = flip[2] ? 4 - x : x;
            y = flip[1] ? 3 - y : y;
            z = flip[0] ? 2 - z : z;
            assert_int_equal(v[i], i / 60 * 60 + (z * 4 + y) * 5 + x);
        }
    }
}

/* Neighbouring samples of a volume stay together in the shuffled order, and each comes once in an epoch. */
TEST(test_groups)
{
    clt_source s = {.samples = 24, .together = 4};
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        bool seen[24] = {false};
        for (uint64_t i = 0; i < 24; i++) {
            clt_draw draw;
            int64_t index = clt_source_sample(&s, epoch * 24 + i, 7, true, &draw);
            assert_int_equal(draw.epoch, epoch);
            assert_int_equal(index % 4, i % 4);
            assert_false(seen[index]);
            seen[index] = true;
        }
    }
}

/* --- windows --- */

TEST(test_windows_cover)
{
    static const double overlaps[] = {0, 0.25, 0.5, 0.9};
    for (int64_t n = 1; n < 30; n++)
        for (int64_t w = 1; w < 12; w++)
            for (int k = 0; k < 4; k++) {
                const int64_t size[3] = {n, 7, 1}, window[3] = {w, 3, 2};
                bool covered[32] = {false};
                clt_windows g;
                assert_ok(clt_windows_make(size, window, overlaps[k], &g));
                int64_t last = -1000;
                for (int64_t i = 0; i < clt_windows_count(&g); i++) {
                    int64_t at[3];
                    clt_windows_at(&g, i, at);
                    assert_true(at[0] >= last); /* by depth first */
                    assert_true(n < w ? at[0] == -((w - n) / 2) : at[0] >= 0 && at[0] + w <= n);
                    last = at[0];
                    for (int64_t z = at[0]; z < at[0] + w; z++)
                        if (z >= 0 && z < n)
                            covered[z] = true;
                }
                for (int64_t z = 0; z < n; z++)
                    assert_true(covered[z]);
            }
    clt_windows g;
    const int64_t size[3] = {100000, 1, 1}, window[3] = {4, 1, 1};
    assert_int_equal(clt_windows_make(size, window, 0.5, &g), CLT_EDATA);
}

TEST(test_evaluation_windows)
{
    float x[120];
    uint8_t y[120];
    int64_t windows = 0;
    put_masked();
    CLT_SCOPED(clt_source) *s = open_patches("", CLT_SPLIT_TRAIN_ONCE);
    assert_true(clt_volumes_windowed(s));
    assert_int_equal(clt_volumes_count(s), 3);
    for (int64_t v = 0; v < 3; v++) {
        clt_windows g;
        clt_volumes_grid(s, v, &g);
        for (int64_t i = 0; i < clt_windows_count(&g); i++, windows++) {
            clt_volumes_place p = clt_volumes_window(s, windows);
            int64_t at[3];
            clt_windows_at(&g, i, at);
            assert_int_equal(p.volume, v);
            assert_memory_equal(p.at, at, sizeof at);
        }
    }
    assert_int_equal(s->samples, windows);
    read_sample(s, 0, 0, x, y);
    assert_true(x[0] == 0 && x[1] == 1 && x[6] == 14);
    clt_source *part;
    assert_ok(clt_volumes_part(s, 3, 1, 2, &part)); /* volume b alone */
    assert_int_equal(clt_volumes_count(part), 1);
    read_sample(part, 0, 0, x, y);
    assert_true(x[0] == 100);
    clt_source_close(part);
    assert_ok(clt_volumes_part(s, 2, 2, 3, &part));
    assert_int_equal(part->samples, 0);
    clt_source_close(part);
    assert_int_equal(clt_volumes_within(s, 1), 1);
    assert_int_equal(clt_volumes_within(s, s->samples), 3);
    assert_int_equal(clt_volumes_within(s, s->samples - 1), 2);
}

/* --- the cache --- */

typedef struct counted {
    atomic_int making[16], made, alive;
} counted;

static counted counts;

static clt_status make_counted(void *context, int64_t index, void **thing, uint64_t *bytes)
{
    counted *c = context;
    assert_int_equal(atomic_fetch_add(&c->making[index], 1), 0); /* one thread at a time makes an item */
    usleep(200);
    atomic_fetch_add(&c->made, 1);
    atomic_fetch_add(&c->alive, 1);
    int64_t *value = malloc(sizeof *value);
    assert_non_null(value);
    *value = index;
    *thing = value;
    *bytes = 10;
    atomic_fetch_sub(&c->making[index], 1);
    if (index == 13) {
        free(value);
        atomic_fetch_sub(&c->alive, 1);
        CLT_FAIL(CLT_EDATA, "thing 13 is bad");
    }
    return CLT_OK;
}

static void drop_counted(void *thing)
{
    atomic_fetch_sub(&counts.alive, 1);
    *(int64_t *)thing = -1;
    free(thing);
}

static void *use_cache(void *context)
{
    clt_volume_cache *cache = context;
    static atomic_int number;
    uint32_t me = (uint32_t)atomic_fetch_add(&number, 1);
    for (uint32_t i = 0; i < 400; i++) {
        int64_t index = clt_rng_u32(1, CLT_RNG_VERIFY, me, 0, i) % 14;
        void *thing;
        clt_status status = clt_volume_cache_take(cache, index, &thing);
        if ((status == CLT_OK) != (index != 13))
            return "a wrong status";
        if (status == CLT_OK && *(int64_t *)thing != index)
            return "a thing that was dropped, or another one";
        if (status == CLT_OK)
            clt_volume_cache_release(cache, index);
    }
    return NULL;
}

TEST(test_cache)
{
    pthread_t thread[8];
    clt_volume_cache *cache;
    assert_ok(clt_volume_cache_create(14, 50, make_counted, drop_counted, &counts, &cache));
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, use_cache, cache), 0);
    for (int i = 0; i < 8; i++) {
        void *problem;
        assert_int_equal(pthread_join(thread[i], &problem), 0);
        if (problem)
            fail_msg("%s", (const char *)problem);
    }
    clt_cache_facts facts = clt_volume_cache_facts(cache);
    assert_true(facts.bytes <= 50);
    assert_true(facts.most <= 50 + 8 * 10); /* in addition to the items in use */
    assert_int_equal(atomic_load(&counts.alive), facts.bytes / 10);
    clt_volume_cache_destroy(cache);
    assert_int_equal(atomic_load(&counts.alive), 0);
}

/* A cache too small for anything gives the same samples. */
TEST(test_small_cache)
{
    float x[2][120];
    uint8_t y[2][120];
    put_masked();
    clt_source *large = open_patches("", CLT_SPLIT_TRAIN),
               *none = open_patches(",\"cache_mb\":0", CLT_SPLIT_TRAIN);
    for (int64_t i = 0; i < 24; i++) {
        read_sample(large, i, 3, x[0], y[0]);
        read_sample(none, i, 3, x[1], y[1]);
        assert_memory_equal(x[0], x[1], sizeof x[0]);
        assert_memory_equal(y[0], y[1], sizeof y[0]);
    }
    clt_source_close(large);
    clt_source_close(none);
}

/* --- bad files --- */

TEST(test_bad_files)
{
    float x[120];
    put_masked();
    put_volume("images/d.nii.gz", 8, 8, 8, 0);
    expect_refused("\"type\":\"nifti\",\"path\":\"%D\",\"patch\":[4]", CLT_SPLIT_TRAIN, CLT_EDATA,
                   "d.nii.gz' has no mask");
    put_mask("masks/d.nii.gz", 8, 8, 7, 0, 1, 1);
    expect_refused("\"type\":\"nifti\",\"path\":\"%D\",\"patch\":[4]", CLT_SPLIT_TRAIN, CLT_EDATA,
                   "8 x 8 x 7 voxels|8 x 8 x 8; they must be of one size");
    put_mask("masks/d.nii.gz", 8, 8, 8, 0, 1, 7);
    expect_refused("\"type\":\"nifti\",\"path\":\"%D\",\"patch\":[4],\"split\":0,\"mask_classes\":0,"
                   "\"volume_fit\":\"x\"",
                   CLT_SPLIT_TRAIN, CLT_ECONFIG, "data.volume_fit");
    clt_source *s = open_patches(",\"mask_classes\":3,\"on_bad_sample\":\"skip\"", CLT_SPLIT_TRAIN);
    uint8_t y[120];
    assert_int_equal(s->samples, 32);
    for (int64_t i = 24; i < 32; i++) { /* volume d has a bad mask, so volume a replaces it */
        read_sample(s, i, 0, x, y);
        for (int k = 0; k < 120; k++)
            assert_true(y[k] <= 1);
    }
    clt_source_close(s);
    s = open_patches(",\"mask_classes\":3", CLT_SPLIT_TRAIN);
    void *to[CLT_MAX_FIELDS] = {x, y};
    assert_int_equal(s->type->read(s, 24, (clt_draw){.seed = 1}, to), CLT_EDATA);
    expect_words("d.nii.gz|is 7, a class beyond the last one, 2");
    clt_source_close(s);
}
