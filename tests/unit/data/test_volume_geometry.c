/* SPDX-License-Identifier: Apache-2.0
 * ctest-labels: quick
 *
 * The position of volumes in space: spacing, axes and origin from one of the header's two forms, compared
 * with nibabel's numbers; headers that contradict themselves; masks that are placed differently from their
 * images; pairs of .hdr and .img; nnU-Net's names; masks whose values are 0 and 255, or almost whole; which
 * files of a folder are left out, by name. */
#include "tests/unit/data/data_test.h"

#include <math.h>

#include "engine/base/log.h"
#include "engine/data/volumes/volume_set.h"

static void patch_file(const char *name, long at, const void *bytes, size_t n)
{
    FILE *file = fopen(in_dir(name), "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

#define SIZE_X 4
#define SIZE_Y 5
#define SIZE_Z 6
#define VOXELS (SIZE_X * SIZE_Y * SIZE_Z)

/* Writes a volume of 4 x 5 x 6 voxels (x, y, z), 1 mm apart. */
static void put(const char *name, clt_element element, const void *data)
{
    const clt_nifti_image image = {
        .element = element, .ndim = 3, .dim = {SIZE_X, SIZE_Y, SIZE_Z}, .data = data};
    assert_ok(clt_nifti_write(in_dir(name), &image));
}

static void put_image(const char *name, int first)
{
    int16_t data[VOXELS];
    for (int i = 0; i < VOXELS; i++)
        data[i] = (int16_t)(first + i);
    put(name, CLT_EL_I16, data);
}

static void put_mask(const char *name, uint8_t one)
{
    uint8_t data[VOXELS] = {0};
    for (int i = 40; i < 60; i++)
        data[i] = one;
    put(name, CLT_EL_U8, data);
}

static void clear(void)
{
    assert_ok(clt_remove_tree(test_folder()));
    assert_ok(clt_mkdir_p(in_dir("images")));
    assert_ok(clt_mkdir_p(in_dir("masks")));
}

static void space_of(const char *name, clt_nifti_space *space)
{
    clt_nifti header;
    assert_ok(clt_nifti_read_header(in_dir(name), &header));
    clt_nifti_space_of(&header, space);
}

static void says(const char *text, const char *word)
{
    if (!strstr(text, word))
        fail_msg("'%s' does not say '%s'", text, word);
}

/* --- one header --- */

/* Voxels of 0.8 x 0.9 x 2.5 mm, turned by 10 degrees around z and then 20 around x, with x to the left;
 * nibabel wrote the same affine as sform and as qform. */
static const float oblique[3][4] = {{-0.7878462076187134f, 0.15628336369991302f, 0.0f, -100.5f},
                                    {0.13054072856903076f, 0.8328748941421509f, -0.8550503849983215f, 30.25f},
                                    {0.04751294106245041f, 0.30314168334007263f, 2.349231481552124f, 12.0f}};
static const float quaternion[6] = {
    -0.0858316496014595f, -0.981060266494751f, -0.17298738658428192f, -100.5f, 30.25f, 12.0f};
static const float pixdim[4] = {-1.0f, 0.8f, 0.9f, 2.5f};

static void expect_oblique(const clt_nifti_space *s)
{
    const double mm[3] = {0.8, 0.9, 2.5};
    assert_string_equal(s->axes, "LAS");
    for (int j = 0; j < 3; j++) {
        assert_true(fabs(s->spacing[j] - mm[j]) < 1e-6);
        assert_true(fabs(s->first[j] - (double)oblique[j][3]) < 1e-6);
        for (int i = 0; i < 3; i++)
            assert_true(fabs(s->column[j][i] * mm[j] - (double)oblique[i][j]) < 2e-6);
    }
}

TEST(test_forms)
{
    const int16_t sform[2] = {0, 2}, qform[2] = {1, 0}, both[2] = {1, 2}, none[2] = {0, 0};
    const float wrong_pixdim[3] = {1, 1, 1}, other_place[3] = {-100.5f, 30.5f, 12}, flat[3] = {0, 0, 0};
    clt_nifti_space s;
    clear();
    put_image("a.nii", 0);
    patch_file("a.nii", 280, oblique, sizeof oblique);
    patch_file("a.nii", 256, quaternion, sizeof quaternion);
    patch_file("a.nii", 76, pixdim, sizeof pixdim);
    const int16_t *forms[] = {sform, qform, both};
    for (int k = 0; k < 3; k++) {
        patch_file("a.nii", 252, forms[k], 4);
        space_of("a.nii", &s);
        expect_oblique(&s);
        assert_string_equal(s.conflict, "");
    }
    /* pixdim as another program writes it: the sform decides all three distances, and a conflict is
     * reported */
    patch_file("a.nii", 80, wrong_pixdim, sizeof wrong_pixdim);
    patch_file("a.nii", 252, sform, 4);
    space_of("a.nii", &s);
    expect_oblique(&s);
    assert_string_equal(
        s.conflict, "its pixdim says voxels of 1 x 1 x 1 mm, its sform 2.5 x 0.9 x 0.8 mm; the sform counts");
    patch_file("a.nii", 252, qform, 4);
    space_of("a.nii", &s);
    assert_true(s.spacing[0] == 1 && s.spacing[2] == 1 && !s.conflict[0] && strcmp(s.axes, "LAS") == 0);
    /* a qform with another origin, or other axes */
    patch_file("a.nii", 76, pixdim, sizeof pixdim);
    patch_file("a.nii", 252, both, 4);
    patch_file("a.nii", 268, other_place, sizeof other_place);
    space_of("a.nii", &s);
    expect_oblique(&s);
    says(s.conflict, "its qform says the first voxel at -100.5, 30.5, 12 mm instead of -100.5, 30.25, 12 mm");
    patch_file("a.nii", 268, quaternion + 3, 12);
    patch_file("a.nii", 256, (const float[3]){0, 0, 0}, 12);
    space_of("a.nii", &s);
    says(s.conflict,
         "its qform says axes RAI instead of LAS and the first voxel at another place; the sform counts");
    /* rounding is no contradiction */
    patch_file("a.nii", 256, (const float[3]){-0.08583f, -0.98106f, -0.17299f}, 12);
    patch_file("a.nii", 80, (const float[3]){0.8003f, 0.9f, 2.5f}, 12);
    space_of("a.nii", &s);
    assert_string_equal(s.conflict, "");
    /* an invalid sform */
    patch_file("a.nii", 280, flat, sizeof flat);
    space_of("a.nii", &s);
    assert_string_equal(s.axes, "LAS");
    says(s.conflict, "its sform does not have three directions; its qform is used");
    patch_file("a.nii", 252, none, 4);
    space_of("a.nii", &s);
    assert_true(s.axes[0] == '\0' && fabs(s.spacing[1] - 0.9) < 1e-6 && !s.conflict[0]);
}

/* --- folders --- */

typedef struct bench {
    clt_arena *arena;
    clt_volume_set set;
} bench;

static clt_status open_bench(bench *b)
{
    clt_volume_list_options options = {.path = test_folder(), .key = "data.path"};
    memset(b, 0, sizeof *b);
    b->set.key = "data.path";
    b->set.mask_classes = CLT_MASK_CLASSES;
    assert_ok(clt_arena_create(&b->arena));
    CLT_TRY(clt_volume_list_open(b->arena, &options, &b->set.list));
    return clt_volume_set_open(&b->set, 1 << 20);
}

static void close_bench(bench *b)
{
    clt_volume_set_close(&b->set);
    clt_arena_destroy(b->arena);
}

static char warned[8000];
static void keep_line(void *context, clt_log_level level, const char *line)
{
    (void)context;
    if (level == CLT_LOG_WARN)
        snprintf(warned + strlen(warned), sizeof warned - strlen(warned), "%s\n", line);
}

/* The warnings when the folder is opened. */
static const char *warnings(bool turned)
{
    bench b;
    warned[0] = '\0';
    clt_log_forget(); /* else the same warning is logged once */
    assert_ok(open_bench(&b));
    clt_log_set_copy(keep_line, NULL, CLT_LOG_WARN);
    clt_volume_list_warn(&b.set.list, "data.path", turned, "do something");
    clt_log_set_copy(NULL, NULL, CLT_LOG_WARN);
    close_bench(&b);
    return warned;
}

static void refuse_folder(const char *word)
{
    bench b;
    clt_status status = open_bench(&b);
    close_bench(&b);
    assert_int_equal(status, CLT_EDATA);
    says(clt_error_text(), word);
}

TEST(test_masks_elsewhere)
{
    const float two[3] = {2, 2, 2}, place = -30, mirrored = -1,
                corner = 3; /* the 4 voxels of x from 0 to 3 mm */
    clear();
    put_image("images/a.nii", 0);
    put_mask("masks/a.nii", 1);
    assert_string_equal(warnings(false), "");
    patch_file("masks/a.nii", 292, &place, 4); /* srow_x[3] */
    says(warnings(false), "1 mask has a header that does not match the image");
    says(warned, "masks/a.nii' has the first voxel at -30, 0, 0 mm instead of 0, 0, 0 mm");
    /* mirrored, but with each voxel at its old place: no difference once data.orientation turns both */
    patch_file("masks/a.nii", 280, &mirrored, 4);
    patch_file("masks/a.nii", 292, &corner, 4);
    says(warnings(false), "masks/a.nii' has axes LAS instead of RAS;");
    assert_string_equal(warnings(true), "");
    patch_file("masks/a.nii", 292, &place, 4);
    says(warnings(false), "axes LAS instead of RAS and the first voxel at another place");
    says(warnings(true), "masks/a.nii' has the first voxel at -33, 0, 0 mm instead of 0, 0, 0 mm");
    put_mask("masks/a.nii", 1);
    for (int i = 0; i < 3; i++)
        patch_file("masks/a.nii", 280 + 20 * i, &two[i], 4);
    says(warnings(true), "masks/a.nii' has voxels of 2 x 2 x 2 mm instead of 1 x 1 x 1 mm");
    says(warned, "the headers of 1 of 1 volume contradict themselves: of");
    patch_file("masks/a.nii", 80, two, sizeof two);
    says(warnings(true), "voxels of 2 x 2 x 2 mm");
    assert_null(strstr(warned, "contradict"));
}

static void copy_bytes(const char *from, size_t at, size_t n, const char *to)
{
    CLT_FREED char *bytes = NULL;
    size_t size;
    assert_ok(clt_file_read(in_dir(from), false, 0, CLT_EDATA, &bytes, &size));
    put_file(to, bytes + at, n ? n : size - at);
}

/* Makes a pair of a single file. */
static void make_pair(const char *single, const char *header, const char *voxels)
{
    const float zero = 0;
    copy_bytes(single, 0, 348, header);
    copy_bytes(single, 352, 0, voxels);
    patch_file(header, 344, "ni1", 4);
    patch_file(header, 108, &zero, 4);
}

TEST(test_pairs)
{
    float values[VOXELS];
    const int64_t origin[3] = {0}, size[3] = {SIZE_Z, SIZE_Y, SIZE_X};
    bench b;
    clt_volume v;
    clear();
    put_image("single.nii", 7);
    make_pair("single.nii", "images/a.hdr", "images/a.img");
    put_mask("whole.nii", 1);
    make_pair("whole.nii", "masks/a.hdr", "masks/a.img");
    assert_ok(open_bench(&b));
    assert_int_equal(b.set.list.count, 1);
    assert_int_equal(b.set.list.bytes, 2 * 348 + 2 * VOXELS + VOXELS);
    assert_ok(clt_volume_set_image(&b.set, 0, origin, size, 0, values));
    for (int i = 0; i < VOXELS; i++)
        assert_true(values[i] == (float)(7 + i));
    close_bench(&b);
    assert_string_equal(warnings(false), "");
    /* both names open the volume */
    assert_ok(clt_volume_open(&v, in_dir("images/a.img"), 1, "test"));
    assert_true(v.header.pair && v.size[0] == SIZE_Z);
    clt_volume_close(&v);
    /* one of the two is missing, or cut */
    put_image("images/b.nii", 0);
    put_mask("masks/b.nii", 1);
    copy_bytes("images/a.hdr", 0, 0, "images/c.hdr");
    copy_bytes("masks/b.nii", 0, 0, "masks/c.nii");
    refuse_folder("images/c.hdr': it is the header of a pair of files, and the voxels");
    assert_int_equal(remove(in_dir("images/c.hdr")), 0);
    copy_bytes("images/a.img", 0, 0, "images/c.img");
    refuse_folder("images/c.img' holds the voxels of a pair of files, and the header");
    copy_bytes("images/a.hdr", 0, 0, "images/c.hdr");
    copy_bytes("images/a.img", 0, 100, "images/c.img");
    refuse_folder("images/c.img': the file is cut off");
    copy_bytes("single.nii", 0, 0, "images/c.hdr");
    refuse_folder("images/c.hdr': it is named as one of a pair of files");
    copy_bytes("images/a.hdr", 0, 0, "images/c.hdr");
    patch_file("images/c.hdr", 344, "\0\0\0", 4);
    refuse_folder("images/c.hdr': it is an ANALYZE 7.5 header");
}

TEST(test_left_out)
{
    clear();
    put_image("images/a.nii", 0);
    put_mask("masks/a.nii", 1);
    put_mask("masks/b.nii.gz", 1);
    put_file("images/notes.txt", "x", 1);
    says(warnings(false), "1 mask has no image of the same name and is skipped");
    says(warned, "masks/b.nii.gz'");
    says(warned, "images/notes.txt'");
    put_file("images/a.nrrd", "x", 1);
    refuse_folder("images/a.nrrd' has a format that cltrain does not read (.nrrd)");
    assert_int_equal(remove(in_dir("images/a.nrrd")), 0);
    put_image("images/a.nii.gz", 0);
    refuse_folder("have the same name and so the same mask");
    assert_int_equal(remove(in_dir("images/a.nii.gz")), 0);
    copy_bytes("images/a.nii", 0, 0, "images/B.NII.GZ");
    refuse_folder("B.NII.GZ' has no mask");
    assert_ok(clt_remove_tree(in_dir("masks")));
    refuse_folder("has a folder 'images', but none with its masks");
}

TEST(test_channels)
{
    float values[2 * VOXELS];
    const int64_t origin[3] = {0}, size[3] = {SIZE_Z, SIZE_Y, SIZE_X};
    bench b;
    clear();
    assert_ok(clt_remove_tree(test_folder()));
    assert_ok(clt_mkdir_p(in_dir("imagesTr")));
    assert_ok(clt_mkdir_p(in_dir("labelsTr")));
    put_image("imagesTr/case_0000.nii.gz", 0);
    put_mask("labelsTr/case.nii.gz", 1);
    assert_ok(open_bench(&b));
    assert_true(b.set.list.count == 1 && b.set.channels == 1 && b.set.list.entry[0].files == 1);
    close_bench(&b);
    put_image("imagesTr/case_0001.nii.gz", 1000);
    assert_ok(open_bench(&b));
    assert_true(b.set.list.count == 1 && b.set.channels == 2);
    assert_ok(clt_volume_set_image(&b.set, 0, origin, size, 0, values));
    for (int i = 0; i < VOXELS; i++)
        assert_true(values[i] == (float)i && values[VOXELS + i] == (float)(1000 + i));
    close_bench(&b);
    assert_string_equal(warnings(false), "");
    put_image("imagesTr/case_0003.nii.gz", 0);
    refuse_folder("is _0003, but there are only 3 files");
    assert_int_equal(remove(in_dir("imagesTr/case_0003.nii.gz")), 0);
    put_image("imagesTr/other_0000.nii.gz", 0);
    refuse_folder(
        "has neither a volume 'other_0000' nor, if _0000 is the number of a channel as nnU-Net writes it, "
        "'other'");
    put_mask("labelsTr/other.nii.gz", 1);
    refuse_folder("all volumes need the same number");
    assert_int_equal(remove(in_dir("imagesTr/case_0000.nii.gz")), 0);
    refuse_folder("the last file of 'case' is _0001, but there are only 1 file");
}

/* --- values of masks --- */

static clt_status read_mask(float odd, int64_t classes, const int64_t *values, uint8_t *out)
{
    float data[VOXELS] = {0};
    clt_volume v;
    data[31] = odd;
    put("m.nii", CLT_EL_F32, data);
    assert_ok(clt_volume_open(&v, in_dir("m.nii"), 1, "test"));
    clt_status status = clt_volume_mask(&v, classes, values, out);
    clt_volume_close(&v);
    return status;
}

TEST(test_mask_values)
{
    static const int64_t black_white[] = {0, 255}, large[] = {0, 77, 2035};
    uint8_t mask[VOXELS];
    const struct {
        float value;
        int64_t classes;
        const int64_t *values;
        int is; /* -1: refused */
        const char *word;
    } cases[] = {
        {0.9999f, 4, NULL, 1, ""},
        {-0.0004f, 4, NULL, 0, ""},
        {2.0009f, 4, NULL, 2, ""},
        {0.998f, 4, NULL, -1,
         "voxel 1,2,3 (depth, height, width) is 0.998; voxels of a mask are class numbers"},
        {0.5f, 4, NULL, -1, "is 0.5;"},
        {-1, 4, NULL, -1, "is -1;"},
        {255, 4, NULL, -1, "[0,255]: 255 is class 1"},
        {255, 2, black_white, 1, ""},
        {254.9999f, 2, black_white, 1, ""},
        {1, 2, black_white, -1, "voxel 1,2,3 (depth, height, width) is 1, which is not one of the 2 values"},
        {2035, 3, large, 2, ""},
        {NAN, 4, NULL, -1, "not a finite number"},
    };
    clear();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        clt_status status = read_mask(cases[i].value, cases[i].classes, cases[i].values, mask);
        if (cases[i].is < 0) {
            assert_int_equal(status, CLT_EDATA);
            says(clt_error_text(), cases[i].word);
            continue;
        }
        assert_ok(status);
        assert_int_equal(mask[31], cases[i].is);
        assert_int_equal(mask[30], 0);
    }
}

TEST(test_unused_classes)
{
    clear();
    put_image("images/a.nii", 0);
    put_mask("masks/a.nii", 255);
    clt_log_set_copy(keep_line, NULL, CLT_LOG_WARN);
    warned[0] = '\0';
    clt_source *s = must_open("\"type\":\"nifti\",\"path\":\"%D\",\"split\":0", CLT_SPLIT_TRAIN_ONCE);
    says(warned, "of the classes 0 to 255 only 2 occur in the masks of");
    says(warned, ": 0, 255; ");
    says(warned, "data.mask_values=[0,255]");
    clt_source_close(s);
    warned[0] = '\0';
    s = must_open("\"type\":\"nifti\",\"path\":\"%D\",\"split\":0,\"mask_values\":[0,255]",
                  CLT_SPLIT_TRAIN_ONCE);
    assert_string_equal(warned, "");
    says(s->description, "masks of 2 classes");
    clt_source_close(s);
    clt_log_set_copy(NULL, NULL, CLT_LOG_WARN);
    expect_refused("\"type\":\"nifti\",\"path\":\"%D\",\"mask_values\":[0,1,0]", CLT_SPLIT_TRAIN, CLT_ECONFIG,
                   "it has the value 0 twice, for class 0 and class 2");
    expect_refused("\"type\":\"nifti\",\"path\":\"%D\",\"mask_values\":[0,1],\"mask_classes\":3",
                   CLT_SPLIT_TRAIN, CLT_ECONFIG, "data.mask_classes is 3");
}

/* i16 voxels of 12 bits with scl_slope 0.5 and scl_inter -1024: nibabel's get_fdata says -1024, -1023.5
 * ... */
TEST(test_scaled_integers)
{
    const uint16_t stored[VOXELS] = {0, 1, 2047, 4095, 65535};
    const double is[5] = {-1024, -1023.5, -0.5, 1023.5, 31743.5};
    const int64_t at[3] = {0}, box[3] = {1, 2, SIZE_X};
    const int16_t bits = 12;
    float values[2 * SIZE_X];
    clt_volume v;
    clt_nifti_image image = {.element = CLT_EL_U16,
                             .ndim = 3,
                             .dim = {SIZE_X, SIZE_Y, SIZE_Z},
                             .data = stored,
                             .slope = 0.5,
                             .inter = -1024};
    clear();
    assert_ok(clt_nifti_write(in_dir("s.nii"), &image));
    for (int k = 0; k < 2; k++) {
        assert_ok(clt_volume_open(&v, in_dir("s.nii"), 1, "test"));
        assert_ok(clt_volume_box(&v, at, box, 0, values));
        clt_volume_close(&v);
        for (int i = 0; i < 5; i++)
            assert_true((double)values[i] == is[i]);
        patch_file("s.nii", 72, &bits, 2);
    }
}
