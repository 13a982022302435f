/* SPDX-License-Identifier: Apache-2.0
 *
 * CIFAR-10 and CIFAR-100: the binary version as it is published (records of a label byte, for CIFAR-100 a
 * coarse and a fine one, and three planes of 32 x 32 bytes), or the idx files that `cltrain data fetch
 * cifar10` makes of it. It only locates images; image_source.c does the rest. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/data/fingerprint.h"
#include "engine/data/images/image_source.h"
#include "engine/files/fileio.h"

enum { SIDE = 32, PIXELS = 3 * SIDE * SIDE, MOST_FILES = 8, MOST_NAMES = 100 };

/* A file of records. The image of record i begins at byte first + i * step of `images`; its label is byte
 * label_first + i * label_step of `labels` or, if that file is not mapped, of `images`. */
typedef struct cifar_file {
    const char *path;
    clt_mapping images, labels;
    size_t first, step, label_first, label_step;
    int64_t count, before; /* number of records in this file; in the files before it */
} cifar_file;

typedef struct cifar_state {
    clt_image_state base; /* first member */
    bool fine;            /* CIFAR-100 */
    int classes;
    int n_files;
    cifar_file files[MOST_FILES];
} cifar_state;

static const cifar_file *file_of(const cifar_state *s, int64_t index)
{
    int i = s->n_files - 1;
    while (i > 0 && s->files[i].before > index)
        i--;
    return &s->files[i];
}

static int32_t cifar_label(const clt_source *source, int64_t index)
{
    const cifar_state *s = source->state;
    const cifar_file *f = file_of(s, index);
    const clt_mapping *m = f->labels.data ? &f->labels : &f->images;
    int32_t label = m->data[f->label_first + (size_t)(index - f->before) * f->label_step];
    clt_map_used(m);
    return label;
}

static clt_status cifar_get(const clt_source *source, int64_t index, clt_stored_image *out)
{
    const cifar_state *s = source->state;
    const cifar_file *f = file_of(s, index);
    *out = (clt_stored_image){.kind = CLT_STORED_PLANES,
                              .bytes = f->images.data + f->first + (size_t)(index - f->before) * f->step,
                              .size = PIXELS,
                              .width = SIDE,
                              .height = SIDE,
                              .mapping = &f->images};
    return CLT_OK;
}

/* --- files --- */

static clt_status join(clt_arena *arena, const char *folder, const char *name, const char **out)
{
    *out = clt_arena_printf(arena, "%s/%s", folder, name);
    return *out ? CLT_OK : CLT_ENOMEM;
}

static bool has(const char *folder, const char *name)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    return n > 0 && (size_t)n < sizeof path && clt_file_exists(path);
}

static cifar_file *next_file(cifar_state *s)
{
    cifar_file *f = &s->files[s->n_files++];
    f->before = s->n_files > 1 ? f[-1].before + f[-1].count : 0;
    return f;
}

/* Adds a file of records: CIFAR-10's have 3073 bytes, CIFAR-100's 3074. */
static clt_status add_records(clt_source *source, cifar_state *s, const char *path)
{
    cifar_file *f = next_file(s);
    f->path = path;
    CLT_TRY(clt_map_open(path, CLT_EDATA, &f->images));
    bool ten = f->images.size % (PIXELS + 1) == 0, hundred = f->images.size % (PIXELS + 2) == 0;
    if (f->images.size == 0 || (!ten && !hundred))
        CLT_FAIL(CLT_EDATA,
                 "opening '%s': %zu bytes are not a whole number of records of CIFAR-10 (%d bytes) or "
                 "CIFAR-100 (%d bytes); download it again, or is it another file?",
                 path, f->images.size, PIXELS + 1, PIXELS + 2);
    if (s->n_files > 1 && (s->fine ? !hundred : !ten))
        CLT_FAIL(CLT_EDATA, "opening '%s': its records have another length than the records of '%s'", path,
                 s->files[0].path);
    s->fine = s->n_files > 1 ? s->fine : !ten;
    s->classes = s->fine ? 100 : 10;
    f->first = s->fine ? 2 : 1;
    f->step = f->label_step = (size_t)PIXELS + f->first;
    f->label_first = f->first - 1;
    f->count = (int64_t)(f->images.size / f->step);
    source->bytes += (int64_t)f->images.size;
    return CLT_OK;
}

static uint32_t big_u32(const uint8_t *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* Adds the idx files of `data fetch cifar10`. */
static clt_status add_idx(clt_source *source, cifar_state *s, const char *images, const char *labels)
{
    cifar_file *f = next_file(s);
    f->path = images;
    CLT_TRY(clt_map_open(images, CLT_EDATA, &f->images));
    CLT_TRY(clt_map_open(labels, CLT_EDATA, &f->labels));
    const uint8_t *x = f->images.data, *y = f->labels.data;
    uint64_t n = f->images.size >= 20 ? big_u32(x + 4) : 0;
    bool good = n > 0 && memcmp(x, "\0\0\x08\x04", 4) == 0 && big_u32(x + 8) == 3 &&
                big_u32(x + 12) == SIDE && big_u32(x + 16) == SIDE && f->images.size == 20 + n * PIXELS &&
                f->labels.size == 8 + n && memcmp(y, "\0\0\x08\x01", 4) == 0 && big_u32(y + 4) == n;
    if (!good)
        CLT_FAIL(
            CLT_EDATA,
            "opening '%s' and '%s': they are not the images (n,3,32,32) and labels (n) of cltrain data fetch "
            "cifar10; load them again",
            images, labels);
    f->first = 20;
    f->step = PIXELS;
    f->label_first = 8;
    f->label_step = 1;
    f->count = (int64_t)n;
    s->classes = 10;
    source->bytes += (int64_t)(f->images.size + f->labels.size);
    return CLT_OK;
}

/* Opens the files of a split in a folder, by the names under which the sets are published. */
static clt_status open_folder(clt_source *source, cifar_state *s, const char *folder, bool eval)
{
    static const char *const train[] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                        "data_batch_4.bin", "data_batch_5.bin"};
    const char *path, *labels;
    const char *single = eval ? "test.bin" : "train.bin";
    for (int i = 0; i < (eval ? 1 : 5); i++) {
        const char *name = eval ? "test_batch.bin" : train[i];
        if (!has(folder, name)) {
            if (s->n_files > 0)
                CLT_FAIL(CLT_EDATA, "opening '%s': it has '%s' but no '%s'; unpack the archive again", folder,
                         train[0], name);
            break;
        }
        CLT_TRY(join(source->arena, folder, name, &path));
        CLT_TRY(add_records(source, s, path));
    }
    if (s->n_files > 0)
        return CLT_OK;
    CLT_TRY(join(source->arena, folder, single, &path));
    if (clt_file_exists(path))
        return add_records(source, s, path);
    CLT_TRY(join(source->arena, folder, eval ? "test-images-idx4-ubyte" : "train-images-idx4-ubyte", &path));
    CLT_TRY(
        join(source->arena, folder, eval ? "test-labels-idx1-ubyte" : "train-labels-idx1-ubyte", &labels));
    if (clt_file_exists(path))
        return add_idx(source, s, path, labels);
    CLT_FAIL(
        CLT_EDATA,
        "opening '%s': it has neither %s nor %s nor %s-images-idx4-ubyte; name the folder of CIFAR's binary "
        "version, or load it with cltrain data fetch cifar10",
        folder, eval ? "test_batch.bin" : train[0], single, eval ? "test" : "train");
}

/* --- classes --- */

static const char *const cifar10_names[] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                            "dog",      "frog",       "horse", "ship", "truck"};

/* Reads the class names, one on each line of batches.meta.txt or fine_label_names.txt. *count 0: there is no
 * such file, or it has the wrong number of names. */
static clt_status read_names(clt_source *source, const char *folder, const cifar_state *s, const char **names,
                             int *count)
{
    const char *path;
    char *text = NULL;
    size_t size = 0;
    CLT_TRY(join(source->arena, folder, s->fine ? "fine_label_names.txt" : "batches.meta.txt", &path));
    *count = 0;
    if (!clt_file_exists(path))
        return CLT_OK;
    CLT_TRY(clt_file_read(path, false, 1 << 16, CLT_EDATA, &text, &size));
    char *rest = NULL;
    for (char *line = strtok_r(text, "\r\n", &rest); line && *count < MOST_NAMES;
         line = strtok_r(NULL, "\r\n", &rest))
        if (!(names[(*count)++] = clt_arena_strdup(source->arena, line))) {
            free(text);
            return CLT_ENOMEM;
        }
    free(text);
    *count = *count == s->classes ? *count : 0;
    return CLT_OK;
}

static clt_status set_names(clt_source *source, const char *folder, cifar_state *s)
{
    const char **names = clt_arena_alloc(source->arena, MOST_NAMES * sizeof *names);
    int count = 0;
    if (!names)
        return CLT_ENOMEM;
    CLT_TRY(read_names(source, folder, s, names, &count));
    for (int i = 0; count == 0 && i < s->classes; i++)
        if (!(names[i] = s->fine ? clt_arena_printf(source->arena, "%d", i) : cifar10_names[i]))
            return CLT_ENOMEM;
    source->class_names = names;
    source->n_class_names = s->classes;
    return CLT_OK;
}

static clt_status check_labels(const clt_source *source, const cifar_state *s)
{
    for (int64_t i = 0; i < source->samples; i++)
        if (cifar_label(source, i) >= s->classes)
            CLT_FAIL(
                CLT_EDATA,
                "opening '%s': record %lld has the label %d, and there are %d classes; download it again",
                file_of(s, i)->path, (long long)(i - file_of(s, i)->before), (int)cifar_label(source, i),
                s->classes);
    return CLT_OK;
}

static clt_status cifar_open(clt_source *source, const clt_config *config, clt_split split)
{
    cifar_state *s = clt_arena_alloc(source->arena, sizeof *s);
    bool eval = split == CLT_SPLIT_EVAL, own = eval && clt_config_list_count(config, "data.eval_path") > 0;
    const char *key = own ? "data.eval_path" : "data.path";
    if (!s)
        return CLT_ENOMEM;
    source->state = s;
    s->base.get = cifar_get;
    s->base.label = cifar_label;
    int n = clt_config_list_count(config, key);
    if (n < 1 || n > MOST_FILES)
        CLT_FAIL(CLT_ECONFIG,
                 "opening the data: data.type cifar takes a folder or 1 to %d files in %s, %d were given",
                 MOST_FILES, key, n);
    const char *folder = clt_config_list_string(config, key, 0);
    if (n == 1 && clt_is_directory(folder)) {
        CLT_TRY(open_folder(source, s, folder, eval));
    } else {
        for (int i = 0; i < n; i++) {
            const char *path = clt_arena_strdup(source->arena, clt_config_list_string(config, key, i));
            if (!path)
                return CLT_ENOMEM;
            CLT_TRY(own ? clt_fail_prefix(add_records(source, s, path), "%s", key)
                        : add_records(source, s, path));
        }
        const char *slash = strrchr(folder, '/');
        folder = slash ? clt_arena_printf(source->arena, "%.*s", (int)(slash - folder), folder) : ".";
        if (!folder)
            return CLT_ENOMEM;
    }
    const cifar_file *last = &s->files[s->n_files - 1];
    source->samples = last->before + last->count;
    CLT_TRY(check_labels(source, s));
    CLT_TRY(set_names(source, folder, s));
    CLT_TRY(clt_images_begin(source, &s->base, config, split, SIDE, SIDE));
    source->description = clt_arena_printf(
        source->arena, "cifar: %lld image%s of %d classes from '%s'%s, as (3,%d,%d) u8",
        (long long)source->samples, CLT_PLURAL(source->samples), s->classes, s->files[0].path,
        s->n_files > 1 ? " and others" : "", s->base.augment.height, s->base.augment.width);
    return source->description ? CLT_OK : CLT_ENOMEM;
}

static void cifar_close(clt_source *source)
{
    cifar_state *s = source->state;
    if (!s)
        return;
    clt_images_close(source);
    for (int i = 0; i < s->n_files; i++) {
        if (s->files[i].images.data)
            clt_map_close(&s->files[i].images);
        if (s->files[i].labels.data)
            clt_map_close(&s->files[i].labels);
    }
}

static void cifar_locate(const clt_source *source, int64_t index, int field, clt_str *out)
{
    const cifar_state *s = source->state;
    const cifar_file *f = file_of(s, index);
    (void)field;
    clt_str_printf(out, "'%s', record %lld", f->path, (long long)(index - f->before));
}

static clt_status cifar_fingerprint(const clt_source *source, clt_hash64_state *state)
{
    const cifar_state *s = source->state;
    for (int i = 0; i < s->n_files; i++) {
        clt_fingerprint_add_mapped(state, &s->files[i].images);
        if (s->files[i].labels.data)
            clt_fingerprint_add_mapped(state, &s->files[i].labels);
    }
    return CLT_OK;
}

bool clt_is_cifar_folder(const char *path)
{
    return clt_is_directory(path) &&
           (has(path, "data_batch_1.bin") || (has(path, "train.bin") && has(path, "test.bin")) ||
            has(path, "train-images-idx4-ubyte"));
}

/* True if the training folder also has the test images. */
static bool cifar_has_eval(const clt_config *config)
{
    const char *folder =
        clt_config_list_count(config, "data.path") == 1 ? clt_config_list_string(config, "data.path", 0) : "";
    return clt_is_directory(folder) && (has(folder, "test_batch.bin") || has(folder, "test.bin") ||
                                        has(folder, "test-images-idx4-ubyte"));
}

static clt_status cifar_shapes(const clt_config *config, const struct clt_tokenizer *tokenizer,
                               int64_t samples, clt_source *source)
{
    (void)tokenizer;
    (void)samples;
    return clt_images_shapes(source, config, SIDE, SIDE);
}

static const clt_config_key cifar_keys[] = {
    CLT_KEY_STRINGS("data.path", "[]",
                    "folder of the binary version or of data fetch cifar10; or its files for training"),
    CLT_KEY_STRINGS("data.eval_path", "[]",
                    "folder or files to evaluate on; []: the test images of data.path"),
    CLT_IMAGE_KEYS,
    CLT_KEY_END,
};
static const char *const cifar_required[] = {"data.path", NULL};

const clt_config_part clt_format_cifar = {
    .name = "cifar",
    .help = "CIFAR-10 and CIFAR-100, the binary version or what data fetch cifar10 made of it",
    .keys = cifar_keys,
    .required = cifar_required,
    .check = clt_images_rules,
};

/* Raw files may end in .bin, too, so the run or the user decides what a .bin file is. */
static const char *const cifar_ends[] = {".bin", NULL};

const clt_source_type clt_source_cifar = {
    .format = &clt_format_cifar,
    .open = cifar_open,
    .close = cifar_close,
    .read = clt_images_read,
    .class_of = clt_images_class_of,
    .left_out = clt_images_left_out,
    .locate = cifar_locate,
    .check_bound = clt_images_check_bound,
    .check_sample = clt_images_check_sample,
    .fingerprint = cifar_fingerprint,
    .advise = clt_images_advise,
    .has_eval = cifar_has_eval,
    .holds_targets = true,
    .input_ends = cifar_ends,
    .input_like_run = true, /* images to predict are read with the run's config, like this data */
    .eval_hint = "data.eval_path, or a folder with the test images too",
    .shapes = cifar_shapes,
    .shapes_known = clt_images_shapes_known,
};
