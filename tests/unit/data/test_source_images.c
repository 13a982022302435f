/* SPDX-License-Identifier: Apache-2.0
 *
 * The formats images and cifar: which samples there are, their content, equal results with any number of
 * threads, effects of bad images, packs. */
#include "tests/unit/data/image_test.h"

#include <sys/stat.h>

#include "engine/base/log.h"
#include "engine/data/images/image_pack.h"
#include "engine/data/images/image_source.h"
#include "engine/data/pixels/image_folder.h"

static char last_warning[1024];
static int warnings;

static void on_log(void *context, clt_log_level level, const char *line)
{
    (void)context;
    if (level == CLT_LOG_WARN) {
        warnings++;
        (void)snprintf(last_warning, sizeof last_warning, "%s", line);
    }
}

static void put_jpeg(const char *name, int width, int height, jpeg_kind kind)
{
    size_t size;
    CLT_FREED uint8_t *jpeg = make_jpeg(width, height, kind, &size);
    put_file(name, jpeg, size);
}

static void put_png(const char *name, int width, int height)
{
    clt_str file = {0};
    CLT_FREED uint8_t *planes = make_planes(width, height, formula);
    assert_ok(clt_png_write(planes, 3, width, height, &file));
    put_file(name, file.text, file.length);
    clt_str_free(&file);
}

/* Three classes, seven images, and some entries that do not count. */
static void make_folder(void)
{
    static const char *const folders[] = {"set",     "set/b_cat",    "set/Ant",
                                          "set/dog", "set/dog/more", "set/.hidden"};
    const jpeg_kind usual = {3, 2, 2, false, 0};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        assert_ok(clt_mkdir_p(in_dir(folders[i])));
    put_jpeg("set/b_cat/2.jpg", 80, 60, usual);
    put_jpeg("set/b_cat/10.JPEG", 50, 90, usual);
    put_png("set/b_cat/named.jpg", 40, 40);
    put_jpeg("set/Ant/x.jpg", 64, 48, (jpeg_kind){1, 1, 1, false, 0});
    put_jpeg("set/dog/z.jpg", 70, 70, (jpeg_kind){3, 1, 1, true, 0});
    put_png("set/dog/more/a.png", 33, 57);
    put_png("set/dog/a.png", 30, 20);
    put_file("set/dog/notes.txt", "x", 1);
    put_file("set/readme.txt", "x", 1);
    put_jpeg("set/.hidden/x.jpg", 16, 16, usual);
}

#define IMAGES "\"type\":\"images\",\"path\":\"%D/set\""

static int32_t label_of(const clt_source *source, int64_t index)
{
    int32_t y = -1;
    must_read(source, index, 1, &y);
    return y;
}

static void expect_at(const clt_source *source, int64_t index, const char *name, int32_t label)
{
    CLT_SCOPED(clt_str) where = {0};
    source->type->locate(source, index, 0, &where);
    if (!strstr(where.text, name))
        fail_msg("sample %lld is %s, not %s", (long long)index, where.text, name);
    assert_int_equal(label_of(source, index), label);
}

/* torchvision's order: classes by bytes (capitals first), then folders, then names. */
TEST(test_order)
{
    make_folder();
    CLT_SCOPED(clt_source) *source = must_open(IMAGES ",\"size\":32", CLT_SPLIT_TRAIN);
    static const char *const names[] = {"Ant/x.jpg", "b_cat/10.JPEG", "b_cat/2.jpg",   "b_cat/named.jpg",
                                        "dog/a.png", "dog/z.jpg",     "dog/more/a.png"};
    static const int32_t labels[] = {0, 1, 1, 1, 2, 2, 2};
    assert_int_equal(source->samples, 7);
    assert_int_equal(source->n_class_names, 3);
    assert_string_equal(source->class_names[0], "Ant");
    assert_string_equal(source->class_names[2], "dog");
    for (int i = 0; i < 7; i++)
        expect_at(source, i, names[i], labels[i]);
    assert_int_equal(source->n_fields, 2);
    assert_int_equal(source->fields[0].dtype, CLT_U8);
    assert_int_equal(source->fields[0].shape.dim[0], 3);
    assert_int_equal(source->fields[0].shape.dim[2], 32);
    assert_ok(clt_source_scan(source));
}

/* Evaluation: shorter side resized, middle taken; a PNG that needs neither comes as it is. */
TEST(test_evaluation)
{
    make_folder();
    uint8_t x[3 * 30 * 30], *planes = make_planes(40, 40, formula);
    clt_source *source =
        must_open(IMAGES ",\"eval_path\":\"%D/set\",\"size\":30,\"resize\":40,\"flip\":1", CLT_SPLIT_EVAL);
    must_read(source, 3, 0, x);
    for (int c = 0; c < 3; c++)
        for (int y = 0; y < 30; y++)
            assert_memory_equal(x + (c * 30 + y) * 30, planes + (c * 40 + y + 5) * 40 + 5, 30);
    free(planes);
    clt_source_close(source);
}

static uint64_t read_all(const char *members, clt_draw draw, bool backward)
{
    CLT_SCOPED(clt_source) *source = must_open(members, CLT_SPLIT_TRAIN);
    clt_hash64_state hash;
    CLT_FREED uint8_t *all = calloc((size_t)source->samples, 4096);
    assert_non_null(all);
    for (int64_t k = 0; k < source->samples; k++) {
        int64_t i = backward ? source->samples - 1 - k : k;
        uint8_t *at = all + i * 4096;
        void *to[CLT_MAX_FIELDS] = {at, at + 4000, at + 4004, at + 4008};
        assert_true(clt_source_field_bytes(&source->fields[0]) <= 4000);
        if (source->type->read(source, i, draw, to) != CLT_OK)
            fail_msg("%s", clt_error_text());
    }
    clt_hash64_begin(&hash);
    clt_hash64_add(&hash, all, (size_t)source->samples * 4096);
    return clt_hash64_end(&hash);
}

#define EVERYTHING                                                                                           \
    ",\"size\":[24,28],\"flip\":0.5,\"brightness\":0.4,\"contrast\":0.3,\"saturation\":0.2,\"hue\":0.1,"     \
    "\"mixup\":0.4,\"cutmix\":1"

/* A sample depends on seed, epoch and index alone, not on what was read before. */
TEST(test_pure)
{
    make_folder();
    uint64_t first = read_all(IMAGES EVERYTHING, (clt_draw){7, 2}, false);
    assert_true(first == read_all(IMAGES EVERYTHING, (clt_draw){7, 2}, true));
    assert_true(first != read_all(IMAGES EVERYTHING, (clt_draw){7, 3}, false));
    assert_true(first != read_all(IMAGES EVERYTHING, (clt_draw){8, 2}, false));
}

static uint64_t load(const char *members, int workers, int64_t first, int64_t last)
{
    enum { BATCH = 6, BYTES = 4096 * BATCH, SLOTS = 4 };
    static uint8_t memory[SLOTS][BYTES];
    void *slots[SLOTS] = {memory[0], memory[1], memory[2], memory[3]};
    CLT_SCOPED(clt_source) *source = must_open(members, CLT_SPLIT_TRAIN);
    clt_hash64_state hash;
    clt_loader *loader = NULL;
    clt_loader_options o = {.source = source,
                            .n_fields = source->n_fields,
                            .micro_batch = BATCH,
                            .global_batch = BATCH,
                            .accumulation = 1,
                            .ranks = 1,
                            .seed = 3,
                            .shuffle = true,
                            .first_step = first,
                            .last_step = last,
                            .workers = workers,
                            .n_slots = SLOTS,
                            .slots = slots,
                            .slot_bytes = BYTES};
    memset(memory, 0, sizeof memory);
    for (int f = 0; f < source->n_fields; f++) {
        o.source_field[f] = f;
        o.offset[f] = f == 0 ? 0 : 4000ull * BATCH + (uint64_t)f * 4 * BATCH;
    }
    if (clt_loader_create(&o, &loader) != CLT_OK)
        fail_msg("%s", clt_error_text());
    clt_hash64_begin(&hash);
    for (;;) {
        clt_slot *slot;
        if (clt_loader_next(loader, &slot) != CLT_OK)
            fail_msg("%s", clt_error_text());
        if (!slot)
            break;
        if (slot->step >= 9)
            clt_hash64_add(&hash, slot->data, BYTES);
        clt_loader_release(loader, slot);
    }
    clt_loader_destroy(loader);
    return clt_hash64_end(&hash);
}

/* The same batches for any number of workers, and when loading begins in the middle, as a resumed run
 * does. */
TEST(test_workers)
{
    make_folder();
    put_file("set/dog/bad.jpg", "\xff\xd8\xff\xe0", 4);
    static const char members[] = IMAGES EVERYTHING ",\"on_bad_sample\":\"skip\"";
    uint64_t one = load(members, 1, 0, 20);
    assert_true(one == load(members, 2, 0, 20));
    assert_true(one == load(members, 7, 0, 20));
    assert_true(one == load(members, 3, 9, 20));
}

TEST(test_mixed_fields)
{
    make_folder();
    clt_source *train = must_open(IMAGES ",\"size\":16,\"mixup\":1", CLT_SPLIT_TRAIN);
    CLT_SCOPED(clt_source) *eval =
        must_open(IMAGES ",\"eval_path\":\"%D/set\",\"size\":16,\"mixup\":1", CLT_SPLIT_EVAL);
    int different = 0;
    assert_int_equal(train->n_fields, 4);
    assert_int_equal(eval->n_fields, 4);
    assert_string_equal(train->fields[2].name, "y2");
    assert_string_equal(train->fields[3].name, "share");
    for (int64_t i = 0; i < 7; i++) {
        uint8_t x[3 * 256];
        int32_t y, y2;
        float share;
        void *to[CLT_MAX_FIELDS] = {x, &y, &y2, &share};
        assert_int_equal(train->type->read(train, i, (clt_draw){1, 1}, to), CLT_OK);
        assert_true(share >= 0 && share <= 1);
        assert_int_equal(y, label_of(train, i));
        different += y != y2;
        int32_t known[2];
        for (int k = 0; k < 2; k++)
            assert_true(train->type->class_of(train, i, (clt_draw){1, 1}, 1 + k, &known[k]));
        assert_true(known[0] == y && known[1] == y2);
        assert_false(train->type->class_of(train, i, (clt_draw){1, 1}, 3, &known[0]));
        assert_int_equal(eval->type->read(eval, i, (clt_draw){0}, to), CLT_OK);
        assert_true(y2 == y && share >= 1);
    }
    assert_true(different > 0);
    clt_source_close(train);
}

TEST(test_classes_of_evaluation)
{
    make_folder();
    assert_ok(clt_mkdir_p(in_dir("few/dog")));
    put_png("few/dog/1.png", 20, 20);
    clt_source *source = must_open(IMAGES ",\"eval_path\":\"%D/few\"", CLT_SPLIT_EVAL);
    expect_at(source, 0, "few/dog/1.png", 2); /* the class's number in the training data */
    assert_int_equal(source->fields[1].max_value, 2);
    clt_source_close(source);
    assert_ok(clt_mkdir_p(in_dir("few/wolf")));
    put_png("few/wolf/1.png", 20, 20);
    expect_refused(IMAGES ",\"eval_path\":\"%D/few\"", CLT_SPLIT_EVAL, CLT_EDATA, "wolf|training");
}

TEST(test_refused_folders)
{
    expect_refused(IMAGES, CLT_SPLIT_TRAIN, CLT_EDATA, "set");
    assert_ok(clt_mkdir_p(in_dir("set")));
    expect_refused(IMAGES, CLT_SPLIT_TRAIN, CLT_EDATA, "no folders|CLASS/name.jpg");
    put_png("set/1.png", 8, 8);
    expect_refused(IMAGES, CLT_SPLIT_TRAIN, CLT_EDATA, "1 images lie in the folder itself");
    assert_ok(clt_mkdir_p(in_dir("set/cat")));
    expect_refused(IMAGES, CLT_SPLIT_TRAIN, CLT_EDATA, "'cat' has no images");
    assert_ok(clt_mkdir_p(in_dir("set/train")));
    assert_ok(clt_mkdir_p(in_dir("set/val")));
    expect_refused(IMAGES, CLT_SPLIT_TRAIN, CLT_EDATA, "parts of a data set|set/train");
    put_file("text", "text", 4);
    expect_refused("\"type\":\"images\",\"path\":\"%D/text\"", CLT_SPLIT_TRAIN, CLT_EDATA,
                   "neither a folder");
    expect_refused(IMAGES ",\"crop_scale\":[0.5,0.1]", CLT_SPLIT_TRAIN, CLT_ECONFIG, "smaller one first");
    expect_refused(IMAGES ",\"size\":[1,2,3]", CLT_SPLIT_TRAIN, CLT_ECONFIG, "height and width");
}

TEST(test_bad_samples)
{
    uint8_t x[3 * 256], next[3 * 256];
    make_folder();
    put_file("set/b_cat/10.JPEG", "version https://git-lfs.github.com/spec/v1\n", 43);
    clt_source *stops = must_open(IMAGES ",\"size\":16", CLT_SPLIT_TRAIN);
    assert_int_equal(clt_source_read_field(stops, 1, 0, x), CLT_EDATA);
    expect_words("set/b_cat/10.JPEG|git-lfs");
    assert_int_equal(clt_source_scan(stops), CLT_EDATA);
    assert_ok(clt_source_read_field(stops, 2, 0, x));
    clt_source_close(stops);

    clt_log_set_sink(on_log, NULL, CLT_LOG_WARN);
    warnings = 0;
    clt_source *skips = must_open(IMAGES ",\"size\":16,\"on_bad_sample\":\"skip\"", CLT_SPLIT_TRAIN);
    for (int round = 0; round < 3; round++)
        must_read(skips, 1, 0, x);
    assert_int_equal(warnings, 1); /* one warning for the file */
    assert_non_null(strstr(last_warning, "10.JPEG"));
    must_read(skips, 2, 0, next);
    assert_memory_equal(x, next, sizeof x);
    clt_source_close(skips);
    assert_int_equal(warnings, 2);
    assert_non_null(strstr(last_warning, "3 samples were replaced"));
    assert_non_null(strstr(last_warning, "1 image "));

    /* the class comes with the replacement: the search for a good image continues at the other end */
    put_file("set/dog/more/a.png", "", 0);
    skips = must_open(IMAGES ",\"size\":16,\"on_bad_sample\":\"skip\"", CLT_SPLIT_TRAIN);
    warnings = 0;
    const float weights[3] = {1, 2, 4}; /* counting targets decodes nothing: no image is found to be bad */
    double sum;
    assert_ok(clt_source_sum_classes(skips, 6, (clt_draw){0}, 1, &(clt_class_sum){weights, 3, false, 0}, next,
                                     &sum));
    assert_true(sum > 3 && warnings == 0);
    int64_t valid;
    assert_ok(clt_source_count_valid(skips, 6, (clt_draw){0}, 1, 2, next, &valid));
    assert_true(valid == 0 && warnings == 0);
    assert_int_equal(label_of(skips, 6), 0);
    assert_int_equal(warnings, 1);
    clt_source_close(skips);
    assert_ok(clt_remove_tree(in_dir("set/b_cat")));
    assert_ok(clt_remove_tree(in_dir("set/Ant")));
    assert_ok(clt_remove_tree(in_dir("set/dog")));
    assert_ok(clt_mkdir_p(in_dir("set/dog")));
    put_file("set/dog/1.jpg", "x", 1);
    put_file("set/dog/2.jpg", "y", 1);
    skips = must_open(IMAGES ",\"size\":16,\"on_bad_sample\":\"skip\"", CLT_SPLIT_TRAIN);
    assert_int_equal(clt_source_read_field(skips, 0, 0, x), CLT_EDATA);
    expect_words("none of the 2 images");
    clt_source_close(skips);
    clt_log_set_sink(NULL, NULL, CLT_LOG_WARN);
}

TEST(test_fingerprint)
{
    char a[CLT_HASH64_TEXT], b[CLT_HASH64_TEXT], c[CLT_HASH64_TEXT];
    make_folder();
    clt_source *source = must_open(IMAGES, CLT_SPLIT_TRAIN);
    clt_source_fingerprint(source, a);
    clt_source_close(source);
    assert_int_equal(rename(in_dir("set"), in_dir("moved")), 0);
    source = must_open("\"type\":\"images\",\"path\":\"%D/moved\"", CLT_SPLIT_TRAIN);
    clt_source_fingerprint(source, b);
    clt_source_close(source);
    assert_string_equal(a, b); /* folders do not matter, names and contents do */
    assert_int_equal(rename(in_dir("moved/dog/z.jpg"), in_dir("moved/dog/y.jpg")), 0);
    source = must_open("\"type\":\"images\",\"path\":\"%D/moved\"", CLT_SPLIT_TRAIN);
    clt_source_fingerprint(source, c);
    clt_source_close(source);
    assert_string_not_equal(a, c);
}

/* A single image, to be predicted, has no class and is cropped as in evaluation. */
TEST(test_alone)
{
    uint8_t x[3 * 20 * 20], want[3 * 20 * 20];
    make_folder();
    clt_source *alone =
        must_open("\"type\":\"images\",\"path\":\"%D/set/b_cat/2.jpg\",\"size\":20,\"flip\":1,\"mixup\":1",
                  CLT_SPLIT_TRAIN);
    CLT_SCOPED(clt_source) *eval = must_open(IMAGES ",\"eval_path\":\"%D/set\",\"size\":20", CLT_SPLIT_EVAL);
    assert_int_equal(alone->samples, 1);
    assert_int_equal(alone->n_fields, 1);
    must_read(alone, 0, 0, x);
    must_read(eval, 2, 0, want);
    assert_memory_equal(x, want, sizeof x);
    clt_source_close(alone);
}

/* --- packs --- */

static clt_status pack(int resize, bool skips, clt_pack_result *result)
{
    const clt_pack_options o = {
        .folder = in_dir("set"), .out = in_dir("set.images"), .resize = resize, .skips_bad = skips};
    return clt_pack_write(&o, result);
}

#define PACKED "\"type\":\"images\",\"path\":\"%D/set.images\""

TEST(test_pack)
{
    clt_pack_result result;
    make_folder();
    assert_ok(pack(0, false, &result));
    assert_int_equal(result.images, 7);
    assert_int_equal(result.classes, 3);
    assert_true(clt_is_image_pack(in_dir("set.images")));
    /* every sample is the same, augmentation included */
    assert_true(read_all(IMAGES EVERYTHING, (clt_draw){7, 2}, false) ==
                read_all(PACKED EVERYTHING, (clt_draw){7, 2}, false));
    CLT_SCOPED(clt_source) *source = must_open(PACKED, CLT_SPLIT_TRAIN);
    assert_string_equal(source->class_names[1], "b_cat");
    expect_at(source, 1, "b_cat/10.JPEG", 1);
    assert_ok(clt_source_scan(source));
}

TEST(test_pack_resized)
{
    clt_pack_result result;
    uint8_t x[3 * 24 * 24], y[3 * 24 * 24];
    int most = 0;
    make_folder();
    assert_ok(pack(24, false, &result));
    clt_source *packed =
        must_open(PACKED ",\"eval_path\":\"%D/set.images\",\"size\":24,\"resize\":24", CLT_SPLIT_EVAL);
    clt_source *folder =
        must_open(IMAGES ",\"eval_path\":\"%D/set\",\"size\":24,\"resize\":24", CLT_SPLIT_EVAL);
    for (int64_t i = 0; i < 7; i++) {
        must_read(packed, i, 0, x);
        must_read(folder, i, 0, y);
        for (size_t k = 0; k < sizeof x; k++)
            most = abs(x[k] - y[k]) > most && i != 4 ? abs(x[k] - y[k]) : most;
    }
    assert_int_equal(most, 0); /* sample 4 is smaller: it is packed as it is, and enlarged when it is read */
    clt_source_close(packed);
    clt_source_close(folder);
}

TEST(test_pack_of_bad_images)
{
    clt_pack_result result;
    make_folder();
    put_file("set/dog/a.png", "nothing", 7);
    assert_int_equal(pack(0, false, &result), CLT_EDATA);
    expect_words("set/dog/a.png|--skip-bad");
    assert_false(clt_file_exists(in_dir("set.images")));
    assert_ok(pack(0, true, &result));
    assert_int_equal(result.images, 6);
    assert_int_equal(result.left_out, 1);
}

/* Damage to the index is an error when the file is opened, damage to an image when it is verified; nothing
 * crashes. */
TEST(test_damaged_packs)
{
    clt_pack_result result;
    CLT_FREED char *bytes = NULL;
    size_t size = 0;
    make_folder();
    assert_ok(pack(0, false, &result));
    assert_ok(clt_file_read(in_dir("set.images"), false, 0, CLT_EDATA, &bytes, &size));
    for (size_t cut = 0; cut < size; cut += 97) {
        put_file("set.images", bytes, cut);
        expect_refused(PACKED, CLT_SPLIT_TRAIN, CLT_EDATA, "set.images");
    }
    uint32_t random = 3;
    for (int i = 0; i < 300; i++) {
        clt_source *source = NULL;
        CLT_FREED char *copy = malloc(size);
        assert_non_null(copy);
        memcpy(copy, bytes, size);
        random = random * 1664525u + 1013904223u;
        size_t at = i < 80 ? (size_t)i : (random >> 8) % size;
        copy[at] = (char)(copy[at] ^ 0x41);
        put_file("set.images", copy, size);
        clt_status status = try_open(PACKED ",\"size\":16", CLT_SPLIT_TRAIN, &source);
        if (status == CLT_OK)
            status = clt_source_scan(source);
        if (status != CLT_EDATA && !(at >= 64 && at < 80)) /* unused words of the header */
            fail_msg("a change of byte %zu of %zu was not noticed", at, size);
        clt_source_close(source);
    }
}

/* --- CIFAR --- */

static void put_records(const char *name, int count, int labels, int start)
{
    size_t size = (size_t)count * (3072 + (size_t)labels);
    uint8_t *bytes = malloc(size), *at = bytes;
    assert_non_null(bytes);
    for (int i = 0; i < count; i++) {
        if (labels == 2)
            *at++ = (uint8_t)((start + i) % 20);
        *at++ = (uint8_t)((start + i) % (labels == 2 ? 100 : 10));
        for (int k = 0; k < 3072; k++)
            *at++ = (uint8_t)(start + i + k);
    }
    put_file(name, bytes, size);
    free(bytes);
}

#define CIFAR "\"type\":\"cifar\",\"path\":\"%D\""

TEST(test_cifar10)
{
    uint8_t x[3072];
    for (int i = 0; i < 5; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "data_batch_%d.bin", i + 1);
        put_records(name, 4, 1, 4 * i);
    }
    put_records("test_batch.bin", 3, 1, 50);
    clt_source *train = must_open(CIFAR, CLT_SPLIT_TRAIN), *test = must_open(CIFAR, CLT_SPLIT_EVAL);
    assert_int_equal(train->samples, 20);
    assert_int_equal(test->samples, 3);
    assert_string_equal(train->class_names[9], "truck");
    for (int64_t i = 0; i < 20; i++) {
        assert_int_equal(label_of(train, i), i % 10);
        must_read(train, i, 0, x); /* auto means no crop */
        for (int k = 0; k < 3072; k++)
            assert_int_equal(x[k], (uint8_t)(i + k));
    }
    must_read(test, 2, 0, x);
    assert_int_equal(x[5], 57);
    clt_source_close(train);
    clt_source_close(test);

    /* with a border of 4 black pixels, cropped anywhere */
    train = must_open(CIFAR ",\"crop\":\"pad\"", CLT_SPLIT_TRAIN);
    int moved = 0;
    for (uint32_t epoch = 0; epoch < 20; epoch++) {
        void *to[CLT_MAX_FIELDS] = {x};
        assert_int_equal(train->type->read(train, 3, (clt_draw){1, epoch}, to), CLT_OK);
        bool found = false;
        for (int dy = -4; dy <= 4 && !found; dy++)
            for (int dx = -4; dx <= 4 && !found; dx++) {
                found = true;
                for (int k = 0; k < 3072 && found; k++) {
                    int sx = k % 32 + dx, sy = k / 32 % 32 + dy, c = k / 1024;
                    bool inside = sx >= 0 && sx < 32 && sy >= 0 && sy < 32;
                    found = x[k] == (inside ? (uint8_t)(3 + c * 1024 + sy * 32 + sx) : 0);
                }
                moved += found && (dx != 0 || dy != 0);
            }
        assert_true(found);
    }
    assert_true(moved > 10);
    clt_source_close(train);
    put_file("batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n", 21);
    train = must_open(CIFAR, CLT_SPLIT_TRAIN);
    assert_string_equal(train->class_names[9], "j");
    clt_source_close(train);
}

TEST(test_cifar100)
{
    put_records("train.bin", 120, 2, 0);
    put_records("test.bin", 5, 2, 90);
    clt_source *train = must_open(CIFAR, CLT_SPLIT_TRAIN), *test = must_open(CIFAR, CLT_SPLIT_EVAL);
    assert_int_equal(train->n_class_names, 100);
    assert_int_equal(label_of(train, 117), 17);
    assert_int_equal(label_of(test, 4), 94);
    clt_source_close(train);
    clt_source_close(test);
}

TEST(test_cifar_of_fetch)
{
    uint8_t images[20 + 2 * 3072] = {0, 0, 8, 4, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 32, 0, 0, 0, 32},
                            labels[10] = {0, 0, 8, 1, 0, 0, 0, 2, 7, 9}, x[3072];
    for (int k = 0; k < 2 * 3072; k++)
        images[20 + k] = (uint8_t)(k / 3);
    put_file("train-images-idx4-ubyte", images, sizeof images);
    put_file("train-labels-idx1-ubyte", labels, sizeof labels);
    clt_source *source = must_open(CIFAR, CLT_SPLIT_TRAIN);
    assert_int_equal(source->samples, 2);
    assert_int_equal(label_of(source, 1), 9);
    must_read(source, 1, 0, x);
    assert_memory_equal(x, images + 20 + 3072, 3072);
    clt_source_close(source);
    expect_refused(CIFAR, CLT_SPLIT_EVAL, CLT_EDATA, "test_batch.bin");
    put_file("train-labels-idx1-ubyte", labels, 9);
    expect_refused(CIFAR, CLT_SPLIT_TRAIN, CLT_EDATA, "data fetch");
}

TEST(test_cifar_refused)
{
    expect_refused(CIFAR, CLT_SPLIT_TRAIN, CLT_EDATA, "data_batch_1.bin|data fetch cifar10");
    put_file("data_batch_1.bin", "short", 5);
    expect_refused(CIFAR, CLT_SPLIT_TRAIN, CLT_EDATA, "not a whole number of records");
    put_records("data_batch_1.bin", 2, 1, 0);
    expect_refused(CIFAR, CLT_SPLIT_TRAIN, CLT_EDATA, "data_batch_2.bin");
    CLT_FREED char *bytes = NULL;
    size_t size = 0;
    assert_ok(clt_file_read(in_dir("data_batch_1.bin"), false, 0, CLT_EDATA, &bytes, &size));
    bytes[3073] = 10;
    put_file("one.bin", bytes, size);
    expect_refused("\"type\":\"cifar\",\"path\":\"%D/one.bin\"", CLT_SPLIT_TRAIN, CLT_EDATA,
                   "record 1|label 10");
}

/* --- idx --- */

#define IDX "\"type\":\"idx\",\"path\":\"%D/images\",\"targets\":\"%D/labels\""

/* Crops and flips of the gray images of idx files, as MNIST has them. */
TEST(test_idx)
{
    uint8_t images[16 + 2 * 30] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, 6}, x[30],
                            labels[10] = {0, 0, 8, 1, 0, 0, 0, 2, 4, 7};
    for (int k = 0; k < 60; k++)
        images[16 + k] = (uint8_t)(k + 1);
    put_file("images", images, sizeof images);
    put_file("labels", labels, sizeof labels);
    clt_source *source = must_open(IDX ",\"flip\":1", CLT_SPLIT_TRAIN);
    must_read(source, 1, 0, x);
    for (int k = 0; k < 30; k++)
        assert_int_equal(x[k], images[16 + 30 + k / 6 * 6 + 5 - k % 6]);
    uint8_t y = 0;
    must_read(source, 1, 1, &y);
    assert_int_equal(y, 7);
    clt_source_close(source);
    source = must_open(IDX ",\"size\":[3,4]", CLT_SPLIT_TRAIN);
    assert_int_equal(source->fields[0].shape.ndim, 2);
    assert_int_equal(source->fields[0].shape.dim[1], 4);
    must_read(source, 0, 0, x);
    for (int k = 0; k < 12; k++)
        assert_int_equal(x[k], images[16 + (k / 4 + 1) * 6 + k % 4 + 1]);
    clt_source_close(source);
    source = must_open(IDX ",\"crop\":\"pad\",\"padding\":2", CLT_SPLIT_TRAIN);
    int seen = 0;
    for (uint32_t epoch = 0; epoch < 40; epoch++) {
        void *to[CLT_MAX_FIELDS] = {x, NULL};
        assert_int_equal(source->type->read(source, 0, (clt_draw){5, epoch}, to), CLT_OK);
        for (int k = 0; k < 30; k++)
            seen |= x[k] == 0 ? 1 : x[k] == 1 ? 2 : x[k] == 30 ? 4 : 0;
        assert_true(x[2 * 6 + 2] > 0); /* the middle is never the border */
    }
    assert_int_equal(seen, 7);
    clt_source_close(source);
    put_file("images", labels, sizeof labels); /* no images */
    source = NULL;
    assert_int_equal(try_open(IDX ",\"flip\":1", CLT_SPLIT_TRAIN, &source), CLT_EDATA);
}

/* --- means of channels --- */

TEST(test_channel_means)
{
    put_records("train.bin", 3, 2, 0);
    clt_source *source = must_open(CIFAR ",\"mean\":[0.1,0.2,0.3],\"std\":0.5", CLT_SPLIT_TRAIN);
    assert_int_equal(source->channels, 3);
    assert_true(source->channel_mean[2] > 0.29 && source->channel_std[2] > 0.49);
    clt_source_close(source);
    expect_refused(CIFAR ",\"mean\":[0.1,0.2]", CLT_SPLIT_TRAIN, CLT_ECONFIG, "2 channels");
    expect_refused(CIFAR ",\"mean\":[1,2,3],\"std\":[1,2]", CLT_SPLIT_TRAIN, CLT_ECONFIG, "3 and 2");
}

TEST_PROGRAM(.fresh_folder = true);
