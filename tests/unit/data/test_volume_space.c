/* SPDX-License-Identifier: Apache-2.0
 * ctest-labels: quick
 *
 * Volumes in one orientation and with one spacing: every orientation of a file's axes, from sform and
 * qform; images and masks after data.orientation and data.spacing, compared with formulas for a voxel's
 * place in the body; predicted masks back in the file's space; facts that headers lack; warnings. */
#include "tests/unit/data/data_test.h"

#include <math.h>

#include "engine/base/log.h"
#include "engine/data/volumes/volume_set.h"

/* The directions of a file's axes x, y, z: axis j runs along direction way[j] of the body (0 right, 1
 * front, 2 head), downwards if down[j], with voxels spacing[j] mm apart. The body's corner is at 0: the
 * nearest voxel's centre lies half a voxel inside. */
typedef struct lie {
    int way[3];
    bool down[3];
    double spacing[3];
    int64_t size[3];
} lie;

#define MOST 30000

static int16_t values[MOST];
static float numbers[MOST];

/* The position of a voxel's centre in mm. */
static void place_of(const lie *l, const int64_t voxel[3], double mm[3])
{
    for (int j = 0; j < 3; j++) {
        int64_t at = l->down[j] ? l->size[j] - 1 - voxel[j] : voxel[j];
        mm[l->way[j]] = ((double)at + 0.5) * l->spacing[j];
    }
}

static double image_at(const double mm[3])
{
    return 3 * mm[0] - 5 * mm[1] + 0.5 * mm[2] + 7;
}

/* The class at a place: the classes form boxes. */
static int mask_at(const double mm[3])
{
    return ((int)floor(mm[0] / 3) + 2 * (int)floor(mm[1] / 4) + (int)floor(mm[2] / 5)) % 3;
}

static void patch_file(const char *name, long at, const void *bytes, size_t n)
{
    FILE *file = fopen(in_dir(name), "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

/* Writes the directions of the axes as an sform. */
static void patch_sform(const char *name, const lie *l)
{
    float rows[3][4] = {{0}};
    for (int j = 0; j < 3; j++) {
        rows[l->way[j]][j] = (float)(l->down[j] ? -l->spacing[j] : l->spacing[j]);
        rows[l->way[j]][3] = 11;
    }
    patch_file(name, 280, rows, sizeof rows);
}

static void put(const char *name, const lie *l, bool mask)
{
    int64_t n = 0, v[3];
    double mm[3];
    clt_nifti_image image = {.element = mask ? CLT_EL_I16 : CLT_EL_F32,
                             .ndim = 3,
                             .data = mask ? (const void *)values : (const void *)numbers};
    for (int j = 0; j < 3; j++) {
        image.dim[j] = l->size[j];
        image.spacing[j] = (float)l->spacing[j];
    }
    assert_true(l->size[0] * l->size[1] * l->size[2] <= MOST);
    for (v[2] = 0; v[2] < l->size[2]; v[2]++)
        for (v[1] = 0; v[1] < l->size[1]; v[1]++)
            for (v[0] = 0; v[0] < l->size[0]; v[0]++, n++) {
                place_of(l, v, mm);
                values[n] = (int16_t)mask_at(mm);
                numbers[n] = (float)image_at(mm);
            }
    assert_ok(clt_nifti_write(in_dir(name), &image));
    patch_sform(name, l);
}

static void clear(void)
{
    assert_ok(clt_remove_tree(test_folder()));
    assert_ok(clt_mkdir_p(in_dir("images")));
    assert_ok(clt_mkdir_p(in_dir("masks")));
}

/* A set of the volumes of the test's folder. */
typedef struct bench {
    clt_arena *arena;
    clt_volume_set set;
} bench;

static clt_status open_bench(bench *b, const clt_volume_want *want, uint64_t cache_bytes)
{
    clt_volume_list_options options = {.path = in_dir(""), .key = "data.path", .want = want};
    memset(b, 0, sizeof *b);
    b->set.key = "data.path";
    b->set.mask_classes = 3;
    assert_ok(clt_arena_create(&b->arena));
    CLT_TRY(clt_volume_list_open(b->arena, &options, &b->set.list));
    return clt_volume_set_open(&b->set, cache_bytes);
}

static void close_bench(bench *b)
{
    clt_volume_set_close(&b->set);
    clt_arena_destroy(b->arena);
}

/* The size of a body along each direction. */
static void body_of(const lie *l, double body[3])
{
    for (int j = 0; j < 3; j++)
        body[l->way[j]] = (double)l->size[j] * l->spacing[j];
}

static double clamped(double value, double low, double high)
{
    return value < low ? low : value > high ? high : value;
}

/* Compares volume `index` with the formulas. The result's width runs right, its height front, its depth to
 * the head; `spacing` is in this order, and `up` says which axes run in this direction and not against
 * it. */
static void check_volume(const bench *b, int64_t index, const lie *l, const double spacing[3],
                         const bool up[3])
{
    int64_t size[3], origin[3] = {0};
    double body[3], own[3];
    body_of(l, body);
    for (int j = 0; j < 3; j++)
        own[l->way[j]] = l->spacing[j];
    clt_volume_set_size(&b->set, index, size);
    for (int d = 0; d < 3; d++)
        assert_int_equal(size[2 - d], (int64_t)floor(body[d] / spacing[d] + 0.5));
    float *x = calloc((size_t)clt_voxels(size), sizeof *x);
    CLT_FREED uint8_t *y = calloc((size_t)clt_voxels(size), 1);
    assert_true(x && y);
    assert_ok(clt_volume_set_image(&b->set, index, origin, size, 0, x));
    assert_ok(clt_volume_set_mask(&b->set, index, origin, size, y));
    for (int64_t i = 0; i < clt_voxels(size); i++) {
        int64_t at[3] = {i % size[2], i / size[2] % size[1], i / size[2] / size[1]};
        double mm[3], inside[3], voxel[3];
        for (int d = 0; d < 3; d++) {
            double along = ((double)at[d] + 0.5) * spacing[d]; /* from the edge at which the axis begins */
            inside[d] = clamped(along, 0.5 * own[d], body[d] - 0.5 * own[d]);
            voxel[d] = (floor(clamped(along, 0, body[d] - 1e-6) / own[d] + 1e-9) + 0.5) * own[d];
            mm[d] = up[d] ? inside[d] : body[d] - inside[d];
            voxel[d] = up[d] ? voxel[d] : body[d] - voxel[d];
        }
        if (fabs((double)x[i] - image_at(mm)) > 2e-3)
            fail_msg("voxel %lld is %g, by the formula %g", (long long)i, (double)x[i], image_at(mm));
        if (y[i] != mask_at(voxel))
            fail_msg("the mask's voxel %lld is %d, by the formula %d", (long long)i, y[i], mask_at(voxel));
    }
    free(x);
}

static const bool all_up[3] = {true, true, true};

/* All 48 orientations, turned to RAS; and to LPS, whose width runs left and whose height runs back. */
TEST(test_orientations)
{
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    static const bool lps[3] = {false, false, true};
    for (int way = 0; way < 48; way++) {
        lie l = {.spacing = {1.5, 1, 2}, .size = {6, 5, 4}};
        double spacing[3];
        for (int j = 0; j < 3; j++) {
            l.way[j] = orders[way / 8][j];
            l.down[j] = (way >> j) & 1;
            spacing[l.way[j]] = l.spacing[j];
        }
        clear();
        put("images/a.nii", &l, false);
        put("masks/a.nii", &l, true);
        for (int k = 0; k < 2; k++) {
            clt_volume_want want = {.axes = "RAS"};
            bench b;
            if (k)
                memcpy(want.axes, "LPS", sizeof want.axes);
            assert_ok(open_bench(&b, &want, 1 << 20));
            assert_true(clt_volume_posed(&b.set.list.entry[0].pose) ||
                        strcmp(b.set.list.entry[0].space.axes, want.axes) == 0);
            check_volume(&b, 0, &l, spacing, k ? lps : all_up);
            close_bench(&b);
        }
    }
}

/* The axis letters of a qform: the quaternion's b, c, d and the sign of the third axis (pixdim[0]). */
TEST(test_qform)
{
    static const struct {
        float bcd[3], sign;
        const char *axes;
    } forms[] = {
        {{0, 0, 0}, 1, "RAS"},           {{0, 0, 0}, -1, "RAI"},       {{0, 0, 1}, 1, "LPS"},
        {{1, 0, 0}, 1, "RPI"},           {{0, 1, 0}, 1, "LAI"},        {{0.5f, 0.5f, 0.5f}, 1, "ASR"},
        {{0.5f, 0.5f, 0.5f}, -1, "ASL"}, {{0.1f, 0, 0.05f}, 1, "RAS"}, {{0, 0, 0.70710678f}, 1, "ALS"},
    };
    const lie l = {.way = {0, 1, 2}, .spacing = {1, 2, 3}, .size = {2, 2, 2}};
    clear();
    put("a.nii", &l, false);
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        clt_nifti header;
        clt_nifti_space space;
        int16_t codes[2] = {1, 0};
        patch_file("a.nii", 252, codes, sizeof codes);
        patch_file("a.nii", 76, &forms[i].sign, 4);
        patch_file("a.nii", 256, forms[i].bcd, sizeof forms[i].bcd);
        assert_ok(clt_nifti_read_header(in_dir("a.nii"), &header));
        clt_nifti_space_of(&header, &space);
        assert_string_equal(space.axes, forms[i].axes);
        assert_true(space.spacing[0] == 1 && space.spacing[1] == 2 && space.spacing[2] == 3);
    }
    bool up;
    assert_true(clt_axes_are("RAS") && clt_axes_are("SPL") && clt_axis_of('P', &up) == 1 && !up);
    assert_false(clt_axes_are("RA") || clt_axes_are("RAL") || clt_axes_are("RASS") || clt_axes_are("ras"));
}

/* Units of the header: metres and micrometres. */
TEST(test_units)
{
    const lie l = {.way = {0, 1, 2}, .spacing = {1, 2, 3}, .size = {2, 2, 2}};
    static const struct {
        uint8_t code;
        double factor;
    } units[] = {{0, 1}, {1, 1000}, {2, 1}, {3, 0.001}, {10, 1} /* and seconds */};
    clear();
    put("a.nii", &l, false);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        clt_nifti header;
        clt_nifti_space space;
        patch_file("a.nii", 123, &units[i].code, 1);
        assert_ok(clt_nifti_read_header(in_dir("a.nii"), &header));
        clt_nifti_space_of(&header, &space);
        assert_true(fabs(space.spacing[1] - 2 * units[i].factor) < 1e-9 * units[i].factor);
    }
}

TEST(test_spacing)
{
    static const lie lies[] = {
        {{0, 1, 2}, {false, false, false}, {0.8, 0.8, 2.5}, {20, 15, 9}},
        {{1, 2, 0}, {true, false, true}, {1.5, 0.7, 3}, {11, 24, 8}},
        {{0, 1, 2}, {true, true, false}, {1, 1, 1}, {12, 10, 14}},
    };
    static const double wanted[][3] = {{1, 1, 1}, {0.5, 1.7, 2}, {4, 3, 7}}; /* right, front, head */
    clear();
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "images/%c.nii", 'a' + i);
        put(name, &lies[i], false);
        snprintf(name, sizeof name, "masks/%c.nii", 'a' + i);
        put(name, &lies[i], true);
    }
    for (size_t k = 0; k < sizeof wanted / sizeof wanted[0]; k++) {
        const double *w = wanted[k];
        const clt_volume_want want = {.axes = "RAS", .spaces = true, .spacing = {w[2], w[1], w[0]}};
        bench b;
        assert_ok(open_bench(&b, &want, 60000));
        for (int round = 0; round < 2; round++)
            for (int i = 0; i < 3; i++)
                check_volume(&b, i, &lies[i], w, all_up);
        clt_cache_facts facts = clt_volume_cache_facts(b.set.cache);
        assert_true(facts.bytes <= 60000 && facts.made >= 6);
        close_bench(&b);
    }
}

/* A predicted mask is mapped back to the file's voxels: without loss where the voxels had become smaller. */
TEST(test_way_back)
{
    const lie l = {{2, 0, 1}, {true, false, true}, {2, 3, 1}, {7, 6, 9}};
    const clt_volume_want want = {.axes = "RAS", .spaces = true, .spacing = {0.5, 0.5, 1}};
    clear();
    put("images/a.nii", &l, false);
    put("masks/a.nii", &l, true);
    bench b;
    assert_ok(open_bench(&b, &want, 1 << 20));
    const clt_volume_pose *pose = &b.set.list.entry[0].mask_pose;
    int64_t origin[3] = {0}, count = clt_voxels(pose->file);
    uint8_t *posed = malloc((size_t)clt_voxels(pose->size)), *back = malloc((size_t)count);
    assert_true(posed && back && clt_voxels(pose->size) > count);
    assert_ok(clt_volume_set_mask(&b.set, 0, origin, pose->size, posed));
    memset(back, 9, (size_t)count);
    clt_volume_pose_back(pose, posed, back);
    for (int64_t i = 0; i < count; i++)
        assert_int_equal(back[i], values[i]);
    free(posed);
    free(back);
    close_bench(&b);
}

static char warned[4000];
static void keep_line(void *context, clt_log_level level, const char *line)
{
    (void)context;
    if (level == CLT_LOG_WARN)
        snprintf(warned + strlen(warned), sizeof warned - strlen(warned), "%s\n", line);
}

TEST(test_what_is_missing)
{
    const lie ras = {{0, 1, 2}, {false, false, false}, {1, 2, 3}, {4, 4, 4}},
              lps = {{0, 1, 2}, {true, true, false}, {1, 2, 3}, {4, 4, 4}},
              turned = {{1, 0, 2}, {false, false, false}, {1, 2, 3}, {4, 4, 4}};
    const clt_volume_want axes = {.axes = "RAS"}, spacing = {.spaces = true, .spacing = {1, 1, 1}};
    const int16_t none[2] = {0, 0};
    const float zero = 0;
    bench b;
    clear();
    put("images/a.nii", &ras, false);
    put("masks/a.nii", &turned, true);
    assert_int_equal(open_bench(&b, &axes, 1000), CLT_EDATA);
    expect_words("the mask|has the axes ARS, but its image has the axes RAS");
    close_bench(&b);
    patch_file("images/a.nii", 252, none, sizeof none);
    assert_int_equal(open_bench(&b, &axes, 1000), CLT_EDATA);
    expect_words("images/a.nii|sform and qform|data.orientation");
    close_bench(&b);
    patch_file("images/a.nii", 80, &zero, 4);
    assert_int_equal(open_bench(&b, &spacing, 1000), CLT_EDATA);
    expect_words("images/a.nii|pixdim|data.spacing");
    close_bench(&b);
    /* without data.orientation and data.spacing all is accepted, with a warning for what differs */
    clear();
    put("images/a.nii", &ras, false);
    put("masks/a.nii", &lps, true);
    put("images/b.nii", &lps, false);
    put("masks/b.nii", &lps, true);
    assert_ok(open_bench(&b, NULL, 1000));
    clt_log_set_copy(keep_line, NULL, CLT_LOG_WARN);
    clt_volume_list_warn(&b.set.list, "data.path", false, "do something");
    clt_log_set_copy(NULL, NULL, CLT_LOG_WARN);
    if (!strstr(warned, "in 1 of 2 volumes the axes point in other directions") ||
        !strstr(warned, "1 mask has a header that does not match") || !strstr(warned, "b.nii' are LPS") ||
        !strstr(warned, "do something"))
        fail_msg("%s", warned);
    close_bench(&b);
    const clt_volume_want mirrored = {.axes = "RAS"};
    assert_ok(open_bench(&b, &mirrored, 100000)); /* a mask that is mirrored otherwise goes its own way */
    const double own[3] = {1, 2, 3};
    check_volume(&b, 0, &ras, own, all_up);
    check_volume(&b, 1, &lps, own, all_up);
    close_bench(&b);
}

#define SPACE_OF(config, words)                                                                              \
    do {                                                                                                     \
        clt_source *source =                                                                                 \
            must_open("\"type\":\"nifti\",\"path\":\"%D\",\"split\":0" config, CLT_SPLIT_TRAIN_ONCE);        \
        if (!strstr(source->description, words))                                                             \
            fail_msg("%s", source->description);                                                             \
        clt_source_close(source);                                                                            \
    } while (0)

/* The reported voxel sizes are those after turning, also with data.orientation alone. */
static void describe_turned(void)
{
    const lie l = {{0, 1, 2}, {true, true, false}, {0.8, 0.8, 2}, {10, 10, 10}};
    const lie lying = {{2, 1, 0}, {true, true, true}, {2, 0.8, 0.8}, {10, 10, 10}};
    const float zero = 0;
    SPACE_OF(",\"orientation\":\"RAS\"", ", voxels of 2 x 0.8 x 0.8 mm, RAS");
    SPACE_OF(",\"orientation\":\"SAR\"", ", voxels of 0.8 x 0.8 x 2 mm, SAR");
    /* two scanners: the sizes differ in the files and agree once they are turned */
    put("images/a.nii", &l, false);
    put("masks/a.nii", &l, true);
    put("images/b.nii", &lying, false);
    put("masks/b.nii", &lying, true);
    SPACE_OF("", ", voxels of several sizes");
    SPACE_OF(",\"orientation\":\"RAS\"", ", voxels of 2 x 0.8 x 0.8 mm, RAS");
    /* a qform, which takes distances from pixdim */
    patch_file("images/b.nii", 252, (const int16_t[2]){1, 0}, 4);
    patch_file("masks/b.nii", 252, (const int16_t[2]){1, 0}, 4);
    patch_file("images/b.nii", 80, &zero, 4);
    SPACE_OF(",\"orientation\":\"RAS\"", ", spacing unknown, RAS");
    assert_ok(clt_remove_tree(in_dir("images/b.nii")));
    assert_ok(clt_remove_tree(in_dir("masks/b.nii")));
}

/* The keys of the config, and the description of the data. */
TEST(test_config)
{
    const lie l = {{0, 1, 2}, {true, true, false}, {0.8, 0.8, 2}, {10, 10, 6}};
    float x[5 * 5 * 4];
    clear();
    put("images/a.nii", &l, false);
    put("masks/a.nii", &l, true);
    clt_source *s = must_open("\"type\":\"nifti\",\"path\":\"%D\",\"split\":0,\"spacing\":[3,1.6,1.6],"
                              "\"orientation\":\"RAS\"",
                              CLT_SPLIT_TRAIN_ONCE);
    assert_int_equal(s->fields[0].shape.dim[1], 4);
    assert_int_equal(s->fields[0].shape.dim[2], 5);
    assert_non_null(strstr(s->description, "voxels of 3 x 1.6 x 1.6 mm, RAS"));
    must_read(s, 0, 0, x);
    const double corner[3] = {0.8, 0.8, 1.5};
    assert_true(fabs((double)x[0] - image_at(corner)) < 1e-3);
    clt_source_close(s);
    s = must_open("\"type\":\"nifti\",\"path\":\"%D\",\"split\":0", CLT_SPLIT_TRAIN_ONCE);
    assert_non_null(strstr(s->description, "voxels of 2 x 0.8 x 0.8 mm, LPS"));
    clt_source_close(s);
    describe_turned();
    expect_refused("\"type\":\"nifti\",\"path\":\"%D\",\"spacing\":[1,2]", CLT_SPLIT_TRAIN, CLT_ECONFIG,
                   "data.spacing");
    expect_refused("\"type\":\"nifti\",\"path\":\"%D\",\"spacing\":0", CLT_SPLIT_TRAIN, CLT_ECONFIG,
                   "data.spacing");
    expect_refused("\"type\":\"nifti\",\"path\":\"%D\",\"orientation\":\"RAL\"", CLT_SPLIT_TRAIN, CLT_ECONFIG,
                   "data.orientation");
}
